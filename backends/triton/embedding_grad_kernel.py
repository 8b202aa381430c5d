"""The kernels of the gradient of an embedding: rows added up by id, in a fixed order.

No program adds to a result of another one. The ids are sorted first, so that the rows of an id are
consecutive; the program of the first of them adds them in float32 and rounds once. Most rows of a
table have no id in a batch: they are set to zero before the kernel runs. Few ids, or those of a
short table, need no sort: programs of each row of the table read all of them, and add up their own.
"""

from dataclasses import dataclass, replace
from math import prod

from xdsl.dialects.builtin import DYNAMIC_INDEX, i32, i64

from coda_ir.backends.triton.host_values import ROW_COUNT, constant, joined, nth_operand, nth_output
from coda_ir.backends.triton.kernel import EmittedKernel, KernelArgument, indented
from coda_ir.backends.triton.kernel_text import (
    emitted,
    load,
    next_power_of_2,
    pointer_argument,
    rounded,
)
from coda_ir.backends.triton.split_k import SplitK
from coda_ir.dialects.coda import EmbeddingGradOp
from coda_ir.dialects.coda.shapes import element_type_of, shape_of
from coda_ir.numbered_elements import FEW_IDS

MAX_COLUMNS = 1024
"""Columns of a program, at most."""

FREQUENT_COLUMNS = 128
"""The same where programs share the ids of a row: in 8192 tokens of one type, programs of 1024
columns took 436 us on an H100."""

ELEMENTS = 8192
"""Elements that a program reads at a time: frequent ids take many turns."""

TURNS, MAX_SPLIT, MAX_PROGRAMS, UNKNOWN_TURNS = 8, 64, 2048, 128
"""Turns of a program that shares the ids of a row of the table with others; the most programs of
a row and of a table; and the turns where the number of ids is unknown."""


@dataclass(frozen=True)
class _Tiling:
    """The split of the columns between programs: their number is None if unknown."""

    columns: int | None
    most: int = MAX_COLUMNS

    @property
    def block(self) -> int:
        """The columns of a program."""
        return self.most if self.columns is None else min(next_power_of_2(self.columns), self.most)

    @property
    def rows(self) -> int:
        """The rows that a program adds at a time."""
        return min(self.own_rows, 128)

    @property
    def own_rows(self) -> int:
        """The rows that a program looks at, and adds if they are its own."""
        return ELEMENTS // self.block

    @property
    def extent(self) -> str:
        """The number of columns in the kernel."""
        return "N" if self.columns is None else str(self.columns)

    @property
    def blocks(self) -> str:
        """The number of programs of a row of dy, in the kernel."""
        if self.columns is None:
            return f"tl.cdiv(N, {self.block})"
        return str(-(-self.columns // self.block))


def embedding_grad_kernel(op: EmbeddingGradOp, name: str) -> EmittedKernel:
    """Emit out[id] = the sum of dy[order[n]] for all n with ids[n] = id, for each id that occurs.

    Operands: `ids` and `order` as the host function `sorted_ids` gives them, and dy.
    """
    type, columns = element_type_of(op.dy), shape_of(op.dy)[-1]
    tiling = _Tiling(None if columns == DYNAMIC_INDEX else columns)
    width = nth_operand(2).shape(-1) if tiling.columns is None else constant(columns)
    arguments = [
        pointer_argument("ids_ptr", i32, nth_operand(0)),
        pointer_argument("order_ptr", i64, nth_operand(1)),
        pointer_argument("dy_ptr", type, nth_operand(2)),
        pointer_argument("out_ptr", type, nth_output(0)),
        KernelArgument("count", "i32", ROW_COUNT),
        KernelArgument("V", "i32", nth_output(0).shape(0)),
    ]
    if tiling.columns is None:
        arguments.append(KernelArgument("N", "i32", width))
    lines = _lines(op, tiling)
    summary = f"rows added up by id, {tiling.rows} at a time, blocks of {tiling.block} columns"
    return emitted(
        name,
        arguments,
        lines,
        summary=summary,
        grid=width.ceiling(tiling.block) * joined("max(1, ", ROW_COUNT, ")"),
        num_warps=8,
    )


def own_ids_kernel(op: EmbeddingGradOp, name: str) -> EmittedKernel:
    """Emit out[id] = the sum of dy[n] for all n with ids[n] = id, for each row of the table.

    Several programs share the ids of a row, if there are many. Operands: `ids` and dy, in any
    shapes of as many ids and rows.
    """
    type, (table_rows, columns) = element_type_of(op.dy), shape_of(op.result)
    is_frequent = DYNAMIC_INDEX in shape_of(op.ids) or prod(shape_of(op.ids)) > FEW_IDS
    tiling = _Tiling(columns, FREQUENT_COLUMNS if is_frequent else MAX_COLUMNS)
    tiles = constant(table_rows * int(tiling.blocks))
    split = _split_of(op, tiling, table_rows)
    arguments = [
        pointer_argument("ids_ptr", element_type_of(op.ids), nth_operand(0)),
        pointer_argument("dy_ptr", type, nth_operand(1)),
        pointer_argument("out_ptr", type, nth_output(0)),
        *(() if split is None else split.parameters),
        KernelArgument("count", "i32", ROW_COUNT),
    ]
    store = [
        f"value = {rounded('result', type)}",
        f"tl.store(out_ptr + id.to(tl.int64) * {columns} + column, value, column < {columns})",
    ]
    if split is None:
        place = ["tile = tl.program_id(0)", "start = 0", "end = count"]
    else:
        (total,) = split.sums([tiling.block])
        published = split.publish(["result"], [tiling.block])
        store = [*published, *indented([f"result = {total}", *store])]
        steps = f"tl.cdiv(tl.cdiv(count, SPLIT_K), {tiling.own_rows})"
        place = [
            *split.prologue(),
            f"share = {steps} * {tiling.own_rows}",
            "start = split * share",
            "end = tl.minimum(start + share, count)",
            "one_row = tl.full((1,), True, tl.int1)",
        ]
    lines = [*place, *_own_rows(op, tiling), "result = tl.sum(total, 0, keep_dims=True)", *store]
    kernel = emitted(
        name,
        arguments,
        lines,
        summary=f"rows added up by id for each row of the table, {tiling.block} columns at a time",
        grid=tiles if split is None else tiles * split.programs,
        num_warps=8,
    )
    shared = None if split is None else split.shared_tiles(tiles)
    return replace(kernel, shared_tiles=shared, runs_without_rows=True)


def _split_of(op: EmbeddingGradOp, tiling: _Tiling, table_rows: int) -> SplitK | None:
    """Return how programs share the ids of a row of the table: each takes several turns."""
    shape = shape_of(op.ids)
    turns = UNKNOWN_TURNS if DYNAMIC_INDEX in shape else -(-prod(shape) // tiling.own_rows)
    tiles = table_rows * int(tiling.blocks)
    programs = min(turns // TURNS, MAX_PROGRAMS // max(1, tiles), MAX_SPLIT)
    if programs < 2:
        return None
    partials = KernelArgument("partials_ptr", "*fp32", nth_output(1))
    counters = KernelArgument("counters_ptr", "*i32", nth_output(2))
    return SplitK(programs, tiling.block, (partials, counters), "one_row")


def _own_rows(op: EmbeddingGradOp, tiling: _Tiling) -> list[str]:
    """Return statements that add up the rows of dy from `start` to `end` with the id of a tile."""
    type, columns, rows = element_type_of(op.dy), tiling.columns, tiling.own_rows
    dy = load(f"dy_ptr + row * {columns} + column", type, f"is_own & (column < {columns})")
    is_own = "tl.load(ids_ptr + place, mask=place < end, other=-1) == id"
    is_own = is_own if op.padding is None else f"({is_own}) & (id != {op.padding})"
    return [
        f"id = tile // {tiling.blocks}",
        f"column = tile % {tiling.blocks} * {tiling.block} + tl.arange(0, {tiling.block})[None, :]",
        f"total = tl.zeros(({rows}, {tiling.block}), tl.float32)",
        "while start < end:",
        *indented(
            [
                f"place = start + tl.arange(0, {rows})[:, None]",
                f"is_own = {is_own}",
                "row = place.to(tl.int64)",
                f"total += {dy}",
                f"start += {rows}",
            ]
        ),
    ]


def _lines(op: EmbeddingGradOp, tiling: _Tiling) -> list[str]:
    """Return the body of the kernel; ids that are no row of the table are ignored."""
    type, extent, block, rows = element_type_of(op.dy), tiling.extent, tiling.block, tiling.rows
    dy = load(f"dy_ptr + row * {extent} + column", type, f"inside & (column < {extent})")
    counts = "(id != before) & (id >= 0) & (id < V)"
    counts += "" if op.padding is None else f" & (id != {op.padding})"
    turn = [
        f"place = first + tl.arange(0, {rows})[:, None]",
        "inside = tl.load(ids_ptr + place, mask=place < count, other=-1) == id",
        "row = tl.load(order_ptr + place, mask=inside, other=0)",
        f"total += {dy}",
        f"first += {rows}",
        "current = tl.load(ids_ptr + first, mask=first < count, other=-1)",
    ]
    return [
        f"first = tl.program_id(0) // {tiling.blocks}",
        "id = tl.load(ids_ptr + first, mask=first < count, other=-1)",
        "before = tl.load(ids_ptr + first - 1, mask=(first > 0) & (first < count), other=-1)",
        f"if {counts}:",
        *indented(
            [
                f"column = tl.program_id(0) % {tiling.blocks} * {block}"
                f" + tl.arange(0, {block})[None, :]",
                f"total = tl.zeros(({rows}, {block}), tl.float32)",
                "current = id",
                "while current == id:",
                *indented(turn),
                "result = tl.sum(total, 0, keep_dims=True)",
                f"value = {rounded('result', type)}",
                f"tl.store(out_ptr + id.to(tl.int64) * {extent} + column, value, "
                f"mask=column < {extent})",
            ]
        ),
    ]
