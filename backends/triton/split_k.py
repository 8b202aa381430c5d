"""Split K: several programs share the K of a tile; each sums a part, and the last one to arrive
combines the parts and runs the epilogue.

    for k in range(first, last, BLOCK_K):
        ...
    store_partial(partials + split * 1024, acc_split, row_mask)
    if is_last_of_tile(counters_ptr + tile, SPLIT_K):
        acc = sum_of_partials(partials, row_mask, 64, 1024, SPLIT_K)
        (the epilogue)

The sums are added in the order of K, so that results do not depend on which program is last. The
counters are zero between kernels: the last program of a tile resets its counter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from coda_ir.backends.triton.argument_list import ArgumentList
from coda_ir.backends.triton.host.program import HostProgram
from coda_ir.backends.triton.host.views import View
from coda_ir.backends.triton.host_values import HostValue, given, nth_output
from coda_ir.backends.triton.kernel import EmittedKernel, KernelArgument, SharedTiles
from coda_ir.dialects.gemm import ScheduleAttr


@dataclass(frozen=True)
class SplitK:
    """Emits how the programs of a tile share K."""

    programs: int
    """The number of programs of each tile."""
    elements: int
    """Sums of a program."""
    parameters: tuple[KernelArgument, KernelArgument]
    """For the sums of all programs, tile by tile and in the order of K, and for the number of
    programs that have arrived, by tile."""
    mask: str = "row_mask"
    """The variable that has the rows of the tile that exist."""

    @staticmethod
    def of(
        schedule: ScheduleAttr, arguments: ArgumentList, elements: int, mask: str = "row_mask"
    ) -> SplitK | None:
        """Return how K is split for tiles with this many sums; None if it is not."""
        if schedule.split_k.data == 1:
            return None
        first = len(arguments.op.results)
        partials = (arguments.names.fresh("partials_ptr"), "*fp32", nth_output(first))
        counters = (arguments.names.fresh("counters_ptr"), "*i32", nth_output(first + 1))
        parameters = KernelArgument(*partials), KernelArgument(*counters)
        return SplitK(schedule.split_k.data, elements, parameters, mask)

    def shared_tiles(self, tiles: HostValue) -> SharedTiles:
        """Return the sums and counters that the host allocates for this many tiles."""
        return SharedTiles(tiles, self.programs, self.elements)

    def prologue(self) -> list[str]:
        """Return statements that find a program's tile and part of K; neighbours share a tile."""
        partials = self.parameters[0].name
        return [
            f"SPLIT_K: tl.constexpr = {self.programs}",
            "tile = tl.program_id(0) // SPLIT_K",
            "split = tl.program_id(0) % SPLIT_K",
            f"partials = {partials} + tile.to(tl.int64) * (SPLIT_K * {self.elements})",
        ]

    def publish(self, accumulators: Sequence[str], columns: Sequence[int]) -> list[str]:
        """Return the statements that store a program's sums, accumulators with these numbers of
        columns, and the condition of what follows.
        """
        stores = [
            f"store_partial({place} + split * {self.elements}, {name}, {self.mask})"
            for place, name in zip(self._places(columns), accumulators, strict=True)
        ]
        return [*stores, f"if is_last_of_tile({self.parameters[1].name} + tile, SPLIT_K):"]

    def sums(self, columns: Sequence[int]) -> list[str]:
        """Return expressions of the sums over all of K, for accumulators with these `columns`."""
        return [
            f"sum_of_partials({place}, {self.mask}, {count}, {self.elements}, SPLIT_K)"
            for place, count in zip(self._places(columns), columns, strict=True)
        ]

    def _places(self, columns: Sequence[int]) -> list[str]:
        """Return where the first program of the tile has the sums of each accumulator."""
        rows = self.elements // sum(columns)
        starts = accumulate(columns[:-1], initial=0)
        return ["partials" + (f" + {rows * start}" if start else "") for start in starts]


def workspace(
    host: HostProgram, kernel: EmittedKernel, rows: str, operands: Sequence[str | View]
) -> list[str | View]:
    """Return the tensors through which programs of shared tiles communicate, if there are any."""
    shared = kernel.shared_tiles
    if shared is None:
        return []
    tiles, sums = _tiles(host, shared, rows, operands), shared.programs * shared.elements
    is_part = host.is_direct and tiles.isdecimal()
    part = _partials(host, int(tiles) * sums) if is_part else None
    partials = part or host.scratch(f"{tiles} * {sums}", "partials")
    return [partials, host.counters(tiles)]


def _tiles(
    host: HostProgram, shared: SharedTiles, rows: str, operands: Sequence[str | View]
) -> str:
    """Return the number of tiles: a literal if the number of rows is one."""
    count = shared.tiles.count(int(rows)) if rows.isdecimal() else None
    if count is not None:
        return str(count)
    tensors = [x if isinstance(x, str) else x.expression(host.extents.of) for x in operands]
    return host.number(shared.tiles.text(given(rows, tensors, ())), "tiles")


def _partials(host: HostProgram, count: int) -> View | None:
    """Return the place of this many sums in the workspace, which are dead after the launch."""
    workspace = host.buffers.workspace
    start = workspace.take("partials", 4 * count)
    workspace.free("partials")
    return None if start is None else host.part(start, "torch.float32", (count,))
