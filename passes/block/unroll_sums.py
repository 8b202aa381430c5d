"""Pass `unroll-sums`: turn a sum over a few rows or samples into a sum of slices."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

from xdsl.dialects.builtin import DYNAMIC_INDEX, f32
from xdsl.ir import Operation, SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import (
    computes_in_float32,
    element_bytes,
    element_type_of,
    shape_of,
)
from coda_ir.dialects.gemm import PortKind
from coda_ir.dialects.gemm.scalar_code import is_pointwise
from coda_ir.dialects.gemm.tables import port_kind
from coda_ir.passes.support.editing import operands_first
from coda_ir.passes.support.function_pass import FunctionPass, FunctionRewriter, OpInserter, Refusal
from coda_ir.passes.support.legality import check_rounding_may_move, name_of
from coda_ir.passes.support.matching import unwidened
from coda_ir.storage import ALIGNMENT

MAX_ROWS = 16
"""Rows that are added up in one pointwise kernel, which loads an element of each."""


class UnrollSumsPass(FunctionPass):
    """Turns a sum over a dimension of a few rows or samples into additions in float32.

        %s = coda.sum_to %x                           %a = coda.slice %x {dim = 1, start = 0, ...}
            : (tensor<?x2x8xf32>)             ->      %b = coda.slice %x {dim = 1, start = 1, ...}
            -> tensor<?x1x8xf32>                      %s = coda.add %a, %b

    A pointwise kernel reads the slices in place and adds them together with what follows, such as
    the results of the experts of a token and the residual. It adds the rows in their order. Legal
    iff the number of rows is static and at most 16, and rows start at multiples of 16 bytes.
    Pointwise code before the sum is computed for each row. Rows of a GEMM are stored for it: its
    epilogue would add up a tile once for each sample, of which a tile of 128 rows has 8 or more.
    (H200, 8192 x 1024, 4 rows each: 324 us for the GEMM, and 223 for a kernel after it.)

    Rows that are converted to a wider type and then moved are moved in their narrow type. If the
    numerics mode allows rounding points to move, this also holds for rows of a GEMM that are scaled
    in float32: the epilogue applies the scale, and the rows are rounded after the scale instead of
    before it.

        %w = coda.cast %z : bf16 -> f32                %n = coda.cast %y : f32 -> bf16
        %y = coda.mul %w, %s                           %x = coda.index %n, %ids
        %x = coda.index %y, %ids                ->     %a = coda.cast(coda.slice %x) : bf16 -> f32
        %t = coda.sum_to %x                            ...
    """

    def run_on_function(self, rewriter: FunctionRewriter) -> None:
        for op in rewriter.ops_of(coda.SumToOp):
            if _is_over_rows(op) and not rewriter.refuses(op, _why_not(op)):
                _unroll(op, rewriter)


def _is_over_rows(op: coda.SumToOp) -> bool:
    """Return whether a sum is over one small dimension, beside others and columns that stay."""
    shape = shape_of(op.x)
    if len(shape) <= 2 or len(op.summed_dims) != 1:
        return False
    (axis,) = op.summed_dims
    return axis < len(shape) - 1 and 1 < shape[axis] <= MAX_ROWS


def _why_not(op: coda.SumToOp) -> Refusal | None:
    columns, name = shape_of(op.x)[-1], name_of(op.x)
    if columns == DYNAMIC_INDEX or columns * element_bytes(op.x.type) % ALIGNMENT:
        return Refusal(
            f"rows start at multiples of {ALIGNMENT} bytes",
            f"the sum remains a call of PyTorch: rows of {name} start at other addresses",
        )
    if not all(computes_in_float32(element_type_of(value)) for value in (op.x, op.result)):
        return Refusal(
            "float32 can represent every value",
            f"the sum remains a call of PyTorch: it computes in {element_type_of(op.x)}",
        )
    return None


def _unroll(op: coda.SumToOp, rewriter: FunctionRewriter) -> None:
    (axis,), shape = op.summed_dims, shape_of(op.x)
    rewriter.passed(op, f"adds up {shape[axis]} rows one by one")
    x = _as_narrow(op, rewriter)
    total = _last_view(op.result)
    assert isinstance(total.owner, coda.ReshapeOp | coda.CastOp | coda.SumToOp)
    insert = rewriter.before(total.owner, op.location)
    is_dropped = axis == 0 and len(shape_of(op.result)) == len(shape) - 1
    slices = [
        _Slices(axis - len(shape), number, insert, is_dropped) for number in range(shape[axis])
    ]
    rows = [_row(x, each, total) for each in slices]
    added = insert.cast(reduce(insert.add, rows), element_type_of(total))
    added.name_hint = total.name_hint
    total.replace_all_uses_with(added)


def _as_narrow(op: coda.SumToOp, rewriter: FunctionRewriter) -> SSAValue:
    """Return the rows that `op` adds up, moved in their type before they were widened."""
    value, moves = op.x, list[coda.ReshapeOp | coda.IndexOp]()
    while isinstance(value.owner, coda.ReshapeOp | coda.IndexOp) and value.has_one_use():
        moves.append(value.owner)
        value = value.owner.x
    narrow = _narrow(value, rewriter.before(moves[-1] if moves else op, op.location))
    if narrow is None:
        return op.x
    for move in reversed(moves):
        operands, type = [narrow, *move.operands[1:]], element_type_of(narrow)
        narrow = rewriter.before(move).again(move, operands, shape_of(move.result), type)
    return narrow


def _narrow(value: SSAValue, insert: OpInserter) -> SSAValue | None:
    """Return `value` before it was widened. Scaled rows of a GEMM that were rounded before scaling
    are rounded after it.
    """
    if unwidened(value) is not value:
        return unwidened(value)
    op = value.owner
    if not isinstance(op, coda.MulOp) or check_rounding_may_move(op, "rows are stored wide"):
        return None
    for wide, scale in op.pairs:
        rows = unwidened(wide)
        is_column = port_kind(shape_of(scale), shape_of(value)) == PortKind.COL
        is_product = isinstance(rows.owner, coda.GroupedLinearMap | coda.LinearOp | coda.MatmulOp)
        if rows is not wide and is_column and is_product and rows.has_one_use():
            return insert.cast(value, element_type_of(rows))
    return None


def _last_view(value: SSAValue) -> SSAValue:
    """Return the only view that reads a sum, with the same columns, or its rounded form."""
    use = value.get_unique_use()
    view = None if use is None else use.operation
    if not isinstance(view, coda.CastOp | coda.ReshapeOp):
        return value
    if isinstance(view, coda.CastOp) and element_type_of(value) != f32:
        return value
    is_like = shape_of(view.result)[-1:] == shape_of(value)[-1:]
    return _last_view(view.result) if is_like else value


def _view_of(value: SSAValue) -> Operation:
    """Return the operator that gives `value` its shape."""
    owner = value.owner
    assert isinstance(owner, Operation)
    return _view_of(owner.operand) if isinstance(owner, coda.CastOp) else owner


def _row(x: SSAValue, slices: _Slices, like: SSAValue) -> SSAValue:
    """Return a row of the summed rows, in float32."""
    part, insert = slices.of(x), slices.insert
    if shape_of(part) != shape_of(like):
        view = coda.ReshapeOp(part, shape_of(like))
        view.attributes |= _view_of(like).attributes
        part = insert.insert(view, x.name_hint)
    return insert.cast(part, f32)


@dataclass(frozen=True)
class _Slices:
    """Row `number` along dimension `axis`, which is counted from the end, of what a sum reads."""

    axis: int
    number: int
    insert: OpInserter
    is_dropped: bool
    """True if the row is without this dimension, which is then the first one."""

    def of(self, x: SSAValue) -> SSAValue:
        """Return the row of x. Pointwise code that nothing else reads computes only that row."""

        def inner(op: Operation) -> list[Operation]:
            owners = (value.owner for value in op.operands if self._is_computed(value))
            return [owner for owner in owners if isinstance(owner, Operation)]

        if not (isinstance(x.owner, Operation) and self._is_computed(x)):
            return self._sliced(x)
        parts: dict[SSAValue, SSAValue] = {}
        for op in operands_first(x.owner, inner):
            operands = [parts.get(value) or self._sliced(value) for value in op.operands]
            shape = self._shape(op.results[0])
            parts[op.results[0]] = self.insert.again(op, operands, shape)
        return parts[x]

    def _is_computed(self, value: SSAValue) -> bool:
        """Return whether only the sum reads several rows of pointwise code."""
        return self._has_rows(value) and is_pointwise(value.owner) and value.has_one_use()

    def _sliced(self, value: SSAValue) -> SSAValue:
        if len(shape_of(value)) < -self.axis:
            return value
        if self._has_rows(value):
            dim = len(shape_of(value)) + self.axis
            part = coda.SliceOp(value, dim, self.number, self.number + 1)
            value = self.insert.insert(part, value.name_hint)
        return self.insert.reshape(value, self._shape(value))

    def _shape(self, value: SSAValue) -> tuple[int, ...]:
        """Return the shape of the row of `value`."""
        shape = shape_of(value)
        return shape[1:] if self.is_dropped else (*shape[: self.axis], 1, *shape[self.axis + 1 :])

    def _has_rows(self, value: SSAValue) -> bool:
        shape = shape_of(value)
        return len(shape) >= -self.axis and shape[self.axis] != 1
