"""Pass `number-groups`: multiply few rows by the weights of their groups without a sort."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from math import prod

from xdsl.dialects import arith
from xdsl.dialects.builtin import DYNAMIC_INDEX, f32
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import shape_of
from coda_ir.dialects.gemm import (
    FusedOp,
    Layout,
    MapOp,
    NumericsMode,
    Port,
    PortKind,
    ResultKind,
    Segment,
    numerics_mode,
)
from coda_ir.passes.support.function_pass import FunctionPass, FunctionRewriter, Refusal
from coda_ir.passes.support.legality import name_of
from coda_ir.passes.support.matching import only_use
from coda_ir.passes.support.row_numbers import bound_of

_WITHOUT_ROWS = (PortKind.ROW, PortKind.HALF_ROW, PortKind.SCALAR)
"""Ports with the same elements for all rows, whatever their order is."""


class NumberGroupsPass(FunctionPass):
    """Multiplies each row by the weight of the group that its id names, and adds the products of a
    token.

        %order, %ends = coda.group_order %ids
        %h = gemm.fused %x groups(%ends)                %h = gemm.fused %x numbered(%ids)
          gather(%order // k) ...                         ... col(%s)
        %y = gemm.fused %h groups(%ends)         ->     %y = gemm.fused %h numbered(%ids)
          scatter(%order) scatter_col(%s)                 tile(%x)
        %z = gemm.map %y[0] + ... + %y[k - 1] + %x

    The groups are the experts of a token. Nothing is sorted. A program loads one group number
    instead of the ends of all groups. Neither the k rows of a token nor a kernel that adds them
    remain; the sum has a fixed order. The kernel that computes the rows scales them with the
    factors of the sum.

    Legal iff the ids are known to be group numbers, their count is static, the rows go only from
    one GEMM to the other, and every operand of their epilogues either serves all rows or is a
    factor in the order of `scatter`. The rows are added iff each is an element of the same sum in a
    pointwise kernel that stores tiles and sums of rows. The pass `schedule` runs this pass where
    rows are multiplied one by one (`one_row`).
    """

    def run_on_function(self, rewriter: FunctionRewriter) -> None:
        number_groups(rewriter, rewriter.ops_of(FusedOp))


def number_groups_of(gemms: Collection[FusedOp]) -> bool:
    """Number the groups of those of these GEMMs for which it is legal; return whether any were."""
    funcs = dict.fromkeys(gemm.parent_op() for gemm in gemms)
    rewriters = [FunctionRewriter(NumberGroupsPass.name, f) for f in funcs if isinstance(f, FuncOp)]
    found = [number_groups(rewriter, set(gemms)) for rewriter in rewriters]
    return any(found)


def number_groups(rewriter: FunctionRewriter, gemms: Collection[FusedOp]) -> bool:
    """Number the groups of these GEMMs where that is legal; return whether any were numbered."""
    is_changed = False
    for op in rewriter.ops_of(FusedOp):
        if op in gemms and op.scatter is not None and op.groups is not None:
            rows = rewriter.allowed(op, _Rows.of(op, rewriter))
            if rows is not None:
                rewriter.passed(op, "its rows name their groups, so nothing is sorted")
                _number(rows, rewriter)
                is_changed = True
    return is_changed


@dataclass(frozen=True)
class _Rows:
    """The GEMM that gathers rows, that which scatters them, and what sorts them between."""

    first: FusedOp
    last: FusedOp
    sort: coda.GroupOrderOp

    @staticmethod
    def of(op: FusedOp, rewriter: FunctionRewriter) -> _Rows | Refusal:
        """Return the GEMMs of the rows that `op` scatters."""
        sort, first = op.groups.owner if op.groups else None, op.x.owner
        is_sorted = isinstance(sort, coda.GroupOrderOp) and op.scatter is sort.order
        if not is_sorted or not isinstance(sort, coda.GroupOrderOp):
            return Refusal(
                "coda.group_order sorts the rows, and the results return to the original order",
                f"searches the group of each row: {name_of(op.x)} is in another order",
            )
        bound, (count,) = bound_of(sort.ids, rewriter.shapes), shape_of(sort.ids)
        is_bounded = bound is not None and not bound.symbols and int(bound) <= sort.given["groups"]
        if not is_bounded or count == DYNAMIC_INDEX:
            return Refusal(
                "the ids are known to be numbers of groups, and their count is known",
                f"sorts {name_of(sort.ids)}, which may contain other numbers",
            )
        if not isinstance(first, FusedOp) or not _gathers(first, sort) or not op.x.has_one_use():
            return Refusal(
                "a GEMM that gathers rows of the same order computes what this one multiplies",
                f"sorts rows: {name_of(op.x)} has them in the order of their groups",
            )
        return _why_not(first, op, rewriter) or _Rows(first, op, sort)


def _gathers(op: FusedOp, sort: coda.GroupOrderOp) -> bool:
    """Return whether rows of x, each repeated side by side, are multiplied in sorted order."""
    if op.groups is not sort.ends or op.gather is None or len(shape_of(op.x)) != 2:
        return False
    (count,), rows = shape_of(sort.ids), shape_of(op.x)[0]
    if rows == DYNAMIC_INDEX or count % rows:
        return False
    return op.gather is sort.order if count == rows else _divides(op.gather, sort, count // rows)


def _divides(ids: SSAValue, sort: coda.GroupOrderOp, divisor: int) -> bool:
    """Return whether a pointwise kernel computes sorted numbers of rows divided by `divisor`."""
    op = ids.owner
    if not isinstance(op, MapOp) or [port.value for port in op.segment().ports] != [sort.order]:
        return False
    segment = op.segment()
    code = [inner for inner in segment.block.ops if not isinstance(inner, arith.ConstantOp)]
    if [inner.name for inner in code] != ["arith.floordivsi", "gemm.yield"]:
        return False
    (argument,), by = segment.port_args(0), code[0].operands[1].owner
    if code[0].operands[0] is not argument or not isinstance(by, arith.ConstantOp):
        return False
    return by.value == arith.ConstantOp.from_int_and_width(divisor, 64).value


def _why_not(first: FusedOp, last: FusedOp, rewriter: FunctionRewriter) -> Refusal | None:
    """Return the reason why rows of two GEMMs cannot be in another order."""
    for op, moved in ((first, ()), (last, (PortKind.SCATTER_COL,))):
        for segment in op.segments():
            others = [port for port in segment.ports if port.kind not in (*_WITHOUT_ROWS, *moved)]
            if others:
                return Refusal(
                    "operands of the epilogues serve all rows, or are factors in the order of the "
                    "results",
                    f"sorts rows: {name_of(others[0].value)} is by row or by group",
                )
            is_ordered = numerics_mode(op) == NumericsMode.DETERMINISTIC
            if segment.layout != Layout.NK or is_ordered or op.blocks is not None:
                return Refusal(
                    "rows are multiplied one by one by weights of N x K, in any fixed order of K",
                    f"sorts rows: {name_of(segment.weights[0])} has another layout, or the "
                    "program states the order of K",
                )
    kinds = [port.kind.data for part in first.segments() for port, _ in part.results]
    if len(first.inputs) > 1 or first.scatter is not None or len(kinds) > 1:
        return Refusal(
            "the rows are the only result of a GEMM of one input",
            f"sorts rows: {name_of(first.outputs[0])} is not the only result",
        )
    factors = [port.value for part in last.segments() for port in part.ports]
    if rewriter.order.slices_after(factors, first) is None:
        return Refusal(
            "factors of the results do not depend on the rows",
            f"sorts rows: {name_of(factors[0])} is computed from them",
        )
    return None


def _number(rows: _Rows, rewriter: FunctionRewriter) -> None:
    first, last, ids, order = rows.first, rows.last, rows.sort.ids, rewriter.order
    gathered, total = first.gather, _Sum.of(last)
    order.hoist([ids, *(p.value for part in last.segments() for p in part.ports)], first)
    segments, factors = first.take_segments(), list[Port]()
    if total is not None:
        (part,) = last.segments()
        factors = part.ports
        for port in factors:
            _scale(segments[0], port.value)
    made = FusedOp(first.x, segments, groups=ids, numbered=True)
    order.substitute(first, made)
    if total is None:
        parts = last.take_segments()
        for part in parts:
            part.ports = [Port(_with_own_rows(kind), value) for kind, value in part.ports]
        products = FusedOp(made.outputs[0], parts, groups=ids, numbered=True)
        order.substitute(last, products)
    else:
        rewriter.passed(total.op, f"{total.count} rows are added up by the GEMM that computes them")
        total.move_into(last, made.outputs[0], ids, rewriter)
    for value in (gathered, rows.sort.order):
        if value is not None and not any(result.uses for result in value.owner.results):
            order.erase(value.owner)


def _with_own_rows(kind: PortKind) -> PortKind:
    return PortKind.COL if kind == PortKind.SCATTER_COL else kind


def _scale(segment: Segment, factors: SSAValue) -> None:
    """Multiply the only result of a segment by a factor of each row."""
    (factor,) = segment.add_port(PortKind.COL, factors)
    scaled = [arith.MulfOp(value, factor) for value in segment.yielded(0)]
    assert segment.block.last_op is not None
    segment.block.insert_ops_before(scaled, segment.block.last_op)
    segment.set_yielded(0, [op.result for op in scaled])


@dataclass(frozen=True)
class _Sum:
    """A pointwise kernel that adds up the rows, side by side, that a GEMM computes."""

    op: MapOp
    views: Sequence[coda.SliceOp]
    ports: Sequence[int]
    """The numbers of the ports that load the rows."""

    @property
    def count(self) -> int:
        return len(self.ports)

    @staticmethod
    def of(gemm: FusedOp) -> _Sum | None:
        """Return the kernel that adds up all results of a GEMM, each scaled by a factor at most."""
        view = only_use(gemm.outputs[0])
        if not isinstance(view, coda.ReshapeOp) or not _is_product(gemm):
            return None
        axis = len(shape_of(view.result)) - 2
        slices = [use.operation for use in view.result.uses]
        views = [op for op in slices if isinstance(op, coda.SliceOp)]
        views.sort(key=lambda op: op.range[1])
        expected = [(axis, i, i + 1) for i in range(shape_of(view.result)[axis])]
        if len(views) < len(slices) or [op.range for op in views] != expected:
            return None
        found = [_reader(op.result) for op in views]
        kernel = found[0][0] if found[0] else None
        ports = [reader[1] for reader in found if reader is not None and reader[0] is kernel]
        if kernel is None or len(ports) < len(views):
            return None
        total = _Sum(kernel, views, ports)
        return total if total.is_movable(gemm) else None

    def is_movable(self, gemm: FusedOp) -> bool:
        """Return whether the kernel can be the epilogue of a GEMM of the sums."""
        segment = self.op.segment()
        kinds = {port.kind.data for port, _ in segment.results}
        rows = prod(self.op.row_shape) if segment.domain else 0
        return (
            segment.pairing is None
            and self.op.order is None
            and kinds <= {ResultKind.TILE, ResultKind.PARTIAL_ROW}
            and rows * self.count == prod(gemm.row_shape)
            and not any(op.name == "gemm.group_reduce" for op in segment.block.ops)
            and all(segment.ports[number].kind == PortKind.TILE for number in self.ports)
            and self._added(segment) is not None
        )

    def _added(self, segment: Segment) -> list[arith.AddfOp] | None:
        """Return the additions of the rows, the last of which gives their sum."""
        terms: set[SSAValue] = {segment.port_args(number)[0] for number in self.ports}
        found: list[arith.AddfOp] = []
        for op in segment.block.ops:
            if isinstance(op, arith.AddfOp) and {op.lhs, op.rhs} <= terms and op.lhs is not op.rhs:
                terms = {*terms, op.result} - {op.lhs, op.rhs}
                found.append(op)
        read = [value for op in found for value in op.operands]
        is_sum = len(terms) == 1 and all(value.has_one_use() for value in read)
        return found if is_sum and found else None

    def move_into(
        self, gemm: FusedOp, rows: SSAValue, ids: SSAValue, rewriter: FunctionRewriter
    ) -> None:
        """Replace the kernel by a GEMM of `rows` side by side; erase what makes and reads them."""
        (own,), (segment,) = gemm.segments(), self.op.take_segments()
        added = self._added(segment)
        assert added is not None, "checked by is_movable"
        accumulator = segment.block.insert_arg(f32, 0)
        segment.weights, segment.layout = own.weights, own.layout
        added[-1].result.replace_all_uses_with(accumulator)
        for op in reversed(added):
            segment.block.erase_op(op)
        for number in sorted(self.ports, reverse=True):
            segment.remove_port(number)
        columns = self.count * shape_of(rows)[-1]
        x = rewriter.before(self.op).reshape(rows, (*self.op.row_shape, columns))
        made = FusedOp(x, [segment], groups=ids, numbered=True)
        rewriter.order.substitute(self.op, made)
        for view in self.views:
            _erase_readers(view, rewriter)
        (user,) = {use.operation for use in gemm.outputs[0].uses}
        rewriter.order.erase(user)
        rewriter.order.erase(gemm)


def _is_product(gemm: FusedOp) -> bool:
    """Return whether a GEMM stores its products, scaled by a factor of each row at most."""
    segments = gemm.segments()
    if len(segments) > 1 or segments[0].pairing is not None or len(segments[0].results) > 1:
        return False
    (segment,), (value,) = segments, segments[0].yielded(0)
    if not segment.ports:
        return value is segment.accumulators[0]
    is_factor = [port.kind for port in segment.ports] == [PortKind.SCATTER_COL]
    factors = {segment.accumulators[0], segment.port_args(0)[0]}
    is_scaled = isinstance(value.owner, arith.MulfOp) and set(value.owner.operands) == factors
    return is_factor and is_scaled


def _reader(value: SSAValue) -> tuple[MapOp, int] | None:
    """Return the pointwise kernel that alone reads `value`, through views, and its port number."""
    while value.has_one_use():
        use = next(iter(value.uses))
        if isinstance(use.operation, MapOp):
            return use.operation, use.index
        if not isinstance(use.operation, coda.ReshapeOp):
            return None
        value = use.operation.result
    return None


def _erase_readers(view: coda.SliceOp, rewriter: FunctionRewriter) -> None:
    """Erase a view and the views of it, which nothing else reads."""
    for use in list(view.result.uses):
        rewriter.order.erase(use.operation)
    rewriter.order.erase(view)
