"""The kernels that read or write elements by number: `gather`, `scatter`, `index` of a vector.

    out[row, j] = x[row, ids[row, j]]                                 gather
    out[row] = x[row], then out[row, ids[row, j]] = values[row, j]    scatter

A program of `gather` and `scatter` has whole rows. After a barrier it replaces elements of the
rows that it has copied. Where there are as many numbers as elements, nothing is copied.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import DYNAMIC_INDEX
from xdsl.ir import SSAValue

from coda_ir.backends.triton.host.literals import literal
from coda_ir.backends.triton.host_values import ROW_COUNT, nth_operand, nth_output
from coda_ir.backends.triton.kernel import EmittedKernel, KernelArgument
from coda_ir.backends.triton.kernel_text import emitted, next_power_of_2, pointer_argument, rounded
from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import element_type_of, shape_of, stores_floats
from coda_ir.dominance import before

ELEMENTS = 1024
"""Elements that a program holds, of at least one row."""


def number_filling(value: SSAValue) -> coda.ConstantOp | None:
    """Return the number that a constant tensor repeats."""
    op = value.owner
    number = op.x.owner if isinstance(op, coda.BroadcastOp) else None
    return number if isinstance(number, coda.ConstantOp) else None


def read_from_memory(
    op: coda.GatherOp | coda.ScatterOp | coda.IndexOp, *, is_whole: bool
) -> list[bool]:
    """Return for each operand whether its kernel loads it."""
    if not isinstance(op, coda.ScatterOp):
        return [True, True]
    x = not is_whole and number_filling(op.x) is None
    values = number_filling(op.values) is None and coda.positions_in(op.values) is None
    return [x, True, values]


def is_checked(op: coda.GatherOp | coda.ScatterOp | coda.IndexOp) -> bool:
    """Return whether numbers may be invalid: those of elements that were ordered are not."""
    owner = before(op.ids, coda.ReshapeOp).owner
    if isinstance(owner, coda.TopkOp | coda.SortOp):
        extent = shape_of(owner.x)[owner.given["dim"]]
    elif isinstance(owner, coda.GroupOrderOp):
        extent = shape_of(owner.ids)[0]
    else:
        return True
    limit = shape_of(op.x)[op.given["dim"]]
    return DYNAMIC_INDEX in (extent, limit) or extent > limit


def row_kernel(op: coda.GatherOp | coda.ScatterOp, name: str, *, is_whole: bool) -> EmittedKernel:
    """Emit `gather` or `scatter` along rows of few columns."""
    text = _Text(op, is_whole=is_whole)
    columns, count = shape_of(op.x)[-1], shape_of(op.ids)[-1]
    block, places = next_power_of_2(columns), next_power_of_2(count)
    rows = max(1, ELEMENTS // max(block, places))
    lines = [
        f"row = tl.program_id(0) * {rows} + tl.arange(0, {rows})[:, None]",
        f"first = row.to(tl.int64) * {columns}",
        f"place = tl.arange(0, {places})[None, :]",
        f"is_place = (row < M) & (place < {count})",
        f"at = row.to(tl.int64) * {count} + place",
        *text.numbers("at", "is_place", str(columns)),
    ]
    if isinstance(op, coda.GatherOp):
        lines += [*text.value("x", op.x, "first + id", "is_place"), *text.store("at", "is_place")]
    else:
        if not is_whole:
            lines += [
                f"column = tl.arange(0, {block})[None, :]",
                f"inside = (row < M) & (column < {columns})",
                *text.value("x", op.x, "first + column", "inside"),
                *text.store("first + column", "inside"),
                "tl.debug_barrier()",
            ]
        lines += text.value("values", op.values, "at", "is_place")
        lines += text.store("first + id", "is_place")
    return emitted(
        name,
        text.arguments(),
        lines,
        summary=f"{count} of {columns} elements of each row, blocks of {rows} rows",
        grid=ROW_COUNT.ceiling(rows),
    )


def vector_kernel(op: coda.ScatterOp | coda.IndexOp, name: str) -> EmittedKernel:
    """Emit `index` of a vector, or a `scatter` that replaces all of its elements."""
    text = _Text(op, is_whole=True)
    extent = shape_of(op.x)[0]
    limit = "N" if extent == DYNAMIC_INDEX else str(extent)
    lines = [
        f"at = tl.program_id(0).to(tl.int64) * {ELEMENTS} + tl.arange(0, {ELEMENTS})",
        "is_place = at < M",
        *text.numbers("at", "is_place", limit),
    ]
    if isinstance(op, coda.IndexOp):
        lines += [*text.value("x", op.x, "id", "is_place"), *text.store("at", "is_place")]
    else:
        lines += [*text.value("values", op.values, "at", "is_place"), *text.store("id", "is_place")]
    of_x = nth_operand(0) if isinstance(op, coda.IndexOp) else nth_operand(1)
    size = [KernelArgument("N", "i32", of_x.shape(0))] if limit == "N" else []
    return emitted(
        name,
        [*text.arguments(), *size],
        lines,
        summary=f"elements of a vector by number, blocks of {ELEMENTS}",
        grid=ROW_COUNT.ceiling(ELEMENTS),
    )


class _Text:
    """Emits loads and stores of the operands of an operator."""

    def __init__(self, op: coda.GatherOp | coda.ScatterOp | coda.IndexOp, *, is_whole: bool):
        self._op, self._loaded = op, read_from_memory(op, is_whole=is_whole)

    def arguments(self) -> list[KernelArgument]:
        names = ("x_ptr", "ids_ptr", "values_ptr")[: len(self._loaded)]
        named = zip(names, self._op.operands, self._loaded, strict=True)
        operands = [
            pointer_argument(name, element_type_of(value), nth_operand(index))
            for index, (name, value, is_loaded) in enumerate(named)
            if is_loaded
        ]
        result = pointer_argument("out_ptr", element_type_of(self._op.result), nth_output(0))
        return [*operands, result, KernelArgument("M", "i32", ROW_COUNT)]

    def numbers(self, at: str, mask: str, extent: str) -> Sequence[str]:
        """Return the statements that load numbers and check them."""
        lines = [f"id = tl.load(ids_ptr + {at}, mask={mask}, other=0).to(tl.int64)"]
        if isinstance(self._op, coda.IndexOp):
            lines.append(f"id = tl.where(id < 0, id + {extent}, id)")
        if is_checked(self._op):
            lines.append(f"id = checked_index(id, {extent}, 0)")
        return lines

    def value(self, name: str, value: SSAValue, at: str, mask: str) -> Sequence[str]:
        """Return the statement for the elements to store next, in their type."""
        type, number = element_type_of(value), number_filling(value)
        positions = coda.positions_in(value) if name == "values" else None
        if number is not None:
            kind = "float32" if stores_floats(type) else "int64"
            filled = f"tl.full((), {literal(number)}, tl.{kind})"
            return [f"filled = {filled}", f"value = {rounded('filled', type)}"]
        if positions is not None:
            start, step = positions.first_and_step
            return [f"value = {start} + {step} * ({at})"]
        return [f"value = tl.load({name}_ptr + {at}, mask={mask})"]

    def store(self, at: str, mask: str) -> Sequence[str]:
        return [f"tl.store(out_ptr + {at}, value, mask={mask})"]
