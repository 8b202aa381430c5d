"""Emitted modules with `gluon` bound to the simulator, and launches of their kernels.

Only the namespace of the loaded module sees the simulator: its imports of
`triton.experimental.gluon` and of `torch` give what is defined here, other modules the real ones.
"""

import builtins
import importlib
import inspect
import itertools
import linecache
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import prod
from types import ModuleType, SimpleNamespace
from typing import Any, cast

import numpy as np
import torch

from support.gluon_simulator import asynchronous, dtypes, functions, global_memory, shared_memory
from support.gluon_simulator.global_memory import GlobalMemory, TensorDescriptor
from support.gluon_simulator.layouts import LAYOUTS, MBarrierLayout, items_of
from support.gluon_simulator.program import SOURCE_PREFIX, Program, is_running, run_program
from support.gluon_simulator.tensors import Tensor, add, as_tensor, multiply, subtract


@dataclass
class Settings:
    """Settings with which the kernels of a loaded module run."""

    seed: int = 0
    """Chooses the schedule."""
    multiprocessors: int = 3
    """The number that the module gets for the GPU."""
    only_programs: int | None = None
    """Run at most this many programs of a grid, drawn at random; None runs all."""


# Launches


class Kernel:
    """A function under `gluon.jit`: called by a kernel, or launched as `kernel[grid](...)`."""

    def __init__(self, function: Callable[..., Any], settings: Settings):
        self.fn, self._settings = function, settings
        self.__name__, self.__doc__ = function.__name__, function.__doc__
        self.signature = inspect.signature(function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.fn(*args, **kwargs)

    def __getitem__(self, grid: Any) -> Callable[..., None]:
        def launch(*args: Any, num_warps: int = 4, **kwargs: Any) -> None:
            options = [name for name in kwargs if name not in self.signature.parameters]
            arguments = {name: kwargs[name] for name in kwargs if name not in options}
            self._launch(grid, args, arguments, num_warps)

        return launch

    def _launch(self, grid: Any, args: Sequence[Any], kwargs: dict[str, Any], warps: int) -> None:
        bound = self.signature.bind(*args, **kwargs)
        bound.apply_defaults()
        extents = _extents(grid(dict(bound.arguments)) if callable(grid) else grid)
        for name, value in bound.arguments.items():
            if "constexpr" not in str(self.signature.parameters[name].annotation):
                bound.arguments[name] = _argument(name, value)
        for index in self._programs(extents):
            program = Program(index, extents, warps, self._settings.seed)
            with np.errstate(all="ignore"):
                run_program(program, lambda: self.fn(*bound.args, **bound.kwargs))

    def _programs(self, extents: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        """The programs of a grid in a random order."""
        order = list(np.ndindex(*extents))
        random.Random(f"{self._settings.seed} {prod(extents)}").shuffle(order)
        return itertools.islice(order, self._settings.only_programs)


def _extents(grid: object) -> tuple[int, int, int]:
    x, y, z = (*items_of(grid), 1, 1)[:3]
    return int(x), int(y), int(z)


def _argument(name: str, value: Any) -> Any:
    """Return what a kernel gets for a run-time argument."""
    if isinstance(value, np.ndarray):
        value = torch.as_tensor(value)
    if isinstance(value, torch.Tensor):
        return GlobalMemory(value, name).pointer()
    if isinstance(value, bool | int | float):
        return as_tensor(value)
    if type(value) is tuple:
        return tuple(_argument(name, item) for item in cast("tuple[Any, ...]", value))
    return value


def _kernel_range(*bounds: Any) -> Any:
    """`range` in a kernel: its variable is known at run time only, unlike that of a host's loop."""
    numbers = range(*(builtins.int(as_tensor(b).__index__()) for b in bounds))
    return map(as_tensor, numbers) if is_running() else numbers


# Modules


def _unchanged(function: Any) -> Any:
    return function


def _gluon(settings: Settings) -> SimpleNamespace:
    """`triton.experimental.gluon`."""

    def jit(function: Callable[..., Any] | None = None, **options: Any) -> Any:
        def decorate(function: Callable[..., Any]) -> Kernel:
            return Kernel(function, settings)

        return decorate(function) if function else decorate

    nvidia = SimpleNamespace(hopper=SimpleNamespace(TensorDescriptor=TensorDescriptor))
    return SimpleNamespace(
        jit=jit,
        constexpr_function=_unchanged,
        must_use_result=_unchanged,
        nvidia=nvidia,
        language=_language(),
    )


def _language() -> SimpleNamespace:
    """`triton.experimental.gluon.language`."""
    same_name = (
        *("constexpr", "full", "zeros", "full_like", "zeros_like", "arange", "to_tensor", "cast"),
        *("convert_layout", "set_auto_layout", "expand_dims", "reshape", "ravel", "permute"),
        *("broadcast", "join", "split", "gather", "where", "maximum", "minimum", "fma", "cdiv"),
        *("inline_asm_elementwise", "reduce", "xor_sum", "reduce_or", "program_id"),
        *("num_programs", "num_warps", "num_ctas", "thread_barrier", "assume", "static_assert"),
        *("device_assert", "static_print", "device_print", "static_range", "warp_specialize"),
    )
    return SimpleNamespace(
        **LAYOUTS,
        **{name: dtype for name, dtype in vars(dtypes).items() if isinstance(dtype, dtypes.DType)},
        **{name: getattr(functions, name) for name in same_name},
        **functions.FUNCTIONS,
        tensor=Tensor,
        tuple=tuple,
        add=add,
        sub=subtract,
        mul=multiply,
        abs=functions.absolute,
        fdiv=functions.divided,
        div_rn=functions.divided,
        sum=functions.total,
        max=functions.largest,
        min=functions.smallest,
        multiple_of=functions.hinted,
        max_contiguous=functions.hinted,
        max_constancy=functions.hinted,
        load=global_memory.load,
        store=global_memory.store,
        atomic_add=global_memory.atomic_add,
        allocate_shared_memory=shared_memory.allocate,
        shared_memory_descriptor=shared_memory.SharedView,
        nvidia=SimpleNamespace(hopper=_hopper()),
    )


def _hopper() -> SimpleNamespace:
    """`triton.experimental.gluon.language.nvidia.hopper`."""
    barriers = ("init", "invalidate", "expect", "arrive", "wait")
    copies = ("async_copy_global_to_shared", "async_copy_shared_to_global", "store_wait")
    products = ("warpgroup_mma", "warpgroup_mma_init", "warpgroup_mma_wait", "fence_async_shared")
    return SimpleNamespace(
        mbarrier=SimpleNamespace(
            MBarrierLayout=MBarrierLayout,
            **{name: getattr(asynchronous, name) for name in barriers},
        ),
        tma=SimpleNamespace(
            **{name: getattr(asynchronous, name) for name in copies},
            make_tensor_descriptor=asynchronous.make_tensor_descriptor,
            tensor_descriptor=TensorDescriptor,
        ),
        async_copy=SimpleNamespace(
            async_copy_global_to_shared=asynchronous.copy_global_to_shared,
            mbarrier_arrive=asynchronous.copy_arrive,
        ),
        **{name: getattr(asynchronous, name) for name in products},
    )


class _Torch:
    """The module torch for a host function: empty tensors are NaN (integers: 119)."""

    def __init__(self, settings: Settings):
        self.cuda = _Cuda(settings)

    def __getattr__(self, name: str) -> Any:
        return getattr(torch, name)

    def empty(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        return _poisoned(torch.empty(*args, **kwargs))

    def empty_like(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        return _poisoned(torch.empty_like(*args, **kwargs))


def _poisoned(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.fill_(float("nan") if tensor.is_floating_point() else 119)


class _Cuda:
    """`torch.cuda` with one Hopper GPU."""

    def __init__(self, settings: Settings):
        self._settings = settings

    def __getattr__(self, name: str) -> Any:
        return getattr(torch.cuda, name)

    def get_device_properties(self, device: Any = None) -> SimpleNamespace:
        count = self._settings.multiprocessors
        return SimpleNamespace(multi_processor_count=count, major=9, minor=0, name="simulated")

    def get_device_capability(self, device: Any = None) -> tuple[int, int]:
        return (9, 0)

    def current_device(self) -> int:
        return 0


class _Triton:
    """The module triton with the simulated Gluon in `triton.experimental`."""

    def __init__(self, gluon: SimpleNamespace):
        self._triton = importlib.import_module("triton")
        self.experimental = SimpleNamespace(gluon=gluon)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._triton, name)


def _importer(settings: Settings) -> Callable[..., Any]:
    """`__import__` for a loaded module."""
    simulated = _Triton(_gluon(settings))
    simulated_torch = _Torch(settings)

    def import_simulated(
        name: str,
        globals: Any = None,
        locals: Any = None,
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> Any:
        if name == "torch":
            return simulated_torch
        if not name.startswith("triton.experimental"):
            return builtins.__import__(name, globals, locals, fromlist or (), level)
        if not fromlist:
            return simulated
        found: Any = simulated
        for part in name.split(".")[1:]:
            found = getattr(found, part)
        return found

    return import_simulated


_counter = itertools.count()


def load_module(source: str, settings: Settings | None = None) -> ModuleType:
    """Execute the source of an emitted module; its Gluon kernels run on the simulator.

    `settings` may be changed between calls; without it the module gets its own, `SETTINGS`.
    """
    settings = settings or Settings()
    name = f"gluon_module_{next(_counter)}"
    filename = f"{SOURCE_PREFIX}{name}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    module = ModuleType(name)
    module.__file__ = filename
    importer = _importer(settings)
    vars(module).update(
        __builtins__={**vars(builtins), "__import__": importer, "range": _kernel_range},
        SETTINGS=settings,
    )
    exec(compile(source, filename, "exec"), vars(module))
    return module


def run(module: ModuleType, *args: Any, seed: int = 0, function: str = "run", **kwargs: Any) -> Any:
    """Call the host function of a loaded module, its kernels under the schedule of `seed`."""
    module.SETTINGS.seed = seed
    return getattr(module, function)(*args, **kwargs)
