"""Places of results in a concatenation, in whose memory kernels store them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from math import prod
from typing import ClassVar, NamedTuple, TypeGuard

from xdsl.dialects.builtin import DYNAMIC_INDEX, IntAttr
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import irdl_attr_definition
from xdsl.utils.exceptions import VerifyException

from coda_ir.dialects.coda.extension import BroadcastOp
from coda_ir.dialects.coda.shape import ConcatOp, ReshapeOp
from coda_ir.dialects.coda.shapes import shape_of
from coda_ir.dialects.fields import FieldsAttr
from coda_ir.dialects.torch.ops import CallOp


@irdl_attr_definition
class PlaceAttr(FieldsAttr):
    """Runs of `width` neighbouring elements lie `period` elements apart, the first one at `offset`.

    `#gemm.place<128, 64, 192>`: after each 128 columns of another tensor, 64 of this one.
    `#gemm.place<128, 64, 192, 16>`: the same 64 columns after each 128 of 16 heads.
    `#gemm.place<320, 1024, 1344>` of rows of 64 columns: after each 5 rows, 16 of this tensor.
    """

    name = "gemm.place"
    offset: IntAttr
    width: IntAttr
    period: IntAttr
    copies: IntAttr
    """In how many periods a run is stored."""

    UNNAMED: ClassVar = ("offset", "width", "period", "copies")
    DEFAULTS: ClassVar = {"copies": IntAttr(1)}

    @staticmethod
    def of(offset: int, width: int, period: int, copies: int = 1) -> PlaceAttr:
        return PlaceAttr(*map(IntAttr, (offset, width, period, copies)))

    @property
    def numbers(self) -> tuple[int, int, int]:
        """The offset, the width and the period."""
        return self.offset.data, self.width.data, self.period.data

    @property
    def stated(self) -> list[int]:
        """The numbers of its textual form, which includes the copies if there are several."""
        return [*self.numbers, *([self.copies.data] if self.copies.data != 1 else [])]

    @property
    def runs(self) -> int:
        """The number of runs that fit in a period."""
        return self.period.data // self.width.data

    def pitch(self, columns: int) -> int:
        """The elements between the starts of rows that have `columns` of this tensor."""
        if self.rows(columns) is not None:
            return columns
        return columns // self.width.data * self.period.data * self.copies.data

    def rows(self, columns: int) -> tuple[int, int, int] | None:
        """The offset, the width and the period in rows of `columns` elements, where runs have
        several of them; None where a row has all of a run.
        """
        if self.width.data <= columns:
            return None
        offset, width, period = (number // columns for number in self.numbers)
        return offset, width, period

    def has_rows_of(self, shape: Sequence[int]) -> bool:
        """Return whether each run is a row of a matrix of this shape, and stored once."""
        return len(shape) == 2 and (self.width.data, self.copies.data) == (shape[1], 1)

    def verify(self) -> None:
        offset, width, period = self.numbers
        if self.copies.data < 1:
            raise VerifyException(f"place in {self.copies.data} periods, expected 1 or more")
        if width < 1 or offset < 0 or offset + width > period:
            raise VerifyException(
                f"place<{offset}, {width}, {period}>: expected {width} or more elements after the "
                f"first {offset} of {period}"
            )


class Part(NamedTuple):
    """Runs of the elements of a concatenation, or of a tensor that is changed in place."""

    whole: SSAValue
    place: PlaceAttr
    number: SSAValue | None = None
    """The number of the run within each period, if it is known only when the program runs."""


def part_of(value: SSAValue) -> Part | None:
    """The part of a concatenation of rows or columns that `value` is, or its columns in groups are,
    or all of them once for each group of the others, if it has no other use; or the row of another
    tensor that a call in place makes of it.
    """
    return _joined_part(value) or _stored_row(value)


def _stored_row(value: SSAValue) -> Part | None:
    use, columns = value.get_unique_use(), shape_of(value)[-1:]
    if use is not None and isinstance(use.operation, ReshapeOp):
        use = use.operation.result.get_unique_use()
    op = None if use is None else use.operation
    row = op.stored_row if isinstance(op, CallOp) else None
    if use is None or op is None or row is None or op.operands[use.index] is not row.values:
        return None
    kept = shape_of(op.operands[0])[row.dim :]
    if not columns or DYNAMIC_INDEX in (*kept, *columns) or not prod((*kept, *columns)):
        return None
    width = prod(kept[1:])
    # A run has whole rows of `value`, or each of them has whole runs.
    if max(width, *columns) % min(width, *columns):
        return None
    return Part(op.results[0], PlaceAttr.of(0, width, prod(kept)), row.number)


def _joined_part(value: SSAValue) -> Part | None:
    use, copies = value.get_unique_use(), 1
    if use is not None and (splits_columns(use.operation) or adds_ones(use.operation)):
        value = use.operation.results[0]
        use = value.get_unique_use()
    if use is not None and repeats_columns(use.operation):
        value = use.operation.results[0]
        use, copies = value.get_unique_use(), shape_of(value)[-2]
    if use is None or not isinstance(use.operation, ConcatOp):
        return None
    joined, dim = use.operation, use.operation.dim.value.data
    runs = [shape_of(part)[dim:] for part in joined.parts]
    sizes = [prod(run) for run in runs]
    is_repeated_in_rows = copies > 1 and len(runs[use.index]) > 1
    if not dim or is_repeated_in_rows or not sizes[use.index] or DYNAMIC_INDEX in chain(*runs):
        return None
    place = PlaceAttr.of(sum(sizes[: use.index]), sizes[use.index], sum(sizes), copies)
    return Part(joined.result, place)


def columns_of(part: SSAValue) -> SSAValue:
    """Return the tensor (... x N) whose columns `part` groups or repeats, else `part` itself."""
    if repeats_columns(part.owner):
        part = part.owner.x
    return part.owner.x if splits_columns(part.owner) or adds_ones(part.owner) else part


def adds_ones(op: object) -> TypeGuard[ReshapeOp]:
    """Return whether `op` only adds dimensions of extent 1 before the columns."""
    if not isinstance(op, ReshapeOp) or len(shape_of(op.result)) <= len(shape_of(op.x)):
        return False
    before, after = ([n for n in shape_of(value) if n != 1] for value in (op.x, op.result))
    is_known = before.count(DYNAMIC_INDEX) <= 1
    return is_known and before == after and shape_of(op.x)[-1:] == shape_of(op.result)[-1:]


def splits_columns(op: object) -> TypeGuard[ReshapeOp]:
    """Return whether `op` splits columns into groups: (... x N) to (... x N/G x G)."""
    return isinstance(op, ReshapeOp) and _are_groups(shape_of(op.result), shape_of(op.x))


def joins_columns(op: object) -> TypeGuard[ReshapeOp]:
    """Return whether `op` joins groups of columns: the inverse of a split."""
    return isinstance(op, ReshapeOp) and _are_groups(shape_of(op.x), shape_of(op.result))


def _are_groups(split: Sequence[int], joined: Sequence[int]) -> bool:
    if len(joined) < 2 or len(split) != len(joined) + 1 or DYNAMIC_INDEX in split[-2:]:
        return False
    return tuple(joined) == (*split[:-2], split[-2] * split[-1])


def repeats_columns(op: object) -> TypeGuard[BroadcastOp]:
    """Return whether `op` repeats columns for groups: (... x 1 x N) to (... x G x N)."""
    if not isinstance(op, BroadcastOp) or len(shape_of(op.result)) < 2:
        return False
    (*rows, groups, columns), before = shape_of(op.result), shape_of(op.x)
    return groups != DYNAMIC_INDEX and tuple(before) == (*rows, 1, columns)


def verify_place(
    what: str, place: PlaceAttr, output: SSAValue, number: SSAValue | None = None
) -> None:
    """Raise unless `output` becomes the part of another tensor that `place` and `number` state."""
    found = part_of(output)
    if found is None:
        raise VerifyException(
            f"{what} has a place, expected coda.concat of its rows or columns, or a call in place "
            "that stores it as a row, as its only use"
        )
    whole = found.whole.owner
    assert isinstance(whole, Operation), "a concatenation, or a call"
    if found.place != place:
        raise VerifyException(
            f"{what} is at {place.stated}, expected {found.place.stated} as in its {whole.name}"
        )
    if found.number is not number:
        expected = "no port" if found.number is None else "a scalar port of the index of that call"
        raise VerifyException(f"{what} names the wrong port for its row, expected {expected}")
