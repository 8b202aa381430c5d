"""Sizes, lists of members and layers for all files of blocks."""

import inspect
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import Any, TypeAlias, TypeVar
from weakref import WeakKeyDictionary

import torch
from fleet.models import Member, Setting
from torch import nn
from torch.nn import functional as F

Made: TypeAlias = tuple[nn.Module, tuple[Any, ...]]

_SMALL: ContextVar[bool] = ContextVar("small", default=False)


Size = TypeVar("Size")


def size(real: Size, small: Size) -> Size:
    """Return a size of the block that is built, or several: the real one, or that of a test."""
    return small if _SMALL.get() else real


class Blocks(list[Member]):
    """The members of a file, in order; as a decorator, it adds one.

    A block is a function without arguments, which returns a module and the arguments of a call.
    """

    def __init__(self, family: str):
        self.family = family

    def __call__(self, make: Callable[[], Made]) -> Callable[[], Made]:
        inputs: WeakKeyDictionary[nn.Module, Mapping[str, Any]] = WeakKeyDictionary()

        def build(setting: Setting) -> nn.Module:
            token = _SMALL.set(setting.small)
            try:
                with torch.device(setting.device):
                    module, arguments = make()
            finally:
                _SMALL.reset(token)
            names = inspect.signature(module.forward).parameters
            inputs[module] = {
                name: x.to(setting.dtype)
                if isinstance(x, torch.Tensor) and x.is_floating_point()
                else x
                for name, x in zip(names, arguments, strict=False)
            }
            return module.to(setting.dtype).eval()

        def inputs_of(module: nn.Module, setting: Setting) -> Mapping[str, Any]:
            return inputs[module]

        self.append(Member(make.__name__, self.family, build, inputs_of))
        return make


def words(*shape: int, vocabulary: int) -> torch.Tensor:
    """Return random ids of words."""
    return torch.randint(0, vocabulary, shape)


def rotary(tokens: int, width: int, base: float = 1e4) -> tuple[torch.Tensor, torch.Tensor]:
    """Return cosines and sines for heads of `width`, the halves repeated."""
    frequencies = base ** (-torch.arange(0, width, 2).float() / width)
    angles = torch.outer(torch.arange(tokens).float(), frequencies).repeat(1, 2)
    return angles.cos(), angles.sin()


def rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Rotate the halves of heads (... x tokens x width)."""
    a, b = x.chunk(2, -1)
    return x * cos + torch.cat((-b, a), -1) * sin


class RMSNorm(nn.Module):
    """A norm in float32 with a random weight, as checkpoints have."""

    def __init__(self, width: int, eps: float = 1e-6):
        super().__init__()
        self.weight, self.eps = nn.Parameter(1 + 0.1 * torch.randn(width)), eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        wide = x.float()
        scale = torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.eps)
        return (wide * scale).type_as(x) * self.weight


class SwiGLU(nn.Module):
    """A gated network without biases."""

    def __init__(self, width: int, hidden: int):
        super().__init__()
        self.gate, self.up = (nn.Linear(width, hidden, bias=False) for _ in range(2))
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Mlp(nn.Module):
    """A network of two layers with a GELU."""

    def __init__(self, width: int, hidden: int):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(width, hidden), nn.Linear(hidden, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc2(F.gelu(self.fc1(x)))
