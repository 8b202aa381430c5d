"""Compilation of the kernels of a module before its first call, several at a time.

Triton compiles kernels at their launches, one after the other. This module launches them with
placeholders for tensors (`stand_in_launch`) in several threads. The slow parts of Triton's compiler
release Python's global interpreter lock, or run as separate processes (the assembler and the C
compiler). Launches find the compiled kernels in the kernel objects and in Triton's cache on disk.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import nullcontext
from functools import partial
from importlib import import_module
from threading import Lock
from types import MappingProxyType, ModuleType
from typing import TYPE_CHECKING, Any

from coda_ir.launching.compile_jobs import compile_jobs
from coda_ir.launching.direct_launch import needs_launchers
from coda_ir.launching.triton_keys import settle_keys
from coda_ir.progress import Progress

if TYPE_CHECKING:
    import torch

INTEGERS: Mapping[str, str] = MappingProxyType(
    {"i1": "int1", "i8": "int8", "u8": "uint8", "i16": "int16", "i32": "int32", "i64": "int64"}
)
"""The names of Triton's integer types in its language, by those in signatures of kernels."""

MAX_AXES = 8
"""More than any tensor has whose extents a launch reads."""

_LOADING = Lock()
"""Held while a launcher is loaded. Python gives all launchers of Triton that it has loaded before
one module object, from which Triton takes the function: of another launcher, if a thread has loaded
that meanwhile.
"""


def compile_ahead(
    modules: Sequence[tuple[ModuleType, Sequence[str]]],
    device: torch.device,
    jobs: int | None = None,
) -> None:
    """Compile the kernels that launches of emitted modules need, at most
    `compile_jobs(jobs)` at a time.

    With one job, the launches themselves compile the kernels. So do they if a compilation fails,
    and report the error.
    """
    for module, _ in modules:
        settle_keys(module)
    groups = [(module, group) for module, launches in modules for group in by_kernel(launches)]
    workers = min(len(groups), compile_jobs(jobs))
    if workers < 2:
        return

    def load(module: ModuleType, group: Sequence[str]) -> None:
        for launch in group:
            load_launch(module, launch, device)

    pool = ThreadPoolExecutor(workers, thread_name_prefix="coda-compile")
    try:
        submitted = [pool.submit(load, *group) for group in groups]
        with Progress({"compiling kernels": len(groups)}) as progress:
            for _ in as_completed(submitted):
                progress.advance("compiling kernels")
    finally:
        # An interrupt does not wait for what has not begun.
        pool.shutdown(wait=False, cancel_futures=True)


def compile_launch(module: ModuleType, launch: str) -> Any:
    """Return the compiled kernel of a launch with placeholders, for the current device.

    The kernel is not loaded. Raises Triton's exceptions.
    """
    name = _kernel_of(launch)
    names = {**vars(module), name: _OnlyCompiled(getattr(module, name)), "tensor": _StandIn}
    return eval(launch, names)


def load_launch(module: ModuleType, launch: str, device: torch.device) -> None:
    """Compile the kernel of a launch on a GPU, and load it with its launcher if it needs one.

    Each thread has its own current device. Raises Triton's exceptions.
    """
    import torch

    with torch.cuda.device(device) if device.type == "cuda" else nullcontext():
        kernel = compile_launch(module, launch)
        if needs_launchers(module):
            with _LOADING:
                _ = kernel.run


def _kernel_of(launch: str) -> str:
    return launch.partition("[")[0]


def by_kernel(launches: Sequence[str]) -> list[list[str]]:
    """Group consecutive launches by kernel."""
    groups: dict[str, list[str]] = {}
    for launch in launches:
        groups.setdefault(_kernel_of(launch), []).append(launch)
    return list(groups.values())


class _OnlyCompiled:
    """A wrapper of a kernel whose launches only compile it."""

    def __init__(self, kernel: Any):
        self._kernel = kernel

    def __getitem__(self, grid: Any) -> Callable[..., Any]:
        return partial(self._kernel.warmup, grid=grid)


class _StandIn:
    """A tensor without memory, aligned to 16 bytes, with all the extents that descriptors read.
    Unlike a meta tensor, it does not need PyTorch, whose import takes seconds.
    """

    shape = (16,) * MAX_AXES

    def __init__(self, type: str):
        self.dtype = import_module("triton.language").dtype(INTEGERS.get(type, type))

    def data_ptr(self) -> int:
        return 0

    def element_size(self) -> int:
        return self.dtype.primitive_bitwidth // 8

    def numel(self) -> int:
        return 16**MAX_AXES

    def stride(self, axis: int) -> int:
        return 16 ** (MAX_AXES - 1 - axis)
