"""Sums along a residual stream, of which computing one again takes all that came before it."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from xdsl.ir import Operation, SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import shape_of
from coda_ir.dialects.gemm.scalar_code import is_widening_cast


def residual_sums(
    forward: Iterable[Operation], is_light: Callable[[Operation], bool]
) -> set[Operation]:
    """The sums of a value and an older one, in which others may have been added up before.

    `forward` is in order; `is_light` says which operators could be computed again. The more others
    a value has behind it, the younger it is. What depends on arguments alone is there at any time,
    such as a table of positions: it counts only if something narrower is added, which would seem
    cheaper to save than the sum.
    """
    age: dict[SSAValue, int] = {}
    found: set[Operation] = set()
    for op in forward:
        own = max((age.get(operand, 0) for operand in op.operands), default=0) + (not is_light(op))
        age.update((result, own) for result in op.results)
        if isinstance(op, coda.AddOp | coda.SubOp):
            whole = [each for each in op.operands if shape_of(each) == shape_of(op.result)]
            ages = {age.get(each, 0) for each in whole}
            if len(ages - {0}) > 1 or (len(ages) > 1 and any(map(_is_widened, whole))):
                found.add(op)
    return found


def _is_widened(value: SSAValue) -> bool:
    return isinstance(value.owner, Operation) and is_widening_cast(value.owner)
