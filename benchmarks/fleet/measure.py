"""One model of the fleet: times, errors, memory and first calls of each variant."""

import copy
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import Any

import harness
import torch
from harness import Candidate
from liger import LigerModel

from coda_ir.cost_model import DEVICES
from coda_ir.cost_model.devices import Device
from coda_ir.devices import architecture_name
from coda_ir.float64 import computing_in_float64, relative_error
from coda_ir.frontends.torch.dynamo import LeftGraph, coda
from fleet.models import Member, Setting, Work

EAGER, COMPILED, CODA = "eager", "torch.compile", "coda"
CODA_KERNELS = "coda-kernels"
"""Without Inductor: what no GEMM takes runs as own kernels and as calls of PyTorch."""
CODA_INDUCTOR = "coda-inductor"
"""With Inductor for what no GEMM takes, and no graph left to it whole."""
COMPILED_GRAPHS, CODA_GRAPHS = "torch.compile-graphs", "coda-graphs"
"""In CUDA graphs (`mode="reduce-overhead"`)."""
CAPTURED = "-captured"
"""After a variant: its forward, captured as one CUDA graph."""
MAX_AUTOTUNE, CODA_TUNED, CODA_FOLDED = "max-autotune", "coda-tuned", "coda-folded"
"""With measured schedules, which takes minutes; with weights that the weights of norms are folded
into."""
SCHEDULED = "coda:"
"""Before options of the pass `schedule`, as in `coda:absorb=true pdl=true`."""
VARIANTS = (EAGER, COMPILED, CODA)
"""Those that are measured where no others are asked for."""
LIGER = "liger"
"""With the kernels of Liger, where it is installed and knows the model."""
PARTS = ("forward", "training")

LACKED_MEMORY = torch.OutOfMemoryError.__name__
"""The exception that notes name where a variant ran out of GPU memory."""

COMPARED = 2**22
"""The elements of a result or a gradient that are compared, about evenly spaced. Copies of whole
gradients of 256000 words to the host took 23 s for each variant."""

Tensors = Mapping[str, torch.Tensor]


@dataclass
class Record:
    """The results of one part of one model, by variant. A variant that failed has a note."""

    model: str
    family: str
    part: str
    milliseconds: dict[str, float] = field(default_factory=dict[str, float])
    errors: dict[str, float] = field(default_factory=dict[str, float])
    """The largest relative error of a result or a gradient, against float64."""
    first_call_s: dict[str, float] = field(default_factory=dict[str, float])
    peak_gib: dict[str, float | None] = field(default_factory=dict[str, "float | None"])
    host_us: dict[str, float] = field(default_factory=dict[str, float])
    """Microseconds of the host for a call, where they are asked for."""
    millijoules: dict[str, float | None] = field(default_factory=dict[str, "float | None"])
    """Energy of a call, where it is asked for."""
    peak_ms: float | None = None
    """The time of the work of a forward at the peak rate of products or of memory, by the vendor's
    figures for the GPU; None where they or the work are not known."""
    tokens: int | None = None
    notes: dict[str, str] = field(default_factory=dict[str, str])
    equal_programs: bool = False
    """True if coda left all graphs to Inductor, so that it differs from torch.compile by noise."""

    @property
    def ratio(self) -> float | None:
        """The time of coda divided by that of torch.compile."""
        times = self.milliseconds
        return times[CODA] / times[COMPILED] if {CODA, COMPILED} <= times.keys() else None


def measure(
    member: Member,
    part: str,
    setting: Setting,
    variants: Sequence[str] = VARIANTS,
    exclusive: Callable[[], AbstractContextManager[None]] | None = None,
    rounds: int = 3,
    *,
    host: bool = False,
    energy: bool = False,
    kernels: int = 0,
) -> Record:
    """Measure one part of a model. Timing happens inside of `exclusive`, one model at a time.

    `host` and `energy` add the times of the host and the energy of a call; `kernels` is the number
    of the longest kernels of each variant that are printed.
    """
    record = Record(member.name, member.family, part)
    harness.seed()
    model = member.build(setting)
    inputs = member.inputs(model, setting)
    if member.work is not None and part == "forward":
        work = member.work(model, inputs)
        record.tokens, record.peak_ms = work.tokens, _peak_ms(work)
    step = training_step if part == "training" else _forward
    are_left: list[bool] = []
    variants = list(dict.fromkeys([*variants, *member.others]))
    own = compilers(setting, noting(are_left))
    steps = _Steps(
        *(record, model, inputs, step, setting),
        {**own, **member.others, **_scheduled(variants, setting)},
    )
    harness.reset_compilers()
    for name in variants:
        are_left.clear()
        steps.call_first(name)
        if name == CODA:
            record.equal_programs = bool(are_left) and all(are_left)
    model.zero_grad(set_to_none=True)  # others need the memory until the exclusive part
    if _has_room_for_wide_copy(model):
        with suppress(RuntimeError):  # others may have taken the memory meanwhile
            _compare(record, steps.results, _in_type(model, step, inputs, torch.float64))
    harness.release_memory()
    with exclusive() if exclusive is not None else nullcontext():
        for name in [name for name, note in record.notes.items() if LACKED_MEMORY in note]:
            del record.notes[name]  # others ran then that now wait
            steps.call_first(name)
        timed = {name: steps.timed[name] for name in variants if name in steps.timed}
        if member.baselines is not None:
            timed |= member.baselines(model, inputs, part)
        _time(record, timed, rounds)
        if host:
            record.host_us = harness.host_microseconds(timed)
        for name, candidate in timed.items():
            if energy:
                record.millijoules[name] = harness.millijoules(candidate, record.milliseconds[name])
            if kernels:
                harness.print_kernels(f"{member.name}, {part}, {name}", candidate, kernels)
        if record.errors.keys() != steps.results.keys():
            try:
                _compare(record, steps.results, _exact(model, step, inputs))
            except torch.OutOfMemoryError as error:
                record.notes["errors"] = note_of(error)
        harness.release_memory()  # of the copy in float64
        harness.synchronize()
    return record


@dataclass
class _Steps:
    """The steps of the variants of a part."""

    record: Record
    model: torch.nn.Module
    inputs: Mapping[str, Any]
    step: Callable[..., Tensors]
    setting: Setting
    compilers: Mapping[str, Callable[[Any], Any]]
    calls: dict[str, Any] = field(default_factory=dict[str, Any])
    """Compiled models."""
    timed: dict[str, Candidate] = field(default_factory=dict[str, Candidate])
    results: dict[str, Tensors] = field(default_factory=dict[str, Tensors])

    def call_first(self, name: str) -> None:
        """Compile and call a step; note why that fails."""
        record = self.record
        try:
            candidate, record.first_call_s[name] = harness.timed(partial(self._started, name))
            self.results[name] = {key: _sample(x).cpu() for key, x in candidate().items()}
            self.timed[name] = getattr(self.calls.get(name), "queued", candidate)
        except Exception as error:
            record.notes[name] = note_of(error)
        if torch.cuda.is_available():
            torch.cuda.empty_cache()  # others compile on the same GPU, or are timed first

    def _started(self, name: str) -> Callable[[], Tensors]:
        base = name.removesuffix(CAPTURED)
        if base not in self.calls:
            self.calls[base] = self.compilers[base](self.model)
        call = _autocast(self.calls[base]) if self.setting.autocast else self.calls[base]
        candidate: Callable[[], Tensors] = partial(self.step, call, self.model, self.inputs)
        candidate = candidate if base == name else harness.captured(candidate)
        candidate()
        return candidate


def _scheduled(variants: Sequence[str], setting: Setting) -> Mapping[str, Callable[[Any], Any]]:
    """Return the compilers of the variants that have options of the pass `schedule`."""
    names = [name for name in variants if name.startswith(SCHEDULED)]
    options = {name: name.removeprefix(SCHEDULED) for name in names}
    return {name: compilers(setting, schedule=text)[CODA] for name, text in options.items()}


def _peak_ms(work: Work) -> float | None:
    if not torch.cuda.is_available():
        return None
    words = torch.cuda.get_device_name().lower().split()
    known = [word for word in words if word in DEVICES]
    device = DEVICES.get(known[0] if known else architecture_name(torch.device("cuda")))
    return None if device is None else peak_ms(work, device)


def peak_ms(work: Work, device: Device) -> float:
    """Return the time of products or of memory at the peak rate, whichever is longer."""
    products = work.flops / (1e9 * device.matrix_tflops)
    return max(products, work.bytes / (1e6 * device.memory_gb_per_s))


def _has_room_for_wide_copy(model: torch.nn.Module) -> bool:
    """Return whether memory is left for weights and gradients in float64, and as much again."""
    weights = sum(weight.numel() for weight in model.parameters())
    return not torch.cuda.is_available() or torch.cuda.mem_get_info()[0] > 4 * 8 * weights


def note_of(error: Exception) -> str:
    """Return the type of an error and the first line of its message."""
    return f"{type(error).__name__}: {error}".splitlines()[0][:300]


def _time(record: Record, steps: Mapping[str, Candidate], rounds: int) -> None:
    for name, candidate in steps.items():
        record.peak_gib[name] = harness.peak_memory(candidate)
    timings = harness.time_interleaved(steps, rounds=rounds)
    # Where the GPU waits for the host, as in SigLIP 2, medians over all rounds of equal programs
    # differed by up to 1.7.
    record.milliseconds = {name: timing.fastest_round for name, timing in timings.items()}


def _compare(record: Record, results: Mapping[str, Tensors], exact: Tensors) -> None:
    for name, found in results.items():
        # Zeros that a compiler gives for unused parameters are no gradients in eager PyTorch.
        both = found.keys() & exact.keys()
        record.errors[name] = max(
            relative_error(found[key].to(exact[key].device), _sample(exact[key])) for key in both
        )


def _sample(values: torch.Tensor) -> torch.Tensor:
    """Return elements at equal odd distances, which are not in the same columns of all rows."""
    flat = values.flatten()
    return flat[:: flat.numel() // COMPARED | 1]


def noting(are_left: list[bool]) -> Callable[..., Any]:
    """Return the backend `coda`, which also appends whether it leaves a graph to Inductor."""

    def backend(*graph: Any, **options: Any) -> Callable[..., Any]:
        run = coda(*graph, **options)
        are_left.append(isinstance(run, LeftGraph))
        return run

    return backend


def compilers(
    setting: Setting, backend: Any = coda, **given: Any
) -> Mapping[str, Callable[[Any], Any]]:
    """Return the compilers of models, by variant; `backend` is that of this package's, which has
    the options that are `given`.
    """
    compile_model: Any = getattr(torch, "compile")  # noqa: B009  (it has no complete type)
    given |= {"target": "reference"} if setting.device == "cpu" else {}

    def ours(**options: Any) -> Callable[[Any], Any]:
        return partial(compile_model, backend=backend, options={**given, **options})

    return {
        EAGER: lambda model: model,
        COMPILED: harness.torch_compile,
        COMPILED_GRAPHS: partial(harness.torch_compile, mode="reduce-overhead"),
        CODA: ours(),
        CODA_KERNELS: ours(fallback="eager"),
        CODA_INDUCTOR: ours(fallback="inductor", compare=False),
        CODA_GRAPHS: ours(fallback="inductor", cuda_graphs=True),
        MAX_AUTOTUNE: partial(harness.torch_compile, mode="max-autotune-no-cudagraphs"),
        CODA_TUNED: ours(tune=True),
        CODA_FOLDED: ours(pack_weights=True, fold_weights=True),
        LIGER: LigerModel,
    }


def _autocast(call: Any) -> Callable[..., Any]:
    """Call the model with products in bfloat16."""

    def autocast(**inputs: Any) -> Any:
        with torch.autocast("cuda" if torch.cuda.is_available() else "cpu", torch.bfloat16):
            return call(**inputs)

    return autocast


def _forward(call: Any, model: Any, inputs: Mapping[str, Any]) -> Tensors:
    restore: Callable[[], None] | None = getattr(model, "restore", None)
    with torch.no_grad():
        if restore is not None:
            restore()  # of what a forward changes
        return _named(_results(call(**inputs)))


def training_step(call: Any, model: torch.nn.Module, inputs: Mapping[str, Any]) -> Tensors:
    """Compute the gradients, with respect to all parameters and inputs that require one, for a
    gradient of the results whose channels differ.

    There is no loss, whose kernels would add 0.5 ms to a step of a block of experts.
    """
    model.zero_grad(set_to_none=True)
    asking = {name: x for name, x in inputs.items() if isinstance(x, torch.Tensor)}
    asking = {name: x for name, x in asking.items() if x.requires_grad}
    for x in asking.values():
        x.grad = None
    results = _results(call(**inputs))
    seeds = [_of_channels(each).expand_as(each).contiguous() for each in results]
    torch.autograd.backward(results, seeds)
    named = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    large = sorted(named, key=lambda name: -named[name].numel())[:8]
    found = {name: named[name] for name in large}
    found |= {name: x.grad for name, x in asking.items() if x.grad is not None}
    return {**_named([each.detach() for each in results]), **found}


def _of_channels(result: torch.Tensor) -> torch.Tensor:
    """Return weights by channel: a last LayerNorm would make equal ones zero; 1 for a loss."""
    if not result.dim():
        return torch.ones_like(result)
    channels = 1 if result.dim() == 4 else result.dim() - 1  # of [B, C, H, W] or [..., C]
    count = result.shape[channels]
    weights = torch.linspace(-1, 1, count, device=result.device, dtype=result.dtype)
    return weights.view(count, *[1] * (result.dim() - 1 - channels))


def _results(output: Any) -> Sequence[torch.Tensor]:
    """Return the tensors of a tuple of tensors, or else the first tensor of a model's results."""
    found: Any = output
    if type(output) is tuple and all(isinstance(each, torch.Tensor) for each in found):
        return found
    while not isinstance(found, torch.Tensor):
        found = found.to_tuple() if hasattr(found, "to_tuple") else found
        found = found[0]
    return [found]


def _named(results: Sequence[torch.Tensor]) -> Tensors:
    return {f"result {number}": each for number, each in enumerate(results)}


def _exact(
    model: torch.nn.Module, step: Callable[..., Tensors], inputs: Mapping[str, Any]
) -> Tensors:
    """Return the results of a copy in float64, or in float32 if that is impossible.

    Where a copy does not fit, the layers of a forward are copied one at a time.
    """
    with suppress(RuntimeError):  # what it holds is free before another copy is made
        return _in_type(model, step, inputs, torch.float64)
    harness.release_memory()
    if step is _forward:
        with suppress(RuntimeError, AttributeError):
            layers = {id(layer): _Widened(layer) for layer in _layers(model)}
            return _in_type(model, step, inputs, torch.float64, layers)
        harness.release_memory()
    return _in_type(model, step, inputs, torch.float32)


class _Widened(torch.nn.Module):
    """A layer that is a copy in float64 while it is called."""

    def __init__(self, layer: torch.nn.Module):
        super().__init__()
        self.narrow = (layer,)
        """Kept in a tuple, so that conversions of the model do not reach it."""

    def forward(self, *arguments: Any, **options: Any) -> Any:
        """Call the copy."""
        return copy.deepcopy(self.narrow[0]).double()(*arguments, **options)


def _layers(module: torch.nn.Module) -> Sequence[torch.nn.Module]:
    """Return the members of all lists of layers, but for those in layers."""
    if isinstance(module, torch.nn.ModuleList):
        return list(module)
    return [layer for child in module.children() for layer in _layers(child)]


def _in_type(
    model: torch.nn.Module,
    step: Callable[..., Tensors],
    inputs: Mapping[str, Any],
    dtype: torch.dtype,
    replaced: Mapping[int, torch.nn.Module] = MappingProxyType({}),
) -> Tensors:
    """Return the results of a copy in another type, with modules `replaced` by their ids."""
    wide = copy.deepcopy(model, dict(replaced)).to(dtype)
    given = {
        name: x.detach().to(dtype).requires_grad_(x.requires_grad)
        if isinstance(x, torch.Tensor) and x.is_floating_point()
        else x
        for name, x in inputs.items()
    }
    with computing_in_float64() if dtype == torch.float64 else nullcontext():
        return {name: x.detach() for name, x in step(wide, wide, given).items()}
