"""The worker: compiles emitted modules into Triton's cache, in separate processes and without a
GPU.

Launches with placeholders for tensors compile the kernels with the same keys as the launches of the
process that runs them, which then finds them in Triton's cache.
"""

import importlib
import json
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from coda_ir.cache.modules import load_source
from coda_ir.launching.direct_launch import needs_launchers
from coda_ir.launching.forked import Request, serve
from coda_ir.launching.kernels_ahead import compile_launch
from coda_ir.launching.triton_keys import prepare_keys, settle_keys


class _Unimported(ModuleType):
    """PyTorch, which is imported when an attribute of it is read, other than `Tensor`.

    Emitted modules import it for their host functions, which do not run in this process, and its
    import takes seconds. Triton needs it for launchers in C.
    """

    class Tensor:
        """The class of tensors, of which this process has none."""

    def __getattr__(self, name: str) -> Any:
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        return getattr(importlib.import_module(self.__name__), name)


class _Driver:
    """A driver that answers Triton's queries about a device during compilation."""

    def __init__(self, target: Any):
        self._target = target

    def get_current_target(self) -> Any:
        return self._target

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int) -> int:
        return 0


def compile_module(request: Request) -> str | None:
    """Compile the kernels of a module by their launches, and also the launchers that they need if
    requests share the module, because it then runs on this machine. Returns the error, if any.
    """
    try:
        module = _module_of(request)
        kernels = [compile_launch(module, launch) for launch in request["launches"]]
        launcher = _launcher_for(module, request)
        if launcher is not None:
            for kernel in kernels:
                launcher(kernel.src, kernel.metadata)
    except Exception as error:
        # The boundary of the process: report any exception of a candidate.
        return f"{type(error).__name__}: {error}"[-2000:]
    return None


def load_shared(request: Request) -> None:
    """Load what requests share, a module and Triton's driver, so that forks find them."""
    if "path" in request:
        # The copy meets the same error, and reports it.
        with suppress(Exception):
            module = _module_of(request)
            settle_keys(module)
            _launcher_for(module, request)


def _module_of(request: Request) -> ModuleType:
    """Return the module of a request, which has its source, or the path of one that is shared."""
    if "path" in request:
        return _shared_module(request["path"], request["name"])
    return load_source(request["source"], request["name"])


@cache
def _shared_module(path: str, name: str) -> ModuleType:
    return load_source(Path(path).read_text(encoding="utf-8"), name)


def _launcher_for(module: ModuleType, request: Request) -> Any:
    """Return Triton's class of launchers if it launches the kernels of a module on this machine."""
    return _launcher() if "path" in request and needs_launchers(module) else None


@cache
def _launcher() -> Any:
    """Return Triton's class of launchers in C; None if Triton has no driver of the GPU."""
    backends: Any = importlib.import_module("triton.backends").backends
    target = importlib.import_module("triton.runtime").driver.active.get_current_target()
    with suppress(Exception):
        for backend in backends.values():
            if backend.compiler.supports_target(target):
                return backend.driver().launcher_cls
    return None


def prepare(target: tuple[Any, ...]) -> None:
    """Make Triton compile for a target (backend, architecture, warp size), present or not."""
    if "torch" not in sys.modules:
        sys.modules["torch"] = _Unimported("torch")
    compiler: Any = importlib.import_module("triton.backends.compiler")
    runtime: Any = importlib.import_module("triton.runtime")
    driver = _Driver(compiler.GPUTarget(*target))
    runtime.driver.set_active(driver)
    # What fails is repeated by a compilation, which reports it.
    with suppress(Exception):
        prepare_keys(driver.get_current_target)


if __name__ == "__main__":
    prepare(tuple(json.loads(sys.argv[1])))
    serve(compile_module, load_shared)
