"""Sums along a residual stream, of which computing one again takes all that came before it."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from xdsl.ir import Operation, SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import shape_of


def residual_sums(
    forward: Iterable[Operation], is_light: Callable[[Operation], bool]
) -> set[Operation]:
    """The sums of a value and an older one, in which others may have been added up before.

    `forward` is in order; `is_light` says which operators could be computed again. The more others
    a value has behind it, the younger it is. What depends on parameters alone has no age: a table
    of positions is there at any time.
    """
    age: dict[SSAValue, int] = {}
    found: set[Operation] = set()
    for op in forward:
        ages = {age.get(operand, 0) for operand in op.operands}
        own = max(ages, default=0) + (not is_light(op))
        age.update((result, own) for result in op.results)
        if isinstance(op, coda.AddOp | coda.SubOp):
            shape = shape_of(op.result)
            whole = {age.get(o, 0) for o in op.operands if shape_of(o) == shape}
            if len(whole - {0}) > 1:
                found.add(op)
    return found
