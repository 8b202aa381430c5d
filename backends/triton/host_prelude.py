"""Host functions that emitted modules use; a module contains those that its `run` calls."""

from collections.abc import Iterable

from coda_ir.backends.triton.attention_prelude import ATTENTION, ATTENTION_NAMES
from coda_ir.backends.triton.direct_prelude import DIRECT, DIRECT_NAMES, REPLAY
from coda_ir.backends.triton.gradient_prelude import GRADIENT_HELPERS

_HELPERS: dict[str, str] = {
    "dense": '''\
def dense(x):
    """x in row-major order at an address that vector loads accept: x itself, or a copy."""
    x = x.contiguous()
    return x.clone() if x.data_ptr() % 16 else x
''',
    "are_dense": '''\
def are_dense(*tensors):
    """Whether `dense` gives each of these itself."""
    for x in tensors:
        if not x.is_contiguous() or x.data_ptr() % 16:
            return False
    return True
''',
    "programs": '''\
@functools.cache
def multiprocessors(device):
    return torch.cuda.get_device_properties(device).multi_processor_count


def programs(tiles, device):
    """How many programs share `tiles` tiles: one on each multiprocessor."""
    return min(tiles, multiprocessors(device))
''',
    "tile_counters": '''\
COUNTERS = {}


def tile_counters(tiles, device, known=None):
    """Zeros by tile for kernels whose programs share tiles, which leave zeros behind.

    The calls on a stream follow one another and have the same, which are never freed: launches that
    are repeated have their address. A CUDA graph that is captured gets its own, as it may run
    beside calls: `known` are those of an earlier kernel in it.
    """
    if known is not None and len(known) >= tiles:
        return known
    fresh = functools.partial(torch.zeros, tiles + 1024, dtype=torch.int32, device=device)
    if device.type != "cuda" or torch.cuda.is_current_stream_capturing():
        return fresh()
    stream = (device.index, torch.cuda.current_stream(device).cuda_stream)
    counters = COUNTERS.setdefault(stream, [])
    if not counters or len(counters[-1]) < tiles:
        counters.append(fresh())
    return counters[-1]
''',
    "OVERLAPPING": '''\
def overlapping():
    """Options of a launch that may overlap with the kernel before, where Triton knows them."""
    if INTERPRET.value:
        return {}
    from triton.backends.nvidia.compiler import CUDAOptions

    return {"launch_pdl": True} if hasattr(CUDAOptions, "launch_pdl") else {}


OVERLAPPING = overlapping()
''',
    "attention": ATTENTION,
    "expect": '''\
def expect(x, dtype, shape, call):
    """Raise ValueError unless x, a result of PyTorch, has the type that the program states."""
    if isinstance(x, torch.Tensor) and x.dtype == dtype and x.shape == shape:
        return
    actual = f"{x.dtype} {tuple(x.shape)}" if isinstance(x, torch.Tensor) else type(x).__name__
    raise ValueError(f"{call} gives {actual}, but the program states {dtype} {shape}")
''',
    "library_gemm": '''\
# Whether products of 16-bit types can be had in float32.
WIDE_PRODUCTS = torch.version.hip is None and "dtype" in torch.ops.aten.addmm.overloads()


def library_gemm(dtype, x, w, *others):
    """x @ w and the products of the pairs in `others`, added in float32 and rounded once."""
    if x.is_cuda and not others and x.dtype == dtype:
        return torch.mm(x, w)
    if x.is_cuda and WIDE_PRODUCTS:
        wide = {} if x.dtype == torch.float32 else {"out_dtype": torch.float32}
        total = torch.mm(x, w, **wide)
        for x, w in zip(others[::2], others[1::2]):
            total = torch.addmm(total, x, w, **wide)
    else:
        total = torch.mm(x.float(), w.float())
        for x, w in zip(others[::2], others[1::2]):
            total.addmm_(x.float(), w.float())
    return total.to(dtype)
''',
    "scaled": '''\
def scaled(weight, factor):
    """weight times factor, computed in float32 and rounded to the type of weight; contiguous."""
    return (weight.float() * factor.float()).to(weight.dtype).contiguous()
''',
    "PACKED": '''\
class PackedWeights:
    """Tensors computed from weights alone, kept between calls of `run`.

    An entry holds as long as its tensors are the same objects with the same storage and version,
    so that a weight that was updated in place is packed again. Only what bypasses the version
    counter (writing through `.data`) is not seen: call PACKED.clear() after it. Inference tensors
    have no version and are packed in each call, as are all while a CUDA graph is captured, which
    then packs in each replay. At most 1024 entries are kept; one goes when its weight does.
    """

    def __init__(self):
        self.entries = collections.OrderedDict()
        self.lock = threading.Lock()

    def clear(self):
        with self.lock:
            self.entries.clear()

    @staticmethod
    def state(tensors):
        if any(x.is_inference() for x in tensors):
            return None
        if tensors[0].is_cuda and torch.cuda.is_current_stream_capturing():
            return None
        return [
            (x.data_ptr(), x._version, x.stride(), x.untyped_storage()._cdata) for x in tensors
        ]

    def find(self, place, *tensors):
        """The vector of place number `place` in `run` for these tensors, or None."""
        with self.lock:
            entry = self.entries.get((place, *map(id, tensors)))
        if entry is None:
            return None
        references, _, state, packed = entry
        alive = all(ref() is x for ref, x in zip(references, tensors))
        return packed if alive and state == self.state(tensors) else None

    def keep(self, place, packed, *tensors):
        state = self.state(tensors)
        if state is None:
            return
        if packed.is_cuda:
            # What is kept may be read by any stream.
            torch.cuda.current_stream(packed.device).synchronize()
        key = (place, *map(id, tensors))

        def forget(_):
            self.entries.pop(key, None)

        references = [weakref.ref(x, forget) for x in tensors]
        # The address of a storage is not given to another one as long as this refers to it.
        storages = [
            torch.multiprocessing.reductions.StorageWeakRef(x.untyped_storage()) for x in tensors
        ]
        with self.lock:
            self.entries[key] = (references, storages, state, packed)
            while len(self.entries) > 1024:
                self.entries.popitem(last=False)


PACKED = PackedWeights()
''',
    **GRADIENT_HELPERS,
    "direct": DIRECT,
    "replay": REPLAY,
}

_IMPORTS: dict[str, tuple[str, ...]] = {
    "PACKED": ("collections", "threading", "weakref"),
    "deterministic": ("contextlib",),
    "direct": ("functools", "sys", "threading", "types"),
    "programs": ("functools",),
    "tile_counters": ("functools",),
}

HOST_NAMES = (
    *ATTENTION_NAMES,
    *DIRECT_NAMES,
    *GRADIENT_HELPERS,
    "OVERLAPPING",
    "are_dense",
    "dense",
    "expect",
    "library_gemm",
    "multiprocessors",
    "overlapping",
    "programs",
    "scaled",
    "tile_counters",
    "COUNTERS",
    "PackedWeights",
    "WIDE_PRODUCTS",
    "PACKED",
    "KERNELS",
    "arguments",
    "run",
    "run_boxed",
)
"""Names of a module that its kernels and variables must not take."""


def render_host_helpers(helpers: Iterable[str]) -> str:
    """The source of the host functions `helpers`, in a fixed order."""
    needed = set(helpers)
    return "\n\n".join(source for name, source in _HELPERS.items() if name in needed)


def host_imports(helpers: Iterable[str]) -> list[str]:
    """Modules of the standard library that `helpers` need."""
    return sorted({module for name in helpers for module in _IMPORTS.get(name, ())})
