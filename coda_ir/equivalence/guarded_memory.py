"""Memory with guards around each tensor, for emitted modules.

    memory = GuardedMemory()
    emitted.torch = memory                  # what the module allocates is guarded, too
    results = emitted.run(*map(memory.place, arguments))
    memory.check()

The guards hold NaN (for integers, `CANARY`). If a kernel reads outside of a tensor, its results are
wrong; if it writes outside of a tensor, the guards change.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import torch

from coda_ir.backends.reference import first_topk

GUARD = 4096
"""Elements before and after a tensor, at least; larger tensors have guards of their size."""

ALIGNMENT = 16
"""Bytes that Triton asks of an address: other kernels take those that are no multiple of it."""

CANARY = 77
"""The value of guards of integers, and of uninitialized integers."""


class StrayWriteError(Exception):
    """A write of a kernel outside of a tensor."""


@dataclass(frozen=True)
class _Guarded:
    """Memory with `guard` elements before and after those of a tensor."""

    memory: torch.Tensor
    guard: int
    name: str

    @property
    def is_intact(self) -> bool:
        end = self.memory.numel() - self.guard
        return _is_poison(self.memory[: self.guard]) and _is_poison(self.memory[end:])

    def addresses(self) -> tuple[int, int, int, int]:
        """The addresses at which guards start and end, in ascending order."""
        size, start = self.memory.element_size(), self.memory.data_ptr()
        end = start + self.memory.numel() * size
        return start, start + self.guard * size, end - self.guard * size, end


class _Changed:
    """A namespace in which some names have other values."""

    def __init__(self, namespace: Any, **names: Any):
        self._namespace = namespace
        vars(self).update(names)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._namespace, name)


class GuardedMemory:
    """A replacement for the module `torch` in an emitted module, whose allocations have guards, and
    whose operators give what the reference backend gives where PyTorch leaves that open.
    """

    def __init__(self) -> None:
        self.tensors: list[_Guarded] = []
        self._storages: set[int] = set()
        topk = SimpleNamespace(default=first_topk)
        self.ops = _Changed(torch.ops, aten=_Changed(torch.ops.aten, topk=topk))

    def __getattr__(self, name: str) -> Any:
        return getattr(torch, name)

    def empty(self, *shape: Any, dtype: torch.dtype, device: Any = None) -> torch.Tensor:
        """Like `torch.empty`, but filled with NaN."""
        sizes = torch.Size(shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape)
        strides = torch.empty(sizes, device="meta").stride()
        name = f"a buffer {tuple(sizes)} of {dtype}"
        return self._allocate(sizes, strides, dtype, device, name)

    def empty_strided(
        self,
        shape: Sequence[int],
        strides: Sequence[int],
        *,
        dtype: torch.dtype,
        device: Any = None,
    ) -> torch.Tensor:
        """Like `torch.empty_strided`, but filled with NaN."""
        name = f"a buffer {tuple(shape)} of {dtype}"
        return self._allocate(shape, strides, dtype, device, name)

    def zeros(self, *shape: Any, dtype: torch.dtype, device: Any = None) -> torch.Tensor:
        """Like `torch.zeros`."""
        return self.empty(*shape, dtype=dtype, device=device).zero_()

    def place(self, tensor: torch.Tensor, name: str = "an argument") -> torch.Tensor:
        """Return a copy of `tensor` between guards, with its strides and alignment."""
        shape = [
            1 if stride == 0 else n for n, stride in zip(tensor.shape, tensor.stride(), strict=True)
        ]
        dtype, device = tensor.dtype, tensor.device
        shift = tensor.data_ptr() % ALIGNMENT // tensor.element_size()
        copy = self._allocate(shape, tensor.stride(), dtype, device, name, shift)
        if tensor.numel():
            # Elements that share memory are written once.
            copy.copy_(tensor[tuple(slice(n) for n in shape)])
        return copy.expand(tensor.shape)

    def is_guarded(self, tensor: torch.Tensor) -> bool:
        """Return whether the memory of `tensor` has guards."""
        return tensor.untyped_storage().data_ptr() in self._storages

    def check(self) -> None:
        """Raise StrayWriteError if a guard has changed."""
        for tensor in self.tensors:
            if not tensor.is_intact:
                raise StrayWriteError(f"a kernel wrote outside of {tensor.name}")

    def _allocate(
        self,
        shape: Sequence[int],
        strides: Sequence[int],
        dtype: torch.dtype,
        device: Any,
        name: str,
        shift: int = 0,
    ) -> torch.Tensor:
        """Allocate a tensor between guards, `shift` elements after an aligned address."""
        extent = 1 + sum((n - 1) * stride for n, stride in zip(shape, strides, strict=True))
        if 0 in shape:
            extent = 0
        # A multiple of 64 elements keeps the alignment of the memory.
        guard = max(GUARD, -(-extent // 64) * 64) + shift
        memory = _poison(extent + 2 * guard, dtype, device)
        self.tensors.append(_Guarded(memory, guard, name))
        self._storages.add(memory.untyped_storage().data_ptr())
        return memory.as_strided(shape, strides, guard)


def _is_poison(memory: torch.Tensor) -> bool:
    """Return whether memory has the bits of a guard; the NaN that a GPU computes has others."""
    return torch.equal(_bits(memory), _bits(_poison(memory.numel(), memory.dtype, memory.device)))


def _poison(elements: int, dtype: torch.dtype, device: Any) -> torch.Tensor:
    value = float("nan") if dtype.is_floating_point else CANARY
    return torch.full((elements,), value, dtype=dtype, device=device)


def _bits(memory: torch.Tensor) -> torch.Tensor:
    return memory.view(torch.uint8)
