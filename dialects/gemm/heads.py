"""The columns of attention heads: how they are multiplied, and how epilogues use them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from xdsl.utils.exceptions import VerifyException

from coda_ir.dialects.gemm.attrs import PairingAttr, ResultKind
from coda_ir.dialects.gemm.region_ops import GroupReduceOp, unchanged_region
from coda_ir.dialects.gemm.segment import DomainSegment, Segment
from coda_ir.dialects.gemm.tiling import MIN_LANES


class HeadParts(NamedTuple):
    """The columns of a head, and the lanes of its parts, each a power of two, as tensor cores
    require. The second part has the columns that the first leaves, or none.
    """

    columns: int
    first: int
    second: int

    @property
    def is_whole(self) -> bool:
        """True if one part without padding holds the head, so that an epilogue sees all of it."""
        return self.first == self.columns

    @property
    def lanes(self) -> int:
        """The lanes of both parts."""
        return self.first + self.second


def head_parts(columns: int) -> HeadParts:
    """Return the parts of a head: 80 columns are multiplied as 64 and 16, 112 as 128 with zeros."""
    first = 1 << (columns.bit_length() - 1)
    if first == columns:
        return HeadParts(columns, columns, 0)
    second = max(MIN_LANES, 1 << (columns - first - 1).bit_length())
    if second == first:
        return HeadParts(columns, 2 * first, 0)
    return HeadParts(columns, first, second)


def pairs_in_heads(pairing: PairingAttr | None, head_dim: int) -> bool:
    """Return whether both columns of each pair belong to one head."""
    return pairing is None or pairing.is_adjacent or pairing.group_size == head_dim


def groups_in_heads(segment: Segment, head_dim: int) -> bool:
    """Return whether the columns that the region reduces together belong to one head."""
    groups = [op.group.value.data for op in segment.block.ops if isinstance(op, GroupReduceOp)]
    return not any(head_dim % size for size in groups)


def needs_whole_heads(segment: Segment) -> str | None:
    """Return what in the region needs all columns of a head at once; None if nothing does."""
    if segment.pairing is not None:
        return "pairs"
    if any(isinstance(op, GroupReduceOp) for op in segment.block.ops):
        return "groups"
    kinds = {result.port.kind.data for result in segment.results}
    return "sums of rows" if ResultKind.PARTIAL_ROW in kinds else None


@dataclass
class SumSegment(DomainSegment):
    """A segment whose accumulators are sums over several tensors."""

    sums: int = 1

    @property
    def accumulator_count(self) -> int:
        return self.sums * (2 if self.pairing else 1)


def stored_sum(
    segment: SumSegment, index: int, columns: Sequence[int]
) -> tuple[Sequence[int], SumSegment]:
    """Return the number of the sum that result `index` of an epilogue stores unchanged, and an
    epilogue with only that result. `columns` are those of each sum.

    Raises VerifyException for another result.
    """
    result, (yielded, *others) = segment.results[index], segment.yielded(index)
    args = list(segment.block.args)
    numbers = [number for number, argument in enumerate(args) if argument is yielded]
    if result.port.kind.data != ResultKind.TILE or others or not numbers:
        raise VerifyException(
            "an epilogue of heads of keys and of values with different numbers of columns, "
            "expected one that stores the sums unchanged"
        )
    alone = SumSegment([], [], [result], unchanged_region(), domain_columns=columns[numbers[0]])
    alone.outputs = segment.outputs[index : index + 1]
    return numbers, alone
