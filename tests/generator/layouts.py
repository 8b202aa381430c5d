"""Arguments that are not dense: every kind of strides that callers have."""

from collections.abc import Callable, Mapping, Sequence
from random import Random

import torch

DENSE = 40
"""The share of arguments, in percent, that stay as they are."""


def laid_out(
    arguments: Sequence[torch.Tensor], seed: int
) -> tuple[list[torch.Tensor], frozenset[str]]:
    """The same tensors, most of them with other strides, and the kinds of these."""
    random, result, kinds = Random(seed), list[torch.Tensor](), set[str]()
    for index, tensor in enumerate(arguments):
        kind = random.choice(list(LAYOUTS))
        if tensor.dim() and random.randrange(100) >= DENSE:
            tensor = LAYOUTS[kind](tensor, random)
            kinds.add(f"argument: {kind}")
            if index == len(arguments) - 1 and not tensor.is_contiguous():
                kinds.add("argument: the last one strided")
        if 0 in tensor.stride():
            kinds.add("argument: expanded")
        result.append(tensor)
    return result, frozenset(kinds)


def _permuted(tensor: torch.Tensor, random: Random) -> torch.Tensor:
    """Stored with its dimensions in another order."""
    order = list(range(tensor.dim()))
    random.shuffle(order)
    back = [order.index(axis) for axis in range(tensor.dim())]
    return tensor.permute(order).contiguous().permute(back)


def _transposed(tensor: torch.Tensor, random: Random) -> torch.Tensor:
    """Stored with its last two dimensions exchanged."""
    return tensor.mT.contiguous().mT if tensor.dim() > 1 else _every_second(tensor, random)


def _every_second(tensor: torch.Tensor, random: Random) -> torch.Tensor:
    """Every second element along one dimension of a larger tensor."""
    axis = random.randrange(tensor.dim())
    return torch.stack([tensor, tensor], axis + 1).select(axis + 1, 1)


def _range(tensor: torch.Tensor, random: Random) -> torch.Tensor:
    """A range of the columns of a wider tensor, aligned or not."""
    before, after = (random.choice((0, 1, 8, 16)) for _ in range(2))
    parts = [tensor.new_zeros((*tensor.shape[:-1], extra)) for extra in (before, after)]
    wide = torch.cat([parts[0], tensor, parts[1]], -1)
    return wide[..., before : before + tensor.shape[-1]]


def _misaligned(tensor: torch.Tensor, random: Random) -> torch.Tensor:
    """Dense, from an address that is not a multiple of 16 bytes on."""
    offset = random.choice((1, 3))
    memory = tensor.new_zeros(tensor.numel() + offset)
    memory[offset:] = tensor.reshape(-1)
    return memory[offset:].view(tensor.shape)


LAYOUTS: Mapping[str, Callable[[torch.Tensor, Random], torch.Tensor]] = {
    "transposed": _transposed,
    "permuted": _permuted,
    "every second element": _every_second,
    "a range of columns": _range,
    "misaligned": _misaligned,
}
"""Layouts by kind."""


def expanded(tensor: torch.Tensor, random: Random, *, columns: bool) -> torch.Tensor:
    """`tensor` with all elements alike along one dimension, whose stride is 0.

    The dimension is one of the rows, or with `columns` any.
    """
    axes = [axis for axis, extent in enumerate(tensor.shape) if extent > 1]
    if not columns:
        axes = [axis for axis in axes if axis < tensor.dim() - 1]
    if not axes:
        return tensor
    axis = random.choice(axes)
    return tensor.narrow(axis, 0, 1).expand(tensor.shape)
