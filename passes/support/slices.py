"""Neighbouring elements of a dimension, which an operator or a call of PyTorch takes."""

from __future__ import annotations

from typing import Any

from xdsl.ir import Operation

from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import shape_of
from coda_ir.dialects.torch import CallOp


def start_of(op: Operation, dim: int) -> int | None:
    """The first of the neighbouring elements of dimension `dim` that `op` takes.

    None for another operator, another dimension, steps, and a call that does not start at 0.
    """
    match op:
        case coda.SliceOp():
            sliced, start, _ = op.range
            return start if sliced == dim else None
        case CallOp() if op.callee.data == "aten.slice.Tensor":
            symbols = dict.fromkeys(op.template.symbols, 0)
            positional, named = op.template.evaluate(op.inputs, symbols, {})
            given: dict[str, Any] = {"dim": 0, "start": None, "step": 1}
            names = ("self", "dim", "start", "end", "step")
            given |= dict(zip(names, positional, strict=False)) | named
            is_range = given["dim"] % len(shape_of(op.inputs[0])) == dim and given["step"] == 1
            return 0 if is_range and given["start"] in (None, 0) else None
        case _:
            return None
