"""The results of a compiled function, and copies of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn, Self, TypeAlias

from coda_ir.diagnostics import MachineError

if TYPE_CHECKING:
    import torch

Results: TypeAlias = "torch.Tensor | tuple[torch.Tensor, ...]"


def unpack(results: Results | list[torch.Tensor]) -> Results:
    """Return a single result alone, and several as a tuple."""
    if isinstance(results, list):
        results = tuple(results)
    if not isinstance(results, tuple):
        return results
    return results if len(results) != 1 else results[0]


def as_tuple(results: Results) -> tuple[torch.Tensor, ...]:
    """Return a tuple of the results, even of a single one."""
    return results if isinstance(results, tuple) else (results,)


class NotCopied:
    """A base class of compiled functions, which copies of an object share: they have no state.

    Modules that contain compiled functions can therefore be copied. Pickling is refused, because
    another process needs its own kernels.
    """

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def __reduce__(self) -> NoReturn:
        raise MachineError(
            f"a {type(self).__name__} cannot be pickled: its kernels belong to this process",
            "pass the program, and compile it where it is needed; the cache makes that fast",
        )
