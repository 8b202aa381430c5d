"""Compiles emitted modules into Triton's cache, in a process of its own and without a GPU.

Each line of stdin is a request, each line of stdout the answer: why it failed, or null. The host
program runs on empty tensors of the processor, and its launches compile only, so that the process
that measures finds each kernel in Triton's cache. It imports little, so that it starts fast.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

from coda_ir.cache.modules import load_source

PROCESSORS = 132
"""What host programs take the device to have: it decides a grid, which compiles nothing."""


class _Driver:
    """What Triton asks the driver of a device when it compiles."""

    def __init__(self, target: Any):
        self._target = target

    def get_current_target(self) -> Any:
        return self._target

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int) -> int:
        return 0


class _OnlyCompiled:
    """A kernel whose launches compile it."""

    def __init__(self, kernel: Any):
        self._kernel = kernel

    def __getitem__(self, grid: Any) -> Callable[..., Any]:
        def launch(*args: Any, **kwargs: Any) -> None:
            self._kernel.warmup(*args, grid=grid, **kwargs)

        return launch


def compile_module(request: dict[str, Any]) -> None:
    """Compile every kernel that a call of the module launches. Raises what Triton raises."""
    module = load_source(request["source"], request["name"])
    for name in module.KERNELS:
        kernel = getattr(module, name)
        if not isinstance(kernel, _OnlyCompiled):
            setattr(module, name, _OnlyCompiled(kernel))
    torch = _torch()
    module.run(
        *(
            torch.empty(shape, dtype=getattr(torch, dtype), device="cpu")
            for shape, dtype in request["arguments"]
        )
    )


def _torch() -> Any:
    return importlib.import_module("torch")


def prepare(target: tuple[Any, ...]) -> None:
    """Let Triton compile for a target (backend, architecture, warp size) that may not be there."""
    compiler: Any = importlib.import_module("triton.backends.compiler")
    runtime: Any = importlib.import_module("triton.runtime")
    runtime.driver.set_active(_Driver(compiler.GPUTarget(*target)))
    properties = SimpleNamespace(multi_processor_count=PROCESSORS)
    cuda: ModuleType = _torch().cuda

    def get_device_properties(device: Any = None) -> SimpleNamespace:
        return properties

    vars(cuda)["get_device_properties"] = get_device_properties


def main() -> None:
    """Serve requests until stdin ends; what Triton prints goes to stderr."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    prepare(tuple(json.loads(sys.argv[1])))
    for line in sys.stdin:
        failure: str | None = None
        try:
            compile_module(json.loads(line))
        except Exception as error:
            # The boundary of the process: whatever a candidate fails with is told of it.
            failure = f"{type(error).__name__}: {error}"[-2000:]
        answers.write(json.dumps(failure) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
