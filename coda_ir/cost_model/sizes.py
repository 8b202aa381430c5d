"""What the symbols of a program stand for, and so how many rows its GEMMs have."""

from __future__ import annotations

import re
from collections.abc import Mapping

from xdsl.dialects.func import FuncOp

from coda_ir.diagnostics import CodaError
from coda_ir.dialects.gemm import FusedOp
from coda_ir.symbolic_shapes import SymbolicShapes, SymbolicSize

_SIZE = re.compile(r"\s*([A-Za-z_]\w*)\s*=\s*(\d{1,12})\s*")


def parse_sizes(text: str | None) -> dict[str, int]:
    """`B=2,T=8192` as numbers by symbol. Raises CodaError for other texts."""
    sizes: dict[str, int] = {}
    for part in filter(None, (text or "").split(",")):
        match = _SIZE.fullmatch(part)
        if match is None:
            raise CodaError(f"schedule: sizes has '{part}'", 'write sizes as "B=2,T=8192"')
        sizes[match[1]] = int(match[2])
    return sizes


def format_sizes(sizes: Mapping[str, int]) -> str:
    """What `parse_sizes` reads."""
    return ",".join(f"{symbol}={size}" for symbol, size in sorted(sizes.items()))


class RowCounts:
    """The numbers of rows of GEMMs under given sizes of symbols."""

    def __init__(self, sizes: Mapping[str, int]):
        self.sizes = sizes
        self._shapes: dict[FuncOp, SymbolicShapes] = {}

    def shapes(self, op: FusedOp) -> SymbolicShapes | None:
        """Those of the function of `op`; None outside of functions."""
        func = op.parent_op()
        while func is not None and not isinstance(func, FuncOp):
            func = func.parent_op()
        if func is None:
            return None
        if func not in self._shapes:
            self._shapes[func] = SymbolicShapes(func)
        return self._shapes[func]

    def size(self, op: FusedOp) -> SymbolicSize | None:
        """The product of the dimensions of x but the last, by symbols."""
        shapes = self.shapes(op)
        return None if shapes is None else SymbolicSize.product(shapes.dims(op.x)[:-1])

    def of(self, op: FusedOp) -> int | None:
        """M of `op`, K where x is transposed; None where a symbol has no size."""
        if not self.sizes:
            return None
        size = self.size(op)
        if size is None or not size.symbols <= self.sizes.keys():
            return None
        return size.evaluate(self.sizes)
