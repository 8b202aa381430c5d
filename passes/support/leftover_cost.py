"""Estimates what one compiler for all leftovers saves: kernels, and bytes between them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from xdsl.ir import Operation, SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import shape_of
from coda_ir.symbolic_shapes import SymbolicShapes

EXTENT = 2048
"""The size that a symbol is taken to have."""

BYTES_PER_US = 3e6
"""The bytes that a GPU of 3 TB/s moves in a microsecond."""

KERNEL_US = 5.0
"""The time of a kernel beside that of the bytes that it moves."""

CALL_US = 25.0
"""The time of the host for the call of a program."""


class _Sizes(dict[str, int]):
    def __missing__(self, symbol: str) -> int:
        return EXTENT


def saved_us(ops: Sequence[Operation], shapes: SymbolicShapes) -> float:
    """The microseconds that are saved where a compiler makes one kernel of each connected group of
    `ops`, instead of one of each operator, or of each group of elementwise operators.
    """
    apart, joined = _groups(ops, _joins_alone), _groups(ops, lambda a, b: True)
    bytes = sum(_traffic(group, shapes) for group in apart)
    bytes -= sum(_traffic(group, shapes) for group in joined)
    return bytes / BYTES_PER_US + KERNEL_US * (len(apart) - len(joined))


def _joins_alone(a: Operation, b: Operation) -> bool:
    """Return whether kernels of a pointwise region take both operators."""
    return _is_pointwise(a) and _is_pointwise(b)


def _is_pointwise(op: Operation) -> bool:
    is_elementwise = isinstance(op, coda.ElementwiseOp | coda.CastOp)
    return is_elementwise and not any(map(_is_per_sample, op.operands))


def _is_per_sample(value: SSAValue) -> bool:
    """Return whether a value has one row for each sample, which pointwise regions do not take."""
    shape = shape_of(value)
    return len(shape) > 2 and shape[-2] == 1 and shape[-1] != 1


def _groups(
    ops: Sequence[Operation], joins: Callable[[Operation, Operation], bool]
) -> list[list[Operation]]:
    """The groups of operators that are connected by values, where `joins` allows it."""
    leader: dict[Operation, Operation] = {}

    def find(op: Operation) -> Operation:
        while leader[op] is not op:
            leader[op] = leader[leader[op]]
            op = leader[op]
        return op

    for op in ops:
        leader[op] = op
        for before in {value.owner for value in op.operands} & leader.keys():
            if joins(before, op):
                leader[find(before)] = find(op)
    groups: dict[Operation, list[Operation]] = {}
    for op in ops:
        groups.setdefault(find(op), []).append(op)
    return list(groups.values())


def _traffic(group: Iterable[Operation], shapes: SymbolicShapes) -> int:
    """The bytes that a kernel of the operators reads and writes."""
    members = set(group)
    read = {value for op in members for value in op.operands if value.owner not in members}
    results = [result for op in members for result in op.results]
    written = {r for r in results if any(use.operation not in members for use in r.uses)}
    return sum(shapes.bytes(value).evaluate(_Sizes()) for value in read | written)
