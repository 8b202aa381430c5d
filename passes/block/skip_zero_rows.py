"""Pass `skip-zero-rows`: compute only the rows of a batched product that are not 0."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import isfinite, isnan, nan

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    BFloat16Type,
    Float16Type,
    Float32Type,
    Float64Type,
    i64,
)
from xdsl.ir import Operation, SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.coda.elementwise import FloorDivideOp, PowerOp, RemainderOp
from coda_ir.dialects.coda.shapes import (
    computes_in_float32,
    element_type_of,
    format_shape,
    shape_of,
)
from coda_ir.dialects.torch import PRODUCTS, CallOp
from coda_ir.passes.support.function_pass import FunctionPass, FunctionRewriter, OpInserter, Refusal
from coda_ir.passes.support.matching import defined_by, number_of, same_type
from coda_ir.passes.support.row_numbers import bound_of, differ_in_rows
from coda_ir.symbolic_shapes import Dims, SymbolicSize

REPEATED = ("aten.expand.default", "aten.repeat.default")

_ZERO_AT_ZERO = (coda.CastOp, *(op for op in coda.ELEMENTWISE_OPS if op.ZERO_AT_ZERO))
_INFINITE_AT_ZERO = (
    *(op for op in coda.ELEMENTWISE_OPS if op.OF_POSITIVE),
    *(coda.DivOp, coda.PowOp, PowerOp, RemainderOp, FloorDivideOp),
)
_ZERO_AT_MINUS_INFINITY = (coda.SigmoidOp, coda.ExpOp, coda.ReluOp)
_WITH_INFINITY = (BFloat16Type, Float16Type, Float32Type, Float64Type)


class SkipZeroRowsPass(FunctionPass):
    """Computes only the rows of the groups that are chosen for a token, if those of all other
    groups are 0.

        %s = coda.scatter %zeros, %ids, %values           %order, %ends = coda.group_order %ids
        %r = torch.call "aten.repeat"(%x)                 %r = coda.index %x, %order // 2
        %a = coda.mul %r, coda.transpose %s         ->    %a = coda.mul %r, coda.index %values, ...
        %y = torch.call "aten.bmm"(%a, %W)                %y = coda.grouped_matmul %a, %W, %ends
        %o = coda.sum_to %y                               %o = coda.sum_to of %y in order of tokens
            : (4 x T x N) -> (1 x T x N)                      : (T x 2 x N) -> (T x 1 x N)

    Llama 4 multiplies all tokens by all experts in this way, although each token has few experts.
    Legal iff factors are scattered to the chosen groups; the scattered ids are group numbers that
    differ within a token; and the initial values of the scatter give 0 in all code up to the sum.
    Weights must be finite: 0 times an element is taken to be 0.
    """

    def run_on_function(self, rewriter: FunctionRewriter) -> None:
        for op in rewriter.ops_of(coda.SumToOp):
            if not _is_over_groups(op):
                continue
            rows = _Rows(rewriter, rewriter.before(op))
            found = rows.of(op.x)
            if found is None or rows.choice is None or not rows.products:
                continue
            groups, k = rows.groups_and_k
            refusal = _why_not(op, found, rows, rewriter)
            if rewriter.accepts(
                op, refusal, f"computes rows of {k} of {groups} groups: the others are 0"
            ):
                _rewrite(op, found, rows, rewriter)


def _is_over_groups(op: coda.SumToOp) -> bool:
    """Return whether a sum of matrices keeps their rows and columns."""
    rank = len(shape_of(op.x))
    return rank == 3 and op.summed_dims == (0,) and len(shape_of(op.result)) == rank


def _why_not(
    op: coda.SumToOp, found: _Chosen, rows: _Rows, rewriter: FunctionRewriter
) -> Refusal | None:
    cost, shapes = "all groups multiply all rows", rewriter.shapes
    (groups, _), ids = rows.groups_and_k, rows.chosen.ids
    bound = bound_of(ids, shapes)
    if found.elsewhere != 0:
        is_known = found.elsewhere is not None and not isnan(found.elsewhere)
        other = f"{found.elsewhere:g}" if is_known else "unknown"
        return Refusal(
            "rows of groups that are not chosen are 0", f"{cost}: other rows are {other}"
        )
    if rows.counts != {groups}:
        return Refusal(
            "the tensors have a matrix for each group",
            f"{cost}: there are {groups} groups, and {sorted(rows.counts - {groups})} matrices",
        )
    if shapes.dims(op.x) != (groups, shapes.dims(ids)[0], found.columns):
        return Refusal(
            "a sum adds the rows of a token in all groups",
            f"{cost}: the sum adds {format_shape(shape_of(op.x))} in dimension 0",
        )
    if bound is None or bound.symbols or int(bound) > groups:
        return Refusal(
            "the numbers of groups are known to be valid, such as those of topk",
            f"{cost}: numbers of groups may be invalid",
        )
    if not differ_in_rows(ids):
        return Refusal(
            "the groups of a token differ, as topk gives them",
            f"{cost}: a group may be chosen twice, and counts once",
        )
    if groups > coda.MAX_GROUPS:
        return Refusal(f"there are at most {coda.MAX_GROUPS} groups", f"{cost}: {groups} groups")
    return None


def _rewrite(op: coda.SumToOp, found: _Chosen, rows: _Rows, rewriter: FunctionRewriter) -> None:
    """Add up the rows of the chosen groups, in the order of the tokens."""
    insert, (_, k) = rewriter.before(op), rows.groups_and_k
    (_, tokens, columns), value = shape_of(op.x), found.value
    order, extent = rows.order.order, shape_of(rows.order.order)[0]
    counted = extent if extent != DYNAMIC_INDEX else (order, 0)
    positions = insert.insert(coda.PositionsOp(counted))
    inverse = insert.insert(coda.ScatterOp(positions, order, positions, dim=0))
    y = insert.insert(coda.IndexOp(value, inverse, dim=0), value.name_hint)
    dims = rewriter.shapes.dims(op.x)
    of_tokens = insert.reshape(y, (dims[1], k, columns))
    element = element_type_of(op.result)
    total = coda.SumToOp(of_tokens, (tokens, 1, columns), element_type=element)
    rewriter.replace(op, insert.reshape(insert.insert(total), (1, *dims[1:])))


@dataclass
class _Chosen:
    """A tensor over all groups, of which only the part of the chosen groups is needed."""

    elsewhere: float | None
    """All elements of the other groups; None if these are unknown or differ."""
    columns: int | None
    """The columns of rows that come group by group; None for a matrix T x E, as a router has."""
    make: Callable[[], SSAValue]

    @cached_property
    def value(self) -> SSAValue:
        """The chosen part: T x k of T x E, else k rows for each token, sorted by group."""
        return self.make()


class _Rows:
    """Finds how a tensor over all groups is computed, and computes the chosen part of it."""

    def __init__(self, rewriter: FunctionRewriter, insert: OpInserter):
        self._shapes, self._insert = rewriter.shapes, insert
        self._found: dict[SSAValue, _Chosen | None] = {}
        self.choice: coda.ScatterOp | None = None
        self.products = 0
        self.counts = set[int]()
        """The numbers of matrices in the tensors of the groups."""

    def of(self, value: SSAValue) -> _Chosen | None:
        """Return how the chosen part of `value` is computed; None if no such part is known."""
        if value not in self._found:
            self._found[value] = self._derive(value)
        return self._found[value]

    @property
    def chosen(self) -> coda.ScatterOp:
        assert self.choice is not None
        return self.choice

    @property
    def groups_and_k(self) -> tuple[int, int]:
        return shape_of(self.chosen.x)[1], shape_of(self.chosen.ids)[1]

    @cached_property
    def order(self) -> coda.GroupOrderOp:
        """The order of the chosen rows by group."""
        made = coda.GroupOrderOp(self._flat(self.chosen.ids), groups=self.groups_and_k[0])
        self._put(made, self.chosen)
        return made

    def _derive(self, value: SSAValue) -> _Chosen | None:
        match value.owner:
            case coda.ScatterOp() as op:
                return self._scattered(op)
            case coda.TransposeOp() as op:
                return self._transposed(op)
            case coda.ReshapeOp() as op:
                found = self.of(op.x)
                keeps = found and found.columns in (1, shape_of(op.result)[-1])
                return found if keeps else None
            case coda.SliceOp() as op:
                return self._sliced(op)
            case coda.BroadcastOp() as op:
                return self._repeated(op, op.x)
            case CallOp() as op if op.callee.data in REPEATED:
                return self._repeated(op, op.inputs[0])
            case CallOp() as op if op.callee.data in PRODUCTS:
                return self._multiplied(op)
            case coda.ElementwiseOp() | coda.CastOp() as op:
                return self._computed(op)
            case _:
                return None

    def _put(self, new: Operation, at: Operation) -> SSAValue:
        """Insert an operator with the location and the name of the one at which it was found."""
        self._insert.location = at.location
        return self._insert.insert(new, at.results[0].name_hint)

    def _flat(self, value: SSAValue) -> SSAValue:
        """Return the elements of a matrix as a vector."""
        (rows, columns), dims = shape_of(value), self._shapes.dims(value)
        if rows != DYNAMIC_INDEX:
            return self._insert.reshape(value, (rows * columns,))
        return self._insert.reshape(value, (str(SymbolicSize.product(dims)),))

    def _scattered(self, op: coda.ScatterOp) -> _Chosen | None:
        """Find values that replace a number in the columns of the chosen groups."""
        filled = defined_by(op.x, coda.BroadcastOp)
        number = None if filled is None else filled.x.owner
        is_matrix = len(shape_of(op.x)) == 2 and op.given["dim"] == 1
        if not isinstance(number, coda.ConstantOp) or not is_matrix:
            return None
        (_, groups), (_, k) = shape_of(op.x), shape_of(op.ids)
        if groups == DYNAMIC_INDEX or not 0 < k < groups or self.choice not in (None, op):
            return None
        self.choice = op
        return _Chosen(float(number.number), None, lambda: op.values)

    def _transposed(self, op: coda.TransposeOp) -> _Chosen | None:
        """Find the columns of a matrix over groups as rows of one column."""
        found = self.of(op.x)
        if found is None or found.columns is not None or op.permutation != (1, 0):
            return None

        def make() -> SSAValue:
            flat, order = self._flat(found.value), self.order.order
            ordered = self._put(coda.IndexOp(flat, order, dim=0), op)
            return self._insert.reshape(ordered, (*self._shapes.dims(order), 1))

        return _Chosen(found.elsewhere, 1, make)

    def _sliced(self, op: coda.SliceOp) -> _Chosen | None:
        """Find some columns of rows."""
        (dim, start, stop), found = op.range, self.of(op.x)
        if found is None or dim != len(shape_of(op.x)) - 1:
            return None
        if found.columns != shape_of(op.x)[-1]:
            return None

        def make() -> SSAValue:
            return self._put(coda.SliceOp(found.value, 1, start, stop), op)

        return _Chosen(found.elsewhere, stop - start, make)

    def _repeated(self, op: Operation, x: SSAValue) -> _Chosen | None:
        """Find a matrix that is repeated for each group."""
        before, after = self._shapes.dims(x), self._shapes.dims(op.results[0])
        before = before[1:] if len(before) == 3 and before[0] == 1 else before
        count = _times_repeated(before, after)
        if count is None:
            return None
        self.counts.add(count)

        def make() -> SSAValue:
            ids, (_, k) = self.order.order, self.groups_and_k
            if k > 1:
                divisor = self._put(coda.ConstantOp(k, i64), op)
                ids = self._put(FloorDivideOp(ids, divisor), op)
            rows = self._insert.reshape(x, before)
            return self._put(coda.IndexOp(rows, ids, dim=0), op)

        return _Chosen(None, shape_of(x)[-1], make)

    def _multiplied(self, op: CallOp) -> _Chosen | None:
        """Find rows times the matrix of their group."""
        if op.arguments.data != "{0}, {1}":
            return None
        x, weight = op.inputs
        shape, (result,) = shape_of(weight), op.outputs
        found = self.of(x) if len(shape_of(x)) == len(shape) == 3 else None
        same = same_type(x, weight) and same_type(x, result)
        if found is None or found.columns != shape_of(x)[-1] or DYNAMIC_INDEX in shape:
            return None
        if not same or not computes_in_float32(element_type_of(x)):
            return None
        transposed, kind = defined_by(weight, coda.TransposeOp), coda.GroupedMatmulOp
        if transposed is not None and transposed.permutation == (0, 2, 1):
            kind, weight = coda.GroupedLinearOp, transposed.x
        self.products += 1
        self.counts.add(shape[0])

        def make() -> SSAValue:
            return self._put(kind(found.value, weight, self.order.ends), op)

        return _Chosen(found.elsewhere, shape[2], make)

    def _computed(self, op: coda.ElementwiseOp | coda.CastOp) -> _Chosen | None:
        """Find elementwise code on rows, or on a matrix over groups, and on numbers."""
        found = [self.of(value) for value in op.operands]
        known = [each for each in found if each is not None]
        pairs = list(zip(op.operands, found, strict=True))
        if len({each.columns is None for each in known}) != 1:
            return None
        is_rows, columns = known[0].columns is not None, max(each.columns or 0 for each in known)
        of_rows = columns if is_rows else None
        if not all(self._fits(value, each, of_rows, op.results[0]) for value, each in pairs):
            return None

        def make() -> SSAValue:
            operands = [value if each is None else each.value for value, each in pairs]
            shape = (shape_of(self.order.order)[0], columns)
            shape = shape if is_rows else shape_of(self.chosen.values)
            self._insert.location = op.location
            return self._insert.again(op, operands, shape)

        numbers = [each.elsewhere if each else number_of(value) for value, each in pairs]
        return _Chosen(_number_computed(op, numbers), of_rows, make)

    def _fits(
        self, value: SSAValue, found: _Chosen | None, columns: int | None, result: SSAValue
    ) -> bool:
        """Return whether an operand is a number, or has the rows of a result in their places."""
        dims, wanted = self._shapes.dims(value), self._shapes.dims(result)
        if found is None:
            return dims == ()
        is_column = len(dims) == len(wanted) and (*dims[:-1], 1) == (*wanted[:-1], dims[-1])
        return (dims == wanted and found.columns == columns) or (is_column and found.columns == 1)


def _times_repeated(before: Dims, after: Dims) -> int | None:
    """Return how many copies of the matrix `before` fill `after`, of 3 or 2 dimensions; or None."""
    if len(before) != 2 or before[1] != after[-1] or not isinstance(before[1], int):
        return None
    if len(after) == 3:
        return after[0] if after[1:] == before and isinstance(after[0], int) else None
    count = SymbolicSize.of(after[0]).divided(SymbolicSize.of(before[0]))
    return int(count) if len(after) == 2 and count is not None and not count.symbols else None


def _number_computed(op: Operation, operands: Sequence[float | None]) -> float | None:
    """Return what `op` computes of numbers, if that is 0 or an infinity; None if it is an unknown
    finite number, and NaN if it may be none.

    An operand of None is an unknown finite number.
    """
    if all(number is None or isfinite(number) for number in operands):
        if isinstance(op, coda.MulOp) and 0.0 in operands:
            return 0.0
        if set(operands) == {0.0} and isinstance(op, _ZERO_AT_ZERO):
            return 0.0
        return nan if 0.0 in operands and isinstance(op, _INFINITE_AT_ZERO) else None
    if list(operands) != [float("-inf")]:
        return nan
    if isinstance(op, coda.CastOp) and isinstance(element_type_of(op.result), _WITH_INFINITY):
        return float("-inf")
    return 0.0 if isinstance(op, _ZERO_AT_MINUS_INFINITY) else nan
