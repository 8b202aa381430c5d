"""Runs emitted modules from a file in a bare namespace, in guarded memory."""

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import torch
from torch.overrides import TorchFunctionMode

from coda_ir.api import parse
from coda_ir.backends.triton import emit_module
from coda_ir.compiled import CompiledFunction
from coda_ir.devices import default_device
from coda_ir.equivalence.emitted_run import is_same
from coda_ir.equivalence.guarded_memory import GuardedMemory
from coda_ir.launching.executable import TritonExecutable
from support.checked_accesses import checked_accesses
from support.device import DEVICE, on_device
from support.programs import import_text, operator_program, type_of


def module_of(function: CompiledFunction) -> Any:
    """The imported module of a compiled function."""
    executable = function.executable
    assert isinstance(executable, TritonExecutable)
    return executable.module


def load_module(
    source: str, folder: Path | None = None, memory: GuardedMemory | None = None
) -> ModuleType:
    """Import an emitted module from a file, by default of a temporary folder that stays.

    Triton reads the source of its kernels there. What the module allocates comes from `memory`.
    """
    place = Path(tempfile.mkdtemp(prefix="coda_emitted_")) if folder is None else folder
    module = import_text(source, place)
    setattr(module, "torch", memory or GuardedMemory())  # noqa: B010
    return module


class GuardedCalls(TorchFunctionMode):
    """Inside the block, what PyTorch's functions make is guarded, too."""

    def __init__(self, memory: GuardedMemory):
        super().__init__()
        self._memory = memory

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        # Guards are made by torch.full.
        return result if func is torch.full else self._guarded(result)

    def _guarded(self, value: Any) -> Any:
        if isinstance(value, tuple | list):
            # PyTorch's named tuples are made of an iterable, too.
            values = cast(Any, value)
            return type(values)(map(self._guarded, values))
        if not isinstance(value, torch.Tensor) or not value.numel() or value.is_meta:
            return value
        if self._memory.is_guarded(value):
            return value
        return self._memory.place(value, "a result of PyTorch")


def run_guarded(
    source: str, arguments: Sequence[torch.Tensor], folder: Path | None = None
) -> list[torch.Tensor]:
    """The results of an emitted module, which runs twice on guarded copies of `arguments`.

    Raises OutOfBoundsError or StrayWriteError where a kernel accesses what it was not given, and
    AssertionError where `run` changes its arguments or a second run gives other results.
    """
    memory = GuardedMemory()
    module = load_module(source, folder, memory)
    given = [memory.place(argument.to(default_device())) for argument in arguments]
    with checked_accesses(memory), GuardedCalls(memory):
        results, again = (_tensors(module.run(*given)) for _ in range(2))
    setattr(module, "torch", torch)  # noqa: B010  (the memory is freed, the module later)
    memory.check()
    for before, after in zip(arguments, given, strict=True):
        assert is_same(before, after.cpu()), "it writes to its arguments"
    assert all(map(is_same, results, again)), "a second run differs"
    return results


def _tensors(results: torch.Tensor | Sequence[torch.Tensor]) -> list[torch.Tensor]:
    tensors = [results] if isinstance(results, torch.Tensor) else results
    return [tensor.cpu().clone() for tensor in tensors]


def load_program(text: str) -> Callable[..., Any]:
    """`run` of the module that is emitted for an MLIR program, of tensors on the CPU."""
    return on_device(load_module(emit_module(parse(text))).run)


def run_operator(operator: str, *operands: torch.Tensor, result: str | None = None) -> Any:
    """The results of one block-level operator; `result` is by default the type of operand 0."""
    text = operator_program(operator, operands, result or type_of(operands[0]))
    return load_program(text)(*operands)


def relative_error(actual: torch.Tensor, exact: torch.Tensor) -> float:
    """Difference over size, in the Euclidean norm; the non-finite elements must be the same."""
    assert actual.shape == exact.shape, f"{actual.shape}, expected {exact.shape}"
    actual, exact = actual.double(), exact.double()
    finite = exact.isfinite()
    assert torch.equal(actual[~finite].nan_to_num(3.0), exact[~finite].nan_to_num(3.0))
    assert actual[finite].isfinite().all()
    size = exact[finite].square().sum().sqrt().item()
    return (actual[finite] - exact[finite]).square().sum().sqrt().item() / (size or 1.0)


def assert_as_accurate(actual: torch.Tensor, eager: torch.Tensor, exact: torch.Tensor) -> None:
    """At most 1.25 times the error of eager PyTorch in the same type, or one float32 ulp.

    A GPU's instruction for exponentials has an error of two.
    """
    ulps = 1 if DEVICE == "cpu" else 3
    allowed = max(1.25 * relative_error(eager, exact), ulps * torch.finfo(torch.float32).eps)
    error = relative_error(actual, exact)
    assert error <= allowed, f"{error:.2e} > {allowed:.2e}"
