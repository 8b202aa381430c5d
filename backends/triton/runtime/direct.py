# pyright: basic, reportOptionalMemberAccess=false
"""Launches through the CUDA driver, for kernels that Triton has compiled.

The driver's documented functions are called by ctypes. Triton launches kernels whose parameters
have an unexpected layout, and all kernels on other devices. See `host/launches.py`.
"""

import ctypes
import functools
import itertools
import struct
import threading

import torch
import triton

from coda_ir.backends.triton.runtime.header import INTERPRET

KNOWN_TRITON = ("3.6", "3.7", "3.8", "3.9")
"""Versions whose compiled kernels take the parameters that `ParameterLayout` expects."""

NUMBER = ctypes.c_int
ADDRESS = ctypes.c_void_p

DRIVER_FUNCTIONS = {
    "cuLaunchKernelEx": (ADDRESS,) * 4,
    "cuModuleLoadData": (ADDRESS, ADDRESS),
    "cuModuleGetFunction": (ADDRESS, ADDRESS, ADDRESS),
    "cuFuncSetCacheConfig": (ADDRESS, NUMBER),
    "cuFuncSetAttribute": (ADDRESS, NUMBER, NUMBER),
    "cuFuncGetParamInfo": (ADDRESS, ctypes.c_size_t, ADDRESS, ADDRESS),
    "cuTensorMapEncodeTiled": (ADDRESS, NUMBER, NUMBER, *[ADDRESS] * 5, *[NUMBER] * 4),
    "cuCtxGetCurrent": (ADDRESS,),
    "cuDevicePrimaryCtxRetain": (ADDRESS, NUMBER),
    "cuCtxSetCurrent": (ADDRESS,),
}
"""The functions of the driver, from CUDA 12.4 on, and the types of their arguments."""

STATIC_SHARED_MEMORY = 49152
"""Bytes of shared memory that a kernel may use without asking for more."""

TENSOR_MAP_TYPES = {"torch.float16": 6, "torch.float32": 7, "torch.bfloat16": 9}
"""CUtensorMapDataType by the name of the element type."""

TENSOR_MAP_BYTES = 128
TENSOR_MAP_ALIGNMENT = 64
PROMOTION = 2  # CU_TENSOR_MAP_L2_PROMOTION_L2_128B


class LaunchAttribute(ctypes.Structure):
    """CUlaunchAttribute of the driver."""

    _fields_ = [("id", ctypes.c_uint64), ("value", ctypes.c_uint64 * 8)]


class LaunchConfig(ctypes.Structure):
    """CUlaunchConfig of the driver."""

    _fields_ = [
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared", ctypes.c_uint),
        ("stream", ADDRESS),
        ("attributes", ctypes.POINTER(LaunchAttribute)),
        ("attribute_count", ctypes.c_uint),
    ]


# CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION, allowed
OVERLAPPED = ctypes.pointer(LaunchAttribute(6, (1,)))


@functools.cache
def cuda_driver():
    """Return the CUDA driver, or None if Triton has to launch."""
    version = ".".join(triton.__version__.split(".")[:2])
    if INTERPRET.value or torch.version.hip is not None or version not in KNOWN_TRITON:
        return None
    try:
        driver = ctypes.CDLL("libcuda.so.1")
        for name, types in DRIVER_FUNCTIONS.items():
            getattr(driver, name).argtypes = types
    except (OSError, AttributeError):
        return None
    return driver


def direct_stream(device):
    """Return a device and its current stream for direct launches, or None if Triton has to launch:
    in its debug mode, and while launch hooks, such as a profiler's, are set.
    """
    runtime = triton.knobs.runtime
    if cuda_driver() is None or runtime.debug:
        return None
    for hook in (runtime.launch_enter_hook, runtime.launch_exit_hook):
        if getattr(hook, "calls", hook):
            return None
    if not hasattr(THREAD, "has_context"):
        make_context_current(device.index)
    return device.index, torch.cuda.current_stream(device.index).cuda_stream


THREAD = threading.local()


def make_context_current(device):
    """Make PyTorch's context of a device current in a new thread. The first call of CUDA's runtime
    in a thread does so, but a thread makes none while all its memory comes from PyTorch's cache.
    """
    driver, context = cuda_driver(), ADDRESS()
    driver.cuCtxGetCurrent(ctypes.byref(context))
    if not context and not driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device):
        driver.cuCtxSetCurrent(context)
    THREAD.has_context = True


class Recorder:
    """A stand-in for a kernel: a launch returns its grid, arguments and options."""

    def __getitem__(self, grid):
        return lambda *arguments, **options: (grid, arguments, options)


RECORDER = Recorder()


class DirectLaunch:
    """A function that launches a kernel, given a stream, numbers and tensors.

    A call with the stream, numbers and addresses of an earlier one repeats that launch. Otherwise
    the parameters are prepared for the kernel that Triton compiled for arguments of the same
    divisibility. Triton launches the kernel if there is no such kernel, or if the driver returns an
    error, so that Triton raises the exception. No tensor is kept.
    """

    MAX_ENTRIES = 4096

    def __init__(self, kernel, origins, launch):
        """Initialize. `origins` has, for each tensor that the kernel takes, the position among the
        call's tensors of that tensor or of the one that it is a view of.
        """
        self.kernel = kernel
        self.origins = origins
        self.launch = launch
        self.prepared = {}
        self.templates = {}
        self.layouts = {}

    def __call__(self, stream, numbers, *tensors):
        key = (stream, numbers, *map(torch.Tensor.data_ptr, tensors))
        prepared = self.prepared.get(key)
        if prepared is None and stream is not None:
            template = self.template(stream[0], numbers, tensors, key[2:])
            if template is None:  # Triton has launched the kernel
                return
            prepared = template.prepared(stream[1], key[2:])
            if prepared is not None:
                self.keep(self.prepared, key, prepared)
        if prepared is None or prepared.run():
            self.launch(self.kernel, *numbers, *tensors)

    def template(self, device, numbers, tensors, addresses):
        """Return the launch for these numbers; None if Triton has launched the kernel."""
        key = (device, numbers, *[address % 16 == 0 for address in addresses])
        template = self.templates.get(key)
        if template is None:
            grid, arguments, options = self.launch(RECORDER, *numbers, *tensors)
            kind = (device, *map(specialization, arguments))
            if kind not in self.layouts:
                compiled = self.kernel.warmup(*arguments, grid=grid, **options)
                self.keep(self.layouts, kind, attempt(ParameterLayout, compiled, arguments))
            origins = [(place, tensors[place]) for place in self.origins]
            template = attempt(Template, self.layouts[kind], grid, arguments, origins)
            if template is None:
                self.kernel[grid](*arguments, **options)
            else:
                self.keep(self.templates, key, template)
        return template

    def keep(self, entries, key, value):
        """Add an entry to a dictionary, which is emptied first if it is full."""
        if len(entries) >= self.MAX_ENTRIES:
            entries.clear()
        entries[key] = value


def direct(kernel, origins):
    """Return a constructor of `DirectLaunch` for a kernel, given its `launch`."""
    return functools.partial(DirectLaunch, kernel, origins)


def attempt(make, *arguments):
    """Return the result of `make`, or None if it raises because something is unexpected."""
    try:
        return make(*arguments)
    except (AttributeError, LookupError, TypeError, ValueError, StopIteration, struct.error):
        return None


def specialization(x):
    """Return the properties of an argument that Triton may specialize a kernel for."""
    if isinstance(x, float):
        return ()
    if isinstance(x, int):
        return x % 16 == 0, x == 1, -(2**31) <= x < 2**31
    return tensor_of(x).data_ptr() % 16 == 0


def tensor_of(x):
    """Return x, or the tensor of a descriptor x."""
    return x if isinstance(x, torch.Tensor) else x.base


class ParameterLayout:
    """The parameters of a compiled kernel: for each argument a list of pairs of a format of
    `struct` and an offset. Raises an error that `attempt` catches if the kernel needs other
    parameters.
    """

    def __init__(self, compiled, arguments):
        self.compiled = compiled
        self.metadata = compiled.metadata
        self.function = loaded(compiled)
        self.maps = list(self.metadata.tensordesc_meta or ())
        formats = [*map(parameter_formats, compiled.src.signature.values(), arguments)]
        # The last two are pointers to scratch memory, which the kernel does not use.
        sizes = [*map(struct.calcsize, sum(formats, ())), 8, 8]
        found = [*driver_parameters(self.function)]
        offsets = iter([offset for offset, _ in found])
        self.parameters = [[(format, next(offsets)) for format in each] for each in formats]
        self.offsets = [offset for offset, _ in found]
        self.bytes = (sum(found[-1]) + 7) // 8 * 8
        self.pointers = struct.Struct(f"{len(found)}Q")
        size = TENSOR_MAP_ALIGNMENT + self.bytes + self.pointers.size
        self.memory = ctypes.c_char * size
        needs = ("global_scratch_size", "profile_scratch_size", "launch_cooperative_grid")
        is_plain = not any(getattr(self.metadata, need) for need in needs)
        is_expected = [size for _, size in found] == sizes and len(formats) == len(arguments)
        if not (is_plain and is_expected and self.metadata.num_ctas == 1):
            raise ValueError("the kernel has other parameters")


def parameter_formats(type, argument):
    """Return the formats of the parameters for an argument; none for a constant."""
    if type == "constexpr":
        return ()
    if type in ("i32", "fp32"):
        return ("i" if type == "i32" else "f",)
    if type.startswith("*"):
        return ("Q",)
    rank = len(argument.shape)
    return (f"{TENSOR_MAP_BYTES}s", *"i" * rank, *"q" * rank)


def loaded(compiled):
    """Return the function of a compiled kernel, loaded for the current device for good. Raises
    ValueError if the driver cannot load it.
    """
    driver, module, function = cuda_driver(), ADDRESS(), ADDRESS()
    code, name, shared = compiled.asm["cubin"], compiled.name.encode(), compiled.metadata.shared
    error = driver.cuModuleLoadData(ctypes.byref(module), code)
    error = error or driver.cuModuleGetFunction(ctypes.byref(function), module, name)
    if not error and shared > STATIC_SHARED_MEMORY:
        driver.cuFuncSetCacheConfig(function, 1)  # CU_FUNC_CACHE_PREFER_SHARED
        # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        error = driver.cuFuncSetAttribute(function, 8, shared)
    if error:
        raise ValueError(f"the driver does not load the kernel: error {error}")
    return function


def driver_parameters(function):
    """Yield the offset and the size of each parameter of a function, as the driver reports them."""
    offset, size = ctypes.c_size_t(), ctypes.c_size_t()
    find, places = cuda_driver().cuFuncGetParamInfo, (ctypes.byref(offset), ctypes.byref(size))
    for index in itertools.count():
        if find(function, index, *places):
            return
        yield offset.value, size.value


class TensorMap:
    """The tensor map of a descriptor, for any address of its tensor."""

    def __init__(self, descriptor, layout):
        size, rank = descriptor.base.dtype.itemsize, len(descriptor.shape)
        # Later versions of Triton can round the loaded elements.
        rounds = getattr(descriptor, "round_f32_to_tf32", False)
        if layout["elem_size"] != size or layout["fp4_padded"] or rounds:
            raise ValueError("the tensor map has other elements")
        extents = (ctypes.c_uint64 * rank)(*descriptor.shape[::-1])
        strides = (ctypes.c_uint64 * rank)(*[size * x for x in descriptor.strides[-2::-1]])
        box = (ctypes.c_uint32 * rank)(*layout["block_size"][::-1])
        steps = (ctypes.c_uint32 * rank)(*[1] * rank)
        fill = int(descriptor.padding == "nan")
        self.first = (TENSOR_MAP_TYPES[str(descriptor.base.dtype)], rank)
        self.others = (extents, strides, box, steps, 0, layout["swizzle"], PROMOTION, fill)

    def encode(self, place, address):
        """Write the tensor map for an address to `place`; return the driver's error or 0."""
        encode = cuda_driver().cuTensorMapEncodeTiled
        return encode(place, *self.first, address, *self.others)


def offset_in(x, origin):
    """Return the offset in bytes of a view from the start of another tensor. Raises ValueError for
    a tensor with its own storage.
    """
    if x.untyped_storage().data_ptr() != origin.untyped_storage().data_ptr():
        raise ValueError("the tensor is no view")
    return x.data_ptr() - origin.data_ptr()


class Template:
    """A launch with given numbers, for tensors at any addresses. Raises an error that `attempt`
    catches if the arguments do not fit the layout.
    """

    def __init__(self, layout, grid, arguments, origins):
        """Initialize. `origins` has for each tensor the position of its address in the call, and
        the tensor there.
        """
        metadata, block = layout.metadata, (32 * layout.metadata.num_warps, 1, 1)
        grid, overlaps = (*grid, 1, 1)[:3], int(metadata.launch_pdl)
        self.layout = layout
        self.config = LaunchConfig(grid, block, metadata.shared, None, OVERLAPPED, overlaps)
        self.tensors = []
        maps, data = iter(layout.maps), bytearray(layout.bytes)
        origins = iter(origins)
        for x, parameters in zip(arguments, layout.parameters):
            values = (x,)
            if not isinstance(x, int | float):
                is_tensor = isinstance(x, torch.Tensor)
                values = (0,) if is_tensor else (b"", *x.shape, *x.strides)
                tensor_map = None if is_tensor else TensorMap(x, next(maps))
                place, origin = next(origins)
                start = offset_in(tensor_of(x), origin)
                self.tensors.append((parameters[0][1], place, start, tensor_map))
            for (format, offset), value in zip(parameters, values):
                struct.pack_into(format, data, offset, value)
        # The parameters of the last launch, and the addresses in them.
        self.last = (bytes(data), None)

    def prepared(self, stream, addresses):
        """Return the launch for these addresses; None if the driver cannot encode a tensor map."""
        data, known = self.last
        memory = self.layout.memory()
        first = -ctypes.addressof(memory) % TENSOR_MAP_ALIGNMENT
        start, end = ctypes.addressof(memory) + first, first + len(data)
        ctypes.memmove(start, data, len(data))
        for offset, place, first_byte, tensor_map in self.tensors:
            address = addresses[place] + first_byte
            if known is not None and known[place] == addresses[place]:
                continue
            if tensor_map is None:
                struct.pack_into("Q", memory, first + offset, address)
            elif tensor_map.encode(start + offset, address):
                return None
        self.last = (memory[first:end], addresses)
        pointers = [start + offset for offset in self.layout.offsets]
        self.layout.pointers.pack_into(memory, end, *pointers)
        config = LaunchConfig.from_buffer_copy(self.config)
        config.stream = stream
        return PreparedLaunch(self.layout.function, config, memory, start + len(data))


class PreparedLaunch:
    """A launch; its function `run` returns an error of the driver, or 0."""

    def __init__(self, function, config, memory, pointers):
        """Initialize. `memory` holds the parameters and, at address `pointers`, their addresses."""
        self.kept = (config, memory)
        launch, place = cuda_driver().cuLaunchKernelEx, ctypes.addressof(config)
        self.run = functools.partial(launch, place, function, pointers, None)
