"""Gradients of the zoo: every weight of a model, derived on the block level, against float64.

PYTHONPATH=benchmarks:tests python -m zoo --gradients --only llama,bert --json gradients.json

An error is the mean over several inputs. One input is not enough: the derivative of ReLU jumps at
0, so that an element of the pre-activation with a rounding error on the other side of 0 outweighs
all other errors, and which elements these are is chance, in eager as here. A few inputs settle a
weight of few elements, too.
"""

import copy
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import mean
from typing import Any

import torch
from harness import table_of
from rich.console import Console

from coda_ir.api import find_entry
from coda_ir.backends.reference import run_function
from coda_ir.calls.arguments import Signature
from coda_ir.context import make_context
from coda_ir.diagnostics import CodaError
from coda_ir.float64 import computing_in_float64, relative_error
from coda_ir.frontends.torch import ExportedModel, export
from coda_ir.passes.pipelines.differentiate import DifferentiatePass
from coda_ir.signatures import signature_of
from zoo.accuracy import tensors_of, worst_ratio
from zoo.architecture import Architecture, Example
from zoo.emitted import lowering_for_device, run_emitted
from zoo.measure import DTYPES

DEFAULT = (
    "llama,mistral,qwen2,qwen3,gemma,gemma2,gemma3_text,phi3,olmo2,gpt2,gpt_neox,opt,bert,vit,"
    "roberta,distilbert,stablelm,starcoder2,granite,t5,falcon,bloom,gptj,cohere,nemotron,diffllama,"
    "mixtral,gpt_oss,mamba,lfm2,minimax,bart,whisper,squeezebert,modernbert,convnext,dinov2,clip,"
    "dit,sd3"
)
"""The default models, few of them with experts: which expert a token goes to is chance in bfloat16
for one input of 16, in eager as here, and outweighs all other errors.
"""
LEVELS = ("block", "gemm", "triton")
"""The levels on which gradients are computed: by the reference backend at two levels, and as
emitted."""
FUNCTION = "model"

Tensors = dict[str, torch.Tensor]
Errors = defaultdict[str, list[float]]
"""The errors of all inputs, by weight."""


INPUTS = 16
"""Inputs of each model, of which the errors are the mean."""

WITH_JUMPS = 4
"""Times as many of a model with ReLU."""

LIMIT = 1.25
"""Times eager's error is as exact as eager."""


@dataclass
class GradientAccuracy:
    """The gradients of one element type: the largest error of eager, and ratios to it."""

    weights: int
    eager: float
    ratios: dict[str, float]
    """The largest ratio of an error to eager PyTorch's, by level."""

    @property
    def ok(self) -> bool:
        """True if every error is at most `LIMIT` x eager's."""
        return max(self.ratios.values()) <= LIMIT


@dataclass
class GradientMeasurement:
    """One line of the table."""

    name: str
    accuracy: dict[str, GradientAccuracy] = field(default_factory=dict[str, GradientAccuracy])
    note: str = ""
    """The failure."""
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        return bool(self.accuracy) and all(entry.ok for entry in self.accuracy.values())


def measure_gradients(
    architecture: Architecture,
    *,
    dtypes: Sequence[str] = tuple(DTYPES),
    layers: int = 1,
    inputs: int = INPUTS,
    triton: bool = False,
) -> GradientMeasurement:
    """The errors of the gradients of all weights, with `triton` of the emitted programs, too. What
    is refused is noted, not raised.
    """
    start = time.monotonic()
    result = GradientMeasurement(architecture.name)
    try:
        for name in dtypes:
            examples = _examples(architecture, layers, DTYPES[name], inputs)
            result.accuracy[name] = _accuracy(examples, LEVELS if triton else LEVELS[:2])
    except CodaError as error:
        result.note = f"{error}".splitlines()[0]
    result.seconds = time.monotonic() - start
    return result


def _examples(
    architecture: Architecture, layers: int, dtype: torch.dtype, count: int
) -> list[Example]:
    """One model with `count` inputs, or `WITH_JUMPS` times as many."""
    first = architecture.build(layers).to(dtype)
    if any(isinstance(module, torch.nn.ReLU) for module in first.model.modules()):
        count *= WITH_JUMPS
    others = (architecture.build(layers, seed).to(dtype) for seed in range(1, count))
    return [first, *(Example(first.model, other.inputs) for other in others)]


def _accuracy(examples: Sequence[Example], levels: Sequence[str]) -> GradientAccuracy:
    model = examples[0].model
    exported = export(model, (), dict(examples[0].inputs), name=FUNCTION)
    names = {weight.data_ptr(): name for name, weight in exported.weights.items()}
    arguments = {
        name: names[weight.data_ptr()]
        for name, weight in model.named_parameters()
        if weight.data_ptr() in names  # the model need not use all
    }
    wide = Example(copy.deepcopy(model), {}).to(torch.float64).model
    eager_errors: Errors = defaultdict(list)
    errors: dict[str, Errors] = {level: defaultdict(list) for level in levels}
    derived = _Derived(exported, arguments)
    for example in examples:
        seeds = _seeds(example)
        exact = _exact(wide, example, seeds)
        _add_errors(eager_errors, _by_autograd(example, seeds), exact)
        given = derived.given(example, seeds)
        for level in levels:
            _add_errors(errors[level], derived.gradients(level, given), exact)
    return GradientAccuracy(
        len(eager_errors),
        max(map(mean, eager_errors.values())),
        {level: _worst_ratio(found, eager_errors) for level, found in errors.items()},
    )


def _exact(wide: torch.nn.Module, example: Example, seeds: Sequence[torch.Tensor]) -> Tensors:
    """The gradients that `wide`, the model in float64, has for the inputs of `example`."""
    with computing_in_float64():
        of_wide = Example(wide, example.inputs).to(torch.float64)
        return _without_zeros(_by_autograd(of_wide, seeds))


def _add_errors(errors: Errors, gradients: Tensors, exact: Tensors) -> None:
    for name, wanted in exact.items():
        errors[name].append(relative_error(gradients[name], wanted))


def _worst_ratio(errors: Errors, eager_errors: Errors) -> float:
    """The largest quotient of a mean error and eager's."""
    means = ([mean(found[name]) for name in eager_errors] for found in (errors, eager_errors))
    return worst_ratio(*means)


def _without_zeros(gradients: Tensors) -> Tensors:
    """Without those that are 0 but for rounding, such as of a bias of keys, which adds the same to
    all scores of a query: an error relative to them has no meaning.
    """
    norms = {name: gradient.square().sum().sqrt().item() for name, gradient in gradients.items()}
    least = 1e-10 * max(norms.values())
    return {name: gradient for name, gradient in gradients.items() if norms[name] > least}


def _by_autograd(example: Example, seeds: Sequence[torch.Tensor]) -> Tensors:
    """The gradients of the weights that have one, by PyTorch."""
    weights = {
        name: weight.requires_grad_()
        for name, weight in example.model.named_parameters()
        if weight.is_floating_point()
    }
    with torch.enable_grad():
        results = tensors_of(example.model(**example.inputs))
    pairs = zip(results, seeds, strict=True)
    reached = [(result, seed.to(result.dtype)) for result, seed in pairs if result.requires_grad]
    outputs, upstream = zip(*reached, strict=True)
    gradients: Any = torch.autograd.grad(
        outputs, list(weights.values()), upstream, allow_unused=True
    )
    example.model.requires_grad_(requires_grad=False)
    found = zip(weights, gradients, strict=True)
    return {name: gradient for name, gradient in found if gradient is not None}


def _seeds(example: Example) -> list[torch.Tensor]:
    """A random gradient of each result, in float64, that every type holds. PyTorch ignores that of
    a result that the model detaches, and so must the derived backward.
    """
    generator = torch.Generator().manual_seed(1)
    results = tensors_of(example.model(**example.inputs))
    return [torch.randn(x.shape, generator=generator).bfloat16().double() for x in results]


class _Derived:
    """The derived backward in the stated types."""

    def __init__(self, exported: ExportedModel, arguments: Mapping[str, str]):
        """`arguments` names the argument of every weight of the model."""
        self.exported, self.arguments = exported, arguments
        self.signature = signature_of(find_entry(exported.module))
        module = exported.module.clone()
        wrt = tuple(dict.fromkeys(self._wanted().values()))
        DifferentiatePass(function=FUNCTION, wrt=wrt).apply(make_context(), module)
        self.lowering = lowering_for_device(module)

    def _wanted(self) -> dict[str, str]:
        floats = {spec.name for spec in self.signature.arguments if spec.dtype.is_floating_point}
        return {name: argument for name, argument in self.arguments.items() if argument in floats}

    def given(self, example: Example, seeds: Sequence[torch.Tensor]) -> Tensors:
        """The arguments by name, and the gradients of the results."""
        given = self.exported.arguments(**example.inputs)
        specs = self.signature.arguments
        values = {spec.name: value for spec, value in zip(specs, given, strict=True)}
        return values | _upstream(self.exported, self.signature, seeds)

    def gradients(self, level: str, given: Tensors) -> Tensors:
        """The gradients of the weights."""
        forward = self._run(level, f"{FUNCTION}_forward", given)
        backward = self._run(level, f"{FUNCTION}_backward", given | forward)
        return {name: backward[f"d_{argument}"] for name, argument in self._wanted().items()}

    def _run(self, level: str, name: str, values: Tensors) -> Tensors:
        """The results of a function by their names, from arguments by theirs."""
        func = find_entry(self.lowering.module("gemm" if level == "gemm" else "block"), name)
        signature = signature_of(func)
        arguments = [values[spec.name] for spec in signature.arguments]
        if level == "triton":
            results = run_emitted(self.lowering, name, arguments)
        else:
            with torch.no_grad():
                results = run_function(func, arguments, "stated")
        return {spec.name: result for spec, result in zip(signature.results, results, strict=True)}


def _upstream(
    exported: ExportedModel, signature: Signature, seeds: Sequence[torch.Tensor]
) -> Tensors:
    """The gradients of the program's results, of which the model may return one twice."""
    results = signature.results
    numbers = [leaf.result for leaf in exported.tree.outputs if leaf.result is not None]
    upstream: Tensors = {}
    for number, seed in zip(numbers, seeds, strict=True):
        spec = results[number]
        name, gradient = f"d_{spec.name}", seed.to(spec.dtype)
        upstream[name] = upstream[name] + gradient if name in upstream else gradient
    return upstream


def print_gradients(console: Console, measurements: Sequence[GradientMeasurement]) -> None:
    """One line for each architecture."""
    what = "gradients of all weights: error against float64, and ratios to eager's"
    columns = ("architecture", "weights", "f32: eager", *LEVELS, "bf16: eager", *LEVELS, "ok")
    table = table_of(what, *columns)
    for result in measurements:
        cells: list[str] = []
        for name in DTYPES:
            entry = result.accuracy.get(name)
            found = entry.ratios if entry else {}
            ratios = [f"{found[level]:.2f}" if level in found else "-" for level in LEVELS]
            cells += [f"{entry.eager:.1e}" if entry else "-", *ratios]
        counts = [str(entry.weights) for entry in result.accuracy.values()]
        table.add_row(
            result.name, counts[0] if counts else "-", *cells, "yes" if result.ok else "NO"
        )
    console.print(table)
    for result in measurements:
        if result.note:
            console.print(f"{result.name}: {result.note}", highlight=False, markup=False)
    console.print(f"{sum(result.ok for result in measurements)} of {len(measurements)} as exact")


def read_measurement(row: dict[str, Any]) -> GradientMeasurement:
    """The measurement of a row of the file."""
    known = {name: value for name, value in row.items() if name != "ok"}
    known["accuracy"] = {n: GradientAccuracy(**entry) for n, entry in row["accuracy"].items()}
    return GradientMeasurement(**known)
