"""The devices of the cost model, as data: their resources and rates. A processor is a streaming
multiprocessor of NVIDIA or a compute unit of AMD.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

KIB = 1024


@dataclass(frozen=True)
class Device:
    """A device that GEMMs are scheduled for. Rates are the vendor's peaks, unless stated otherwise;
    `processors` divides them for one processor.
    """

    name: str
    """The name in the option `target` of the pass `schedule`."""
    products: str
    shared_memory: int
    """Bytes of shared memory (AMD: LDS) of one program."""
    stages: int
    """Pipeline stages of the main loop where nothing else is asked for."""
    buffers_per_stage: float
    """Tiles in shared memory per pipeline stage: Triton needs one less than stages on AMD."""
    largest_tile: int
    """Accumulators of a program."""
    processors: int
    """The number of processors that run programs at a time."""
    matrix_tflops: float
    """10^12 multiplications and additions of 16-bit floats per second, on tensor cores, dense."""
    vector_tflops: float
    """The same in float32 without tensor cores: the rate of float32 GEMMs and of epilogues."""
    tf32_tflops: float
    """The same of float32 that tensor cores round to TF32."""
    memory_gb_per_s: float
    """10^9 bytes per second from and to memory."""
    cache_bytes_per_ns: float
    """Bytes per nanosecond from the L2 cache into the shared memory of one processor."""
    latency_ns: float
    """Nanoseconds from the start of a program to its first multiplication: a load that misses L2,
    twice, for the pointers and for the first tiles."""
    memory_ns: float
    """Nanoseconds of a load that misses L2."""
    launch_us: float
    """Microseconds that a launch adds when kernels follow one another."""
    float8_rate: float = 1.0
    """The number of float8 products in the time of one product of 16-bit floats. Devices with 1
    convert to float16, as Triton does on gfx942, whose float8 is another one."""
    has_tma: bool = False
    threads: int = 2048
    """Threads of all programs that a processor runs at a time."""
    library_rounds: bool = False
    """True if the library multiplies float32 as TF32, as PyTorch's settings allow."""

    @property
    def library_float32_tflops(self) -> float:
        """The peak rate of float32 GEMMs in the vendor's library."""
        return self.tf32_tflops if self.library_rounds else self.vector_tflops

    def pointwise_us(self, moved: float, kernels: int = 1) -> float:
        """Return the microseconds of pointwise kernels that together move this number of bytes."""
        return moved / (1000 * self.memory_gb_per_s) + self.launch_us * kernels


_A100 = Device(
    name="sm_80",
    products="A100",
    shared_memory=163 * KIB,
    stages=3,
    buffers_per_stage=1,
    largest_tile=128 * 128,
    processors=108,
    matrix_tflops=312.0,
    vector_tflops=19.5,
    tf32_tflops=156.0,
    memory_gb_per_s=2039.0,
    cache_bytes_per_ns=90.0,  # 64 bytes per clock of 1.41 GHz
    latency_ns=1000.0,
    memory_ns=500.0,
    launch_us=2.0,
)

_H100 = Device(
    name="sm_90",
    products="H100 SXM",
    shared_memory=227 * KIB,
    stages=3,
    buffers_per_stage=1,
    largest_tile=128 * 256,
    processors=132,
    matrix_tflops=989.4,
    vector_tflops=66.9,
    tf32_tflops=494.7,
    memory_gb_per_s=3352.0,
    cache_bytes_per_ns=117.0,  # 64 bytes per clock of 1.83 GHz
    latency_ns=1200.0,
    memory_ns=600.0,
    launch_us=2.0,
    float8_rate=2.0,
    has_tma=True,
)

_MI300X = Device(
    name="gfx942",
    products="MI300X",
    shared_memory=64 * KIB,
    stages=2,
    buffers_per_stage=1 / 2,
    largest_tile=128 * 128,
    processors=304,
    matrix_tflops=1307.4,
    vector_tflops=163.4,
    tf32_tflops=653.7,
    memory_gb_per_s=5325.0,
    cache_bytes_per_ns=134.0,  # 64 bytes per clock of 2.1 GHz
    latency_ns=1600.0,
    memory_ns=800.0,
    launch_us=4.0,
)

_INTERPRETER = Device(
    name="interpreter",
    products="Triton's interpreter: NumPy on one core",
    shared_memory=2**30,
    stages=1,
    buffers_per_stage=1,
    largest_tile=64 * 64,
    processors=1,
    matrix_tflops=0.05,
    vector_tflops=0.05,
    tf32_tflops=0.05,
    memory_gb_per_s=10.0,
    cache_bytes_per_ns=10.0,
    latency_ns=50_000.0,
    memory_ns=0.0,
    launch_us=50.0,
    threads=1,
)
"""Its tiles are small on purpose: they cut the small tensors of tests into several."""

_PORTABLE = replace(
    _A100,
    name="portable",
    products="any of them: the rates of an A100, the memory of the smallest",
    shared_memory=64 * KIB,
    buffers_per_stage=2 / 3,
)

_H200 = replace(_H100, name="h200", products="H200", memory_gb_per_s=4800.0)

DEVICES: Mapping[str, Device] = MappingProxyType(
    {d.name: d for d in (_PORTABLE, _A100, _H100, _H200, _MI300X, _INTERPRETER)}
)
"""Devices by name. Sources: NVIDIA's A100, H100 and H200 and AMD's MI300X data sheets; latencies
and launches are rounded measurements."""


def device_named(product: str | None, default: Device) -> Device:
    """Return the device that a GPU's name states, such as "NVIDIA H200", or else `default`."""
    known = (device for device in DEVICES.values() if device.products in (product or ""))
    return next(known, default)
