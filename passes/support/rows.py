"""Tensors with channels before positions (B x C x T), as rows of channels (B x T x C)."""

from dataclasses import dataclass, field

from xdsl.dialects.builtin import DYNAMIC_INDEX
from xdsl.ir import Operation, SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import shape_of
from coda_ir.dialects.gemm.scalar_code import is_pointwise
from coda_ir.passes.support.function_pass import OpInserter

ROWS = (0, 2, 1)
"""The permutation between the two."""

MAX_MOVED = 64
"""Operators in a chain, at most, that move to rows."""


def is_transposed(op: object) -> bool:
    """Return whether an operator exchanges channels and positions."""
    return isinstance(op, coda.TransposeOp) and op.permutation == ROWS


def is_vector(value: SSAValue, channels: int) -> bool:
    """Return whether a tensor has one element for each channel, whatever the position."""
    return channels != DYNAMIC_INDEX and shape_of(value) in ((channels, 1), (1, channels, 1))


def rows_of(value: SSAValue, insert: OpInserter) -> SSAValue | None:
    """Return `value` as rows, if transposes, slices and pointwise code compute it from rows.

    None for another value.
    """
    search = _Search()
    return search.rebuilt(value, insert) if search.has_rows(value) else None


@dataclass
class _Search:
    """Code with channels before positions; each operator is visited once."""

    known: dict[SSAValue, bool] = field(default_factory=dict[SSAValue, bool])
    built: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])

    def has_rows(self, value: SSAValue, depth: int = 0) -> bool:
        """Return whether `value` is computed only from rows, vectors with an element for each
        channel, and single elements.
        """
        if value not in self.known:
            self.known[value] = depth < MAX_MOVED and self._has_rows(value, depth + 1)
        return self.known[value]

    def _has_rows(self, value: SSAValue, depth: int) -> bool:
        op = value.owner
        if is_transposed(op):
            return True
        if len(shape_of(value)) != 3 or not isinstance(op, Operation):
            return False
        if isinstance(op, coda.SliceOp):
            return self.has_rows(op.x, depth)
        channels = shape_of(value)[1]
        tiles = [x for x in op.operands if shape_of(x) and not is_vector(x, channels)]
        is_alike = bool(tiles) and all(shape_of(tile) == shape_of(value) for tile in tiles)
        return is_pointwise(op) and is_alike and all(self.has_rows(tile, depth) for tile in tiles)

    def rebuilt(self, value: SSAValue, insert: OpInserter) -> SSAValue:
        """Return `value`, which has rows, as rows."""
        if not shape_of(value):
            return value
        if value not in self.built:
            self.built[value] = self._rebuilt(value, insert)
        return self.built[value]

    def _rebuilt(self, value: SSAValue, insert: OpInserter) -> SSAValue:
        op = value.owner
        assert isinstance(op, Operation), "an operator gives rows"
        if isinstance(op, coda.TransposeOp):
            return op.x
        if isinstance(op, coda.SliceOp):
            dim, start, stop = op.range
            part = coda.SliceOp(self.rebuilt(op.x, insert), ROWS[dim], start, stop)
            return insert.insert(part, value.name_hint)
        batch, channels, positions = shape_of(value)
        operands = [self._operand(operand, channels, insert) for operand in op.operands]
        return insert.again(op, operands, (batch, positions, channels))

    def _operand(self, value: SSAValue, channels: int, insert: OpInserter) -> SSAValue:
        if not is_vector(value, channels):
            return self.rebuilt(value, insert)
        if value not in self.built:
            self.built[value] = self._vector(value, channels, insert)
        return self.built[value]

    def _vector(self, value: SSAValue, channels: int, insert: OpInserter) -> SSAValue:
        """Return a vector with its pointwise code, without the extents of 1."""
        op = value.owner
        given = op.operands if isinstance(op, Operation) else ()
        is_alike = all(is_vector(x, channels) or not shape_of(x) for x in given)
        if isinstance(op, Operation) and given and is_pointwise(op) and is_alike:
            operands = [self._operand(operand, channels, insert) for operand in op.operands]
            return insert.again(op, operands, (channels,))
        return insert.insert(coda.ReshapeOp(value, (channels,)), value.name_hint)


def replace_by_rows(value: SSAValue, rows: SSAValue, insert: OpInserter) -> None:
    """Replace `value` by `rows`: unchanged where channels become columns, moved through pointwise
    code, and transposed elsewhere.
    """
    pending = [(value, rows, insert)]
    while pending:
        old, new, insert = pending.pop()
        transposed = insert.insert(coda.TransposeOp(new, ROWS), old.name_hint)
        old.replace_all_uses_with(transposed)
        for user in [use.operation for use in transposed.uses]:
            if is_transposed(user):
                user.results[0].replace_all_uses_with(new)
            elif is_pointwise(user):
                before = insert.rewriter.before(user)
                moved = rows_of(user.results[0], before)
                if moved is not None:
                    pending.append((user.results[0], moved, before))
