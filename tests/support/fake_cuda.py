"""A CUDA driver that does nothing, so that the host's part of a launch runs on any machine.

`install` gives Triton a driver for an H100 that is not there. All of Triton's code for NVIDIA runs
as it is, compilation, launchers in C and descriptors included; only `libcuda` is a library of ours,
made with a C compiler. It counts launches and, where it is asked to, records what each one passes.

Tensors are those of the CPU; Triton must not be in its interpreter (TRITON_INTERPRET unset).
"""

import ctypes
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

SOURCE = r"""
#include <stdint.h>
#include <string.h>

enum { MAX_PARAMETERS = 128, MAX_FUNCTIONS = 1024, MAX_BYTES = 1 << 20 };

typedef struct { uint32_t count; uint32_t sizes[MAX_PARAMETERS]; } parameters_t;
typedef struct { uint32_t id, padding; uint8_t value[64]; } attribute_t;
typedef struct {
  uint32_t grid[3], block[3], shared;
  void *stream;
  const attribute_t *attributes;
  uint32_t attribute_count;
} config_t;

static parameters_t functions[MAX_FUNCTIONS];
static const void *codes[MAX_FUNCTIONS];
static uint64_t function_count;

uint64_t fake_launches, fake_used;
int fake_records, fake_failing, fake_error, fake_maps;
uint8_t fake_bytes[MAX_BYTES];

static uint64_t place_of(const void *code) {
  uint64_t place = 0;
  while (place < function_count && codes[place] != code) place++;
  return place;
}

/* The sizes of the parameters of the function whose machine code is at an address. */
void fake_parameters(const void *code, uint32_t count, const uint32_t *sizes) {
  uint64_t place = place_of(code);
  function_count += place == function_count;
  codes[place] = code;
  functions[place].count = count;
  memcpy(functions[place].sizes, sizes, count * sizeof *sizes);
}

static void record(const void *bytes, uint64_t size) {
  if (fake_used + size > MAX_BYTES) return;
  memcpy(fake_bytes + fake_used, bytes, size);
  fake_used += size;
}

int cuModuleLoadData(void **module, const void *code) { *module = (void *)code; return 0; }
int cuModuleGetFunction(void **function, void *module, const char *name) {
  *function = (void *)(place_of(module) + 1);
  return 0;
}

int cuLaunchKernelEx(const config_t *config, void *function, void **values, void **extra) {
  if (fake_failing) return fake_failing--, fake_error;
  if (!(config->grid[0] && config->grid[1] && config->grid[2])) return 1;
  fake_launches++;
  if (!fake_records) return 0;
  const parameters_t *parameters = &functions[(uint64_t)function - 1];
  uint64_t head[] = {(uint64_t)function, config->grid[0], config->grid[1], config->grid[2],
                     config->block[0], config->shared, (uint64_t)config->stream, 0, 0};
  for (uint32_t i = 0; i < config->attribute_count; i++)
    head[8] |= (uint64_t)1 << config->attributes[i].id;
  for (uint32_t i = 0; i < parameters->count; i++) head[7] += parameters->sizes[i];
  record(head, sizeof head);
  for (uint32_t i = 0; i < parameters->count; i++) record(values[i], parameters->sizes[i]);
  return 0;
}

int cuTensorMapEncodeTiled(uint64_t *map, int type, uint32_t rank, void *address,
                           const uint64_t *extents, const uint64_t *strides, const uint32_t *box,
                           const uint32_t *steps, int interleave, int swizzle, int l2, int fill) {
  if ((uint64_t)map % 64 || (uint64_t)address % 16) return 1;
  fake_maps++;
  memset(map, 0, 128);
  map[0] = (uint64_t)address;
  map[1] = type | (uint64_t)rank << 8 | (uint64_t)swizzle << 16 | (uint64_t)fill << 24 |
           (uint64_t)interleave << 32 | (uint64_t)l2 << 40 | (uint64_t)steps[rank - 1] << 48;
  for (uint32_t i = 0; i < rank; i++) {
    map[2 + i] = extents[i];
    if (i + 1 < rank) map[7 + i] = strides[i];
    ((uint32_t *)(map + 11))[i] = box[i];
  }
  return 0;
}

/* Each parameter is aligned to its size, at most to 64 bytes, as kernels have them. */
int cuFuncGetParamInfo(void *function, uint64_t index, uint64_t *offset, uint64_t *size) {
  const parameters_t *parameters = &functions[(uint64_t)function - 1];
  if (index >= parameters->count) return 1;
  uint64_t end = 0;
  for (uint64_t i = 0; i <= index; i++) {
    *size = parameters->sizes[i];
    uint64_t alignment = *size < 64 ? *size : 64;
    *offset = (end + alignment - 1) / alignment * alignment;
    end = *offset + *size;
  }
  return 0;
}

static char context;
int cuGetErrorString(int error, const char **text) { *text = "no such thing"; return 0; }
int cuInit(unsigned flags) { return 0; }
int cuDriverGetVersion(int *version) { *version = 13000; return 0; }
int cuDeviceGetCount(int *count) { *count = 1; return 0; }
int cuDeviceGet(int *device, int index) { *device = index; return 0; }
int cuCtxGetDevice(int *device) { *device = 0; return 0; }
int cuDeviceGetAttribute(int *value, int attribute, int device) { *value = 232448; return 0; }
int cuCtxGetCurrent(void **current) { *current = &context; return 0; }
int cuDevicePrimaryCtxRetain(void **primary, int device) { *primary = &context; return 0; }
int cuCtxSetCurrent(void *current) { return 0; }
int cuCtxGetLimit(uint64_t *value, int limit) { *value = 0; return 0; }
int cuCtxSetLimit(int limit, uint64_t value) { return 0; }
int cuModuleUnload(void *module) { return 0; }
int cuFuncGetAttribute(int *value, int attribute, void *function) {
  *value = attribute ? 0 : 1024;
  return 0;
}
int cuFuncSetCacheConfig(void *function, int config) { return 0; }
int cuFuncSetAttribute(void *function, int attribute, int value) { return value > 232448; }
int cuOccupancyMaxActiveClusters(int *count, void *f, void *config) { *count = 1; return 0; }
int cuPointerGetAttribute(uint64_t *value, int attribute, uint64_t pointer) {
  *value = pointer;
  return 0;
}
"""

WORDS = 9
"""The words of 64 bits before the parameters of a recorded launch."""


@dataclass(frozen=True)
class Launch:
    """The arguments of a launch at the driver; `parameters` has the bytes of all of them."""

    function: int
    grid: tuple[int, int, int]
    threads: int
    shared: int
    stream: int
    attributes: int
    """A bit for each attribute, by its number in `CUlaunchAttributeID`."""
    parameters: bytes


class FakeCuda:
    """The library, and what it has seen."""

    def __init__(self, library: ctypes.CDLL):
        self.library = library
        self.stream = 0
        """The current stream."""

    @property
    def launches(self) -> int:
        """Return how many there were."""
        return ctypes.c_uint64.in_dll(self.library, "fake_launches").value

    @property
    def tensor_maps(self) -> int:
        """Return how many were encoded."""
        return ctypes.c_int.in_dll(self.library, "fake_maps").value

    def fail(self, launches: int, error: int) -> None:
        """Have the next launches fail."""
        ctypes.c_int.in_dll(self.library, "fake_failing").value = launches
        ctypes.c_int.in_dll(self.library, "fake_error").value = error

    def record(self) -> None:
        """Forget the launches that were recorded, and record those to come."""
        ctypes.c_uint64.in_dll(self.library, "fake_used").value = 0
        ctypes.c_int.in_dll(self.library, "fake_records").value = 1

    def recorded(self) -> list[Launch]:
        """The launches since `record`; no more are recorded."""
        ctypes.c_int.in_dll(self.library, "fake_records").value = 0
        used = ctypes.c_uint64.in_dll(self.library, "fake_used").value
        start = ctypes.addressof(ctypes.c_uint8.in_dll(self.library, "fake_bytes"))
        return list(_launches(ctypes.string_at(start, used)))

    def expect(self, code: bytes, types: Mapping[Any, Any], layouts: list[Any] | None) -> None:
        """Say what the parameters of the kernel with this machine code are: Triton's types."""
        sizes = [size for type in types.values() for size in _sizes(str(type), bool(layouts))]
        sizes += [8, 8]  # two scratch buffers
        self.library.fake_parameters(code, len(sizes), (ctypes.c_uint32 * len(sizes))(*sizes))


def _launches(data: bytes) -> Iterator[Launch]:
    place = 0
    while place < len(data):
        head = memoryview(data)[place : place + 8 * WORDS].cast("Q")
        function, x, y, z, threads, shared, stream, size, attributes = head
        place += 8 * WORDS
        parameters = data[place : place + size]
        yield Launch(function, (x, y, z), threads, shared, stream, attributes, parameters)
        place += size


def _sizes(type: str, has_layouts: bool) -> list[int]:
    """Bytes of the parameters of a kernel that stand for one argument."""
    if type == "constexpr":
        return []
    if type.startswith("tensordesc"):
        assert has_layouts, "kernels for an H100 take tensor maps"
        rank = type.count(",", 0, type.index("]")) + 1
        return [128, *[4] * rank, *[8] * rank]
    if type.startswith("*"):
        return [8]
    width = re.fullmatch(r"[a-z]+(\d+)", type)
    assert width is not None, type
    return [max(1, int(width[1]) // 8)]


def is_possible() -> bool:
    """Return whether there is a C compiler, which Triton needs as well."""
    return any(map(shutil.which, ("gcc", "clang")))


_INSTALLED: list[FakeCuda] = []


def installed() -> FakeCuda | None:
    """The library that this process has."""
    return _INSTALLED[0] if _INSTALLED else None


def install(folder: Path) -> FakeCuda:
    """Make the library in `folder` and have Triton launch through it, in this process for good."""
    source, library = folder / "fake_cuda.c", folder / "libcuda.so.1"
    source.write_text(SOURCE)
    compiler = next(filter(None, map(shutil.which, ("gcc", "clang"))))
    flags = ["-O2", "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1"]
    subprocess.run([compiler, *flags, "-o", str(library), str(source)], check=True)
    os.environ["TRITON_LIBCUDA_PATH"] = str(folder)
    # Found by name from now on, by what is linked with it and by what asks for it.
    fake = FakeCuda(ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL))
    nvidia: Any = import_module("triton.backends.nvidia.driver")
    compiler: Any = import_module("triton.compiler.compiler")

    made_by_triton = compiler.CompiledKernel

    def kernel(source: Any, *rest: Any) -> Any:
        compiled = made_by_triton(source, *rest)
        layouts = getattr(compiled.metadata, "tensordesc_meta", None)
        fake.expect(compiled.kernel, source.signature, layouts)
        return compiled

    compiler.CompiledKernel = kernel

    class Driver(nvidia.CudaDriver):
        def __init__(self) -> None:
            self.utils = nvidia.CudaUtils()
            self.launcher_cls = nvidia.CudaLauncher
            self.get_current_device = lambda: 0

        def get_device_capability(self, device: object = None) -> tuple[int, int]:
            return 9, 0

        def get_current_stream(self, device: object) -> int:
            return fake.stream

    import_module("triton.runtime").driver.set_active(Driver())
    # Programs ask PyTorch for the stream, and how many programs of a kernel run at a time.
    cuda: Any = import_module("torch.cuda")
    cuda.get_device_properties = properties_of

    def current_stream(device: object = None) -> SimpleNamespace:
        return SimpleNamespace(cuda_stream=fake.stream)

    cuda.current_stream = current_stream
    _INSTALLED.append(fake)
    return fake


def properties_of(device: object) -> SimpleNamespace:
    """The facts of an H100 that programs ask for."""
    return SimpleNamespace(multi_processor_count=132)


def compare_launches(module: Any, run: Callable[[], object], fake: FakeCuda) -> int:
    """Launch each kernel of a call through Triton and directly; gives the number of launches.

    `module` is a generated module with direct launches, `run` a call of it. Raises AssertionError
    where the two pass different parameters to the driver, and where nothing is launched directly.
    """
    original = module.DirectLaunch.__call__
    count = 0

    def both(self: Any, stream: Any, numbers: Any, *tensors: Any) -> None:
        nonlocal count
        assert stream is not None, "nothing is launched directly"
        original(self, stream, numbers, *tensors)
        recorded: list[list[Launch]] = []
        for each in (None, stream, stream):
            fake.record()
            original(self, each, numbers, *tensors)
            recorded.append(fake.recorded())
        assert any(self.prepared), "the launch was not prepared"
        by_triton, *directly = recorded
        assert directly == [by_triton] * 2, f"{self.kernel}: {recorded}"
        count += len(by_triton)

    module.DirectLaunch.__call__ = both
    try:
        run()
    finally:
        module.DirectLaunch.__call__ = original
    return count
