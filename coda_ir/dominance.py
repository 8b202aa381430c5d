"""Dependences of values, and the check of definitions before uses, which xDSL omits."""

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from xdsl.ir import Block, Operation, SSAValue, Use
from xdsl.utils.exceptions import VerifyException

NodeT = TypeVar("NodeT", bound=Hashable)
OpT = TypeVar("OpT", bound=Operation)


def reached(
    starts: Iterable[NodeT], next_of: Callable[[NodeT], Iterable[NodeT]]
) -> Iterator[NodeT]:
    """Yield `starts`, and what `next_of` leads to from them, each once."""
    pending, seen = list(starts), set[NodeT]()
    while pending:
        node = pending.pop()
        if node not in seen:
            seen.add(node)
            yield node
            pending += next_of(node)


def before(
    value: SSAValue,
    kind: type[OpT] | tuple[type[OpT], ...],
    skips: Callable[[OpT], bool] = lambda _: True,
) -> SSAValue:
    """Return what `value` was before operators of a kind that `skips` accepts: the first operand of
    the earliest one.
    """
    while isinstance(op := value.owner, kind) and skips(op):
        value = op.operands[0]
    return value


def operands_of(value: SSAValue) -> Sequence[SSAValue]:
    """Return the operands of the operator that computes `value`; none of an argument."""
    return value.owner.operands if isinstance(value.owner, Operation) else ()


def users_of(op: Operation) -> list[Operation]:
    """Return the operators that read a result of `op`, once for each use."""
    return [use.operation for result in op.results for use in result.uses]


def depend_on(values: Iterable[SSAValue], sources: Collection[SSAValue]) -> bool:
    """Return whether one of `values` is, or is computed from, one of `sources`."""
    return any(value in sources for value in reached(values, operands_of))


def backward_slice(
    values: Iterable[SSAValue],
    stop: Iterable[SSAValue] = (),
    instead: Mapping[SSAValue, SSAValue] | None = None,
) -> set[Operation]:
    """Return the operators that compute `values`, given those in `stop`.

    `instead` has values that are computed in the place of others.
    """
    available, replaced = set(stop), instead or {}

    def owner(value: SSAValue) -> Operation | Block | None:
        return None if value in available else replaced.get(value, value).owner

    def operands(value: SSAValue) -> Sequence[SSAValue]:
        op = owner(value)
        return op.operands if isinstance(op, Operation) else ()

    owners = map(owner, reached(values, operands))
    return {op for op in owners if isinstance(op, Operation)}


def uses_through(value: SSAValue, passes_on: Callable[[Operation], bool]) -> Iterator[Use]:
    """Yield the uses of `value`, or of the results of operators that `passes_on` what they read."""

    def passed_on(value: SSAValue) -> list[SSAValue]:
        users = [use.operation for use in value.uses if passes_on(use.operation)]
        return [result for user in users for result in user.results]

    for each in reached([value], passed_on):
        yield from (use for use in each.uses if not passes_on(use.operation))


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
