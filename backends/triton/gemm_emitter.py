"""The common part of the kernels of `gemm.fused`: names, column ranges, tiles."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from math import prod

from xdsl.ir import SSAValue

from coda_ir.backends.triton.argument_list import ArgumentList, Moved
from coda_ir.backends.triton.dependent_launch import Launch
from coda_ir.backends.triton.gemm_names import gemm_kernel_name, range_comment, tile_condition
from coda_ir.backends.triton.host_values import ROW_COUNT, HostValue, constant
from coda_ir.backends.triton.kernel import KernelArgument, indented
from coda_ir.backends.triton.names import LocalNames, NameAllocator
from coda_ir.backends.triton.row_groups import RaggedDepth, RowGroups
from coda_ir.diagnostics import LoweringError
from coda_ir.dialects.gemm import FusedOp, ScheduleAttr, Segment
from coda_ir.dialects.gemm.tiling import ColumnRange, check_depths, column_ranges
from coda_ir.remarks import format_location


class GemmEmitter:
    """The parts of a kernel of `op` that are independent of the main loop."""

    def __init__(
        self,
        op: FusedOp,
        schedule: ScheduleAttr,
        module_names: NameAllocator,
        pitches: Mapping[SSAValue, int],
        moved: Mapping[SSAValue, Moved],
    ):
        self.op = op
        self.schedule = schedule
        self.name = module_names.fresh(gemm_kernel_name(op))
        self.names = LocalNames()
        self.launch = Launch.of(op)
        has_own_rows = not op.is_transposed and op.gather is None
        has_own_rows &= op.numbers_of_row == op.summed_rows
        domain = op.x if has_own_rows else None
        self.arguments = ArgumentList(op, self.names, pitches=pitches, moved=moved, domain=domain)
        self.groups = RowGroups.of(op, self.arguments)
        self.ragged = RaggedDepth.of(op, self.arguments)
        self.ranges = [
            (segment, columns) for segment in op.segments() for columns in self._ranges(segment)
        ]

    def _ranges(self, segment: Segment) -> list[ColumnRange]:
        try:
            check_depths(self.op, self.schedule)
            return column_ranges(segment, self.schedule, self.op.order)
        except ValueError as error:
            raise LoweringError(
                f"{format_location(self.op.location)}: gemm.fused: {error}"
            ) from error

    @property
    def tiles_n(self) -> int:
        """The tiles of all segments in one row of tiles."""
        return sum(columns.programs for _, columns in self.ranges)

    @property
    def tiles(self) -> HostValue:
        """The number of tiles."""
        bm = self.schedule.block_m.data
        if self.ragged is not None:
            return constant(self.ragged.tiles(bm) * self.tiles_n)
        if self.op.is_transposed:
            return constant(-(-self.op.row_shape[0] // bm) * self.tiles_n)
        if self.groups is not None:
            return self.groups.host_tiles(bm) * self.tiles_n
        return ROW_COUNT.ceiling(bm) * self.tiles_n

    @property
    def extent(self) -> KernelArgument:
        """The extent that is known only at launch: K of transposed inputs, or M."""
        return KernelArgument("K" if self.op.is_transposed else "M", "i32", ROW_COUNT)

    @property
    def constant_extents(self) -> list[str]:
        """The statement that defines the extent M if all calls have it in common."""
        return [f"M: tl.constexpr = {prod(self.op.row_shape)}"] if self.op.is_transposed else []

    def device_tiles(self, block_m: str) -> str:
        """The largest possible number of row tiles, as an expression of the kernel."""
        if self.groups is not None:
            is_row = self.schedule.has_one_row
            return "M" if is_row else self.groups.device_tiles(block_m)
        if self.ragged is not None:
            return str(self.ragged.tiles(self.schedule.block_m.data))
        return f"tl.cdiv(M, {block_m})"

    def tile_of(self, program: str, tiles_m: str) -> str:
        """Return the statement that finds tile number `program` of that many rows of tiles."""
        place = f"{tiles_m}, {self.tiles_n}, {self.schedule.group_m.data}"
        return f"tile_m, tile_n = grouped_tile({program}, {place})"

    def numbered_ranges(self) -> Iterator[tuple[Segment, ColumnRange, int, int]]:
        """The column ranges, each with its first tile and the partials of its segment before it."""
        start = 0
        partials: dict[int, int] = {}
        for segment, columns in self.ranges:
            yield segment, columns, start, partials.get(id(segment), 0)
            start += columns.programs
            partials[id(segment)] = partials.get(id(segment), 0) + columns.partials

    def partials_of(self, segment: Segment) -> int:
        """Return the partials of a row over all column ranges of a segment."""
        return sum(columns.partials for each, columns in self.ranges if each is segment)

    def branches(self, bodies: Sequence[Sequence[str]], *, spaced: bool = False) -> list[str]:
        """Return the statements of each range, under its condition if there are several; ranges in
        succession that have the same statements share a condition.
        """
        space = [""] if spaced else []
        lines: list[str] = []
        numbered = zip(self.numbered_ranges(), bodies, strict=True)
        for body, group in groupby(numbered, lambda each: each[1]):
            ranges = [each for each, _ in group]
            first, (_, last, last_start, _) = ranges[0][2], ranges[-1]
            end = last_start + last.programs
            if body and end - first == self.tiles_n:
                lines += [*space, *body]
            elif body:
                weights = [
                    segment.weights[i] for segment, columns, *_ in ranges for i in columns.weights
                ]
                condition = tile_condition(first, end, self.tiles_n)
                comment = range_comment(weights, first, end, self.tiles_n)
                lines += [*space, comment, f"if {condition}:", *indented(body)]
        return lines
