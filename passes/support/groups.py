"""Code on groups of columns: pointwise operators, and reductions over each group."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from xdsl.dialects.builtin import DYNAMIC_INDEX
from xdsl.ir import Operation, SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import computes_in_float32, element_type_of, shape_of
from coda_ir.dialects.gemm import PortKind
from coda_ir.passes.support.ports import port_kind
from coda_ir.passes.support.scalar_code import is_pointwise

MAX_GROUP = 256
"""Columns of the largest group that a tile holds."""

GroupReduction = coda.ReduceOp | coda.NormStatsOp


def splits_columns(op: object) -> bool:
    """Whether `op` shows the columns of a tensor in groups: (... x N) as (... x N/G x G)."""
    if not isinstance(op, coda.ReshapeOp):
        return False
    before, after = shape_of(op.x), shape_of(op.result)
    if len(before) < 2 or len(after) != len(before) + 1 or DYNAMIC_INDEX in after[-2:]:
        return False
    return after[:-2] == before[:-1] and before[-1] == after[-2] * after[-1]


def joins_columns(op: object) -> bool:
    """Whether `op` shows groups of columns next to each other: the reverse of a split."""
    if not isinstance(op, coda.ReshapeOp):
        return False
    before, after = shape_of(op.x), shape_of(op.result)
    if len(after) < 2 or len(before) != len(after) + 1 or DYNAMIC_INDEX in before[-2:]:
        return False
    return after == (*before[:-2], before[-2] * before[-1])


def is_of_small_groups(op: Operation) -> bool:
    """Whether `op` reduces groups of columns that a tile holds, which costs no pass over them."""
    if not isinstance(op, GroupReduction) or not splits_columns(op.x.owner):
        return False
    return shape_of(op.x)[-1] <= MAX_GROUP


@dataclass
class GroupCode:
    """Operators on (... x H x G) that show, combine and reduce the same groups of columns."""

    domain: tuple[int, ...]
    ops: list[Operation] = field(default_factory=list[Operation])
    """In order; the splits of the columns are among them."""
    values: set[SSAValue] = field(default_factory=set[SSAValue])

    @property
    def group(self) -> int:
        return self.domain[-1]

    @property
    def columns(self) -> int:
        """N: all groups of a row."""
        return self.domain[-2] * self.domain[-1]

    @property
    def shape(self) -> tuple[int, ...]:
        """(... x N)."""
        return (*self.domain[:-2], self.columns)

    @property
    def bases(self) -> list[SSAValue]:
        """The tensors whose columns are split."""
        found = [op.x for op in self.ops if isinstance(op, coda.ReshapeOp)]
        return list(dict.fromkeys(found))

    @property
    def leaves(self) -> list[SSAValue]:
        """What the code reads: the tensors that are split, and rows and scalars."""
        others = [v for op in self.ops for v in op.operands if v not in self.values]
        return [v for v in dict.fromkeys(others) if not isinstance(v.owner, coda.ConstantOp)]

    @property
    def reductions(self) -> list[Operation]:
        return [op for op in self.ops if isinstance(op, GroupReduction)]

    def is_tile(self, value: SSAValue) -> bool:
        """Whether `value` has an element per column, and not one per group."""
        return shape_of(value) == self.domain

    def users_outside(self, value: SSAValue) -> list[Operation]:
        users = [use.operation for use in value.uses]
        return [user for user in dict.fromkeys(users) if user not in self.ops]

    def add(self, op: Operation) -> None:
        self.ops.append(op)
        self.values.update(op.results)

    def admits(self, op: Operation) -> bool:
        """Whether `op`, which reads a value of the code, belongs to it."""
        if isinstance(op, GroupReduction):
            kinds = ("rms",) if isinstance(op, coda.NormStatsOp) else ("sum", "mean", "max")
            return op.kind.data in kinds and self.is_tile(op.x) and _is_float32(op)
        if isinstance(op, coda.SumToOp):
            is_by_column = shape_of(op.result) == (self.group,)
            return self.is_tile(op.x) and is_by_column and _is_float32(op)
        per_group = (*self.domain[:-1], 1)
        fits = is_pointwise(op) and shape_of(op.results[0]) in (self.domain, per_group)
        return fits and all(map(self._fits_port, op.operands))

    def _fits_port(self, value: SSAValue) -> bool:
        if value in self.values or isinstance(value.owner, coda.ConstantOp):
            return True
        kinds = (PortKind.ROW, PortKind.SCALAR)
        return port_kind(shape_of(value), self.domain) in kinds


def _is_float32(op: Operation) -> bool:
    return all(computes_in_float32(element_type_of(v)) for v in (*op.operands, *op.results))


def find_group_code(ops: Iterable[Operation]) -> list[GroupCode]:
    """The code on groups of columns with at least one reduction over them, in order."""
    found: list[GroupCode] = []
    code_of: dict[SSAValue, GroupCode] = {}
    for op in ops:
        if splits_columns(op):
            code = GroupCode(shape_of(op.results[0]))
            found.append(code)
        else:
            read = [code_of[value] for value in op.operands if value in code_of]
            code = _joined(read, code_of, found)
            if code is None or not code.admits(op):
                continue
        code.add(op)
        code_of.update(dict.fromkeys(op.results, code))
    return [code for code in found if code.reductions]


def _joined(
    read: Sequence[GroupCode], code_of: dict[SSAValue, GroupCode], found: list[GroupCode]
) -> GroupCode | None:
    """The code of all of `read`, joined to one where there are several of the same groups."""
    first, *others = read or [None]
    for other in others:
        if first is None or other is None or other is first:
            continue
        if other.domain != first.domain:
            return None
        first.ops += other.ops
        first.values |= other.values
        code_of.update(dict.fromkeys(other.values, first))
        found[:] = [code for code in found if code is not other]
    return first
