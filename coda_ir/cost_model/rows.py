"""How many rows the kernels of a program have, by what its symbols stand for."""

from collections.abc import Mapping

from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from coda_ir.dialects.gemm import AttentionSumOp, FusedOp, MapOp
from coda_ir.symbolic_shapes import SymbolicShapes, SymbolicSize


class RowCounts:
    """The numbers of rows of kernels under given sizes of symbols."""

    def __init__(self, sizes: Mapping[str, int]):
        self.sizes = sizes
        self._shapes: dict[FuncOp, SymbolicShapes] = {}

    def shapes(self, op: Operation) -> SymbolicShapes | None:
        """Those of the function of `op`; None outside of functions."""
        func = op.parent_op()
        while func is not None and not isinstance(func, FuncOp):
            func = func.parent_op()
        if func is None:
            return None
        if func not in self._shapes:
            self._shapes[func] = SymbolicShapes(func)
        return self._shapes[func]

    def size(self, op: FusedOp | MapOp | AttentionSumOp) -> SymbolicSize | None:
        """The product of the dimensions of x but the last, or the number of rows that are gathered,
        by symbols; of a map, that of its domain; of sums of attention, that of the tensor with
        their rows.
        """
        shapes = self.shapes(op)
        if shapes is None:
            return None
        if isinstance(op, FusedOp) and op.gather is not None:
            return SymbolicSize.product(shapes.dims(op.gather))
        match op:
            case FusedOp():
                of = op.x
            case MapOp():
                of = op.segment().domain_value
            case AttentionSumOp():
                of = op.rows_of
        return SymbolicSize.product(shapes.dims(of)[:-1])

    def of(self, op: FusedOp | MapOp) -> int | None:
        """M of `op`, K where x is transposed; None where a symbol has no size, or none has one."""
        return self.exact(op) if self.sizes else None

    def exact(self, op: FusedOp | MapOp | AttentionSumOp) -> int | None:
        """The same, also where no symbol has a size and the types say all."""
        size = self.size(op)
        if size is None or not size.symbols <= self.sizes.keys():
            return None
        return size.evaluate(self.sizes)
