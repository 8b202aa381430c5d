"""Examples in which no rounding decides which experts a token goes to."""

from collections.abc import Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from zoo import accuracy
from zoo.architecture import Architecture, Example

INPUTS = 16
"""Random weights and inputs that are tried."""

Scores = tuple[torch.Tensor, int]
"""The scores that `topk` chooses from, along the last dimension, and how many it chooses."""


def clear_example(architecture: Architecture, layers: int, dtype: torch.dtype) -> Example:
    """The first example with clear choices (`are_clear`), or number 0 where none has them.

    A token that goes to another expert outweighs all other errors, in eager as here, and says
    nothing of a program. PyTorch alone decides: a wrong program is tried with the same examples.
    """
    for number in range(INPUTS):
        example = architecture.build(layers, number).to(dtype)
        with _Recorded() as found:
            accuracy.eager(example)
        if not found.scores:
            return example
        with _Recorded() as wanted:
            accuracy.exact(example)
        if are_clear(found.scores, wanted.scores):
            return example
    return architecture.build(layers).to(dtype)


def are_clear(found: Sequence[Scores], wanted: Sequence[Scores]) -> bool:
    """Return whether the last score that is chosen and the first that is not differ by more than
    twice the largest error of `found`; `wanted` are the same scores in float64.
    """
    for (scores, _), (exact, k) in zip(found, wanted, strict=True):
        ordered = exact.sort(-1, descending=True).values
        gaps = ordered[..., k - 1] - ordered[..., k]
        if not gaps.min() > 2 * (scores - exact).abs().max():  # also where one is NaN
            return False
    return True


# PyTorch documents the class under its private module, in its notes on extending PyTorch.
class _Recorded(TorchDispatchMode):
    """Records the scores of all calls of `topk` that leave any out."""

    def __init__(self):
        super().__init__()  # pyright: ignore[reportUnknownMemberType]
        self.scores: list[Scores] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        if str(func) == "aten.topk.default":
            scores: torch.Tensor = args[0]
            k, dim = (*args[1:], -1)[:2]
            if k < scores.shape[dim]:
                self.scores.append((scores.movedim(dim, -1), k))
        return func(*args, **(kwargs or {}))
