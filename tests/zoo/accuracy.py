"""The error of a result against float64, where every operator computes in float64."""

import copy
import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.utils._pytree as _pytree

from coda_ir.float64 import computing_in_float64, relative_error
from zoo.architecture import Example

# PyTorch's trees have no complete types.
pytree: Any = _pytree


def eager(example: Example) -> list[torch.Tensor]:
    """The tensors that the model returns."""
    with torch.no_grad():
        return tensors_of(example.model(**example.inputs))


def exact(example: Example) -> list[torch.Tensor]:
    """The same in float64, from the weights and inputs as they are."""
    wide = Example(copy.deepcopy(example.model), example.inputs).to(torch.float64)
    with computing_in_float64():
        return eager(wide)


def tensors_of(result: Any) -> list[torch.Tensor]:
    """The tensors of a result in order."""
    leaves: list[Any] = pytree.tree_leaves(result)
    return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]


def relative_errors(got: Sequence[torch.Tensor], wanted: Sequence[torch.Tensor]) -> list[float]:
    """||got − wanted|| / ||wanted|| of each tensor; infinite where they differ in kind.

    Integers and positions of NaN and infinities have to be equal.
    """
    return [relative_error(*pair) for pair in zip(got, wanted, strict=True)]


SMALL_RESULT = 256
"""With fewer elements an error is chance: one unit in the last place is granted."""

FLOOR = 6 * torch.finfo(torch.float32).eps
"""The allowance of every error: libraries split sums in different ways, which alone makes errors of
a few units in the last place of float32 differ by more than a quarter.
"""


def is_as_exact(
    errors: Sequence[float], eager_errors: Sequence[float], results: Sequence[torch.Tensor]
) -> bool:
    """Return whether each error is at most 1.25 x eager's, or FLOOR; for a result of few elements
    plus one eps of its own type.
    """
    return all(
        error <= max(1.25 * eager_error + _chance(result), _least(result))
        for error, eager_error, result in zip(errors, eager_errors, results, strict=True)
    )


def _chance(result: torch.Tensor) -> float:
    few = result.is_floating_point() and result.numel() < SMALL_RESULT
    return torch.finfo(result.dtype).eps if few else 0.0


def _least(result: torch.Tensor) -> float:
    return FLOOR if result.is_floating_point() else 0.0


def worst_ratio(errors: Sequence[float], eager_errors: Sequence[float]) -> float:
    """The largest quotient of an error and eager's; 1 where both are 0."""
    ratios: Mapping[int, float] = {
        index: (1.0 if not error else math.inf) if not eager_error else error / eager_error
        for index, (error, eager_error) in enumerate(zip(errors, eager_errors, strict=True))
    }
    return max(ratios.values(), default=1.0)
