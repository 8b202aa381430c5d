"""The kernel of the largest elements of short rows, such as the scores of experts.

A program holds its rows in registers. Each element becomes a 64-bit integer, whose upper half is in
the order of the floats and whose lower half counts columns from the end: no two are equal, and of
equal elements the one in the lower column is larger. The largest one is taken k times, of wide rows
by the two halves; of few elements, each one counts those that are larger, which is its place.
"""

from math import prod

from xdsl.dialects.builtin import DYNAMIC_INDEX, i64

from coda_ir.backends.triton.host_values import ROW_COUNT, nth_operand, nth_output
from coda_ir.backends.triton.kernel import EmittedKernel, KernelArgument
from coda_ir.backends.triton.kernel_text import (
    emitted,
    load,
    next_power_of_2,
    pointer_argument,
    rounded,
)
from coda_ir.dialects.coda import TopkOp
from coda_ir.dialects.coda.shapes import element_type_of, shape_of

ELEMENTS = 1024
"""Elements that a program holds, of at least one row."""


MAX_COUNTED = 128
"""Elements of an only row that are compared with one another: of 128, on an H100, in 0.9 us less
than 8 maxima take. Of 256, that took 37 us more, and for 8 rows of 32, instead of 2 maxima, 1.5."""

LEAST_HALVED = 128
"""Columns from which on a warp holds one row of floats, and reduces 32 bits by one instruction: of
32768 rows of 128, the 8 largest take 17 instead of 31 us on an H200, of a row of 64, 3.5 instead of
3.0."""


def topk_kernel(op: TopkOp, name: str) -> EmittedKernel:
    """The k largest elements of each row in descending order, and their columns; NaN is largest."""
    type, columns, k = element_type_of(op.x), shape_of(op.x)[-1], op.given["k"]
    block = next_power_of_2(columns)
    rows = max(1, ELEMENTS // block)
    if DYNAMIC_INDEX not in shape_of(op.x):
        rows = min(rows, next_power_of_2(prod(shape_of(op.x)[:-1])))
    stored = rounded("value", type)
    lines = [
        f"row = tl.program_id(0) * {rows} + tl.arange(0, {rows})[:, None]",
        f"column = tl.arange(0, {block})[None, :]",
        f"inside = (row < M) & (column < {columns})",
        f"x = {load(f'x_ptr + row.to(tl.int64) * {columns} + column', type, 'inside')}",
        f"behind = ({block - 1} - column).to(tl.int64)",
        "key = (float_order(x).to(tl.int64) << 32) | behind",
        # Below the order of every float.
        "nothing = tl.full((), -(2**63), tl.int64)",
        "key = tl.where(inside, key, nothing)",
        *_largest(block, rows, k),
        "value = float_at((taken >> 32).to(tl.int32))",
        f"id = {block - 1} - (taken & {block - 1})",
        f"at = row.to(tl.int64) * {k} + place",
        f"is_stored = (row < M) & (place < {k})",
        f"tl.store(values_ptr + at, {stored}, mask=is_stored)",
        "tl.store(ids_ptr + at, id, mask=is_stored)",
    ]
    return emitted(
        name,
        [
            pointer_argument("x_ptr", type, nth_operand(0)),
            pointer_argument("values_ptr", type, nth_output(0)),
            pointer_argument("ids_ptr", i64, nth_output(1)),
            KernelArgument("M", "i32", ROW_COUNT),
        ],
        lines,
        summary=f"the {k} largest of {columns} elements, blocks of {rows} x {block}",
        grid=ROW_COUNT.ceiling(rows),
    )


def _largest(block: int, rows: int, k: int) -> list[str]:
    """Return the statements that define the keys `taken`, and the `place` of each."""
    if rows == 1 and block <= MAX_COUNTED:
        return _counted()
    places = next_power_of_2(k)
    return [
        f"place = tl.arange(0, {places})[None, :]",
        f"taken = tl.zeros(({rows}, {places}), tl.int64)",
        *(_taken(k) if block < LEAST_HALVED else _taken_by_halves(block, k)),
    ]


def _taken(k: int) -> list[str]:
    """Return the statements that take the largest key of a row k times."""
    return [
        f"for number in tl.static_range({k}):",
        "    largest = tl.expand_dims(tl.max(key, 1), 1)",
        "    taken = tl.where(place == number, largest, taken)",
        "    key = tl.where(key == largest, nothing, key)",
    ]


def _taken_by_halves(block: int, k: int) -> list[str]:
    """Return the statements that take the largest element, in its lowest column, k times."""
    return [
        "order = (key >> 32).to(tl.int32)",
        f"for number in tl.static_range({k}):",
        "    largest = tl.expand_dims(tl.max(order, 1), 1)",
        f"    first = tl.expand_dims(tl.min(tl.where(order == largest, column, {block}), 1), 1)",
        f"    found = (largest.to(tl.int64) << 32) | ({block - 1} - first)",
        "    taken = tl.where(place == number, found, taken)",
        "    order = tl.where(column == first, -(2**31), order)",
    ]


def _counted() -> list[str]:
    """Return the statements that find the place of each key: as many as are larger in its row."""
    return [
        "taken = key",
        # Across a row and down a column, the keys are in different threads.
        "larger = tl.expand_dims(key, 2) > tl.expand_dims(key, 1)",
        "place = tl.sum(larger.to(tl.int32), 1)",
    ]
