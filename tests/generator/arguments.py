"""Tensors to call the functions of random programs with."""

from collections.abc import Mapping, Sequence
from random import Random
from typing import Literal, TypeAlias

import torch
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue

from coda_ir.dialects.coda import GroupNormOp, LayerNormOp
from coda_ir.dialects.coda.weights import is_weight
from coda_ir.random_inputs import Values, random_arguments
from coda_ir.random_inputs.draw import UNNAMED, symbols_of
from coda_ir.random_inputs.roles import GroupEnds, Permutation, roles_of
from generator.layouts import expanded

Sign: TypeAlias = Literal["negative", "positive"]

VALUES: tuple[Values | Sign, ...] = (
    "spread",
    "normal",
    "structured",
    "negative",
    "normal",
    "spread",
    "positive",
)
"""Kinds of arguments, by seed. The kinds of programs repeat every 20 seeds, which has no divisor in
common."""

EXPANDED = 8
"""The share of arguments, in percent, with a stride of 0."""


def values_of(seed: int) -> Values | Sign:
    return VALUES[seed % len(VALUES)]


def arguments_of(func: FuncOp, extents: Mapping[str, int], seed: int = 0) -> list[torch.Tensor]:
    """Tensors of the stated types, which the seed chooses along with their magnitudes."""
    sizes = {symbol: extents.get(symbol, 2) for symbol in (*symbols_of(func), UNNAMED)}
    values = values_of(seed)
    drawn = "normal" if values in ("negative", "positive") else values
    tensors = random_arguments(func, sizes, seed=seed, values=drawn)
    if values in ("negative", "positive"):
        tensors = signed(func, tensors, values)
    return with_repetitions(func, tensors, seed)


def signed(func: FuncOp, tensors: Sequence[torch.Tensor], sign: Sign) -> list[torch.Tensor]:
    """The same magnitudes with one sign, but for weights, which are positive: so is what GEMMs
    make of positive arguments.
    """
    result: list[torch.Tensor] = []
    for parameter, tensor in zip(func.args, tensors, strict=True):
        if tensor.is_floating_point():
            # PyTorch has no arithmetic of float8.
            magnitude = tensor.double().abs()
            is_negative = sign == "negative" and not is_weight(parameter)
            tensor = (-magnitude if is_negative else magnitude).to(tensor.dtype)
        result.append(tensor)
    return result


def with_repetitions(
    func: FuncOp, tensors: Sequence[torch.Tensor], seed: int
) -> list[torch.Tensor]:
    """The tensors, some with elements that share memory, but for those whose elements differ.

    Rows of equal elements are left to functions without norms that subtract a mean: these make 0 of
    them, and of rounding errors nothing else.
    """
    random = Random(seed)
    columns = not any(isinstance(op, LayerNormOp | GroupNormOp) for op in func.walk())
    return [
        expanded(tensor, random, columns=columns)
        if random.randrange(100) < EXPANDED and not _are_distinct(parameter)
        else tensor
        for parameter, tensor in zip(func.args, tensors, strict=True)
    ]


def _are_distinct(parameter: SSAValue) -> bool:
    """Return whether a parameter has the ends of groups of rows, or the places of rows: in one
    place, any of its rows may be the one that stays.
    """
    return any(isinstance(role, GroupEnds | Permutation) for role in roles_of(parameter))
