"""The order in memory of the results of a graph: what PyTorch traced, and eager PyTorch gives.

Code behind the graph may rely on it, as `Tensor.view` does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import torch

Layout: TypeAlias = Callable[[torch.Tensor], torch.Tensor]


def layout_of(traced: torch.Tensor) -> Layout:
    """Return a function that gives a tensor the order of the dimensions of `traced` in memory, by a
    copy where it has another one.

    It returns the tensor as it is where `traced` has gaps or repeats elements: no code can rely on
    what it is then.
    """
    order = None if traced.is_complex() else _order(traced)
    if order is None:
        return _as_it_is
    if order == sorted(order):
        return torch.Tensor.contiguous
    inverse = [order.index(dim) for dim in range(len(order))]

    def laid_out(tensor: torch.Tensor) -> torch.Tensor:
        moved = tensor.permute(order)
        return tensor if moved.is_contiguous() else moved.contiguous().permute(inverse)

    return laid_out


def _as_it_is(tensor: torch.Tensor) -> torch.Tensor:
    return tensor


def _order(traced: torch.Tensor) -> list[int] | None:
    """The dimensions from the outermost one in memory; None where elements are not side by side."""
    sizes, strides = _numbers(traced.shape), _numbers(traced.stride())
    if sizes is None or strides is None:
        return None
    order = sorted(range(len(sizes)), key=lambda dim: -strides[dim])
    inside = 1
    for dim in reversed(order):
        if sizes[dim] != 1 and strides[dim] != inside:
            return None
        inside *= sizes[dim]
    return order


def _numbers(sizes: Sequence[Any]) -> list[int] | None:
    """Sizes as numbers; those with symbols as in the call that was traced."""
    numbers: list[int] = []
    for size in sizes:
        if not isinstance(size, int) and not size.node.has_hint():
            return None
        numbers.append(size if isinstance(size, int) else int(size.node.hint))
    return numbers
