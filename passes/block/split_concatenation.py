"""Pass `split-concatenation`: compute with each part of a concatenation separately."""

from dataclasses import dataclass, field
from functools import reduce
from math import prod
from typing import TypeAlias, TypeGuard

from xdsl.dialects.builtin import DYNAMIC_INDEX, TensorType, f32
from xdsl.ir import Operation, SSAValue, Use

from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import element_type_of, shape_of
from coda_ir.dialects.gemm.scalar_code import is_pointwise
from coda_ir.passes.support.function_pass import FunctionPass, FunctionRewriter, OpInserter, Refusal
from coda_ir.passes.support.legality import check_rounding_may_move, name_of, reader_name

Sink: TypeAlias = (
    coda.ReduceOp | coda.SumToOp | coda.LinearOp | coda.MatmulOp | coda.WeightGradientOp
)


ROWS_PER_COLUMN = 1 / 32
"""Rows for each column of a weight from which a concatenation is larger than what is copied in its
place: far fewer than in training, and far more than one for each sample of a batch.
"""


class SplitConcatenationPass(FunctionPass):
    """Avoids concatenating the parts of the gradient of a packed projection.

        %d = coda.concat %dq, %dk {dim = 1}           %wq, %wk = slices of the rows of %w
        %dx = coda.matmul %d, %w                ->    %dx = %dq·%wq + %dk·%wk
        %db = coda.sum_to %d                          %db = coda.concat the sums of %dq and %dk
        %s = coda.reduce (%z ⊙ %d) {kind = "sum"}     %s = the sums of %zq ⊙ %dq and of %zk ⊙ %dk
        %dw = coda.weight_gradient %d, %x             %dw = coda.concat those of %dq and of %dk

    `merge-gemm-sums` merges the products into one GEMM again. A weight gradient of K x N reads the
    parts as weights of one GEMM (`convert-linear-to-gemm`), and therefore keeps the concatenation.

    Legal iff the concatenation is used only by such products and sums, or by pointwise code and
    transposes of rows that lead to them. Sums are added in a different order, which the mode
    eager-exact forbids. Worth it if a weight gradient also reads the parts. Slices of the
    weight that are not aligned are copied. They are small compared with the many rows of a
    gradient, but not compared with those of a decoding step, or with one row per sample (adaLN).
    """

    def run_on_function(self, rewriter: FunctionRewriter) -> None:
        for op in rewriter.ops:
            if isinstance(op, coda.ConcatOp) and _joins_columns(op):
                users = _Users(op.result)
                if not users.have_many_rows():
                    continue
                if rewriter.accepts(
                    op, users.check(op), f"its {len(op.parts)} parts are read in place"
                ):
                    _Split(op, users, rewriter).run()


def reads_parts(op: coda.ConcatOp) -> bool:
    """Return whether GEMMs read the parts in place, as the columns of weight gradients of K x N."""
    return _joins_columns(op) and all(
        isinstance(use.operation, coda.WeightGradientOp) and use.index == 1
        for use in op.result.uses
    )


def _joins_columns(op: coda.ConcatOp) -> bool:
    shapes = [shape_of(part) for part in op.parts]
    is_last = op.dim.value.data == len(shapes[0]) - 1 > 0
    return is_last and len(shapes) > 1 and all(shape[-1] != DYNAMIC_INDEX for shape in shapes)


class _Users:
    """The code that reads all columns of a value: code by columns, and its sinks."""

    def __init__(self, whole: SSAValue):
        self.pointwise: dict[Operation, None] = {}
        self.sinks: dict[Sink, None] = {}
        self.other: Operation | None = None
        pending = [whole]
        while pending:
            for use in pending.pop().uses:
                op = use.operation
                if _is_by_column(op):
                    if op not in self.pointwise:
                        pending.append(op.results[0])
                    self.pointwise[op] = None
                elif _is_sink(op, use, whole):
                    self.sinks[op] = None
                else:
                    self.other = op

    def have_many_rows(self) -> bool:
        """Return whether a weight gradient sums over many rows, or an unknown number of them."""
        gradients = (sink for sink in self.sinks if isinstance(sink, coda.WeightGradientOp))
        for gradient in gradients:
            *rows, columns = shape_of(gradient.x)
            if DYNAMIC_INDEX in rows or prod(rows) >= ROWS_PER_COLUMN * columns:
                return True
        return False

    def check(self, op: coda.ConcatOp) -> Refusal | None:
        if self.other is not None:
            return Refusal(
                "products and sums of the parts can replace every use",
                f"{name_of(op.result)} is copied: {reader_name(self.other)} reads all of it",
            )
        found = f"{name_of(op.result)} is copied: eager PyTorch rounds its products together"
        return check_rounding_may_move(op, found, place="")


def _is_by_column(op: Operation) -> bool:
    """Return whether `op` computes columns one by one: pointwise code, or rows in another order."""
    return op.keeps_columns if isinstance(op, coda.TransposeOp) else is_pointwise(op)


def _is_sink(op: Operation, use: Use, whole: SSAValue) -> TypeGuard[Sink]:
    """Return whether `op` sums over columns or rows of its operand `use`, or multiplies rows."""
    match op:
        case coda.ReduceOp():
            return op.kind.data == "sum"
        case coda.SumToOp():
            return shape_of(op.result) == shape_of(op.x)[-1:]
        case coda.LinearOp():
            return use.index == 0 and op.bias is None
        case coda.MatmulOp():
            return use.index == 0
        case coda.WeightGradientOp():
            return op.dy is not op.x and (use.index == 0 or op.x is whole)
        case _:
            return False


@dataclass
class _Split:
    """Replaces code on all columns by code on each part."""

    op: coda.ConcatOp
    users: _Users
    rewriter: FunctionRewriter
    parts: dict[tuple[SSAValue, int], SSAValue] = field(
        default_factory=dict[tuple[SSAValue, int], SSAValue]
    )
    """The parts of values that have all columns, by value and number."""

    def __post_init__(self) -> None:
        stop, self.ranges = 0, list[tuple[int, int]]()
        for number, part in enumerate(self.op.parts):
            start, stop = stop, stop + shape_of(part)[-1]
            self.ranges.append((start, stop))
            self.parts[self.op.result, number] = part

    def run(self) -> None:
        order = self.rewriter.order
        for sink in sorted(self.users.sinks, key=order.position):
            if isinstance(sink, coda.WeightGradientOp) and sink.x is self.op.result:
                continue
            insert = self.rewriter.before(sink)
            self.rewriter.replace(sink, self._together(sink, insert))
        pointwise = sorted(self.users.pointwise, key=order.position, reverse=True)
        for op in (*pointwise, self.op):
            if not op.results[0].uses:
                order.erase(op)

    def _together(self, sink: Sink, insert: OpInserter) -> SSAValue:
        """Return the result of `sink`, given the results of its parts: concatenated, or summed."""
        operands = [self._operands_of(sink, i, insert) for i in range(len(self.ranges))]
        has_columns = isinstance(sink, coda.SumToOp | coda.WeightGradientOp)
        type = f32 if isinstance(sink, coda.ReduceOp) else None
        values = list[SSAValue]()
        for (start, stop), read in zip(self.ranges, operands, strict=True):
            shape = shape_of(sink.result)
            if has_columns:
                shape = (stop - start, *shape[1:])
            values.append(insert.again(sink, read, shape, type))
        if has_columns:
            return insert.insert(coda.ConcatOp(values, 0), sink.result.name_hint)
        total = reduce(insert.add, values)
        return insert.cast(total, element_type_of(sink.result))

    def _operands_of(self, sink: Sink, number: int, insert: OpInserter) -> list[SSAValue]:
        """Return the operands of `sink` for one part of the columns."""
        first, *others = sink.operands
        start, stop = self.ranges[number]
        if isinstance(sink, coda.LinearOp | coda.MatmulOp):
            inner = 1 if isinstance(sink, coda.LinearOp) else 0
            others = [insert.insert(coda.SliceOp(sink.weight, inner, start, stop))]
        return [self._part(first, number, insert), *others]

    def _part(self, value: SSAValue, number: int, insert: OpInserter) -> SSAValue:
        """Return the columns of `value` that belong to a part; all if it has at most one column."""
        shape = shape_of(value)
        if shape[-1:] != (self.ranges[-1][1],):
            return value
        if (value, number) not in self.parts:
            self.parts[value, number] = insert.insert(
                self._cut(value, number, insert), value.name_hint
            )
        return self.parts[value, number]

    def _cut(self, value: SSAValue, number: int, insert: OpInserter) -> Operation:
        op, shape, (start, stop) = value.owner, shape_of(value), self.ranges[number]
        if not isinstance(op, Operation) or not _is_by_column(op):
            return coda.SliceOp(value, len(shape) - 1, start, stop)
        return type(op).create(
            operands=[self._part(operand, number, insert) for operand in op.operands],
            result_types=[TensorType(element_type_of(value), (*shape[:-1], stop - start))],
            properties=op.properties.copy(),
        )
