"""Comparison of two tensors up to the rounding of float64.

Two levels of the IR compute the same sums in different orders, so results differ by a few units in
the last place (2e-16) of the largest *term* of a sum, not of the sum. An element may therefore
differ by `ROW_TOLERANCE` of the largest element in its row, which has terms of its size, and by
`TENSOR_TOLERANCE` of the largest element of the tensor. This detects a single wrong element of a
large tensor, and a wrong row of small elements. If a difference is larger, the caller measures how
much the function amplifies rounding of its inputs (`noise`), which is allowed as well. NaN,
infinities and integers must agree exactly.
"""

from dataclasses import dataclass

import torch

ROW_TOLERANCE = 1e-10
TENSOR_TOLERANCE = 1e-13


@dataclass(frozen=True)
class Difference:
    """The place where two tensors differ most."""

    index: tuple[int, ...]
    expected: float
    actual: float
    relative: float
    """Over the largest element of both rows; infinite where one of both is no finite number."""
    elements: int
    """The number of elements that differ."""

    def __str__(self) -> str:
        place = f"[{', '.join(map(str, self.index))}]"
        text = f"{self.actual:.9g} at {place}, expected {self.expected:.9g}"
        return f"{text} (relative difference {self.relative:.2g}, {self.elements} elements differ)"


def find_difference(
    actual: torch.Tensor, expected: torch.Tensor, noise: torch.Tensor | None = None
) -> Difference | None:
    """Return the largest difference of two tensors of one shape, None if they agree.

    `noise` is what rounding may make of each row: (..., 1), or a scalar.
    """
    actual, expected = actual.double(), expected.double()
    finite = expected.isfinite()
    scale = row_maximum(torch.where(finite, expected.abs(), 0.0))
    allowed = ROW_TOLERANCE * scale
    if scale.numel():
        allowed = allowed + TENSOR_TOLERANCE * scale.max()
    if noise is not None:
        allowed = allowed + noise
    both = finite & actual.isfinite()
    error = torch.where(both, (actual - expected).abs(), 0.0)
    same = (actual == expected) | (actual.isnan() & expected.isnan())
    error = torch.where(both | same, error, torch.inf)
    wrong = error > allowed
    if not wrong.any():
        return None
    largest = torch.maximum(scale, row_maximum(torch.where(both, actual.abs(), 0.0)))
    relative = error / largest.clamp(min=torch.finfo(torch.float64).tiny)
    worst = torch.where(wrong, relative, -1.0).flatten().argmax()
    index = tuple(int(i) for i in torch.unravel_index(worst, error.shape))
    found = [tensor[index].item() for tensor in (expected, actual, relative)]
    return Difference(index, *found, elements=int(wrong.sum()))


def row_maximum(x: torch.Tensor) -> torch.Tensor:
    """Return the largest element of each row, (..., 1); of a tensor without rows, that element."""
    if not x.ndim or not x.numel():
        return x
    return x.amax(-1, keepdim=True)
