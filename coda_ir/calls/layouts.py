"""The order in memory of the results of a graph: what PyTorch traced, and eager PyTorch gives.

Code behind the graph may rely on it, as `Tensor.view` does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch


def laid_out(tensor: torch.Tensor, order: Sequence[int] | None) -> torch.Tensor:
    """Return `tensor` with its dimensions in memory in `order`, the outermost one first, by a copy
    where they have another one; as it is where `order` is None.
    """
    if order is None:
        return tensor
    moved = tensor.permute(tuple(order))
    if moved.is_contiguous():
        return tensor
    return moved.contiguous().permute(tuple(order.index(dim) for dim in range(len(order))))


def order_of(traced: torch.Tensor) -> tuple[int, ...] | None:
    """Return the dimensions of `traced` from the outermost one in memory.

    None for complex numbers and where the tensor has gaps or repeats elements: no code can rely on
    where they are then.
    """
    sizes, strides = _numbers(traced.shape), _numbers(traced.stride())
    if sizes is None or strides is None or traced.is_complex():
        return None
    order = sorted(range(len(sizes)), key=lambda dim: -strides[dim])
    inside = 1
    for dim in reversed(order):
        if sizes[dim] != 1 and strides[dim] != inside:
            return None
        inside *= sizes[dim]
    return tuple(order)


def _numbers(sizes: Sequence[Any]) -> list[int] | None:
    """Sizes as numbers; those with symbols as in the call that was traced."""
    numbers: list[int] = []
    for size in sizes:
        if not isinstance(size, int) and not size.node.has_hint():
            return None
        numbers.append(size if isinstance(size, int) else int(size.node.hint))
    return numbers
