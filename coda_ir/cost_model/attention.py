"""The tiles of attention and of its backward: the fastest that were measured and fit."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil, prod

from xdsl.dialects.builtin import DYNAMIC_INDEX

from coda_ir.cost_model.devices import Device
from coda_ir.diagnostics import LoweringError
from coda_ir.dialects.coda.shapes import element_bytes, shape_of
from coda_ir.dialects.gemm import (
    AttentionDkvOp,
    AttentionDmaskOp,
    AttentionDqOp,
    AttentionSumOp,
    FusedAttentionOp,
    ScheduleAttr,
)
from coda_ir.dialects.gemm.schedules import MAX_SPLITS
from coda_ir.remarks import format_location

_KINDS: Mapping[type[AttentionSumOp], str] = {
    FusedAttentionOp: "o",
    AttentionDqOp: "dq",
    AttentionDkvOp: "dkv",
    AttentionDmaskOp: "dmask",
}

_HEADS_AT_A_TIME = 8
"""Heads whose tiles follow one another, so that what they share is in the L2 cache."""


_ROUNDS = 1.5
"""Programs that balance the load of a processor, for each of the two at most that it runs at a
time: the longest under a causal mask take twice the mean. H100, 32 heads of 128, both kernels in
ms: 2 x 2048 tokens with 2 heads of keys 1.16, 0.57 and 0.63 for 1, 4 and 8 programs (128 tiles);
with 8 heads of keys 0.56 and 0.61 for 1 and 2 (512 tiles), and 0.38, 0.37 and 0.44 for half the
tokens. H200, dK and dV of 2 x 1024 tokens, 16 heads of 256, of which one fits: with 1 head of keys
289, 180 and 234 us for 4, 8 and 16 programs (32 tiles), with 4 269, 171 and 199 for 1, 2 and 4."""


_UNKNOWN_ROWS = 4096
"""The number of rows that is assumed where it is unknown. More programs than are needed cost up to
a tenth; too few took 2.27 times as long as cuDNN, for one head of keys."""

_BUSY_TILES = 100
"""Tiles of 128 rows that occupy a GPU with the gradients of attention; fewer take as long. On an
H200, those of 2 heads of 256 columns for 1024 queries with as many keys, and with 3076, took 132 us
by PyTorch, whose tiles are of keys, and 313 by own kernels, one with tiles of queries."""


@dataclass(frozen=True)
class _Tile:
    """The rows of the result, the rows of a step, the warps, and the pipeline stages."""

    rows: int
    step: int
    warps: int
    stages: int

    def shared_memory(self, op: AttentionSumOp, device: Device) -> float:
        """Return the bytes of the queries of the tile (in the backward, of two tensors), of two
        tensors in 16 bits for each step in flight, and of the mask of a step. A tile of a mask has
        a step for each head and batch.
        """
        lanes = (op.parts.lanes + op.value_parts.lanes) / 2
        steps = self.stages * device.buffers_per_stage
        if isinstance(op, AttentionDmaskOp):
            return 4 * lanes * steps * (self.rows + self.step)
        tensors = 1 if isinstance(op, FusedAttentionOp) else 2
        mask = (self.stages + 1) * self._mask_bytes(op)
        return 2 * lanes * (tensors * self.rows + 2 * steps * self.step) + mask

    def _mask_bytes(self, op: AttentionSumOp) -> int:
        """Return the bytes of the mask of a step."""
        if op.mask is None:
            return 0
        _, _, rows, columns = op.mask_dims
        return element_bytes(op.mask.type) * self.rows**rows * self.step**columns


_HOPPER = {
    ("o", 256): _Tile(128, 64, 8, 2),
    ("o", 128): _Tile(64, 64, 4, 3),
    ("o", 64): _Tile(64, 64, 4, 3),
    ("dq", 256): _Tile(128, 32, 8, 3),
    ("dkv", 256): _Tile(64, 64, 8, 2),
    ("dq", 128): _Tile(128, 64, 8, 3),
    ("dkv", 128): _Tile(64, 64, 4, 2),
    ("dq", 192): _Tile(128, 64, 8, 2),
    ("dkv", 192): _Tile(128, 32, 8, 2),
    ("dq", 96): _Tile(64, 64, 4, 3),
    ("dkv", 96): _Tile(64, 64, 4, 3),
    ("dq", 64): _Tile(128, 64, 4, 3),
    ("dkv", 64): _Tile(64, 128, 4, 2),
    ("exact dq", 256): _Tile(64, 64, 8, 2),
    ("exact dq", 192): _Tile(64, 32, 4, 2),
    ("exact dq", 128): _Tile(64, 64, 4, 2),
    ("exact dq", 96): _Tile(64, 64, 4, 3),
    ("exact dq", 64): _Tile(64, 64, 4, 2),
    ("dmask", 256): _Tile(64, 64, 4, 2),
    ("dmask", 128): _Tile(128, 64, 8, 2),
    ("dmask", 64): _Tile(64, 128, 4, 2),
}
"""Tiles by kernel and the largest number of lanes of a head. H200, dK and dV of 4096 causal tokens,
in us: 32 heads of 128 in 460 (128 x 64 with 8 warps 498, in two stages 577), and with 8 heads of
keys in 446 (128 x 64 460); 64 of 64 in 593 (64 x 64 595, 128 x 64 717); 32 of 96 in 394 and 32 of
80 in 376 (in two stages 445 and 422, 128 x 64 552 and 536). dQ of 32 heads of 64 in 175 (64 x 64
191). 2 x 8192 tokens, 8 heads of 256, both kernels: 5.8 ms (6.3 in two
stages). Attention with a cap of 50 on an H100, 2 x 4096 tokens, 32 heads of 128: 0.60 (128 x 64
with 8 warps 0.65, 128 x 128 0.79); 2 x 2048 tokens, 16 heads of 256: 0.17. dQ on an H100, 2 x 2048
tokens: 32 heads of 96 in 0.18 (0.23 with the tiles of 128), 32 of 80 in 0.18 (0.21), 16 of 192 in
0.19 (0.20 with those of 256)."""

_HOPPER_WGMMA = {
    ("dkv", 256): _Tile(64, 64, 8, 2),
    ("dq", 192): _Tile(128, 64, 8, 2),
    ("dq", 128): _Tile(64, 64, 4, 2),
    ("dkv", 128): _Tile(64, 64, 4, 2),
    ("dq", 96): _Tile(64, 64, 4, 3),
    ("dkv", 96): _Tile(64, 64, 4, 2),
    ("dq", 64): _Tile(64, 64, 4, 2),
    ("dkv", 64): _Tile(64, 64, 4, 4),
    ("exact dq", 256): _Tile(64, 64, 8, 2),
    ("exact dq", 192): _Tile(64, 32, 4, 2),
    ("exact dq", 128): _Tile(64, 64, 4, 2),
    ("exact dq", 96): _Tile(64, 64, 4, 2),
    ("exact dq", 64): _Tile(64, 64, 4, 2),
}
"""Tiles of asynchronous products where these are faster than those of `_HOPPER`. H200, 4096 tokens,
32 heads, us instead of those of `tma`, causal and not. dK and dV: 64 columns 250 (299), 482 (525);
96 334 (390), 634 (730), in three stages 364 and 657; 128 410 (458), 778 (927), 64 x 32 508 and 934;
256 1091 (1629), 2067 (3513), 64 x 32 1465 and 2871. dQ: 64 175 (171), 321 (313), and of 1024 tokens
22 (26); 96 253 (288), 473 (519); 128 313 (354), 591 (639), 128 x 64 346 and 665; 192 511 (599), 979
(1172). Slower: dQ of 256 759 (703), 1445 (1327); dK and dV of 192 1069 (1021), 2090 (2146). dQ with
an exact moment: 192 columns 925 (128 x 32 958, 64 x 64 1065, by `tma` 1206), 1793 (1805, 2065,
2398); 64 241 (128 x 64 288), 447 (543); 128 373 (128 x 64 415), 704 (792)."""

_HOPPER_MASKED = {
    **_HOPPER,
    ("o", 128): _Tile(128, 64, 8, 3),
    ("dkv", 64): _Tile(128, 32, 4, 3),
    ("dkv", 96): _Tile(64, 64, 4, 2),
    ("dq", 64): _Tile(64, 64, 4, 3),
    ("exact dq", 64): _Tile(64, 64, 4, 3),
}
"""Tiles for a mask with an element for each score. Truth values, 2 x 2048 tokens, 16 heads of 128
on an H100, in us: 324 (128 x 128 with 8 warps 425, 64 x 64 432), dQ 334 (64 x 64 448), dK and dV
453 (128 x 64 545). 32 x 512 tokens, 12 heads of 64: 193 (128 x 64 286). 8 x 1024 tokens, 16 heads
of 64: dK and dV 247 (64 x 64 283, 64 x 128 343). With one for each key, the tiles of attention
without a mask: 184 (128 x 64 187, 128 x 128 252), causal 92 (113); 32 heads, causal, with a number
for each key and head, 201 (229 in both others). H200, 8 x 1024 tokens, 16 heads of 64 with a number
for each score: dQ with an exact moment 236 (in two stages 270, 128 x 64 322, 128 x 32 399), dK and
dV 323 (64 x 64 360, 64 x 32 410), and the gradient of a mask of all batches 177 (64 x 64 190, 128 x
64 222, 64 x 32 228)."""

_PORTABLE = (_Tile(64, 32, 4, 2), _Tile(32, 32, 4, 1), _Tile(16, 16, 4, 1))
"""Without many spills also for gfx942, whose registers hold fewer tiles: by their code alone."""

_SMALL_MEMORY = 64 * 1024
"""Bytes of shared memory of gfx942, and of what is compiled for every GPU."""

_MAX_ELEMENTS = 64 * 128
"""The elements of a sum that four warps hold in registers."""

_INTERPRETED = _Tile(32, 16, 4, 1)
"""Small, so that the tensors of tests have several."""


def idle_factor(heads: int, *rows: int) -> float:
    """Return how many times longer the gradients of attention take because their tiles, of which
    kernels have these rows for each of the heads, do not occupy the GPU.
    """
    tiles = (heads * max(1.0, extent / 128) for extent in rows)
    return sum(max(1.0, _BUSY_TILES / count) for count in tiles) / len(rows)


def attention_schedule(
    op: AttentionSumOp, device: Device, mainloop: str, rows: int | None
) -> ScheduleAttr:
    """Return how `op` is computed. Its sums have `rows` rows in all batches, None if unknown.
    Raises CodaError where no tile fits into shared memory.
    """
    head_dim, loops = op.parts.columns, ["pointer"]
    if device.has_tma and mainloop != "pointer":
        is_wanted = mainloop != "tma" and op.wgmma_obstacle is None
        loops = ["wgmma", "tma"] if is_wanted else ["tma"]
    for loop in loops:
        for tile in _preferred(op, device, loop):
            if tile.shared_memory(op, device) <= device.shared_memory:
                return ScheduleAttr.get(
                    loop,
                    (tile.rows, tile.step, 1 << (head_dim - 1).bit_length()),
                    warps=tile.warps,
                    stages=tile.stages,
                    group_m=_HEADS_AT_A_TIME,
                    split_k=_programs_of_tile(op, tile, device, rows),
                )
    raise LoweringError(
        f"{format_location(op.location)}: schedule: no tile of {op.name} with heads of {head_dim} "
        f"columns fits {device.name}",
        "choose another target",
    )


def _programs_of_tile(op: AttentionSumOp, tile: _Tile, device: Device, rows: int | None) -> int:
    """Return how many programs share a tile's query heads, or the batches and heads of a tile of a
    mask: the fewest that occupy the device.
    """
    at_a_time = min(2, int(device.shared_memory // tile.shared_memory(op, device)))
    wanted = _ROUNDS * at_a_time * device.processors
    if isinstance(op, AttentionDmaskOp):
        known = [n if n != DYNAMIC_INDEX else _UNKNOWN_ROWS for n in shape_of(op.d_mask)]
        *leading, queries, keys = known
        tiles = prod(leading) * -(-queries // tile.rows) * -(-keys // tile.step)
        of_mask = zip(op.scores_shape[:2], op.mask_dims, strict=False)
        summed = [MAX_SPLITS if n == DYNAMIC_INDEX else n for n, is_kept in of_mask if not is_kept]
        return min(MAX_SPLITS, prod(summed), ceil(wanted / tiles))
    heads = op.split_heads if op.value_dim is None else 1
    counts = [n for n in range(1, min(heads, MAX_SPLITS) + 1) if heads % n == 0]
    tiles = -(-(_UNKNOWN_ROWS if rows is None else rows) // tile.rows) * op.tile_heads
    enough = (n for n in counts if tiles * n >= wanted)
    return next(enough, counts[-1])


def _preferred(op: AttentionSumOp, device: Device, loop: str) -> Sequence[_Tile]:
    lanes = op.parts.lanes
    if device.threads == 1:
        return (_INTERPRETED,)
    if loop == "pointer":
        # With a cap, 64 keys have too many registers on gfx942: 32 have no spills.
        is_capped = isinstance(op, AttentionDkvOp) and op.softcap is not None
        is_small = is_capped and device.shared_memory <= _SMALL_MEMORY
        tiles = _PORTABLE[1:] if is_small else _PORTABLE
        return [tile for tile in tiles if tile.rows * lanes <= _MAX_ELEMENTS]
    is_exact = isinstance(op, AttentionDqOp) and op.exact_moment is not None
    kind = "exact dq" if is_exact else _KINDS[type(op)]
    _, _, of_queries, _ = op.mask_dims
    tiles = _HOPPER_MASKED if op.mask is not None and of_queries else _HOPPER
    widths = [width for of, width in tiles if of == kind and width >= lanes]
    if not widths:
        return []
    width = min(widths)
    if loop == "wgmma":
        tile = _HOPPER_WGMMA.get((kind, width))
        return [] if tile is None or op.value_parts.lanes > lanes else [tile]
    fastest = tiles[kind, width]
    steps = (fastest.step,) if tiles is not _HOPPER_MASKED else (fastest.step, fastest.step // 2)
    stages = range(fastest.stages, 0, -1)
    return [replace(fastest, step=step, stages=count) for count in stages for step in steps]
