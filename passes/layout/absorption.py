"""Absorption: legality and form of GEMMs that take over a `gemm.finalize` whose results
they read.
"""

from xdsl.dialects import arith
from xdsl.dialects.builtin import Float32Type, f32
from xdsl.ir import Operation, SSAValue, Use

from coda_ir.dialects.coda.shapes import element_type_of, float_type, is_float, shape_of
from coda_ir.dialects.gemm import (
    CheckedIndexOp,
    FinalizeOp,
    FusedOp,
    Port,
    PortKind,
    Segment,
    YieldOp,
    is_wide_partial,
)
from coda_ir.dialects.gemm.tiling import known_tiles
from coda_ir.passes.layout.plan_buffers import BUFFERS_ATTRIBUTE
from coda_ir.passes.support.function_pass import Refusal
from coda_ir.passes.support.legality import name_of

MOST_PARTIALS = 64 * 128
"""Partials of its rows that a tile reads beside its operands, at most."""


def check_absorption(op: FinalizeOp) -> list[FusedOp] | Refusal:
    """Return the GEMMs that read `op`, in order, each of which can combine the partials itself."""
    for refusal in (_check_form(op), _check_partials(op)):
        if refusal is not None:
            return refusal
    users: dict[FusedOp, None] = {}
    for use in (use for output in op.outputs for use in output.uses):
        user = use.operation
        refusal = _check_use(op, use)
        if refusal is not None:
            return refusal
        assert isinstance(user, FusedOp)
        users[user] = None
    if not users:
        return Refusal("a GEMM reads a result of the finalize", "nothing reads it")
    return list(users)


def _check_form(op: FinalizeOp) -> Refusal | None:
    if BUFFERS_ATTRIBUTE in op.attributes:
        return Refusal(
            "buffers have not been planned yet",
            "the memory of the partials may be reused before the GEMMs read them",
            "run absorb-finalize before plan-buffers",
        )
    if op.axis.data != "row":
        return Refusal(
            "the finalize has one result per row", "it combines the partials of each column"
        )
    if any(isinstance(inner, CheckedIndexOp) for inner in op.body.block.ops):
        return Refusal(
            "the finalize checks no index",
            "it stops the program if an index is wrong, which GEMMs cannot do",
        )
    if op.order is not None:
        return Refusal(
            "the partials are combined in any fixed order",
            "the numerics mode deterministic states the order",
        )
    return None


def _check_partials(op: FinalizeOp) -> Refusal | None:
    for value in op.partials:
        if is_wide_partial(value):
            return Refusal("the partials are float32", f"{name_of(value)} is float64")
        if known_tiles(value) is None:
            return Refusal(
                "the partials come from a scheduled gemm.fused, so their number is known",
                f"{name_of(value)} does not come from one",
            )
    return None


def _check_use(op: FinalizeOp, use: Use) -> Refusal | None:
    """Return the reason why a use of a result is no port of a GEMM with the rows of the partials;
    None if it is one.
    """
    user = use.operation
    condition = "every use is a col port of a scheduled gemm.fused"
    if not isinstance(user, FusedOp) or user.schedule is None:
        return Refusal(condition, f"{_description(user)} reads {name_of(_operand(use))}")
    if _operand(use) in (*user.inputs, *user.weights):
        return Refusal(condition, f"{name_of(_operand(use))} is multiplied")
    if len(shape_of(op.partials[0])) != len(user.row_shape) + 1:
        return Refusal(
            "the partials have the rows of the GEMM",
            f"they have {len(shape_of(op.partials[0])) - 1} row dimensions, and the GEMM has "
            f"{len(user.row_shape)}",
        )
    partials, rows = sum(known_tiles(value) or 0 for value in op.partials), user.schedule.block_m
    if partials * rows.data > MOST_PARTIALS:
        return Refusal(
            f"a tile has at most {MOST_PARTIALS} partials of its rows",
            f"it has {partials} of each of {rows.data}",
            "use wider tiles for the GEMM that computes them",
        )
    return None


def _operand(use: Use) -> SSAValue:
    return use.operation.operands[use.index]


def _description(op: Operation) -> str:
    return "the caller" if op.name == "func.return" else op.name


class AbsorbedCode:
    """The scalar code of a finalize inside the region of a segment, which the caller owns.

    What a value needs is copied when it is asked for, each operator once.
    """

    def __init__(self, op: FinalizeOp, segment: Segment):
        self._op = op
        self._segment = segment
        self._first = segment.block.first_op
        self._copies: dict[SSAValue, SSAValue] = {}

    def result(self, index: int) -> SSAValue:
        """Return result `index` of the finalize, rounded as it would have been stored."""
        terminator, output = self._op.body.block.last_op, self._op.outputs[index]
        assert isinstance(terminator, YieldOp)
        value, type = self._copy_of(terminator.operands[index]), element_type_of(output)
        if is_float(type) and not isinstance(type, Float32Type):
            narrow = self._insert(arith.TruncFOp(value, float_type(type)))
            value = self._insert(arith.ExtFOp(narrow, f32))
        value.name_hint = value.name_hint or output.name_hint
        return value

    def _copy_of(self, value: SSAValue) -> SSAValue:
        if value not in self._copies:
            owner = value.owner
            if isinstance(owner, Operation):
                operands = {operand: self._copy_of(operand) for operand in owner.operands}
                self._copies[value] = self._insert(owner.clone(operands))
            else:
                self._copies[value] = self._port(self._op.body.block.args.index(value))
        return self._copies[value]

    def _port(self, number: int) -> SSAValue:
        """Return the argument of the region for argument `number` of the finalize."""
        partials = self._op.partial_list
        if number < len(partials):
            combiner, value = partials[number]
            port = Port(PortKind.partial(combiner), value)
        else:
            port = self._op.port_list[number - len(partials)]
        (argument,) = self._segment.add_port(*port)
        return argument

    def _insert(self, op: Operation) -> SSAValue:
        op.location = self._op.location
        assert self._first is not None, "a region ends in gemm.yield"
        self._segment.block.insert_op_before(op, self._first)
        return op.results[0]
