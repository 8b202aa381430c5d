"""Tensors to call the functions of random programs with."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from xdsl.dialects.func import FuncOp

from coda_ir.random_inputs import UNNAMED, Values, random_arguments, symbols_of

VALUES: tuple[Values, ...] = ("spread", "normal", "structured")


def arguments_of(func: FuncOp, extents: Mapping[str, int], seed: int = 0) -> list[torch.Tensor]:
    """Tensors of the stated types, which the seed chooses along with their magnitudes."""
    sizes = {symbol: extents.get(symbol, 2) for symbol in (*symbols_of(func), UNNAMED)}
    return random_arguments(func, sizes, seed=seed, values=VALUES[seed % len(VALUES)])
