"""Accesses of kernels in Triton's interpreter to guards around tensors, caught as they happen."""

from collections.abc import Generator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import numpy as np

from coda_ir.equivalence.guarded_memory import GuardedMemory


class OutOfBoundsError(AssertionError):
    """A kernel read or wrote outside of a tensor."""


class _CheckedMemory:
    """The memory of Triton's interpreter, which refuses accesses to guards."""

    def __init__(self, interpreted: Any, guarded: GuardedMemory):
        self.interpreted = interpreted
        self.guarded = guarded
        self.known = 0
        self.bounds = np.empty(0, dtype=np.int64)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.interpreted, name)

    def load(self, pointers: Any, mask: Any, other: Any, dtype: Any) -> Any:
        self._check(pointers, mask, "read")
        return self.interpreted.load(pointers, mask, other, dtype)

    def store(self, pointers: Any, value: Any, mask: Any) -> Any:
        self._check(pointers, mask, "wrote")
        return self.interpreted.store(pointers, value, mask)

    def _check(self, pointers: Any, mask: Any, what: str) -> None:
        if len(self.guarded.tensors) > self.known:
            self.known = len(self.guarded.tensors)
            places = [place for each in self.guarded.tensors for place in each.addresses()]
            self.bounds = np.array(sorted(places), dtype=np.int64)
        # A mask that Triton computes from a number holds integers.
        accessed = pointers[np.asarray(mask, dtype=bool)].astype(np.int64)
        # Guards are every second interval: before a tensor, not in it, after it, not in between.
        find: Any = np.searchsorted
        interval = find(self.bounds, accessed, side="right")
        if (interval % 2 == 1).any():
            raise OutOfBoundsError(f"a kernel {what} outside of a tensor")


@contextmanager
def checked_accesses(guarded: GuardedMemory) -> Generator[None]:
    """Raises OutOfBoundsError inside the block where a kernel accesses a guard.

    Kernels that are compiled are not checked.
    """
    interpreter = import_module("triton.runtime.interpreter")
    interpreted: Any = vars(interpreter)["_interpreter"]
    setattr(interpreter, "_interpreter", _CheckedMemory(interpreted, guarded))  # noqa: B010
    try:
        yield
    finally:
        setattr(interpreter, "_interpreter", interpreted)  # noqa: B010
