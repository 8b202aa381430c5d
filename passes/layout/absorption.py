"""Absorption: legality and form of kernels that take over a `gemm.finalize` that they read."""

from collections.abc import Collection, Iterator
from typing import TypeAlias

from xdsl.dialects.builtin import DYNAMIC_INDEX, IntAttr, f32
from xdsl.ir import Operation, SSAValue, Use

from coda_ir.dialects import gemm
from coda_ir.dialects.coda.shapes import element_type_of, float_type, is_float, shape_of
from coda_ir.dialects.gemm.tiling import known_tiles
from coda_ir.passes.layout.plan_buffers import BUFFERS_ATTRIBUTE
from coda_ir.passes.support.function_pass import Refusal
from coda_ir.passes.support.legality import name_of, reader_name
from coda_ir.passes.support.order import BlockOrder
from coda_ir.storage import read_by

MAX_PARTIALS = 64 * 128
"""Partials of its rows that the tile of a GEMM reads beside its operands, at most."""

MAX_OF_A_ROW = 2048
"""Partials of a row that a tile of a pointwise kernel reads, at most, which has the rows to fit."""

Reader: TypeAlias = gemm.FusedOp | gemm.MapOp
"""A kernel that can combine partials itself."""


def readers_of(op: Operation) -> list[Operation]:
    """Return the operators that read `op`, in order."""
    return list(dict.fromkeys(use.operation for output in op.results for use in output.uses))


def may_be_read_by(op: Operation) -> Iterator[SSAValue]:
    """Yield what `op` reads, also where it combines the partials of finalizes that it reads."""
    owners = (operand.owner for operand in op.operands)
    for reader in (op, *(owner for owner in owners if isinstance(owner, gemm.FinalizeOp))):
        yield from read_by(reader)


def check_absorption(op: gemm.FinalizeOp) -> list[Reader] | Refusal:
    """Return the kernels that read `op`, in order, each of which can combine the partials."""
    of_uses = (_check_use(op, use) for output in op.outputs for use in output.uses)
    refusal = _check_form(op) or _check_partials(op) or next(filter(None, of_uses), None)
    if refusal is not None:
        return refusal
    users = [user for user in readers_of(op) if isinstance(user, gemm.FusedOp | gemm.MapOp)]
    return users or Refusal("a kernel reads a result of the finalize", "no kernel reads a result")


def storing_map(op: gemm.FinalizeOp, order: BlockOrder) -> gemm.MapOp | None:
    """Return the pointwise kernel that can combine the partials for all readers, if any can."""
    first = min(readers_of(op), key=order.position, default=None)
    if not isinstance(first, gemm.MapOp) or _check_form(op) or _check_partials(op):
        return None
    uses = [use for output in op.outputs for use in output.uses]
    if any(_check_use(op, use) for use in uses if use.operation is first):
        return None
    stored = [use.operation.operands[use.index] for use in uses if use.operation is not first]
    # A group's result is f32: it would not be rounded like a stored mean of 16 bits.
    type = (*first.row_shape, 1), f32
    return first if all((shape_of(x), element_type_of(x)) == type for x in stored) else None


def _check_form(op: gemm.FinalizeOp) -> Refusal | None:
    if BUFFERS_ATTRIBUTE in op.attributes:
        return Refusal(
            "buffers have not been planned yet",
            "the memory of the partials may be reused before the kernels read them",
            "run absorb-finalize before plan-buffers",
        )
    if op.axis.data != "row":
        return Refusal(
            "the finalize has one result per row", "the finalize combines partials of columns"
        )
    if any(isinstance(inner, gemm.CheckedIndexOp) for inner in op.body.block.ops):
        return Refusal(
            "the finalize checks no index",
            "the finalize raises an error for an invalid index, which a GEMM cannot do",
        )
    if op.order is not None:
        return Refusal(
            "the partials are combined in any fixed order",
            "the numerics mode deterministic states the order",
        )
    for output in op.outputs:
        type = element_type_of(output)
        if not is_float(type) and gemm.region_type(type) != type:
            return Refusal(
                "the results are floats, or integers of at least 32 bits",
                f"{name_of(output)} is {type}",
            )
    return None


def _check_partials(op: gemm.FinalizeOp) -> Refusal | None:
    for value in op.partials:
        if gemm.is_wide_partial(value):
            return Refusal("the partials are float32", f"{name_of(value)} is float64")
        if known_tiles(value) is None:
            return Refusal(
                "the number of partials is known: a scheduled gemm.fused makes them, or a gemm.map "
                "over a known number of columns",
                f"the number of partials in {name_of(value)} is unknown",
            )
    return None


def _check_use(op: gemm.FinalizeOp, use: Use) -> Refusal | None:
    """Return why a use of a result is no port of a kernel with the partials' rows, or None."""
    user, value = use.operation, use.operation.operands[use.index]
    condition = (
        "every use is a col port of a scheduled gemm.fused or of a gemm.map, or a scalar port of "
        "one that has a single row"
    )
    is_kernel = isinstance(user, gemm.MapOp) or (
        isinstance(user, gemm.FusedOp) and user.schedule is not None
    )
    if not is_kernel:
        return Refusal(condition, f"{reader_name(user)} reads {name_of(value)}")
    assert isinstance(user, gemm.FusedOp | gemm.MapOp)
    if isinstance(user, gemm.FusedOp) and value not in user.ports:
        return Refusal(condition, f"{name_of(value)} is multiplied")
    rows, own = user.row_shape, shape_of(op.partials[0])[:-1]
    # If there is only one row, a value per row is the same for all elements.
    is_one_row = all(extent == 1 for extent in rows)
    kinds = {gemm.PortKind.COL, gemm.PortKind.SCALAR} if is_one_row else {gemm.PortKind.COL}
    for segment in user.segments():
        refusal = _check_ports(segment, value, kinds, condition)
        if refusal is not None:
            return refusal
    if len(own) != len(rows):
        return Refusal(
            "the partials have the rows of the kernel",
            f"they have {len(own)} row dimensions, and the kernel has {len(rows)}",
        )
    partials = sum(known_tiles(partial) or 0 for partial in op.partials)
    if isinstance(user, gemm.MapOp):
        return _check_map(user, partials)
    assert user.schedule is not None
    if partials * user.schedule.block_m.data > MAX_PARTIALS:
        return Refusal(
            f"a tile has at most {MAX_PARTIALS} partials of its rows",
            f"a tile of {user.schedule.block_m.data} rows has {partials} partials for each row",
            "use wider tiles for the GEMM that computes them",
        )
    return None


def _check_ports(
    segment: gemm.Segment, value: SSAValue, kinds: Collection[gemm.PortKind], condition: str
) -> Refusal | None:
    """Return why a segment does not read a finalize's result by row, as one of `kinds`, or None."""
    for index, port in enumerate(segment.ports):
        if port.value is not value:
            continue
        if port.kind not in kinds:
            return Refusal(condition, f"{name_of(value)} is a {port.kind.value} port")
        if any(result.port.index == IntAttr(index) for result in segment.results):
            return Refusal(condition, f"{name_of(value)} selects the column of a result")
    return None


def _check_map(user: gemm.MapOp, partials: int) -> Refusal | None:
    """Return the reason why a pointwise kernel cannot combine that many partials; else None."""
    if user.segment().domain in (None, ()) or user.columns == DYNAMIC_INDEX:
        return Refusal(
            "the columns of a gemm.map are known",
            "the gemm.map runs over all elements, regardless of rows",
            "give the last dimension as a number or a const",
        )
    if partials > MAX_OF_A_ROW:
        return Refusal(
            f"a gemm.map has at most {MAX_OF_A_ROW} partials of a row",
            f"a row of the gemm.map has {partials} partials",
            "use wider tiles for the GEMM that computes them",
        )
    return None


class AbsorbedCode:
    """The scalar code of a finalize in the region of a segment, copied when it is asked for."""

    def __init__(self, op: gemm.FinalizeOp, segment: gemm.Segment):
        self._op = op
        self._segment = segment
        self._builder = gemm.ScalarBuilder(segment.block, op.location, at_start=True)
        self._copies: dict[SSAValue, SSAValue] = {}

    def result(self, index: int) -> SSAValue:
        """Return result `index` of the finalize, rounded as it would have been stored."""
        terminator, output = self._op.body.block.last_op, self._op.outputs[index]
        assert isinstance(terminator, gemm.YieldOp)
        value, type = self._copy_of(terminator.operands[index]), element_type_of(output)
        if is_float(type):
            value = self._builder.round_to(value, float_type(type))
        value.name_hint = value.name_hint or output.name_hint
        return value

    def _copy_of(self, value: SSAValue) -> SSAValue:
        if value not in self._copies:
            owner = value.owner
            if isinstance(owner, Operation):
                operands = {operand: self._copy_of(operand) for operand in owner.operands}
                self._copies[value] = self._builder.insert(owner.clone(operands))
            else:
                self._copies[value] = self._port(self._op.body.block.args.index(value))
        return self._copies[value]

    def _port(self, number: int) -> SSAValue:
        """Return the argument of the region for argument `number` of the finalize."""
        partials = self._op.partial_list
        if number < len(partials):
            combiner, value = partials[number]
            port = gemm.Port(gemm.PortKind.partial(combiner), value)
        else:
            port = self._op.port_list[number - len(partials)]
        (argument,) = self._segment.add_port(*port)
        return argument
