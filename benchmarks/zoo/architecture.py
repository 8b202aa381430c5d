"""What a tiny model of the zoo is: a way to build it, and an example call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

SEED = 0


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

    def with_dynamic_batch(self) -> Example:
        """The same where only the first dimensions differ between calls."""
        first = {name: (0,) for name, dims in self.dynamic.items() if 0 in dims}
        return Example(self.model, self.inputs, first)

    def dynamic_shapes(self) -> dict[str, Any]:
        """Return what `torch.export` takes: the dynamic dimensions of each input."""
        auto: Any = torch.export.Dim.DYNAMIC
        return {
            name: dict.fromkeys(self.dynamic[name], auto) if name in self.dynamic else None
            for name in self.inputs
        }


@dataclass(frozen=True)
class Architecture:
    """A model type, such as `llama`, that can be built with a number of layers."""

    name: str
    family: str
    """`text decoder`, `text encoder`, `encoder-decoder`, `vision`, `speech`, `mixture of experts`,
    `state space`, `multimodal` or `diffusion`.
    """
    library: str
    """The package that it comes from: `transformers` or `diffusers`."""
    builder: Callable[[int], Example]
    seed: int = SEED
    """Of weights and inputs. Another one where the error of one input is chance: flex_olmo's scores
    of two experts are closer than rounding for seed 0, and products of qwen3_next's keys cancel
    (over six seeds, its mean error in float32 is 0.70 of eager's).
    """

    def build(self, layers: int = 2, number: int = 0) -> Example:
        """The model in eval mode, with the same random weights and inputs for the same number."""
        torch.default_generator.manual_seed(self.seed + number)
        example = self.builder(layers)
        example.model.eval().requires_grad_(False)
        _spread_vectors(example.model)
        return example


def _spread_vectors(model: torch.nn.Module) -> None:
    """Move biases and norm weights away from 0 and 1, where a mistake would not be seen."""
    generator = torch.Generator().manual_seed(SEED)
    for parameter in model.parameters():
        if parameter.ndim == 1 and parameter.is_floating_point():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator))
