"""The kernel of the gradient of an embedding: rows added up by id, in a fixed order.

No program adds to what another one has stored. The ids are sorted first, so that the rows of an id
are known; the program that owns a row of the table adds these up in float32 and rounds once.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import DYNAMIC_INDEX, i64

from coda_ir.backends.triton.kernel import EmittedKernel, KernelArgument, ceiling, indented
from coda_ir.backends.triton.kernel_text import (
    emitted,
    load,
    next_power_of_2,
    pointer_argument,
    rounded,
)
from coda_ir.dialects.coda import EmbeddingGradOp
from coda_ir.dialects.coda.shapes import element_type_of, shape_of

MAX_COLUMNS = 1024
"""Columns of a program, at most."""

ELEMENTS = 8192
"""Elements that a program reads at a time: frequent ids take many turns."""


@dataclass(frozen=True)
class _Tiling:
    """How the columns are split between programs: their number, None where it is not known."""

    columns: int | None

    @property
    def block(self) -> int:
        """Columns of a program."""
        columns = MAX_COLUMNS if self.columns is None else self.columns
        return min(next_power_of_2(columns), MAX_COLUMNS)

    @property
    def rows(self) -> int:
        """Rows that a program adds at a time."""
        return min(ELEMENTS // self.block, 128)

    @property
    def extent(self) -> str:
        """The number of columns in the kernel."""
        return "N" if self.columns is None else str(self.columns)

    @property
    def blocks(self) -> str:
        """The number of programs of a row of the table, in the kernel."""
        if self.columns is None:
            return f"tl.cdiv(N, {self.block})"
        return str(-(-self.columns // self.block))


def embedding_grad_kernel(op: EmbeddingGradOp, name: str) -> EmittedKernel:
    """out[id] = the sum of dy[order[n]] for n from start[id] on, up to start[id + 1].

    Operands: `order` and `start` as the host function `rows_by_id` gives them, and dy.
    """
    type, columns = element_type_of(op.dy), shape_of(op.dy)[-1]
    tiling = _Tiling(None if columns == DYNAMIC_INDEX else columns)
    width = "{operands[2]}.shape[-1]" if tiling.columns is None else str(columns)
    arguments = [
        pointer_argument("order_ptr", i64, "{operands[0]}"),
        pointer_argument("start_ptr", i64, "{operands[1]}"),
        pointer_argument("dy_ptr", type, "{operands[2]}"),
        pointer_argument("out_ptr", type, "{outputs[0]}"),
    ]
    if tiling.columns is None:
        arguments.append(KernelArgument("N", "i32", width))
    helpers = set[str]()
    lines = _lines(op, tiling, helpers)
    summary = f"rows added up by id, {tiling.rows} at a time, blocks of {tiling.block} columns"
    return emitted(
        name,
        arguments,
        lines,
        summary=summary,
        grid=f"{ceiling(width, tiling.block)} * ({{rows}})",
        helpers=helpers,
        num_warps=8,
    )


def _lines(op: EmbeddingGradOp, tiling: _Tiling, helpers: set[str]) -> list[str]:
    """The body of the kernel."""
    type, extent, block, rows = element_type_of(op.dy), tiling.extent, tiling.block, tiling.rows
    dy = load(f"dy_ptr + row * {extent} + column", type, "inside")
    body = [
        f"place = first + tl.arange(0, {rows})[:, None]",
        "row = tl.load(order_ptr + place, mask=place < last, other=0)",
        f"inside = (place < last) & (column < {extent})",
        f"total += {dy}",
        f"first += {rows}",
    ]
    return [
        f"id = (tl.program_id(0) // {tiling.blocks}).to(tl.int64)",
        f"column = tl.program_id(0) % {tiling.blocks} * {block} + tl.arange(0, {block})[None, :]",
        "first = tl.load(start_ptr + id)",
        "last = tl.load(start_ptr + id + 1)",
        *([] if op.padding is None else [f"last = tl.where(id == {op.padding}, first, last)"]),
        f"total = tl.zeros(({rows}, {block}), tl.float32)",
        "while first < last:",
        *indented(body),
        "result = tl.sum(total, 0, keep_dims=True)",
        f"value = {rounded('result', type, helpers)}",
        f"tl.store(out_ptr + id * {extent} + column, value, mask=column < {extent})",
    ]
