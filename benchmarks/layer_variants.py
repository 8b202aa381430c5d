"""Implementations of the layer between two attentions: coda, PyTorch, torch.compile, Liger."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from float8_layer import (
    RECIPES,
    TRAINED_RECIPES,
    float8_layer,
    float8_program,
    inductor_layer,
    trained_layer,
)
from harness import Candidate, timed, torch_compile
from llama_layer import PROGRAM, Layer, LayerShape, Tensors, leaves, pack, torch_layer

import coda_ir
from coda_ir.diagnostics import CodaError

CODA, EAGER, COMPILED = "coda", "eager", "torch.compile"
CODA_TUNED, MAX_AUTOTUNE, LIGER = "coda + tuning", "max-autotune", "Liger"
CODA_FOLDED, CODA_GRAPH = "coda + folded weights", "coda + CUDA graph"
FLOAT8 = {f"coda + float8 {recipe}": recipe for recipe in RECIPES}
"""Ours in float8, and the recipe of each."""
COMPILED_FLOAT8 = {"torch.compile + float8": False, "torch.compile + float8 fast": True}
"""torch.compile in float8, and whether cuBLAS leaves sums to the tensor cores."""
FLOAT8_TRAINED = {f"coda + trained float8 {recipe}": recipe for recipe in TRAINED_RECIPES}
"""Ours in float8 with gradients, whose weights are bf16 and quantized in each call."""
COMPILED_TRAINED = {
    "torch.compile + trained float8": False,
    "torch.compile + trained float8, all": True,
}
"""torch.compile in float8 with gradients, and whether those of weights are in float8, too."""
VARIANTS = (
    *(CODA, CODA_TUNED, CODA_FOLDED, CODA_GRAPH, EAGER, COMPILED, MAX_AUTOTUNE, LIGER),
    *(*FLOAT8, *COMPILED_FLOAT8, *FLOAT8_TRAINED, *COMPILED_TRAINED),
)
UNASKED = (CODA, EAGER, COMPILED, LIGER)
"""Without what measures alternatives, for minutes, and what keeps copies of weights."""

grad: Any = torch.autograd.grad  # has no complete types


@dataclass(frozen=True)
class Variant:
    """An implementation of the layer, with its tensors."""

    tensors: Tensors
    forward: Callable[[], Sequence[torch.Tensor]]
    """The results without gradients."""
    step: Callable[[Sequence[torch.Tensor]], Tensors]
    """The gradients by name, forward and backward, for those of the results."""
    layer: Layer | None = None
    """The layer that autograd differentiates, if one forward can have several backwards."""
    overwrites: bool = False
    """True if a step changes the gradients that it is given."""
    compile_s: float = 0.0
    """Seconds spent on the forward before its first call."""
    is_trained: bool = True
    """True if it has gradients."""

    def seeds(self, upstream: Sequence[torch.Tensor]) -> Sequence[torch.Tensor]:
        """Return gradients of the results for a step to use."""
        return [x.clone() for x in upstream] if self.overwrites else upstream

    def backward(self, upstream: Sequence[torch.Tensor]) -> Candidate | None:
        """Return a function that repeats the backward of a forward; None if that is impossible."""
        layer = self.layer
        if layer is None:
            return None
        results = layer(self.tensors)
        trained = list(_trained(self.tensors).values())
        return lambda: grad(results, trained, upstream, retain_graph=True)


def _trained(tensors: Tensors) -> Tensors:
    return {name: tensor for name, tensor in tensors.items() if name not in ("cos", "sin")}


def autograd_variant(
    layer: Layer, tensors: Tensors, inference: Layer | None = None, *, repeats: bool = True
) -> Variant:
    """Make a variant of a layer that PyTorch's autograd differentiates; `inference` runs if nothing
    is trained.

    Where it does not repeat, it overwrites what it has saved and what it is given.
    """
    tensors = leaves(tensors)

    def forward() -> Sequence[torch.Tensor]:
        with torch.no_grad():
            return (inference or layer)(tensors)

    def step(upstream: Sequence[torch.Tensor]) -> Tensors:
        trained = _trained(tensors)
        gradients = grad(layer(tensors), list(trained.values()), upstream)
        return dict(zip(trained, gradients, strict=True))

    return Variant(tensors, forward, step, layer if repeats else None, overwrites=not repeats)


def make_variants(
    shape: LayerShape,
    inputs: Tensors,
    wanted: Collection[str],
    schedules: Sequence[str] = (),
    *,
    training: bool,
) -> dict[str, Variant]:
    """Return the variants that are available here, by name; print which are not, and why.

    There is one more of coda for each of `schedules`.
    """
    functorch_config: Any = import_module("torch._functorch.config")
    functorch_config.donated_buffer = False  # so that a backward can be repeated
    variants: dict[str, Variant] = {}
    for name, make in _makers(shape, inputs, schedules, training=training).items():
        if name in VARIANTS and name not in wanted:
            continue
        if name in (CODA_TUNED, CODA_GRAPH, LIGER) and not inputs["y"].is_cuda:
            print(f"without {name}: it needs a GPU")
            continue
        try:
            variants[name] = make()
        except (ImportError, CodaError) as error:
            print(f"without {name}: {error}")
    return variants


def _makers(
    shape: LayerShape, inputs: Tensors, schedules: Sequence[str], *, training: bool
) -> dict[str, Callable[[], Variant]]:
    ours = partial(coda_variant, shape, inputs, training=training)
    compiled = partial(torch_compile, torch_layer, dynamic=False)
    return {
        CODA: ours,
        CODA_TUNED: partial(ours, tune=True),
        CODA_FOLDED: partial(_inference, shape, inputs, fold_weights=True),
        CODA_GRAPH: partial(_graphed, shape, inputs),
        **{f"{CODA}, {schedule}": partial(ours, schedule) for schedule in schedules},
        EAGER: lambda: autograd_variant(torch_layer, pack(inputs)),
        COMPILED: lambda: autograd_variant(compiled(), pack(inputs)),
        MAX_AUTOTUNE: lambda: autograd_variant(
            compiled(mode="max-autotune-no-cudagraphs"), pack(inputs)
        ),
        LIGER: partial(_liger, inputs),
        **{
            name: partial(_untrained, inputs, partial(float8_layer, inputs, recipe))
            for name, recipe in FLOAT8.items()
        },
        **{
            name: partial(_untrained, inputs, partial(inductor_layer, inputs, fast=fast))
            for name, fast in COMPILED_FLOAT8.items()
        },
        **{
            name: partial(ours, program=float8_program(recipe, shape))
            for name, recipe in FLOAT8_TRAINED.items()
        },
        **{
            name: partial(_trained_variant, inputs, is_all=is_all)
            for name, is_all in COMPILED_TRAINED.items()
        },
    }


def coda_variant(
    shape: LayerShape,
    inputs: Tensors,
    schedule: str | None = None,
    *,
    training: bool,
    program: str | Path = PROGRAM,
    **options: Any,
) -> Variant:
    """Make the variant of coda on separate weights; `options` are those of `coda_ir.compile`."""
    compile = partial(
        coda_ir.compile,
        program,
        constants=shape.constants,
        device=inputs["y"].device,
        schedule=schedule,
        **options,
    )
    inference, seconds = timed(compile)
    trained: Callable[..., Sequence[torch.Tensor]] = (
        compile(training=True) if training else inference
    )
    variant = autograd_variant(lambda t: trained(**t), inputs, lambda t: inference(**t))
    return replace(variant, compile_s=seconds)


def _trained_variant(inputs: Tensors, *, is_all: bool) -> Variant:
    return autograd_variant(trained_layer(is_all=is_all), pack(inputs))


def _inference(shape: LayerShape, inputs: Tensors, **options: Any) -> Variant:
    """Run the forward without training."""
    return replace(coda_variant(shape, inputs, training=False, **options), is_trained=False)


def _untrained(
    inputs: Tensors, make: Callable[[], Callable[[], Sequence[torch.Tensor]]]
) -> Variant:
    """Make a forward without gradients."""
    forward, seconds = timed(make)
    return Variant(inputs, forward, lambda _: {}, compile_s=seconds, is_trained=False)


def _graphed(shape: LayerShape, inputs: Tensors) -> Variant:
    """Make a forward in a CUDA graph."""
    layer = coda_ir.compile(PROGRAM, constants=shape.constants, device=inputs["y"].device).graphed()
    return replace(_inference(shape, inputs), forward=lambda: layer(**inputs))


def _liger(inputs: Tensors) -> Variant:
    from liger import liger_tensors, make_layer

    return autograd_variant(make_layer(), liger_tensors(inputs), repeats=False)
