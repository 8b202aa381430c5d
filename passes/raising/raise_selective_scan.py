"""Pass `raise-selective-scan`: a scan of states that are spelled out becomes one operator."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from xdsl.dialects.builtin import f32
from xdsl.ir import Operation, SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import computes_in_float32, element_type_of, is_float, shape_of
from coda_ir.dialects.torch import CallOp, LinearScanOp
from coda_ir.passes.support.function_pass import FunctionPass, FunctionRewriter, OpInserter, Refusal
from coda_ir.passes.support.matching import defined_by, first_place, unwidened
from coda_ir.passes.support.rows import replace_by_rows, rows_of
from coda_ir.symbolic_shapes import SymbolicShapes

Labels: TypeAlias = tuple[int | None, ...]
"""For each dimension of a value, which one of the scan it is; None where its extent is 1."""

TIME = 0
"""The dimension along which a linear scan runs."""

CONTRACTED = Refusal(
    "the states are read by one product with a vector for each position, and at the last position",
    "other operators read the states",
)
ORDER = Refusal(
    "operands are computed before the last states are read", "an operand is computed later"
)
FACTORS = Refusal(
    "the states decay by exp(dt · a) and take dt · b · u, with a of channels and states",
    "they are computed in another way",
)
TYPES = Refusal(
    "u, b, c and the result have one element type of at most 32 bits, with at most "
    f"{coda.MAX_STATES} states of each channel",
    "different element types, or too many states",
)


class RaiseSelectiveScanPass(FunctionPass):
    """Turns a linear scan over the states of channels, with the surrounding tensors of their size,
    into `coda.selective_scan`.

        %e = coda.exp (coda.mul %a, %dt)      : B x D x T x N
        %x = coda.mul (coda.mul %dt, %b), %u  : B x D x T x N
        %h = torch.linear_scan %e, %x                           ->  %y = coda.selective_scan
        %y = torch.call "aten.matmul"(%h, %c) : B x T x D x 1             %u, %dt, %a, %b, %c

    Where the states at the last position are read, they are a second result. Reshapes that add
    dimensions, transposes and conversions may stand between them. Legal iff the decay is such an
    exponential, one product reads the states and sums over them, and all factors have the
    dimensions that they have in `coda.selective_scan`. The states are float32, whatever type the
    product had them in. Code around the scan that has channels before positions moves to rows where
    it can.
    """

    def run_on_function(self, rewriter: FunctionRewriter) -> None:
        for op in rewriter.ops:
            if isinstance(op, LinearScanOp):
                refusal = _Scan(op, rewriter).raised()
                if refusal is not None:
                    rewriter.missed(op, refusal)


@dataclass(frozen=True)
class _Factor:
    """A tensor that is broadcast to the dimensions of the scan."""

    value: SSAValue
    labels: Labels

    @property
    def dims(self) -> frozenset[int]:
        return frozenset(label for label in self.labels if label is not None)


class _Read(NamedTuple):
    """An operator that reads states, as a value with the dimensions of the scan in some order."""

    op: Operation
    value: SSAValue
    labels: tuple[int, ...]


def _reads(value: SSAValue, labels: tuple[int, ...], shapes: SymbolicShapes) -> Iterator[_Read]:
    """Yield the readers of states through transposes, views and conversions."""
    for op in [use.operation for use in value.uses]:
        if isinstance(op, coda.TransposeOp):
            yield from _reads(op.result, tuple(labels[axis] for axis in op.permutation), shapes)
            continue
        if isinstance(op, coda.CastOp):
            yield from _reads(op.result, labels, shapes)
            continue
        moved = _moved(op, labels, shapes) if isinstance(op, coda.ReshapeOp) else None
        if moved is None:
            yield _Read(op, value, labels)
        else:
            yield from _reads(op.results[0], moved, shapes)


def _moved(
    op: coda.ReshapeOp, labels: tuple[int, ...], shapes: SymbolicShapes
) -> tuple[int, ...] | None:
    """Return the labels of a view that moves only dimensions of extent 1; None for another one."""
    before, after = shapes.dims(op.x), shapes.dims(op.result)
    if len(before) != len(after) or [d for d in before if d != 1] != [d for d in after if d != 1]:
        return None
    own = list(zip(before, labels, strict=True))
    units = iter([label for dim, label in own if dim == 1])
    others = iter([label for dim, label in own if dim != 1])
    return tuple(next(units) if dim == 1 else next(others) for dim in after)


class _Scan:
    """A linear scan while the operators around it are being matched."""

    def __init__(self, op: LinearScanOp, rewriter: FunctionRewriter):
        self.op, self.rewriter = op, rewriter
        self.extents = rewriter.shapes.dims(op.result)
        self.last: list[_Read] = []

    def raised(self) -> Refusal | None:
        """Replace the operators; return the reason if that is not legal."""
        product = self._product()
        if product is None:
            return CONTRACTED
        call, batch, channel, state = product
        whole = frozenset(label for label in range(4) if self.extents[label] != 1)
        rows, columns = whole - {state}, whole - {channel}
        decay = self._decay(whole & {channel, state}, rows)
        if decay is None:
            return FACTORS
        a, dt = decay
        written = self._written(dt, rows, columns)
        read = self._factor(call.inputs[1], (batch, TIME, state, None))
        if written is None or read.dims != columns:
            return FACTORS
        b, u = written
        given = (u, dt, a, b, read)
        if not self._fits(call, state, given):
            return TYPES
        place = first_place([call, *(read.op for read in self.last)], [f.value for f in given])
        if place is None:
            return ORDER
        self.rewriter.passed(call, "raised to coda.selective_scan")
        insert = self.rewriter.before(place, self.op.location)
        orders = [(batch, TIME, channel)] * 2 + [(channel, state)] + [(batch, TIME, state)] * 2
        operands = [self._as(f, order, insert) for f, order in zip(given, orders, strict=True)]
        scan = coda.SelectiveScanOp(*operands, final=bool(self.last))
        insert.insert(scan, call.outputs[0].name_hint)
        for read in self.last:
            self._replace_last(read, scan, (batch, channel, state))
        self._replace(call, scan.result, self.rewriter.before(call, self.op.location))
        return None

    # What reads the states

    def _product(self) -> tuple[CallOp, int, int, int] | None:
        """Return the product that sums over the states, and which dimensions of the scan are its
        samples, channels and states.
        """
        if len(self.extents) != 4:
            return None
        reads = list(_reads(self.op.result, tuple(range(4)), self.rewriter.shapes))
        self.last = [read for read in reads if self._is_last(read)]
        others = [read for read in reads if read not in self.last]
        if len(others) != 1:
            return None
        (user, value, labels) = others[0]
        if not isinstance(user, CallOp) or user.callee.data != "aten.matmul.default":
            return None
        is_first = len(user.inputs) == 2 and user.inputs[0] is value
        if not is_first or user.arguments.data != "{0}, {1}" or not self._sums(user):
            return None
        *rows, channel, state = labels
        if rows[1] != TIME:
            return None
        return user, rows[0], channel, state

    def _is_last(self, read: _Read) -> bool:
        """Return whether states are read only at the last position."""
        op, axis = read.op, read.labels.index(TIME)
        length = self.extents[TIME]
        if isinstance(op, coda.SliceOp) and isinstance(length, int):
            return op.range == (axis, length - 1, length)
        if not isinstance(op, CallOp) or op.callee.data != "aten.select.int":
            return False
        return op.arguments.data == f"{{0}}, {axis}, -1"

    def _sums(self, call: CallOp) -> bool:
        """Return whether a product multiplies by a vector for each position of each sample."""
        states, vectors = (self.rewriter.shapes.dims(value) for value in call.inputs)
        return vectors == (*states[:2], states[3], 1)

    # What the states are computed from

    def _decay(self, rates: frozenset[int], rows: frozenset[int]) -> tuple[_Factor, _Factor] | None:
        """Match the decay: return a and dt."""
        found = self._factor(self.op.a, tuple(range(4)))
        exp = defined_by(found.value, coda.ExpOp)
        parts = [] if exp is None else self._parts(exp.operand, found.labels)
        for a, dt in (parts, parts[::-1]) if len(parts) == 2 else ():
            if a.dims == rates and dt.dims == rows:
                return a, dt
        return None

    def _written(
        self, dt: _Factor, rows: frozenset[int], columns: frozenset[int]
    ) -> tuple[_Factor, _Factor] | None:
        """Match the written states: return b and u."""
        parts = self._parts(self.op.x, tuple(range(4)))
        if dt not in parts or len(parts) != 3:
            return None
        parts.remove(dt)
        for b, u in (parts, parts[::-1]):
            if b.dims == columns and u.dims == rows:
                return b, u
        return None

    def _parts(self, value: SSAValue, labels: Labels) -> list[_Factor]:
        """Return the factors of a product."""
        found = self._factor(value, labels)
        product = defined_by(found.value, coda.MulOp)
        if product is None:
            return [found]
        sides: list[_Factor] = []
        for side in (product.lhs, product.rhs):
            extents = shape_of(side)
            own = found.labels[len(found.labels) - len(extents) :]
            kept = tuple(
                None if extent == 1 else label for extent, label in zip(extents, own, strict=True)
            )
            sides += self._parts(side, kept)
        return sides

    def _factor(self, value: SSAValue, labels: Labels) -> _Factor:
        """Return `value` before exact conversions, transposes and dimensions of extent 1."""
        while True:
            value = unwidened(value)
            before = self._before(value.owner, labels)
            if before is None:
                kept = (
                    None if extent == 1 else label
                    for extent, label in zip(shape_of(value), labels, strict=True)
                )
                return _Factor(value, tuple(kept))
            value, labels = before

    def _before(self, op: object, labels: Labels) -> tuple[SSAValue, Labels] | None:
        """Return the operand of a transpose, or of a reshape that adds or drops dimensions of
        extent 1.
        """
        if isinstance(op, coda.TransposeOp):
            places = sorted(range(len(labels)), key=op.permutation.__getitem__)
            return op.x, tuple(labels[place] for place in places)
        if not isinstance(op, coda.ReshapeOp):
            return None
        before, after = (self.rewriter.shapes.dims(value) for value in (op.x, op.result))
        if [dim for dim in before if dim != 1] != [dim for dim in after if dim != 1]:
            return None
        kept = iter(label for dim, label in zip(after, labels, strict=True) if dim != 1)
        return op.x, tuple(None if dim == 1 else next(kept) for dim in before)

    # The operator

    def _fits(self, call: CallOp, state: int, factors: Sequence[_Factor]) -> bool:
        """Return whether u, dt, a, b and c have types that the operator accepts."""
        u, dt, a, b, c = (element_type_of(factor.value) for factor in factors)
        states, result = self.extents[state], element_type_of(call.outputs[0])
        is_small = isinstance(states, int) and 1 <= states <= coda.MAX_STATES
        is_narrow = is_float(result) and computes_in_float32(result)
        return is_small and is_narrow and {u, b, c} == {result} and {dt, a} <= {result, f32}

    def _as(self, factor: _Factor, order: Sequence[int], insert: OpInserter) -> SSAValue:
        """Return `factor` with the dimensions of the scan in `order`."""
        value, labels = factor.value, factor.labels
        if labels == (order[0], order[-1], *order[1:-1]) and len(order) == 3:
            return rows_of(value, insert) or insert.insert(coda.TransposeOp(value, (0, 2, 1)))
        axes = sorted(range(len(labels)), key=lambda axis: _place(labels[axis], order))
        if axes != list(range(len(labels))):
            value = insert.insert(coda.TransposeOp(value, axes), value.name_hint)
        dims = tuple(self.extents[label] for label in order)
        if self.rewriter.shapes.dims(value) == dims:
            return value
        shape = [shape_of(self.op.result)[label] for label in order]
        return insert.reshape(value, shape, dims)

    def _replace_last(self, read: _Read, scan: coda.SelectiveScanOp, order: Labels) -> None:
        """Use the second result of the scan, with dimensions `order`, for the states that
        are read.
        """
        (result,) = read.op.results
        insert = self.rewriter.before(read.op)
        axes = [order.index(label) for label in read.labels if label != TIME]
        assert scan.final is not None, "it was asked for"
        value: SSAValue = scan.final
        if axes != [0, 1, 2]:
            value = insert.insert(coda.TransposeOp(value, axes), result.name_hint)
        if element_type_of(value) != element_type_of(result):
            value = insert.insert(coda.CastOp(value, element_type_of(result)), result.name_hint)
        dims = self.rewriter.shapes.dims(result)
        if self.rewriter.shapes.dims(value) != dims:
            value = insert.reshape(value, shape_of(result), dims)
        result.replace_all_uses_with(value)

    def _replace(self, call: CallOp, scan: SSAValue, insert: OpInserter) -> None:
        """Use the rows of the scan for the result of the product, which has one more dimension."""
        result = call.outputs[0]
        for user in [use.operation for use in result.uses]:
            if isinstance(user, coda.ReshapeOp) and shape_of(user.result) == shape_of(scan):
                user.result.replace_all_uses_with(scan)
        for user in [use.operation for use in scan.uses]:
            if isinstance(user, coda.TransposeOp) and user.permutation == (0, 2, 1):
                before = self.rewriter.before(user)
                replace_by_rows(user.result, scan, before)
        if result.uses.get_length():
            dims = self.rewriter.shapes.dims(result)
            result.replace_all_uses_with(insert.reshape(scan, shape_of(result), dims))


def _place(label: int | None, order: Sequence[int]) -> int:
    """Return the sort key of a dimension; those of extent 1 come first."""
    return -1 if label is None else list(order).index(label)
