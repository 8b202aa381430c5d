"""The results of a compiled function."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

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
    """A tuple of the results, also where there is only one."""
    return results if isinstance(results, tuple) else (results,)
