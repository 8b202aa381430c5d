"""A tiny model of the zoo: how to build it, an example call, and its export."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import torch

from coda_ir.diagnostics import CodaError
from coda_ir.frontends.torch import ExportedModel, export

SEED = 0

SHAPES = ("dynamic", "batch", "static")
"""The dimensions that differ between calls: batch and length, the batch, none."""

Made = TypeVar("Made")


@dataclass(frozen=True)
class Example:
    """A model with random weights, and the arguments of a call by name."""

    model: torch.nn.Module
    inputs: Mapping[str, Any]
    dynamic: Mapping[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])
    """The dimensions of inputs that may differ between calls."""

    def to(self, dtype: torch.dtype) -> Example:
        """The same with floats of type `dtype`; changes the model."""
        inputs = {
            name: value.to(dtype)
            if isinstance(value, torch.Tensor) and value.is_floating_point()
            else value
            for name, value in self.inputs.items()
        }
        return Example(self.model.to(dtype), inputs, self.dynamic)

    def export(self, shapes: str) -> ExportedModel:
        """The exported model, with the dynamic dimensions that `shapes`, one of `SHAPES`, names."""
        dynamic: dict[str, Any] | None = None
        if shapes != "static":
            axes = {"dynamic": (0, 1), "batch": (0,)}[shapes]
            auto: Any = torch.export.Dim.DYNAMIC
            chosen = {name: [a for a in dims if a in axes] for name, dims in self.dynamic.items()}
            dynamic = {
                name: dict.fromkeys(chosen.get(name, ()), auto) or None for name in self.inputs
            }
        return export(self.model, (), dict(self.inputs), dynamic_shapes=dynamic, name="model")


def first_that_works(kinds: Sequence[str], make: Callable[[str], Made]) -> tuple[str, Made, str]:
    """The first of some `SHAPES` for which `make` raises no CodaError, what it makes, and why not
    the ones before. Raises the CodaError of the last one where none works.
    """
    note = ""
    for shapes in kinds[:-1]:
        try:
            return shapes, make(shapes), note
        except CodaError as error:
            note = f"not {shapes}: {error}".splitlines()[0]
    return kinds[-1], make(kinds[-1]), note


@dataclass(frozen=True)
class Architecture:
    """A model type, such as `llama`, that can be built with a number of layers."""

    name: str
    family: str
    """`text decoder`, `text encoder`, `encoder-decoder`, `vision`, `speech`, `mixture of experts`,
    `state space`, `multimodal` or `diffusion`; `--list` shows it.
    """
    library: str
    """The package that it comes from: `transformers` or `diffusers`."""
    builder: Callable[[int], Example]
    seed: int = SEED
    """The seed of weights and inputs. Another one where the error of one input is chance: products
    of qwen3_next's keys cancel (over six seeds, its mean error in float32 is 0.70 of eager's).
    """

    def build(self, layers: int = 2, number: int = 0) -> Example:
        """The model in eval mode, with the same random weights and inputs for the same number."""
        torch.default_generator.manual_seed(self.seed + number)
        example = self.builder(layers)
        example.model.eval().requires_grad_(False)
        _spread_parameters(example.model)
        return example


def _spread_parameters(model: torch.nn.Module) -> None:
    """Move biases, norm weights and parameters that begin with equal elements, such as positions
    and routers of zeros, away from 0 and 1, where a mistake would not be seen.
    """
    generator = torch.Generator().manual_seed(SEED)
    for parameter in model.parameters():
        first = parameter.flatten()[:1]
        is_equal = parameter.ndim == 1 or bool((parameter.flatten() == first).all())
        if is_equal and parameter.is_floating_point():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator))
