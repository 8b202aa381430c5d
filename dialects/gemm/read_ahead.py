"""GEMMs that may read weights before they wait for earlier kernels (`coda.ahead`).

A kernel begins after the preceding kernel has waited, so all work before that kernel is done. The
kernel may therefore read memory that neither of the two writes: arguments that only GEMMs read, and
results of work before the preceding kernel.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import DYNAMIC_INDEX
from xdsl.ir import BlockArgument, Operation, SSAValue, Use
from xdsl.utils.exceptions import VerifyException

from coda_ir.dialects.coda import ReshapeOp
from coda_ir.dialects.gemm.schedules import AHEAD_ATTRIBUTE, DEPENDENT_ATTRIBUTE

if TYPE_CHECKING:
    from coda_ir.dialects.gemm.ops import FusedOp


def ahead_obstacle(op: FusedOp) -> str | None:
    """Return why `op` may not read its weights and group numbers before it waits, if so."""
    for part in op.segments():
        for value in (*part.weights, *part.scales, *part.zeros):
            if not isinstance(value, BlockArgument):
                return "a weight is no argument"
            if not all(_is_weight(use, type(op)) for use in value.uses):
                return "a weight has other uses than those as a weight of GEMMs"
    earlier = _kernel_before(op)
    if earlier is None:
        return "no GEMM with a known number of rows is before"
    if op.groups is not None and not (op.is_numbered and _is_defined_before(op.groups, earlier)):
        return "the kernel before may compute the groups of its rows"
    return None


def _is_weight(use: Use, kind: type[FusedOp]) -> bool:
    op = use.operation
    return isinstance(op, kind) and op.operands[use.index] not in op.ports


def verify_ahead(op: FusedOp) -> None:
    """Check that a GEMM in a block may read ahead if it has the attribute."""
    if AHEAD_ATTRIBUTE not in op.attributes or op.parent is None:
        return
    if DEPENDENT_ATTRIBUTE not in op.attributes:
        raise VerifyException(f"attribute {AHEAD_ATTRIBUTE}, expected {DEPENDENT_ATTRIBUTE} too")
    obstacle = ahead_obstacle(op)
    if obstacle is not None:
        raise VerifyException(f"attribute {AHEAD_ATTRIBUTE}, expected none: {obstacle}")


def _kernel_before(op: FusedOp) -> FusedOp | None:
    """Return the last GEMM before `op` which is surely launched. If `op` has groups, it also has
    more programs than one, so that it is no step of the kernel that computes them.
    """
    least = 1 if op.groups is None else 2
    found = op.prev_op
    while found is not None:
        if isinstance(found, type(op)) and _programs(found) >= least:
            return found
        found = found.prev_op
    return None


def _programs(op: FusedOp) -> int:
    """Return the number of programs of a kernel, or less; 0 if it may not be launched."""
    rows = 0 if DYNAMIC_INDEX in op.row_shape else prod(op.row_shape)
    if op.schedule is None:
        return min(rows, 1)
    bm, bn, _ = op.schedule.tile
    columns = max(part.columns for part in op.segments())
    return -(-rows // bm) * -(-columns // bn) * op.schedule.split_k.data


def _is_defined_before(value: SSAValue, op: Operation) -> bool:
    """Return whether a value, or that of which it is a view, is computed before `op`."""
    while isinstance(value.owner, ReshapeOp):
        value = value.owner.x
    return not isinstance(value.owner, Operation) or value.owner.is_before_in_block(op)
