"""Indices that have to be rows or columns of something."""

from __future__ import annotations

import torch
from xdsl.ir import Operation, SSAValue

from coda_ir.backends.reference.numerics import place
from coda_ir.diagnostics import IndexOutOfRangeError


def check_index(
    op: Operation, value: SSAValue, index: torch.Tensor, extent: int, ignored: int | None = None
) -> None:
    """Raise unless every element of `index`, which is `value` of `op`, is below `extent`, or is
    `ignored`.
    """
    wrong = (index < 0) | (index >= extent)
    if ignored is not None:
        wrong &= index != ignored
    if not wrong.any():
        return
    row = int(wrong.flatten().nonzero()[0])
    or_ignored = "" if ignored is None else f", or {ignored}, which is ignored"
    raise IndexOutOfRangeError(
        f"{op.name}{place(op)}: {value.name_hint or 'the index'} has {index.flatten()[row]} in "
        f"row {row}, expected 0 to {extent - 1}{or_ignored}"
    )
