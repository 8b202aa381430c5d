"""The cost of a `gemm.finalize` as a separate kernel, and inside the kernels that need it."""

from collections.abc import Sequence
from math import ceil

from xdsl.dialects.builtin import Float32Type
from xdsl.ir import SSAValue

from coda_ir.cost_model.devices import Device
from coda_ir.cost_model.estimate import EXPOSED_LOADS
from coda_ir.cost_model.ranking import described
from coda_ir.cost_model.workload import NOMINAL_ROWS
from coda_ir.dialects.coda.shapes import element_type_of
from coda_ir.dialects.gemm import FinalizeOp, FusedOp, MapOp, ResultKind
from coda_ir.dialects.gemm.tiling import COLUMNS_OF_A_MAP, group_sizes, known_tiles

TILES_AHEAD = 16
"""Tiles of rows of a program that combines columns. On an H100, a kernel that found the scales of
16384 rows of 4096 in partials took 93 us; reading and writing takes 67."""


def finalize_us(op: FinalizeOp, device: Device, rows: int) -> float:
    """Return the microseconds of a finalize of `rows` rows: a launch, and loads that miss L2. The
    number of its partials has to be known.
    """
    reading = rows * bytes_per_row(op.partials) / device.memory_gb_per_s
    return device.launch_us + (device.latency_ns + reading) / 1000


def absorbed_us(
    partials: Sequence[SSAValue], consumer: FusedOp | MapOp, device: Device, rows: int | None
) -> float:
    """Return the microseconds in which the tiles of a scheduled GEMM, or of a map with a known
    number of columns, read the partials of their rows.
    """
    if isinstance(consumer, MapOp):
        tiles = ceil(consumer.columns / COLUMNS_OF_A_MAP)
        moved = (rows or NOMINAL_ROWS) * bytes_per_row(partials) * tiles
        waits = device.memory_ns * _unhidden_loads(consumer)
        return (moved / device.processors / device.cache_bytes_per_ns + waits) / 1000
    assert consumer.schedule is not None, "expected a scheduled gemm.fused"
    estimate = described(consumer, consumer.schedule, device, rows).estimate
    tile = consumer.schedule.block_m.data * bytes_per_row(partials)
    # Of the programs that share the K of a tile one reads them.
    waves = estimate.waves / estimate.splits
    return EXPOSED_LOADS * tile / device.cache_bytes_per_ns * waves / 1000


def _unhidden_loads(consumer: MapOp) -> int:
    """Return how often a program of a map waits for partials. One that combines columns has several
    tiles of rows, which it reads ahead, and partials of each, which it does not.
    """
    segment = consumer.segment()
    kinds = {result.port.kind.data for result in segment.results}
    has_whole_rows = max(group_sizes(segment), default=1) == consumer.columns
    return 0 if has_whole_rows or ResultKind.PARTIAL_COL not in kinds else TILES_AHEAD


def bytes_per_row(partials: Sequence[SSAValue]) -> int:
    """Return the bytes of the partials of one row, whose number is known."""
    total = 0
    for value in partials:
        tiles = known_tiles(value)
        assert tiles is not None and isinstance(element_type_of(value), Float32Type)
        total += 4 * tiles
    return total
