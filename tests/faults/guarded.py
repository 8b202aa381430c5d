"""Tensors with guards around them: what reads or writes outside of a tensor is found."""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import torch

GUARD = 4096
"""Elements before and after a tensor."""

CANARY = 77


class OutOfBoundsError(AssertionError):
    """A kernel read or wrote outside of a tensor."""


class GuardedTorch:
    """The module torch for an emitted program: what `empty` gives has guards and holds NaN."""

    def __init__(self) -> None:
        self.buffers: list[torch.Tensor] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(torch, name)

    def empty(self, *shape: Any, dtype: torch.dtype, device: Any = None) -> torch.Tensor:
        like = torch.empty(*shape, dtype=dtype)
        return self.place(torch.full_like(like, _poison(dtype)))

    def place(self, tensor: torch.Tensor) -> torch.Tensor:
        """A copy of `tensor` between guards."""
        count = tensor.numel()
        buffer = torch.full((count + 2 * GUARD,), _poison(tensor.dtype), dtype=tensor.dtype)
        self.buffers.append(buffer)
        inner = buffer[GUARD : GUARD + count].view(tensor.shape)
        return inner.copy_(tensor)

    def guards(self) -> torch.Tensor:
        """The addresses at which the guards start and end, in ascending order."""
        places: list[int] = []
        for buffer in self.buffers:
            size, start = buffer.element_size(), buffer.data_ptr()
            end = start + buffer.numel() * size
            places += [start, start + GUARD * size, end - GUARD * size, end]
        return torch.tensor(sorted(places))


class _CheckedMemory:
    """The memory of Triton's interpreter, which refuses accesses to guards."""

    def __init__(self, memory: Any, guarded: GuardedTorch):
        self.memory = memory
        self.guarded = guarded

    def __getattr__(self, name: str) -> Any:
        return getattr(self.memory, name)

    def load(self, pointers: Any, mask: Any, other: Any, dtype: Any) -> Any:
        self._check(pointers, mask, "read")
        return self.memory.load(pointers, mask, other, dtype)

    def store(self, pointers: Any, value: Any, mask: Any) -> Any:
        self._check(pointers, mask, "wrote")
        return self.memory.store(pointers, value, mask)

    def _check(self, pointers: Any, mask: Any, what: str) -> None:
        accessed = torch.as_tensor(pointers[mask].astype("int64"))
        # Guards are every second interval: before a tensor, not in it, after it, not in between.
        interval = torch.searchsorted(self.guarded.guards(), accessed, right=True)
        if (interval % 2 == 1).any():
            raise OutOfBoundsError(f"a kernel {what} outside of a tensor")


@contextmanager
def checked_accesses(guarded: GuardedTorch) -> Generator[None]:
    """Raises OutOfBoundsError inside the block where a kernel accesses a guard."""
    interpreter = import_module("triton.runtime.interpreter")
    memory: Any = vars(interpreter)["_interpreter"]
    setattr(interpreter, "_interpreter", _CheckedMemory(memory, guarded))  # noqa: B010
    try:
        yield
    finally:
        setattr(interpreter, "_interpreter", memory)  # noqa: B010


def _poison(dtype: torch.dtype) -> float:
    return float("nan") if dtype.is_floating_point else CANARY


def guard_all(torch_module: GuardedTorch, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    return [torch_module.place(tensor) for tensor in tensors]
