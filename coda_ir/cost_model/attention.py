"""The tiles of the backward of attention: those that were measured to be the fastest, as far as
they fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from coda_ir.cost_model.devices import Device
from coda_ir.diagnostics import CodaError
from coda_ir.dialects.gemm import AttentionDqOp, AttentionSumOp, ScheduleAttr
from coda_ir.dialects.gemm.schedules import MOST_SPLITS
from coda_ir.remarks import format_location

_HEADS_AT_A_TIME = 8
"""Heads whose tiles follow one another, so that what they share is in the L2 cache."""


_PROGRAMS_OF_PROCESSOR = 3
"""Programs that balance the load of a processor. It runs two of them at a time, and the longest
under a causal mask take twice the mean. H100, 32 heads of 128, both kernels in ms: 2 x 2048 tokens
with 2 heads of keys 1.16, 0.57 and 0.63 for 1, 4 and 8 programs (128 tiles); with 8 heads of keys
0.56 and 0.61 for 1 and 2 (512 tiles), and 0.38, 0.37 and 0.44 for half the tokens."""


@dataclass(frozen=True)
class _Tile:
    """Rows of the result, rows of a step, warps, and pipeline stages."""

    rows: int
    step: int
    warps: int
    stages: int

    def shared_memory(self, op: AttentionSumOp, device: Device) -> float:
        """Bytes: two tensors for the tile and two for each step that is under way, in 16 bits, and
        what a mask has for a step.
        """
        head_dim, steps = op.head_dim.value.data, self.stages * device.buffers_per_stage
        mask = 0 if op.mask is None else (self.stages + 1) * self.rows * self.step
        return 2 * 2 * head_dim * (self.rows + steps * self.step) + mask


_HOPPER = {
    ("dq", 256): _Tile(128, 32, 8, 3),
    ("dkv", 256): _Tile(64, 64, 8, 2),
    ("dq", 128): _Tile(128, 64, 8, 3),
    ("dkv", 128): _Tile(128, 64, 8, 3),
    ("dq", 64): _Tile(64, 64, 4, 3),
    ("dkv", 64): _Tile(64, 128, 4, 2),
}
"""By the columns of a head, at most. H200, 2 x 8192 tokens, both kernels in ms: 32 heads of 128 in
7.7 (64 x 64 with 4 warps for dK and dV 7.9); 16 heads of 64 in 1.99 (64 x 64 there 2.14, 128 x 64
2.58); 8 heads of 256 in 5.8 (6.3 in two stages)."""

_HOPPER_SHARED = {**_HOPPER, ("dkv", 128): _Tile(64, 64, 4, 2)}
"""Where heads of queries share one of keys: 7.4 instead of 7.7 ms for 32 of 128 with 8 of keys, and
2.1 instead of 2.25 for 8 x 2048 tokens. Where a mask is read: 1.82 instead of 2.39 (64 x 64 with 8
warps) for 2 x 2048 tokens on an H100, though registers are spilled."""

_PORTABLE = (_Tile(64, 32, 4, 2), _Tile(32, 32, 4, 1), _Tile(16, 16, 4, 1))
"""Without many spills also for gfx942, whose registers hold fewer tiles: by their code alone."""

_MOST_ELEMENTS = 64 * 128
"""Of a sum that four warps have in registers."""

_INTERPRETED = _Tile(32, 16, 4, 1)
"""Small, so that the tensors of tests have several."""


def attention_schedule(
    op: AttentionSumOp, device: Device, mainloop: str, rows: int | None
) -> ScheduleAttr:
    """Return how `op` is computed, whose sums have so many rows in all batches, None where that is
    not known. Raises CodaError where no tile fits into shared memory.
    """
    head_dim = op.head_dim.value.data
    is_tma = device.has_tma and mainloop != "pointer"
    for tile in _preferred(op, device, is_tma=is_tma):
        if tile.shared_memory(op, device) <= device.shared_memory:
            return ScheduleAttr.get(
                "tma" if is_tma else "pointer",
                (tile.rows, tile.step, head_dim),
                warps=tile.warps,
                stages=tile.stages,
                group_m=_HEADS_AT_A_TIME,
                split_k=_programs_of_tile(op, tile, device, rows),
            )
    raise CodaError(
        f"{format_location(op.location)}: schedule: no tile of {op.name} with heads of {head_dim} "
        f"columns fits {device.name}",
        "choose another target",
    )


def _programs_of_tile(op: AttentionSumOp, tile: _Tile, device: Device, rows: int | None) -> int:
    """Return how many programs share the heads of queries that a tile sums over: the fewest that
    occupy the device.
    """
    heads = op.split_heads
    counts = [n for n in range(1, min(heads, MOST_SPLITS) + 1) if heads % n == 0]
    if rows is None:
        return 1
    tiles = -(-rows // tile.rows) * op.tile_heads
    enough = (n for n in counts if tiles * n >= _PROGRAMS_OF_PROCESSOR * device.processors)
    return next(enough, counts[-1])


def _preferred(op: AttentionSumOp, device: Device, *, is_tma: bool) -> Sequence[_Tile]:
    head_dim = op.head_dim.value.data
    if device.threads == 1:
        return (_INTERPRETED,)
    if not is_tma:
        return [tile for tile in _PORTABLE if tile.rows * head_dim <= _MOST_ELEMENTS]
    kind = "dq" if isinstance(op, AttentionDqOp) else "dkv"
    tiles = _HOPPER_SHARED if op.shared_heads > 1 or op.mask is not None else _HOPPER
    widths = [width for of, width in tiles if of == kind and width >= head_dim]
    if not widths:
        return []
    fastest = tiles[kind, min(widths)]
    return [replace(fastest, stages=stages) for stages in range(fastest.stages, 0, -1)]
