"""Executable programs: the kernels and the host function of an Artifact."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import cache, cached_property
from importlib import import_module
from threading import RLock
from types import MappingProxyType, ModuleType
from typing import TYPE_CHECKING, Any

from coda_ir.calls.results import Results, as_tuple
from coda_ir.collector import collector_paused

if TYPE_CHECKING:
    import torch

    from coda_ir.cache.artifact import Artifact
    from coda_ir.launching.forked import KernelCompiler

Sizes = Mapping[str, int]


@cache
def start_triton() -> Future[None]:
    """Start Triton's one-time setup in a thread, while the program is lowered.

    Triton hashes its own files, and builds the library through which it calls the driver, the first
    time with a C compiler. This takes about a second and does not hold Python's global interpreter
    lock. Triton is imported before the thread starts, because imports are not thread-safe here.
    """
    import_module("triton.runtime")
    pool = ThreadPoolExecutor(1, thread_name_prefix="coda-triton")
    future = pool.submit(_start)
    pool.shutdown(wait=False)
    return future


def wait_for_triton() -> None:
    """Wait for that setup. Triton retries what failed when it is needed, and reports why."""
    wait([start_triton()])


def _start() -> None:
    from coda_ir.launching.triton_keys import prepare_keys

    runtime: Any = import_module("triton.runtime")
    prepare_keys(lambda: runtime.driver.active.get_current_target())


_INTERPRETER = RLock()


def _interpreted(run: Callable[..., Results]) -> Callable[..., Results]:
    """Run in one thread at a time, because there is one interpreter, which holds one program."""

    def run_alone(*arguments: Any) -> Results:
        with _INTERPRETER:
            return run(*arguments)

    return run_alone


class TritonExecutable:
    """The kernels and the host function of an emitted module."""

    def __init__(
        self,
        artifact: Artifact,
        device: torch.device,
        jobs: int | None = None,
        compiler: KernelCompiler | None = None,
    ):
        """Set up the program, whose kernels `compiler` compiles, at most `jobs` at a time."""
        self.info = artifact
        self.device, self.jobs = device, jobs
        self.compiler = compiler
        self.beside: Sequence[TritonExecutable] = ()
        """Programs of the same graph, whose kernels are compiled with those of this one."""
        self.is_compiled = False
        self.has_cuda_graphs = device.type == "cuda"

    @cached_property
    def module(self) -> ModuleType:
        from coda_ir.cache import load_source
        from coda_ir.devices import require_triton_for

        require_triton_for(self.device)
        if self.device.type != "cpu":
            wait_for_triton()
        return load_source(self.info.source, self.info.signature.name)

    def prepare(self, sizes: Sizes = MappingProxyType({})) -> None:
        """Import the module and hash its kernels, which a compiler may be compiling meanwhile. The
        first call compiles them, or waits for the compiler.
        """
        from coda_ir.launching.triton_keys import settle_keys

        module = self.module
        if not self.is_interpreted:
            settle_keys(module)

    def begin_compiling(self) -> None:
        """Start compiling the kernels, if there is a compiler."""
        if self.compiler is not None:
            from coda_ir.launching.kernels_ahead import by_kernel

            groups = by_kernel(self.info.launches)
            self.compiler.submit(self.info.source, self.info.signature.name, groups)

    def finish_compiling(self) -> None:
        """Wait for the compiler, if there is one; the kernels are then in Triton's cache."""
        if self.compiler is not None:
            self.compiler.wait(self.info.source)
            self.compiler = None

    @property
    def is_interpreted(self) -> bool:
        return self.device.type == "cpu" or self.module.INTERPRET.value

    @cached_property
    def _run(self) -> Callable[..., Results]:
        return _interpreted(self.module.run) if self.is_interpreted else self.module.run

    @cached_property
    def _run_boxed(self) -> Callable[[list[torch.Tensor]], Results]:
        boxed = getattr(self.module, "run_boxed", None)
        if boxed is None:
            return lambda tensors: self._run(*tensors)
        return _interpreted(boxed) if self.is_interpreted else boxed

    def run(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        if not self.is_compiled:
            compile_kernels([self, *self.beside])
        return as_tuple(self._run(*tensors))

    def run_boxed(self, tensors: list[torch.Tensor]) -> tuple[torch.Tensor, ...]:
        """See `Executable.run_boxed`."""
        if not self.is_compiled:
            compile_kernels([self, *self.beside])
        return as_tuple(self._run_boxed(tensors))


def compile_kernels(programs: Sequence[TritonExecutable]) -> None:
    """Compile the kernels of programs before their first call; in a capture, launches do it."""
    import torch

    from coda_ir.launching.kernels_ahead import compile_ahead

    waiting = [
        each for each in dict.fromkeys(programs) if not each.is_compiled and not each.is_interpreted
    ]
    if waiting and not torch.cuda.is_current_stream_capturing():
        for each in waiting:
            each.finish_compiling()
        with collector_paused():
            launches = [(each.module, each.info.launches) for each in waiting]
            compile_ahead(launches, waiting[0].device, waiting[0].jobs)
    for each in programs:
        each.is_compiled, each.beside = True, ()
