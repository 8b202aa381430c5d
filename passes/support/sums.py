"""Block-level sums of several values, taken apart and rebuilt."""

from collections.abc import Iterator, Sequence
from functools import reduce

from xdsl.dialects import arith
from xdsl.ir import Operation, SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.gemm import FusedOp, PortKind, ResultKind, Segment
from coda_ir.passes.support.function_pass import FunctionRewriter


def is_part_of_sum(op: coda.AddOp) -> bool:
    """Return whether `op` is an addend of a sum that is taken apart as a whole."""
    uses = list(op.result.uses)
    return (
        len(uses) == 1
        and isinstance(uses[0].operation, coda.AddOp)
        and uses[0].operation.result.type == op.result.type
    )


def biases_of(segment: Segment) -> list[SSAValue] | None:
    """Return the vectors added to the accumulator, which is stored; None for other epilogues."""
    kinds = [result.port.kind.data for result in segment.results]
    if segment.pairing is not None or kinds != [ResultKind.TILE]:
        return None
    rows: dict[SSAValue, SSAValue] = {
        segment.port_args(index)[0]: port.value
        for index, port in enumerate(segment.ports)
        if port.kind == PortKind.ROW
    }
    found: list[SSAValue] = []
    (value,) = segment.yielded(0)
    while isinstance(value.owner, arith.AddfOp) and value.owner.rhs in rows:
        found.append(rows[value.owner.rhs])
        value = value.owner.lhs
    return found[::-1] if value is segment.accumulators[0] else None


def addends_of(root: coda.AddOp) -> Iterator[SSAValue]:
    """Yield the addends of a sum, from left to right."""
    pending = [root.rhs, root.lhs]
    while pending:
        value = pending.pop()
        op = value.owner
        if isinstance(op, coda.AddOp) and value.type == root.result.type and is_part_of_sum(op):
            pending += [op.rhs, op.lhs]
        else:
            yield value


def replace_sum(root: coda.AddOp, addends: Sequence[SSAValue], rewriter: FunctionRewriter) -> None:
    """Replace `root` by the sum of `addends`, from left to right."""
    total = reduce(rewriter.before(root).add, addends)
    total.name_hint = root.result.name_hint
    root.result.replace_all_uses_with(total)
    erase_unused(root, rewriter)


_OF_SUMS = (
    coda.AddOp, coda.SubOp, coda.MulOp, coda.CastOp, coda.LinearOp, coda.MatmulOp, FusedOp,
)  # fmt: skip


def erase_unused(root: Operation, rewriter: FunctionRewriter) -> None:
    """Erase an unused sum, with the sums and products that only it used."""
    pending = [root]
    while pending:
        op = pending.pop()
        operands = dict.fromkeys(value.owner for value in op.operands)
        rewriter.order.erase(op)
        for owner in operands:
            if isinstance(owner, _OF_SUMS) and not any(result.uses for result in owner.results):
                pending.append(owner)
