"""Calls of compiled programs between guards: on copies of their tensors, with watched launches."""

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import pytest
import torch

from coda_ir.calls.arguments import Signature
from coda_ir.equivalence.emitted_run import Launches, is_same, watched
from coda_ir.equivalence.guarded_memory import GuardedMemory
from coda_ir.launching.executable import TritonExecutable, compile_kernels

Tensors = Sequence[torch.Tensor]


class ResultError(AssertionError):
    """A result with NaN, which the guards hold."""


def run_between_guards(
    module: ModuleType, tensors: Tensors, run: Callable[..., Any], names: Sequence[str] = ()
) -> tuple[Any, Launches]:
    """Return what `run`, which calls an emitted module, gives for guarded copies of tensors, whose
    updates are copied back; and the launches.

    Raises EmittedFaultError, which names the kernel and the tensor, where a kernel writes outside
    of a tensor.
    """
    memory = GuardedMemory()
    labels = [f"argument {name}" for name in names] or ["an argument"] * len(tensors)
    with torch.no_grad(), watched(module, memory) as launches:
        given = [memory.place(x, label) for x, label in zip(tensors, labels, strict=True)]
        results = run(*given)
        memory.check()
        for before, after in zip(tensors, given, strict=True):
            if not is_same(before, after):
                before.copy_(after)
    return results, launches


@contextmanager
def between_guards(*, finite: bool = False) -> Generator[list[str]]:
    """Within the context, programs on a GPU, or in Triton's interpreter, run between guards, but
    while a CUDA graph is captured. Gives a list of the programs that ran.

    With `finite`, a NaN in a result raises ResultError, which names the result and the kernel that
    stored it last.
    """
    ran: list[str] = []
    plain, plain_boxed = TritonExecutable.run, TritonExecutable.run_boxed

    def run(self: TritonExecutable, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        if torch.cuda.is_available() and torch.cuda.is_current_stream_capturing():
            return plain(self, *tensors)
        if not self.is_compiled:
            compile_kernels([self, *self.beside])
        signature: Signature = self.info.signature
        names = [spec.name for spec in signature.arguments]

        def call(*given: torch.Tensor) -> tuple[torch.Tensor, ...]:
            return plain_boxed(self, list(given))

        results, launches = run_between_guards(self.module, tensors, call, names)
        ran.append(signature.name)
        for spec, result in zip(signature.results, results, strict=True):
            if finite and result.is_floating_point() and bool(result.isnan().any()):
                kernel = launches.kernel_of(result)
                raise ResultError(
                    f"result {spec.name} of {signature.name}, of kernel {kernel}, has NaN"
                )
        return results

    def run_boxed(self: TritonExecutable, tensors: list[torch.Tensor]) -> tuple[torch.Tensor, ...]:
        results = run(self, *tensors)
        tensors.clear()
        return results

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TritonExecutable, "run", run)
        patch.setattr(TritonExecutable, "run_boxed", run_boxed)
        yield ran
