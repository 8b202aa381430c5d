"""Random arguments for a function of the IR, with sizes for the symbols that a test leaves open."""

import random
import zlib
from collections.abc import Mapping

import torch
from xdsl.dialects.func import FuncOp

from coda_ir.random_inputs import bind_symbols, random_arguments


def random_inputs(
    func: FuncOp,
    dims: Mapping[str, int] | None = None,
    dtype: torch.dtype | None = None,
    seed: int = 0,
    *,
    spread: bool = False,
) -> list[torch.Tensor]:
    """One tensor per parameter of `func`, the same for the same `seed`.

    `dims` gives the extents of symbols; the others are between 2 and 6. See `random_arguments`.
    """

    def choose(_: int, symbol: str) -> int:
        return random.Random(zlib.crc32(symbol.encode()) + seed).randint(2, 6)

    sizes = bind_symbols(func, choose) | dict(dims or {})
    values = "spread" if spread else "normal"
    return random_arguments(func, sizes, seed=seed, values=values, dtype=dtype)
