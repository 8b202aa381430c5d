"""Running an emitted module in guarded memory, kernel by kernel."""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import torch
from xdsl.dialects.func import FuncOp

from coda_ir.equivalence.guarded_memory import GuardedMemory, StrayWriteError
from coda_ir.float64 import comparable
from coda_ir.signatures import signature_of
from coda_ir.storage import BOXED, DONATED

Tensors = Sequence[torch.Tensor]


class EmittedFaultError(Exception):
    """An emitted module that fails, or accesses memory that it was not given."""


@dataclass(frozen=True)
class EmittedResults:
    """The results of an emitted module, and the kernels that stored them."""

    tensors: Tensors
    kernels: Sequence[str | None]
    """The kernel that stored each result last; None where PyTorch did."""


@dataclass
class Launches:
    """The launches of a run: after each, the guards are checked, and its stores are recorded."""

    memory: GuardedMemory
    stored_by: dict[int, str] = field(default_factory=dict[int, str])
    """Address of a storage -> the kernel that changed it last."""

    def launch(self, name: str, kernel: Any, args: Sequence[Any], options: dict[str, Any]) -> Any:
        tensors = [tensor for tensor in map(_tensor_of, args) if tensor is not None]
        before = [tensor.clone() for tensor in tensors]
        result = kernel(*args, **options)
        try:
            self.memory.check()
        except StrayWriteError as error:
            raise EmittedFaultError(str(error).replace("a kernel", f"kernel {name}")) from error
        for tensor, old in zip(tensors, before, strict=True):
            if not is_same(tensor, old):
                self.stored_by[tensor.untyped_storage().data_ptr()] = name
        return result

    def kernel_of(self, tensor: torch.Tensor) -> str | None:
        """Return the kernel that stored to the memory of a tensor last, if any."""
        return self.stored_by.get(tensor.untyped_storage().data_ptr())


@dataclass(frozen=True)
class _WatchedKernel:
    """Replacement of a kernel, or of a function that launches it, that reports its launches."""

    name: str
    kernel: Any
    launches: Launches

    def __getitem__(self, grid: Any) -> Any:
        def launch(*args: Any, **options: Any) -> Any:
            return self.launches.launch(self.name, self.kernel[grid], args, options)

        return launch

    def __call__(self, *args: Any) -> Any:
        return self.launches.launch(self.name, self.kernel, args, {})

    def __getattr__(self, name: str) -> Any:
        return getattr(self.kernel, name)


def run_emitted(module: ModuleType, func: FuncOp, arguments: Tensors) -> EmittedResults:
    """Return the results of the emitted `module` on guarded copies of `arguments`.

    Raises EmittedFaultError where it fails, writes outside of a tensor, or changes an argument that
    its caller keeps.
    """
    memory, specs = GuardedMemory(), signature_of(func).arguments
    given = [
        memory.place(tensor, f"argument {spec.name}")
        for spec, tensor in zip(specs, arguments, strict=True)
    ]
    with watched(module, memory) as launches:
        results = _call(module, given)
    memory.check()
    for index, (spec, before, after) in enumerate(zip(specs, arguments, given, strict=True)):
        if not _is_given_up(func, index) and not is_same(before.cpu(), after.cpu()):
            raise EmittedFaultError(f"it changes argument {spec.name}")
    kernels = [launches.kernel_of(each) for each in results]
    return EmittedResults([each.cpu().clone() for each in results], kernels)


@contextmanager
def watched(module: ModuleType, memory: GuardedMemory) -> Generator[Launches]:
    """Within the context, an emitted module allocates guarded memory, and its launches are watched.

    They raise EmittedFaultError where they write outside of a tensor.
    """
    launches, before = Launches(memory), {"torch": module.torch}
    before |= {name: getattr(module, name) for name in module.KERNELS}
    names = {id(kernel): name for name, kernel in before.items()}
    watching = {name: _WatchedKernel(name, before[name], launches) for name in module.KERNELS}
    for name, value in vars(module).items():
        if isinstance(value, getattr(module, "DirectLaunch", ())):
            before[name] = value
            watching[name] = _WatchedKernel(names[id(value.kernel)], value, launches)
    # Those of another run have other guards.
    getattr(module, "COUNTERS", {}).clear()
    try:
        for name, value in {**watching, "torch": memory}.items():
            setattr(module, name, value)
        yield launches
    finally:
        for name, value in before.items():
            setattr(module, name, value)


def _call(module: ModuleType, given: Tensors) -> Tensors:
    try:
        results: Any = module.run(*given)
    except EmittedFaultError:
        raise
    except Exception as error:
        # The boundary of the emitted module: whatever it raises is a fault.
        cause: BaseException = error
        while cause.__cause__ is not None:  # Triton's interpreter wraps errors, once per call.
            cause = cause.__cause__
        last = (str(cause).strip().splitlines() or [""])[-1]
        raise EmittedFaultError(f"it fails with {type(cause).__name__}: {last}") from error
    return [results] if isinstance(results, torch.Tensor) else list(results)


def _is_given_up(func: FuncOp, index: int) -> bool:
    is_donated = func.arg_attrs is not None and DONATED in func.arg_attrs.data[index].data
    return BOXED in func.attributes or is_donated


def _tensor_of(argument: Any) -> torch.Tensor | None:
    """Return the tensor that an argument of a kernel is, or that its descriptor describes."""
    tensor = getattr(argument, "base", argument)
    return tensor if isinstance(tensor, torch.Tensor) else None


def is_same(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Return whether all elements are equal; NaN equals NaN."""
    return torch.equal(comparable(one).nan_to_num(0.5), comparable(other).nan_to_num(0.5))
