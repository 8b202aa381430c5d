"""Subtiles that need the same operands follow each other; these operands are loaded once."""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from support import gemm_programs as programs
from support.kernel_harness import (
    assert_right,
    check_against_reference,
    function_of,
    gemms_of,
    parse_module,
    random_arguments,
    run_kernel,
)

from coda_ir.backends.triton.aot import compile_kernels
from coda_ir.backends.triton.gemm_kernel import emit_gemm
from coda_ir.backends.triton.names import NameAllocator
from coda_ir.backends.triton.warp_specialized import segment as segments
from coda_ir.backends.triton.warp_specialized.subtile_order import SubtileOrder, subtile_order
from coda_ir.dialects.gemm import Segment
from coda_ir.dialects.gemm.buffers import Moves, Staging, moves_of
from coda_ir.dialects.gemm.tiling import ColumnRange, column_ranges

pytestmark = pytest.mark.any_device

HOPPER = 'warp_specialized, "128x256x64", warps = 8, stages = 3, group_m = 2'
MORE_STAGES = HOPPER.replace("stages = 3", "stages = 4")
PING_PONG = 'ping_pong, "128x128x64", warps = 8, stages = 3, group_m = 2'


def scaled(
    width: int,
    *,
    n: int = 512,
    beside: Sequence[str] = (),
    partial: bool = False,
    rows: str = "?",
    schedule: str = HOPPER,
) -> str:
    """acc · table[m mod R, n mod width], plus ports `beside` (of the kinds tile and row)."""
    y, table = f"tensor<?x{n}xbf16>", f"tensor<{rows}x{width}xbf16>"
    types = {"tile": y, "row": f"tensor<{n}xbf16>"}
    ports = " ".join(f"{kind}(%{kind} : {types[kind]})" for kind in beside)
    elements = "".join(f", %e{kind} : f32" for kind in beside)
    arguments = "".join(f", %{kind} : {types[kind]}" for kind in beside)
    sums = "".join(f"    %s{kind} = arith.addf %s, %e{kind} : f32\n" for kind in beside)
    last = f"%s{beside[-1]}" if beside else "%s"
    sum_type = "tensor<?x?xf32>"
    results = {"%y": ("tile", y)} | ({"%sum": ("partial_row<add>", sum_type)} if partial else {})
    kinds = ", ".join(f"{kind} : {type}" for kind, type in results.values())
    returned = ", ".join(type for _, type in results.values())
    return f"""
func.func @f(%x : tensor<?x72xbf16>, %w : tensor<{n}x72xbf16>, %table : {table}{arguments})
    -> ({returned}) {{
  {", ".join(results)} = gemm.fused %x : tensor<?x72xbf16> schedule<{schedule}>
      columns(%w : tensor<{n}x72xbf16>) table(%table : {table}) {ports} -> ({kinds}) {{
  ^epilogue(%acc : f32, %t : f32{elements}):
    %s = arith.mulf %acc, %t : f32
{sums}    gemm.yield {", ".join([last] * len(results))} : {", ".join(["f32"] * len(results))}
  }}
  func.return {", ".join(results)} : {returned}
}}
"""


def rotated(pairing: str, tables: str, *results: str, schedule: str = HOPPER, n: int = 512) -> str:
    return programs.rotated_pairs(pairing, tables, results or ["tile bf16"], schedule, n=n)


def head_scaled(width: int) -> str:
    """Heads of 128 in pairs, times a table of `width` columns, one of each for a column."""
    y, table = "tensor<?x512xbf16>", f"tensor<1x{width}xbf16>"
    return f"""
func.func @f(%x : tensor<?x72xbf16>, %w : tensor<512x72xbf16>, %table : {table}) -> {y} {{
  %y = gemm.fused %x : tensor<?x72xbf16> schedule<{HOPPER}>
      columns(%w : tensor<512x72xbf16>) pair<halves, 128> table(%table : {table}) -> (tile : {y}) {{
  ^epilogue(%p : f32, %q : f32, %a : f32, %b : f32):
    %y0 = arith.mulf %p, %a : f32
    %y1 = arith.mulf %q, %b : f32
    gemm.yield %y0, %y1 : f32, f32
  }}
  func.return %y : {y}
}}
"""


def ranges_of(text: str) -> list[tuple[Segment, ColumnRange, Moves]]:
    (op,) = gemms_of(parse_module(text))
    assert op.schedule is not None
    rows = op.schedule.block_m.data
    return [
        (segment, columns, moves_of(segment, columns, rows))
        for segment in op.segments()
        for columns in column_ranges(segment, op.schedule)
    ]


def orders_of(text: str) -> list[SubtileOrder]:
    return [subtile_order(*found) for found in ranges_of(text)]


def plain_order(segment: Segment, columns: ColumnRange, moves: Moves) -> SubtileOrder:
    return SubtileOrder(columns.subtiles, columns.subtiles)


class TestSubtileOrder:
    @pytest.mark.parametrize(
        ("subtiles", "period", "numbers"),
        [
            (4, 4, (0, 1, 2, 3)),
            (4, 1, (0, 1, 2, 3)),
            (4, 2, (0, 2, 1, 3)),
            (8, 2, (0, 2, 4, 6, 1, 3, 5, 7)),
            (8, 4, (0, 4, 1, 5, 2, 6, 3, 7)),
            (1, 1, (0,)),
        ],
    )
    def test_numbers(self, subtiles: int, period: int, numbers: tuple[int, ...]):
        assert SubtileOrder(subtiles, period).numbers == numbers

    @pytest.mark.parametrize("period", [1, 2, 4, 8])
    @pytest.mark.parametrize("joined", [1, 2, 4])
    def test_expressions(self, period: int, joined: int):
        """They are those of the values that are held, and of the boxes that are complete."""
        order, boxes = SubtileOrder(8, period), 0
        assert order.allows(joined) == (period in (1, 8) or joined in (1, period))
        held: list[int] = []
        for subtile in order.numbers if order.allows(joined) else ():
            scope = {"subtile": subtile, "place": subtile % period}
            begins = joined == 1 or eval(order.begins_holding(joined), scope)
            held = [subtile] if begins else [*held, subtile]
            if subtile % joined == joined - 1:
                places = order.held(joined) if joined > 1 else ["0"]
                found: list[int] = [held[eval(place, scope)] for place in places]
                assert found == list(range(subtile - joined + 1, subtile + 1))
                assert eval(order.box(joined), scope) == boxes
                boxes += 1

    def test_subtiles_of_two_heads(self):
        assert SubtileOrder(4, 2).loops(["take"], ["    use"]) == [
            "for place in tl.static_range(2):",
            "    take",
            "    for subtile in tl.static_range(place, 4, 2):",
            "        use",
        ]


CASES = {
    # Heads in the 128 pairs of a tile: four, two and one.
    "heads of 64": (rotated("halves, 64", "32xf32"), (4, 1)),
    "heads of 128": (rotated("halves, 128", "64xf32"), (4, 2)),
    "heads of 256": (rotated("halves, 256", "128xf32"), (4, 4)),
    "heads of 128, tables in bfloat16": (rotated("halves, 128", "64xbf16"), (4, 2)),
    "three heads": (rotated("halves, 128", "64xf32", n=384), (4, 2)),
    "one head in a tile of two": (rotated("halves, 128", "64xf32", "half bf16", n=128), (4, 2)),
    # Subtiles of float32 are stored one by one, those of bfloat16 in twos.
    "float32": (rotated("halves, 128", "64xf32", "tile f32"), (4, 2)),
    "several types": (rotated("halves, 128", "64xf32", "half f32", "half bf16"), (4, 2)),
    "several types, one buffer of each": (
        rotated("halves, 128", "64xf32", "half f32", "half bf16", schedule=MORE_STAGES),
        (4, 2),
    ),
    "several types, two buffers of some": (
        rotated("halves, 128", "64xf32", "half f32", "half bf16", "half f16"),
        (4, 2),
    ),
    "neighbours": (rotated("adjacent", "64xf32", "half bf16"), (4, 2)),
    "neighbours, tables of a subtile": (rotated("adjacent", "32xf32", "half bf16"), (4, 1)),
    "halves of all columns": (rotated("halves", "64xf32"), (4, 2)),
    "by turns": (rotated("halves, 64", "32xf32", schedule=PING_PONG), (4, 2)),
    "boxes wider than a period": (
        rotated("halves", "32xf32", "half bf16", schedule=PING_PONG),
        (4, 4),
    ),
    "columns of heads": (head_scaled(128), (4, 2)),
    "columns of halves": (head_scaled(64), (4, 2)),
    "columns of two heads": (head_scaled(256), (4, 4)),
    "a table of two subtiles": (scaled(128), (4, 2)),
    "a table of one row": (scaled(128, rows="1"), (4, 2)),
    "a table of one subtile": (scaled(64), (4, 1)),
    "a table of half a subtile": (scaled(32), (4, 1)),
    "a table of all columns": (scaled(512), (4, 4)),
    "a table of three subtiles": (scaled(192, n=768), (4, 4)),
    "a partial tile": (scaled(128, n=384), (4, 2)),
    "a bias": (scaled(128, beside=["row"]), (4, 4)),
    "a tile, all subtiles ahead": (scaled(128, beside=["tile"]), (4, 4)),
    "a tile, one subtile ahead": (scaled(128, beside=["tile"], schedule=MORE_STAGES), (4, 4)),
    "a tile, and a table of one subtile": (
        scaled(64, beside=["tile"], schedule=MORE_STAGES),
        (4, 1),
    ),
    "sums of rows": (scaled(128, partial=True), (4, 4)),
    "sums of rows, and a table of one subtile": (scaled(64, partial=True), (4, 1)),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_order_and_numbers(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The results are those of the reference, and the same bits in plain order if that is another.

    There is one tile of rows: the order is that of columns.
    """
    text, (subtiles, period) = CASES[name]
    assert orders_of(text) == [SubtileOrder(subtiles, period)]
    func = function_of(parse_module(text))
    arguments = random_arguments(func, [75], torch.Generator().manual_seed(1))
    kernel, outputs = run_kernel(func, arguments, tmp_path)
    assert_right(func, arguments, outputs)
    is_nested = f"for subtile in gl.static_range(place, {subtiles}, {period}):" in kernel.source
    assert is_nested == (1 < period < subtiles)
    # The first ones are asked for before the main loop.
    assert kernel.source.count("ahead = ") == (1 if period == 1 else 2)

    if period == subtiles:
        return
    monkeypatch.setattr(segments, "subtile_order", plain_order)
    _, expected = run_kernel(function_of(parse_module(text)), arguments, tmp_path)
    torch.testing.assert_close(outputs, expected, rtol=0, atol=0, equal_nan=True)


def test_ranges_have_orders_of_their_own(tmp_path: Path):
    text = programs.qkv_rope("bf16", 72, 128, (4, 2), HOPPER)
    assert [order.period for order in orders_of(text)] == [2, 2, 4]
    kernel = check_against_reference(text, [2, 150], tmp_path)
    # Once for the warps that compute, once for that which stores.
    assert kernel.source.count("for subtile in gl.static_range(place, 4, 2):") == 4
    assert kernel.source.count("for subtile in gl.static_range(4):") == 2


def normed_heads(k: int, heads: tuple[int, int]) -> str:
    """Heads of 128 with a norm, whose weights are those of one head."""
    text = programs.qkv_rope("bf16", k, 128, heads, HOPPER, norm=True)
    text = re.sub(r"row\((%gamma_\w) : tensor<\d+x", r"table(\1 : tensor<128x", text)
    return re.sub(r"(%gamma_\w): tensor<\d+x", r"\1: tensor<128x", text)


def test_weights_of_each_head_beside_tables(tmp_path: Path):
    """A subtile has to hold a whole head, so that all subtiles need the same."""
    text = normed_heads(72, (4, 2))
    assert [(order.subtiles, order.period) for order in orders_of(text)] == [(2, 1), (2, 1), (4, 4)]
    check_against_reference(text, [2, 75], tmp_path)


def test_weights_of_all_heads_beside_tables():
    """They are loaded for each subtile, and so are the tables."""
    text = programs.qkv_rope("bf16", 72, 128, (2, 2), HOPPER, norm=True)
    assert [order.period == order.subtiles for order in orders_of(text)] == [True, True, True]


def test_stores_that_wait_for_their_own_buffers():
    """For two results with separate buffers, that in bfloat16 stored in twos, subtiles store
        f | f, b | f | f, b   in plain order,
        f | f | f, b | f, b   as 0, 2, 1, 3:
    so that as many stores may be under way before a subtile as its buffers were used before.
    """
    text = rotated("halves, 128", "64xf32", "half f32", "half bf16")
    ((segment, columns, moves),) = ranges_of(text)
    other = replace(moves, order=subtile_order(segment, columns, moves).numbers)
    for counts, expected in {
        (2, 1): (1, 0),
        (2, 2): (2, 1),
        (1, 1): (0, 0),
        (4, 2): (None, None),
    }.items():
        staged = Staging(1, (), dict(zip(moves.stores, counts, strict=True)))
        assert (staged.under_way(moves), staged.under_way(other)) == expected


@pytest.mark.slow
def test_ahead_of_time():
    """Values that are held for all heads, and operands that subtiles share, stay in registers."""
    texts = [
        *(programs.qkv_rope("bf16", 2048, 64, (32, heads), HOPPER) for heads in (8, 32)),
        *(programs.qkv_rope("bf16", k, 128, (k // 128, 8), HOPPER) for k in (2048, 8192)),
        *(programs.qkv_rope("bf16", 4096, 128, (32, heads), HOPPER) for heads in (8, 32)),
        normed_heads(4096, (32, 8)),
    ]
    names = NameAllocator()
    kernels = [emit_gemm(op, names) for text in texts for op in gemms_of(parse_module(text))]
    for compiled in compile_kernels(kernels, "sm_90", "ptx"):
        assert compiled.resources.spills == 0, compiled.resources
