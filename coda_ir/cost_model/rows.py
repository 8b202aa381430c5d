"""The numbers of rows of the kernels of a program, for given sizes of its symbols."""

from collections.abc import Mapping

from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from coda_ir.cost_model.workload import NOMINAL_ROWS
from coda_ir.dialects.gemm import AttentionSumOp, FusedOp, MapOp
from coda_ir.symbolic_shapes import SymbolicShapes, SymbolicSize


class RowCounts:
    """The numbers of rows of kernels under given sizes of symbols."""

    def __init__(self, sizes: Mapping[str, int]):
        self.sizes = sizes
        self._shapes: dict[FuncOp, SymbolicShapes] = {}

    def shapes(self, op: Operation) -> SymbolicShapes | None:
        """Return the shapes of the function that contains `op`; None outside of functions."""
        func = op.parent_op()
        while func is not None and not isinstance(func, FuncOp):
            func = func.parent_op()
        if func is None:
            return None
        if func not in self._shapes:
            self._shapes[func] = SymbolicShapes(func)
        return self._shapes[func]

    def size(self, op: FusedOp | MapOp | AttentionSumOp) -> SymbolicSize | None:
        """Return the number of rows in terms of symbols: of x or of the gathered rows, of the
        domain of a map, or of the tensor with the rows of sums of attention.
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
        """Return M of `op`, or K if x is transposed; None if a size is unknown or none is given."""
        return self.exact(op) if self.sizes else None

    def nominal(self, op: FusedOp) -> int:
        """Return what the number of rows is taken for if it is not known: each product of symbols
        is one of tokens, of which experts may have several rows each.
        """
        size = self.size(op)
        if size is None or not size.symbols:
            return NOMINAL_ROWS
        return sum(count * (NOMINAL_ROWS if symbols else 1) for symbols, count in size.terms)

    def exact(self, op: FusedOp | MapOp | AttentionSumOp) -> int | None:
        """Return the same number, also if no symbol has a size and the types determine it."""
        size = self.size(op)
        if size is None or not size.symbols <= self.sizes.keys():
            return None
        return size.evaluate(self.sizes)
