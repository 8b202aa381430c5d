"""Which operators have equal kernels: those of a model's layers are emitted once."""

from __future__ import annotations

from collections.abc import Hashable

from xdsl.ir import Attribute, Operation, SSAValue

from coda_ir.dialects.coda import ConstantOp, extent_in, positions_in
from coda_ir.dialects.gemm import FusedOp
from coda_ir.dialects.gemm.tiling import known_tiles

PLACES = "coda.buffers"
"""The attribute with the names of the buffers of results, which only the host program reads."""


def key_of(op: Operation) -> Hashable:
    """Equal for operators whose kernels differ in names alone, but for what a kernel has to know of
    the layout of its operands.
    """
    numbers: dict[SSAValue, int] = {}
    key: list[Hashable] = [_origin(operand) for operand in op.operands]
    pending = [op]
    while pending:
        current = pending.pop()
        key += [current.name, *_sorted(current.properties), *_sorted(current.attributes)]
        key += [(value.type, _number(value, numbers)) for value in current.operands]
        arguments = [a for region in current.regions for block in region.blocks for a in block.args]
        # What has a name is computed in a statement of its own.
        key += [
            (value.type, _number(value, numbers), value.name_hint is None)
            for value in (*current.results, *arguments)
        ]
        inner = [i for region in current.regions for block in region.blocks for i in block.ops]
        pending += reversed(inner)
        key.append(len(inner))
    return tuple(key)


def _origin(operand: SSAValue) -> Hashable:
    """The facts of an operand that kernels have in their code: values, the number of partials."""
    if isinstance(operand.owner, ConstantOp) or positions_in(operand) is not None:
        return operand
    if extent_in(operand) is not None:
        return "extent"
    return known_tiles(operand) if isinstance(operand.owner, FusedOp) else None


def _sorted(attributes: dict[str, Attribute]) -> list[tuple[str, Attribute]]:
    kept = [item for item in attributes.items() if item[0] != PLACES]
    return sorted(kept, key=lambda item: item[0])


def _number(value: SSAValue, numbers: dict[SSAValue, int]) -> int:
    return numbers.setdefault(value, len(numbers))
