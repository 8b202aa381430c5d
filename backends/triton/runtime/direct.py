# pyright: basic, reportOptionalMemberAccess=false, reportOptionalCall=false, reportAttributeAccessIssue=false
"""Launches without what Triton does in Python for each one of them: on NVIDIA GPUs with a Triton
whose launchers are known. Elsewhere the stream is None, and every launch is Triton's own. See
`host/launches.py`.
"""

import functools
import sys
import threading
import types

import torch
import triton

from coda_ir.backends.triton.runtime.header import INTERPRET

KNOWN_LAUNCHERS = {"3.6": "iiiKKppOOOOOO", "3.7": None, "3.8": None, "3.9": None}
"""What the launchers of Triton's versions take before the arguments of a kernel. In 3.6 each kernel
has its own: grid, stream, function, cooperative, dependent, two scratch buffers, metadata, what
hooks are given, two hooks. From 3.7 on there is one for all, which takes the scratch buffers last,
and then what the arguments are, and a tuple of them.
"""


@functools.cache
def direct_driver():
    """Triton's driver, or None where launches have to be Triton's own."""
    if INTERPRET.value:
        return None
    driver = triton.runtime.driver.active
    nvidia = sys.modules.get("triton.backends.nvidia.driver")
    if nvidia is None or not isinstance(driver, nvidia.CudaDriver):
        return None
    version = ".".join(triton.__version__.split(".")[:2])
    launcher = getattr(nvidia, "_BASE_ARGS_FORMAT", None)
    return driver if KNOWN_LAUNCHERS.get(version, "unknown") == launcher else None


def direct_stream(device):
    """The current stream of a device for direct launches; None where each has to be Triton's own.

    The default stream, which is 0 on each device, is the complement of the number of the device.
    Hooks around launches, which profilers set, and the debug mode are seen in each call of `run`.
    """
    driver, runtime = direct_driver(), triton.knobs.runtime
    if driver is None or runtime.debug:
        return None
    for hook in (runtime.launch_enter_hook, runtime.launch_exit_hook):
        if getattr(hook, "calls", hook):
            return None
    return driver.get_current_stream(device.index) or ~(device.index or 0)


def direct_call(device):
    """A call on the current stream of a device."""
    return Call(direct_stream(device))


@functools.cache
def empty_on(device):
    """A function of shape, strides and element type that allocates on a device, the current one.

    It is the one of programs that PyTorch compiles, where it has that: without its dispatcher.
    """
    guards = getattr(torch._C._dynamo, "guards", None)
    empty = getattr(guards, f"_empty_strided_{device.type}", None)
    return empty or functools.partial(empty_by_torch, device)


def empty_by_torch(device, shape, strides, dtype):
    return torch.empty_strided(shape, strides, dtype=dtype, device=device)


ADDRESS = torch.Tensor.data_ptr


class Recorder:
    """Stands in for a kernel to find out what it would be launched with."""

    def __getitem__(self, grid):
        return lambda *arguments, **options: (grid, arguments, options)


RECORDER = Recorder()


class Call:
    """A call of `run`: the stream, or None, and, where all of the call may be repeated, what is
    collected for that: launches, and bytes of temporaries.
    """

    def __init__(self, stream, calls=None, sizes=None, allocate=None, work=None, key=None):
        self.stream = stream
        self.calls, self.sizes, self.allocate = calls, sizes, allocate
        self.work, self.key = work, key
        self.used = 0
        self.launches = None if key is None else []

    def empty(self, shape, strides, dtype):
        """A temporary: a part of the memory of all of them, where that is known."""
        size = dtype.itemsize
        for extent in shape:
            size *= extent
        start = self.used
        self.used += (size + 255) // 256 * 256
        if self.work is None:
            return self.allocate(shape, strides, dtype)
        return self.work[start : start + size].view(dtype).view(shape)

    def keep(self):
        """Remember what was collected."""
        if self.work is None:
            keep(self.calls.sizes, self.sizes, self.used)
        elif self.launches is not None:
            keep(self.calls.known, self.key, [launch.run for launch in self.launches])
            if self.calls.is_observed:
                seen = (ADDRESS(self.work), self.work.numel(), self.launches)
                keep(self.calls.seen, threading.get_ident(), seen)


class DirectLaunch:
    """A function that launches a kernel, given a Call, numbers and tensors.

    A launch on the same stream with the numbers and addresses of an earlier one passes what that
    one passed. Other arguments are prepared for the kernel that Triton compiled for arguments that
    are as divisible as these. What it has not been asked for yet is launched by Triton.
    """

    MOST = 4096

    def __init__(self, kernel, launch):
        self.kernel = kernel
        self.launch = launch
        self.prepared = {}
        self.templates = {}
        self.compiled = {}

    def __call__(self, call, numbers, *tensors):
        stream = call.stream
        if stream is None:
            self.launch(self.kernel, *numbers, *tensors)
            return
        key = (stream, numbers, *map(ADDRESS, tensors))
        prepared = self.prepared.get(key)
        if prepared is None:
            prepared = self.prepare(stream if stream > 0 else 0, numbers, tensors, key[2:])
            if prepared is None:
                call.launches = None
                return
            keep(self.prepared, key, prepared)
        prepared.run()
        if call.launches is not None:
            call.launches.append(prepared)

    def prepare(self, stream, numbers, tensors, addresses):
        """The PreparedLaunch; None where Triton has launched it."""
        device = direct_driver().get_current_device()
        aligned = (*[address % 16 == 0 for address in addresses],)
        template = self.templates.get((device, numbers, aligned))
        if template is None:
            template = self.make_template(device, numbers, tensors)
            if template is None:
                return None
            # Of a tensor that is passed twice, the next launch may have two.
            if len({*map(id, tensors)}) == len(tensors):
                keep(self.templates, (device, numbers, aligned), template)
        return template.prepared(stream, tensors, addresses)

    def make_template(self, device, numbers, tensors):
        """The launch for these numbers; None where Triton has launched it."""
        grid, arguments, options = self.launch(RECORDER, *numbers, *tensors)
        values = [x if isinstance(x, int) else address(x) for x in arguments]
        # What Triton compiles a kernel for is decided by these, or by less.
        place = (device, *[(value % 16 == 0, value == 1) for value in values])
        launcher = self.compiled.get(place)
        fits = all(-(2**31) <= number < 2**31 for number in numbers)
        if launcher is None or not fits:
            launcher = launcher_of(self.kernel[grid](*arguments, **options), arguments)
            if launcher is not None and fits:
                keep(self.compiled, place, launcher)
            return None
        return Template(launcher, (*grid, 1, 1)[:3], arguments, tensors)


class Template:
    """A launch with tensors that are still to be given, which are as divisible as earlier ones."""

    def __init__(self, launcher, grid, arguments, tensors):
        self.launcher = launcher
        self.grid = grid
        self.arguments = []
        places = {id(tensor): place for place, tensor in enumerate(tensors)}
        for index, x in enumerate(arguments):
            if isinstance(x, int):
                self.arguments.append((x, None, None))
            elif isinstance(x, torch.Tensor):
                self.arguments.append((None, places[id(x)], None))
            else:
                box = Box(x, launcher.descriptors[index])
                self.arguments.append((None, places[id(x.base)], box))

    def prepared(self, stream, tensors, addresses):
        values, found = [], []
        for number, place, box in self.arguments:
            if place is None:
                values.append(number)
                continue
            found.append((len(values), addresses[place]))
            if box is None:
                values.append(addresses[place])
            else:
                values += box.values(addresses[place], tensors[place])
        return PreparedLaunch(self.launcher, self.grid, stream, values, found)


class PreparedLaunch:
    """A launch as a function `run`, and what it passes: `addresses` has the places among `values`
    of those of tensors, and of descriptors of these.
    """

    def __init__(self, launcher, grid, stream, values, addresses):
        self.launcher, self.grid, self.values, self.addresses = launcher, grid, values, addresses
        self.run = launcher.prepared(grid, stream, values)


def direct(kernel):
    return functools.partial(DirectLaunch, kernel)


class Descriptors:
    """What a launcher takes for one of its descriptors, by address and extents.

    It is made by Triton's driver and holds an address only, no tensor.
    """

    def __init__(self, layout):
        self.layout = layout
        self.known = {}

    def values(self, key, make_descriptor, tensor):
        values = self.known.get(key)
        if values is None:
            make = sys.modules["triton.backends.nvidia.driver"].make_tensordesc_arg
            # From 3.8 on, with what precedes the arguments, which it has no use for.
            rest = (None,) * (make.__code__.co_argcount - 2)
            values = make(make_descriptor(tensor), self.layout, *rest)
            keep(self.known, key, values)
        return values


class Box:
    """A descriptor without its tensor."""

    def __init__(self, descriptor, descriptors):
        self.kind = type(descriptor)
        self.fields = {**descriptor.__dict__, "base": None}
        self.extents = (*descriptor.shape, *descriptor.strides)
        self.descriptors = descriptors

    def values(self, address, tensor):
        """What a launcher takes for the box of a tensor."""
        return self.descriptors.values((address, *self.extents), self.descriptor, tensor)

    def descriptor(self, tensor):
        """As the constructor makes it, whose checks the first one has passed."""
        made = self.kind.__new__(self.kind)
        made.__dict__.update(self.fields)
        made.base = tensor
        return made


def keep(entries, key, value):
    """Add an entry to a dictionary that is emptied when it gets too large."""
    if len(entries) >= DirectLaunch.MOST:
        entries.clear()
    entries[key] = value


def address(x):
    """The address of a tensor, or of that below a descriptor."""
    return (x if isinstance(x, torch.Tensor) else x.base).data_ptr()


class Launcher:
    """How a compiled kernel is launched: the C function, what it takes between the stream and the
    arguments, and Descriptors by their positions among the arguments, in order.
    """

    def __init__(self, compiled, launch, descriptors):
        run = compiled.run
        self.compiled = compiled  # the code is there as long as this is
        self.launch = launch
        self.descriptors = descriptors
        self.fixed = (compiled.function, run.launch_cooperative_grid, run.launch_pdl)
        metadata = (compiled.packed_metadata, None, None, None)
        self.has_tuple = getattr(run, "kernel_signature", None) is not None
        if self.has_tuple:
            self.fixed += (*metadata, None, None, run.arg_annotations, run.kernel_signature)
        else:
            self.fixed += (None, None, *metadata)

    def prepared(self, grid, stream, values):
        values = ((*values,),) if self.has_tuple else values
        return functools.partial(self.launch, *grid, stream, *self.fixed, *values)


def launcher_of(compiled, arguments):
    """The Launcher of a kernel that Triton compiled and launched with these arguments; None where
    it is not known.
    """
    run = getattr(compiled, "run", None)
    nvidia = sys.modules["triton.backends.nvidia.driver"]
    if type(run) is not nvidia.CudaLauncher or getattr(run, "gsan_enabled", False):
        return None
    if run.global_scratch_size or run.profile_scratch_size:
        return None
    places = [i for i, x in enumerate(arguments) if not isinstance(x, (int, torch.Tensor))]
    layouts = getattr(compiled.metadata, "tensordesc_meta", None) or []
    if len(layouts) != len(places) or None in layouts:
        return None
    launch = run.launch
    if places:
        # The C function is inside one that expands the descriptors.
        cells = dict(zip(launch.__code__.co_freevars, launch.__closure__ or ()))
        launch = cells["launcher"].cell_contents if "launcher" in cells else None
    if not isinstance(launch, types.BuiltinFunctionType):
        return None
    return Launcher(compiled, launch, dict(zip(places, map(Descriptors, layouts))))
