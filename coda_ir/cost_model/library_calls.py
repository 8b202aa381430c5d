"""The times of PyTorch's convolutions, and of its norms of groups."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from coda_ir.cost_model.devices import Device
from coda_ir.cost_model.library_gemm import LibraryGemm
from coda_ir.cost_model.memory_times import kernel_us, moving_us

NORM_ROWS = 900
"""Rows of a norm for which PyTorch's kernels, with one block of threads for each, move bytes at the
rate of memory; fewer take as long. On an H200, 32 rows of 164352 numbers in float32 took 298, and
their gradients as long again; statistics of 64 groups of 65536 numbers in 16 bits took 38."""

GROUP_NORM_PASSES = 2
"""Times that PyTorch's kernel after the statistics of a norm of groups moves its bytes, from memory
alone: it computes the place of each element. On an H200, 2 x 512 x 64 x 64 in 16 bits took 11.5 us,
and 4 x 320 x 64 x 64 took 13.8."""

DEPTHWISE_US, CHANNELS_LAST_US = 9e-6, 4e-6
"""Microseconds of an element of a depthwise convolution beside the start of its kernel: in kernels
of PyTorch, which count channels and positions for each element, and in cuDNN's for images with
channels last, in which compilers store them. On an H200, 32 x 40 x 28 x 28 elements of windows of 3
x 3 took 11.8 and 6.8, and 4 x 1024 x 512 elements of windows of 3 took 22.9 in both."""

WEIGHT_PASSES = 10
"""Times that cuDNN moves the bytes of a convolution's weight to put its channels last. On an H200,
that took 16 us for 512 x 512 x 3 x 3 in 16 bits, and 80 for 1280 x 1280 x 3 x 3."""


def group_norm_us(rows: int, bytes: int, device: Device) -> float:
    """Return the microseconds of the two kernels of a norm of groups: the statistics of `rows`,
    each a group of a sample, and the norm of `bytes` bytes.
    """
    statistics = moving_us(int(max(1.0, NORM_ROWS / max(1, rows)) * bytes), device)
    return 2 * kernel_us(0, device) + statistics + moving_us(2 * GROUP_NORM_PASSES * bytes, device)


@dataclass(frozen=True)
class Convolution:
    """A convolution of tensors with these extents, each with its channels before positions."""

    x: Sequence[int]
    weight: Sequence[int]
    result: Sequence[int]
    groups: int
    element_bytes: int
    device: Device
    is_last: bool
    """True if x is a view of a tensor that stores its channels last."""

    def us(self, *, is_compiled: bool) -> float:
        """Return the microseconds of the kernels; compilers store images with channels last."""
        is_last = is_compiled and len(self.x) == 4
        if self.weight[1] == 1:
            element_us = CHANNELS_LAST_US if is_last else DEPTHWISE_US
            return kernel_us(0, self.device) + element_us * prod(self.result)
        tensors = (self.x, self.weight, self.result)
        us = kernel_us(sum(map(self._bytes, tensors)), self.device)
        if self.element_bytes != 2 or self.groups > 1:
            return us
        return max(us, self._products_us) + self._copying_us(is_last=is_last)

    @property
    def _products_us(self) -> float:
        batch, channels, *positions = self.result
        rows, depth = batch * prod(positions), prod(self.weight[1:])
        return LibraryGemm(rows, channels, depth, self.element_bytes, self.device).us

    def _copying_us(self, *, is_last: bool) -> float:
        """Return the microseconds of copies with channels last, for which cuDNN has its kernels of
        16 bits: of the weight, by a compiler if images are stored so; and of images.
        """
        passes = 2 if is_last else WEIGHT_PASSES
        weight = kernel_us(passes * self._bytes(self.weight), self.device)
        images = () if is_last or self.is_last else (self.x, self.result)
        return weight + sum(kernel_us(2 * self._bytes(image), self.device) for image in images)

    def _bytes(self, extents: Sequence[int]) -> int:
        return self.element_bytes * prod(extents)
