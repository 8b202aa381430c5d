"""Exact references: PyTorch in float64, and errors against it."""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from coda_ir.pytree import pytree

NARROW = (torch.float32, torch.bfloat16, torch.float16)


FLOAT8 = (torch.float8_e4m3fn, torch.float8_e5m2)


def comparable(tensor: torch.Tensor) -> torch.Tensor:
    """Return `tensor`; as float32 if it is float8, which PyTorch does not compare."""
    return tensor.float() if tensor.dtype in FLOAT8 else tensor


def relative_error(actual: torch.Tensor, exact: torch.Tensor) -> float:
    """Return ‖actual − exact‖ / ‖exact‖ in float64, over the finite elements of `exact`.

    Infinite where the two differ in shape, or in where they are NaN or infinite.
    """
    if actual.shape != exact.shape:
        return float("inf")
    actual, exact = actual.double(), exact.double()
    finite = exact.isfinite()
    if not torch.equal(actual[~finite].nan_to_num(2.0), exact[~finite].nan_to_num(2.0)):
        return float("inf")
    if not actual[finite].isfinite().all():
        return float("inf")
    largest = exact[finite].abs().max().item() if finite.any() else 0.0
    scale = largest or 1.0
    difference = ((actual[finite] - exact[finite]) / scale).square().sum().sqrt()
    norm = (exact[finite] / scale).square().sum().sqrt()
    return float(difference / norm) if norm > 0 else float(difference)


@contextmanager
def computing_in_float64() -> Generator[None]:
    """Within the context, PyTorch computes in float64 even where a model asks for less, as norms
    and softmaxes do; the inputs of the model must be float64 already.
    """
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with _Float64Mode():
            yield
    finally:
        torch.set_default_dtype(before)


# PyTorch documents the class under its private module, in its notes on extending PyTorch.
class _Float64Mode(TorchDispatchMode):
    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        widened: Any = pytree.tree_map(_widened, (tuple(args), dict(kwargs or {})))
        if str(func) == "aten._grouped_mm.default":
            func = grouped_mm
        return func(*widened[0], **widened[1])


def grouped_mm(
    a: torch.Tensor,
    b: torch.Tensor,
    offs: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    out_dtype: torch.dtype | None = None,
) -> torch.Tensor:
    """Compute `aten._grouped_mm` in float64, which its kernel lacks: the product of each matrix of
    a batch, or of each group of rows or columns, which end at `offs`; zeros outside of groups.
    """
    if offs is None:
        result = torch.bmm(a, b)
    elif a.ndim == b.ndim == 2:
        result = torch.stack([a[:, group] @ b[group] for group in slices_of_groups(offs)])
    else:
        result = a.new_zeros(a.shape[-2], b.shape[-1])
        for index, group in enumerate(slices_of_groups(offs)):
            if a.ndim == 2:
                result[group] = a[group] @ b[index]
            else:
                result[:, group] = a[index] @ b[:, group]
    return result if bias is None else result + bias


def slices_of_groups(ends: torch.Tensor) -> list[slice]:
    """Return the rows of each group, which end at `ends`."""
    stops = [int(end) for end in ends]
    return [slice(*pair) for pair in pairwise([0, *stops])]


def _widened(argument: object) -> object:
    return torch.float64 if argument in NARROW else argument
