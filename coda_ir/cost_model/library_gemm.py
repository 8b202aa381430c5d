"""The time of a product of matrices in the vendor's library."""

from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from math import ceil, prod

from coda_ir.cost_model.devices import Device

EXTENTS = (64, 96, 128, 144, 160, 192, 256, 320)
"""Rows and columns of tiles that cuBLAS 13 was seen to use on Hopper."""

LARGEST_TILE = 128 * 320

SPLITS = (1, 2, 4, 8, 16, 32)
"""Programs that share a tile. On an H200, the three gradients of weights in float32 with 204800
rows and at most 80 x 256 elements took 0.4 ms in all, which 8 programs do not reach.
"""

EFFICIENCY = 0.73
"""Share of the peak rate. Chosen so that 4096 x 32000 x 4096 take 1.42 ms, and 4096 x 6144 x 1536
take 106 us, as they did on an H100."""

VECTOR_EFFICIENCY = 0.5
"""The same of products of float32, for batches of matrices: 192 of 512 x 64 x 512 and 512 x 512 x
64 took 227 and 168 us on an H100."""

GROUPED_EFFICIENCY = 0.62
"""The same where rows are in groups. Chosen so that 262144 x 1536 x 2048 and 262144 x 2048 x 768
with 128 groups take 2.6 and 1.4 ms; they took 2.61 and 1.55 on an H100."""

START_US = 2.5
"""Microseconds before the first product and after the last: 2048 x 1152 x 1152 take 10."""

UNALIGNED = {16: 1.0, 4: 2.8, 2: 7.2}
"""The factor by which products of 16 bits take longer, by the alignment of rows in bytes. On an
H100, 4096 x 50304 x 768 took 463 us, and those with 50260, 50258 and 50257 columns 1274, 1279 and
3301; their gradients 402 to 413, 1160 to 1291, 2151 and 2349."""


def slowdown(bytes: int) -> float:
    """Return how many times as long a product takes for rows of this many bytes."""
    return next(times for divisor, times in UNALIGNED.items() if bytes % divisor == 0)


PRODUCT_US, PRODUCT_STEP_US = 0.45, 0.15
"""Microseconds of a tile of 64 x 256 of PyTorch's products of batches of matrices, and of 64
elements of its K. On an H200, 8192 products of 16 x 16 x 16 took 28 us, 2048 of 8 x 8 x 1024 and of
8 x 1024 x 8 took 45, and 4096 of 32 x 32 x 32 took 15.5."""

UNALIGNED_PRODUCT = 2.6
"""The factor by which such products take longer whose rows are no multiples of 16 bytes. There,
2048 of 5 x 4 x 1024 and 4 x 5 x 1024 took 154 and 77 us, and 40 and 45 if padded; 64 of 300 x 64 x
300 and 300 x 300 x 64 took 19 and 14, and 6.5 and 4.2. Products of more operations take longer by
the factors of `UNALIGNED`: 64 of 512 x 512 x 273 and 512 x 273 x 512 took 94 and 122."""


@dataclass(frozen=True)
class LibraryGemm:
    """A product of matrices of M x K and K x N elements, without an epilogue.

    Where rows are in groups, each has a matrix of K x N, and all have as many rows.
    """

    rows: int
    columns: int
    depth: int
    element_bytes: int
    device: Device
    groups: int = 1

    @property
    def us(self) -> float:
        """The microseconds of the kernel."""
        return _us(self)

    def computing_us(self, tile: tuple[int, int], splits: int) -> float:
        """Return the microseconds of the products with a tile of this many rows and columns."""
        device, (m, n) = self.device, tile
        used = self._used_groups
        rows = used * ceil(ceil(self.rows / used) / m)
        waves = ceil(rows * ceil(self.columns / n) * splits / device.processors)
        is_f32 = self.element_bytes > 2
        tflops = device.library_float32_tflops if is_f32 else device.matrix_tflops
        efficiency = EFFICIENCY if self.groups == 1 else GROUPED_EFFICIENCY
        rate = 1e6 * efficiency * tflops / device.processors
        return waves * 2 * m * n * ceil(self.depth / splits) / rate

    @property
    def _used_groups(self) -> int:
        return max(1, min(self.groups, self.rows))

    def moving_us(self, splits: int) -> float:
        """Return the microseconds of the bytes if this many programs share a tile."""
        m, n, k = self.rows, self.columns, self.depth
        sums = 0 if splits == 1 else 8 * splits * m * n
        bytes = self.element_bytes * (m * k + self._used_groups * k * n + m * n) + sums
        return bytes / (1e3 * self.device.memory_gb_per_s)


@lru_cache(maxsize=4096)
def _us(gemm: LibraryGemm) -> float:
    """Return the microseconds of a GEMM, cached because the layers of a model repeat them."""
    tiles = ((m, n) for m, n in product(EXTENTS, EXTENTS) if m * n <= LARGEST_TILE)
    return START_US + min(
        max(gemm.computing_us(tile, splits), gemm.moving_us(splits))
        for tile, splits in product(tiles, SPLITS)
    )


def products_us(
    batch: int,
    extents: tuple[int, int, int],
    device: Device,
    *,
    is_f32: bool,
    unaligned: float = 1.0,
) -> float:
    """Return the microseconds of the products of matrices, whose M, N and K are `extents`:
    by their operations, or by their tiles, which small matrices do not fill. `unaligned` is a
    factor of `UNALIGNED`. For vectors, the library has kernels that take as long as their bytes.
    """
    rows, columns, depth = extents
    operations = 2 * batch * prod(extents)
    if is_f32:
        return operations / (1e6 * VECTOR_EFFICIENCY * device.library_float32_tflops)
    tiles = min(ceil(a / 64) * ceil(b / 256) for a, b in ((rows, columns), (columns, rows)))
    steps = PRODUCT_US + PRODUCT_STEP_US * ceil(depth / 64)
    waves = 0 if 1 in extents else ceil(batch * tiles / device.processors)
    steps *= UNALIGNED_PRODUCT if unaligned > 1 else 1
    return max(unaligned * operations / (1e6 * EFFICIENCY * device.matrix_tflops), waves * steps)
