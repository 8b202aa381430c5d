"""The kernels that sort rows by the number of their group: a count, and an order.

Each program has a block of rows. The first kernel counts the rows of each group in each block. In
the second one, a program adds up the counts of the blocks before its own and of the groups before
each group, which gives the places of its rows, and sorts these by group. A few rows are one block,
whose program counts them itself.
"""

from xdsl.dialects.builtin import i32, i64

from coda_ir.backends.triton.host_values import ROW_COUNT, nth_operand, nth_output
from coda_ir.backends.triton.kernel import EmittedKernel, KernelArgument
from coda_ir.backends.triton.kernel_text import (
    emitted,
    next_power_of_2,
    over_blocks,
    pointer_argument,
)
from coda_ir.dialects.coda import GroupOrderOp
from coda_ir.dialects.coda.shapes import element_type_of

MAX_BLOCK, MIN_BLOCK = 1024, 16
"""Rows of a program, at most and at least."""

COUNTS = 4096
"""Counts that a program adds up at a time."""


def block_of(rows: int | None) -> int:
    """Return the rows of a block, if their number is known."""
    return MAX_BLOCK if rows is None else max(MIN_BLOCK, min(MAX_BLOCK, next_power_of_2(rows)))


def group_count_kernel(op: GroupOrderOp, name: str, block: int) -> EmittedKernel:
    """Emit the count of rows of each group in each block: blocks x groups."""
    groups = op.given["groups"]
    lines = [
        *_ids(groups, block),
        f"group = tl.arange(0, {next_power_of_2(groups)})",
        f"count = tl.histogram(id, {next_power_of_2(groups)}, mask=inside)",
        f"tl.store(counts_ptr + block * {groups} + group, count, mask=group < {groups})",
    ]
    return emitted(
        name,
        [_ids_argument(op), pointer_argument("counts_ptr", i32, nth_output(0)), _ROWS],
        lines,
        summary=f"the rows of {groups} groups in each block of {block}",
        grid=ROW_COUNT.ceiling(block),
    )


def group_order_kernel(op: GroupOrderOp, name: str, block: int, *, is_alone: bool) -> EmittedKernel:
    """Emit the order of the rows, and the ends of the groups; `is_alone` if there is one block."""
    groups = op.given["groups"]
    lanes = next_power_of_2(groups)
    lines = [
        *_ids(groups, block),
        f"group = tl.arange(0, {lanes})",
        f"own = tl.histogram(id, {lanes}, mask=inside)",
        *(_ALONE if is_alone else _counted(groups, lanes, block)),
        "end = tl.cumsum(total, 0)",
        f"tl.store(ends_ptr + group, end, mask=(group < {groups}) & (block == 0))",
        "# Add to a row's place in the sorted block the rows of other blocks before it.",
        "shift = end - total + before - (tl.cumsum(own, 0) - own)",
        f"key = tl.where(inside, id, {groups}) * {block} + lane",
        "key = tl.sort(key)",
        f"sorted_id = tl.minimum(key // {block}, {groups - 1})",
        "to = lane + tl.gather(shift, sorted_id, 0)",
        f"is_row = key < {groups * block}",
        f"row = (block * {block} + key % {block}).to(tl.int64)",
        "tl.store(order_ptr + to, row, mask=is_row)",
    ]
    counts = [] if is_alone else [pointer_argument("counts_ptr", i32, nth_operand(1))]
    arguments = [
        *(_ids_argument(op), *counts),
        pointer_argument("order_ptr", i64, nth_output(0)),
        *(pointer_argument("ends_ptr", i32, nth_output(1)), _ROWS),
    ]
    return emitted(
        name,
        arguments,
        lines,
        summary=f"the order of rows by {groups} groups, blocks of {block}",
        grid=ROW_COUNT.ceiling(block),
    )


_ALONE = ("total = own", "before = tl.zeros_like(own)")
_ROWS = KernelArgument("M", "i32", ROW_COUNT)


def _ids_argument(op: GroupOrderOp) -> KernelArgument:
    return pointer_argument("ids_ptr", element_type_of(op.ids), nth_operand(0))


def _ids(groups: int, block: int) -> list[str]:
    """Return the statements that load the numbers of the groups of a block."""
    return [
        "block = tl.program_id(0)",
        f"lane = tl.arange(0, {block})",
        f"inside = block * {block} + lane < M",
        f"id = tl.load(ids_ptr + block * {block} + lane, mask=inside, other=0).to(tl.int32)",
        "# Clamp numbers out of range, so that they do not write out of bounds.",
        f"id = tl.minimum(tl.maximum(id, 0), {groups - 1})",
    ]


def _counted(groups: int, lanes: int, block: int) -> list[str]:
    """Return the statements that add up the counts of all blocks, and of those before this one."""
    rows = max(1, COUNTS // lanes)
    return [
        f"blocks = tl.cdiv(M, {block})",
        "total = tl.zeros_like(own)",
        "before = tl.zeros_like(own)",
        *over_blocks(
            "blocks",
            rows,
            [
                f"other = start + tl.arange(0, {rows})[:, None]",
                f"is_count = (other < blocks) & (group < {groups})[None, :]",
                f"counts = counts_ptr + other * {groups} + group[None, :]",
                "count = tl.load(counts, mask=is_count, other=0)",
                "total += tl.sum(count, 0)",
                "before += tl.sum(tl.where(other < block, count, 0), 0)",
            ],
        ),
    ]
