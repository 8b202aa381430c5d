# pyright: basic, reportOptionalMemberAccess=false
"""Launches through the CUDA driver, for kernels that Triton has compiled and launched once.

The driver is called by ctypes, with what NVIDIA documents of it. A kernel whose parameters are not
the expected ones, and everything on other devices, is left to Triton. See `host/launches.py`.
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
    "cuFuncGetParamInfo": (ADDRESS, ctypes.c_size_t, ADDRESS, ADDRESS),
    "cuTensorMapEncodeTiled": (ADDRESS, NUMBER, NUMBER, *[ADDRESS] * 5, *[NUMBER] * 4),
    "cuCtxGetCurrent": (ADDRESS,),
    "cuDevicePrimaryCtxRetain": (ADDRESS, NUMBER),
    "cuCtxSetCurrent": (ADDRESS,),
}
"""The functions of the driver, from CUDA 12.4 on, and the types of their arguments."""

TENSOR_MAP_TYPES = {torch.float16: 6, torch.float32: 7, torch.bfloat16: 9}
"""CUtensorMapDataType by element type."""

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
    """The CUDA driver; None where Triton has to launch."""
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
    """A device and its current stream, for direct launches; None where Triton has to launch: in
    the debug mode, and while hooks, as profilers set them, want to see launches.
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
    """Let a new thread have PyTorch's context of a device, which its first call of CUDA's runtime
    makes current elsewhere. It has none while all memory comes from PyTorch's cache.
    """
    driver, context = cuda_driver(), ADDRESS()
    driver.cuCtxGetCurrent(ctypes.byref(context))
    if not context and not driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device):
        driver.cuCtxSetCurrent(context)
    THREAD.has_context = True


class Recorder:
    """Takes the place of a kernel: a launch gives its grid, arguments and options."""

    def __getitem__(self, grid):
        return lambda *arguments, **options: (grid, arguments, options)


RECORDER = Recorder()


class DirectLaunch:
    """A function that launches a kernel, given a stream, numbers and tensors.

    A launch on the same stream with the numbers and addresses of an earlier one repeats that. Other
    arguments are prepared for the kernel that Triton compiled for arguments that are as divisible
    as these. Triton launches what is new, and what the driver refuses: it raises what there is to
    raise. No tensor is kept.
    """

    MAX_ENTRIES = 4096

    def __init__(self, kernel, origins, launch):
        """`origins` has the position among the tensors of each tensor that the kernel takes, or of
        the one that it is a view of.
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
        """The launch for these numbers; None where Triton has launched the kernel."""
        key = (device, numbers, *[address % 16 == 0 for address in addresses])
        template = self.templates.get(key)
        if template is None:
            grid, arguments, options = self.launch(RECORDER, *numbers, *tensors)
            kind = (device, *map(specialization, arguments))
            origins = [(place, tensors[place]) for place in self.origins]
            template = attempt(Template, self.layouts.get(kind), grid, arguments, origins)
            if template is not None:
                self.keep(self.templates, key, template)
                return template
            compiled = self.kernel[grid](*arguments, **options)
            if kind not in self.layouts:
                layout = attempt(ParameterLayout, compiled, arguments)
                self.keep(self.layouts, kind, layout)
        return template

    def keep(self, entries, key, value):
        """Add an entry to a dictionary that is emptied when it gets too large."""
        if len(entries) >= self.MAX_ENTRIES:
            entries.clear()
        entries[key] = value


def direct(kernel, origins):
    return functools.partial(DirectLaunch, kernel, origins)


def attempt(make, *arguments):
    """The result of `make`; None where something is not as expected."""
    try:
        return make(*arguments)
    except (AttributeError, LookupError, TypeError, ValueError, StopIteration, struct.error):
        return None


def specialization(x):
    """All that Triton may compile a kernel for, of an argument."""
    if isinstance(x, int):
        return x % 16 == 0, x == 1, -(2**31) <= x < 2**31
    return tensor_of(x).data_ptr() % 16 == 0


def tensor_of(x):
    """A tensor, or that below a descriptor."""
    return x if isinstance(x, torch.Tensor) else x.base


class ParameterLayout:
    """The parameters of a compiled kernel: for each argument a list of formats, those of `struct`,
    and offsets. Raises some error for a kernel that needs more than these.
    """

    def __init__(self, compiled, arguments):
        self.compiled = compiled  # the code is there as long as this is
        self.metadata = compiled.metadata
        self.maps = list(self.metadata.tensordesc_meta or ())
        formats = [*map(parameter_formats, compiled.src.signature.values(), arguments)]
        # The last two are scratch memory, which the kernel does not need.
        sizes = [*map(struct.calcsize, sum(formats, ())), 8, 8]
        found = [*driver_parameters(compiled.function)]
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
    """The formats of the parameters for an argument; a constant has none."""
    if type == "constexpr":
        return ()
    if type == "i32":
        return ("i",)
    if type.startswith("*"):
        return ("Q",)
    rank = len(argument.shape)
    return (f"{TENSOR_MAP_BYTES}s", *"i" * rank, *"q" * rank)


def driver_parameters(function):
    """The offset and the size of each parameter of a function, by the driver."""
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
        # Later versions of Triton round what a descriptor loads, where it is asked to.
        rounds = getattr(descriptor, "round_f32_to_tf32", False)
        if layout["elem_size"] != size or layout["fp4_padded"] or rounds:
            raise ValueError("the tensor map has other elements")
        extents = (ctypes.c_uint64 * rank)(*descriptor.shape[::-1])
        strides = (ctypes.c_uint64 * rank)(*[size * x for x in descriptor.strides[-2::-1]])
        box = (ctypes.c_uint32 * rank)(*layout["block_size"][::-1])
        steps = (ctypes.c_uint32 * rank)(*[1] * rank)
        fill = int(descriptor.padding == "nan")
        self.first = (TENSOR_MAP_TYPES[descriptor.base.dtype], rank)
        self.others = (extents, strides, box, steps, 0, layout["swizzle"], PROMOTION, fill)

    def encode(self, place, address):
        """Write the tensor map for an address to a place in memory; gives an error, or 0."""
        encode = cuda_driver().cuTensorMapEncodeTiled
        return encode(place, *self.first, address, *self.others)


def offset_in(x, origin):
    """The byte at which a view begins behind the address of another tensor. Raises ValueError for a
    tensor with memory of its own.
    """
    if x.untyped_storage().data_ptr() != origin.untyped_storage().data_ptr():
        raise ValueError("the tensor is no view")
    return x.data_ptr() - origin.data_ptr()


class Template:
    """A launch with numbers, whose tensors may be at any addresses. Raises some error where the
    arguments do not fit the layout.
    """

    def __init__(self, layout, grid, arguments, origins):
        """`origins` has the place among the addresses, and the tensor there, of each tensor."""
        metadata, block = layout.metadata, (32 * layout.metadata.num_warps, 1, 1)
        grid, overlaps = (*grid, 1, 1)[:3], int(metadata.launch_pdl)
        self.layout = layout
        self.config = LaunchConfig(grid, block, metadata.shared, None, OVERLAPPED, overlaps)
        self.tensors = []
        maps, data = iter(layout.maps), bytearray(layout.bytes)
        origins = iter(origins)
        for x, parameters in zip(arguments, layout.parameters):
            values = (x,)
            if not isinstance(x, int):
                is_tensor = isinstance(x, torch.Tensor)
                values = (0,) if is_tensor else (b"", *x.shape, *x.strides)
                tensor_map = None if is_tensor else TensorMap(x, next(maps))
                place, origin = next(origins)
                start = offset_in(tensor_of(x), origin)
                self.tensors.append((parameters[0][1], place, start, tensor_map))
            for (format, offset), value in zip(parameters, values):
                struct.pack_into(format, data, offset, value)
        # The parameters that were prepared last, and the addresses in them.
        self.last = (bytes(data), None)

    def prepared(self, stream, addresses):
        """The launch with tensors at these addresses; None where the driver has no tensor map."""
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
        return PreparedLaunch(self.layout.compiled, config, memory, start + len(data))


class PreparedLaunch:
    """A launch as a function `run`, which gives an error of the driver, or 0."""

    def __init__(self, compiled, config, memory, pointers):
        """The parameters are in `memory`, and at the address `pointers` those to each of them."""
        self.kept = (compiled, config, memory)
        launch, place = cuda_driver().cuLaunchKernelEx, ctypes.addressof(config)
        self.run = functools.partial(launch, place, compiled.function, pointers, None)
