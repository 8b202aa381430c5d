"""Dependences of values, and whether values are defined before they are used, which xDSL's verifier
does not check.
"""

from collections.abc import Collection, Iterable, Iterator

from xdsl.ir import Block, Operation, SSAValue
from xdsl.utils.exceptions import VerifyException


def depend_on(values: Iterable[SSAValue], sources: Collection[SSAValue]) -> bool:
    """Return whether one of `values` is, or is computed from, one of `sources`."""
    pending, seen = list(values), set[SSAValue]()
    while pending:
        value = pending.pop()
        if value in sources:
            return True
        if value not in seen and isinstance(value.owner, Operation):
            seen.add(value)
            pending += value.owner.operands
    return False


def misplaced_use(module: Operation) -> tuple[Operation, VerifyException] | None:
    """Return the first operator that uses a value before its definition, or from inside another
    operator.

    Between the blocks of one region, where control flow decides, every use is taken as right.
    """
    order: dict[Operation, int] = {}
    for op in module.walk():
        order[op] = len(order)
    for op in order:
        for index, operand in enumerate(op.operands):
            if not _is_defined(operand, op, order):
                name = "" if operand.name_hint is None else f" %{operand.name_hint}"
                return op, VerifyException(
                    f"operand {index}{name} is used where it is not defined yet"
                )
    return None


def _is_defined(value: SSAValue, user: Operation, order: dict[Operation, int]) -> bool:
    owner = value.owner
    block = owner if isinstance(owner, Block) else owner.parent
    if block is None:
        return False
    for around in _with_ancestors(user):
        if around.parent is block:
            return isinstance(owner, Block) or order[owner] < order[around]
        if around.parent is not None and around.parent.parent is block.parent:
            return True
    return False


def _with_ancestors(op: Operation) -> Iterator[Operation]:
    around: Operation | None = op
    while around is not None:
        yield around
        around = around.parent_op()
