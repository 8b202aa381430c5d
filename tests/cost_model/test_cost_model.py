"""The cost model against what was measured, and its shape where nothing was."""

import pytest
from support import gemm_programs as programs

import coda_ir
from coda_ir.cost_model import DEVICES, MAIN_LOOPS, Ranked, Space, explanation, rank
from coda_ir.cost_model.devices import device_named
from coda_ir.cost_model.rows import RowCounts
from coda_ir.diagnostics import CodaError
from coda_ir.dialects.gemm import FusedOp, OrderAttr, ScheduleAttr, Segment, tiling
from coda_ir.lowering import Lowering
from coda_ir.symbolic_size import format_sizes, parse_sizes

LAYERS = {2048: 5632, 4096: 11008, 8192: 22016}
SM_90 = DEVICES["sm_90"]


def gemm(
    m: str, n: int, k: int, element: str = "bf16", order: str = "", weight: str | None = None
) -> FusedOp:
    x, y = (f"tensor<{m}x{columns}x{element}>" for columns in (k, n))
    w = f"tensor<{n}x{k}x{weight or element}>"
    module = coda_ir.parse(f"""
func.func @f(%x: {x}, %w: {w}) -> {y} {{
  %y = gemm.fused %x : {x} {order}
    columns(%w : {w}) -> (tile : {y}) {{
    ^epilogue(%acc: f32):
      gemm.yield %acc : f32
    }}
  func.return %y : {y}
}}""")
    return next(op for op in module.walk() if isinstance(op, FusedOp))


STORED_GELU = """
epilogue stored(acc) -> (z: tile, y: tile) {{
    z = acc
    y = gelu(acc)
}}

fn f(x: bf16[{m}, {k}], w: bf16[{n}, {k}]) {{
    return stored(linear(x, w))
}}
"""
GATE_GRADIENT = """
epilogue gradient(acc, g: tile, u: tile) -> (y: tile, dg: tile, du: tile) {{
    s = sigmoid(g)
    y = g * s * u
    dg = acc * u * s * (1 + g * (1 - s))
    du = acc * g * s
}}

fn f(x: bf16[{m}, {k}], w: bf16[{n}, {k}], g: bf16[{m}, {n}], u: bf16[{m}, {n}]) {{
    return gradient(linear(x, w), g, u)
}}
"""

TANH_GRADIENT = """
epilogue gradient(acc, x: tile, w: row, b: row, dy: tile) -> (
    dx: tile, y: tile, one: partial_col<add>, two: partial_col<add>, three: partial_col<add>,
    four: partial_col<add>, all: partial_row<add>
) {{
    t = tanh(x)
    d = acc * w * (1 - t * t)
    dx = dy + d
    y = w * t + b
    one = acc
    two = acc * t
    three = dy
    four = dx
    all = d * x
}}

fn f(x: bf16[{m}, {k}], w: bf16[{n}, {k}], z: bf16[{m}, {n}], a: bf16[{n}], dy: bf16[{m}, {n}]) {{
    dx, y, one, two, three, four, all = gradient(linear(x, w), z, a, a, dy)
    return dx, y, finalize(one), finalize(two), finalize(three), finalize(four), finalize(all)
}}
"""


def with_epilogue(program: str, m: int, n: int, k: int) -> FusedOp:
    module = Lowering(coda_ir.parse(program.format(m=m, n=n, k=k))).module("gemm")
    return next(op for op in module.walk() if isinstance(op, FusedOp))


def best(op: FusedOp, space: Space, rows: int | None = None) -> Ranked:
    return rank(op, space, SM_90, rows)[0]


def layer_us(d: int, space: Space) -> float:
    """The four GEMMs of a Llama layer without their epilogues."""
    f = LAYERS[d]
    shapes = ((d, d), (2 * f, d), (d, f), (3 * d, d))
    return sum(best(gemm("?", n, k), space, 16384).us for n, k in shapes)


def test_main_loops_are_those_of_schedules():
    assert tuple(MAIN_LOOPS) == ScheduleAttr.MAINLOOPS
    assert all(loop.fallback is None or loop.fallback in MAIN_LOOPS for loop in MAIN_LOOPS.values())


@pytest.mark.parametrize("d, measured_ms", [(2048, 2.759), (4096, 10.068), (8192, 39.177)])
def test_a_layer_takes_about_what_it_took(d: int, measured_ms: float):
    """On one H100 (benchmarks/README.md)."""
    assert layer_us(d, Space(("tma",))) / 1000 == pytest.approx(measured_ms, rel=0.06)


@pytest.mark.parametrize(
    "slower, ratio",
    [
        (Space(("tma",), tile=(128, 128, 64)), 12.264 / 10.539),
        (Space(("pointer",), tile=(128, 256, 64)), 12.260 / 10.530),
    ],
)
def test_ratios_of_schedules_are_those_measured(slower: Space, ratio: float):
    tma = Space(("tma",), tile=(128, 256, 64))
    assert layer_us(4096, slower) / layer_us(4096, tma) == pytest.approx(ratio, abs=0.03)


@pytest.mark.parametrize("d, measured_ms", [(2048, 2.35), (4096, 9.35)])
def test_a_warp_specialized_layer_takes_about_what_it_took(d: int, measured_ms: float):
    """The four GEMMs on one H100, of which the epilogues are a few per cent."""
    found = layer_us(d, Space(("warp_specialized",))) / 1000
    assert found == pytest.approx(measured_ms, rel=0.04)


@pytest.mark.parametrize(
    "loop, m, n, measured_ms",
    [
        ("warp_specialized", 4096, 50304, 0.4545),
        ("warp_specialized", 4096, 50257, 0.609),
        ("warp_specialized", 16384, 50257, 2.453),
        ("warp_specialized", 4100, 50258, 0.644),
        ("tma", 4096, 50257, 3.751),
        ("tma", 4100, 50258, 0.682),
        ("pointer", 16384, 50257, 14.85),
    ],
)
def test_rows_that_are_not_aligned_take_about_what_they_took(
    loop: str, m: int, n: int, measured_ms: float
):
    """On one H100, K = 768; 4 bytes are what rows of 50258 elements start at multiples of."""
    found = best(gemm(str(m), n, 768), Space((loop,), tile=(128, 256, 64)))
    assert found.us / 1000 == pytest.approx(measured_ms, rel=0.12)


@pytest.mark.parametrize(
    ("rows", "columns", "depth", "tile", "warps", "measured_us"),
    [
        (204800, 80, 256, (128, 32, 32), 8, 1436),
        (8192, 1024, 1024, (32, 64, 32), 4, 2306),
        (8192, 1024, 1024, (64, 64, 32), 4, 1234),
        (8192, 1024, 1024, (64, 64, 32), 8, 2295),
        (8192, 1024, 1024, (128, 64, 32), 4, 750),
        (8192, 1024, 1024, (128, 128, 32), 8, 779),
        (1024, 1024, 256, (32, 256, 32), 8, 43),
    ],
)
def test_products_of_float32_take_as_long_as_threads_have_few_accumulators(
    rows: int,
    columns: int,
    depth: int,
    tile: tuple[int, int, int],
    warps: int,
    measured_us: float,
):
    """On one H200."""
    op = gemm(str(rows), columns, depth, element="f32")
    found = best(op, Space(("pointer",), tile=tile, warps=warps))
    assert found.us == pytest.approx(measured_us, rel=0.3)


@pytest.mark.parametrize(
    ("extents", "tile", "measured_us"),
    [
        ((8192, 1024, 1024), (128, 128, 64), 198),
        ((8192, 1024, 1024), (128, 128, 32), 220),
        ((8192, 1024, 1024), (64, 128, 32), 233),
        ((8192, 1024, 1024), (64, 64, 64), 250),
        ((4096, 4096, 4096), (128, 128, 32), 1804),
        ((4096, 4096, 4096), (128, 64, 32), 1747),
        ((512, 768, 768), (64, 64, 64), 19.3),
        ((197, 3072, 768), (64, 64, 64), 28.0),
        ((128, 768, 768), (16, 64, 64), 12.0),
    ],
)
def test_parts_of_float32_are_multiplied_by_tensor_cores(
    extents: tuple[int, int, int], tile: tuple[int, int, int], measured_us: float
):
    """On one H200; cuBLAS took 354, 2728, 23, 39 and 12 us."""
    rows, columns, depth = extents
    op = gemm(str(rows), columns, depth, element="f32")
    ranking = rank(op, Space(("warp_specialized",)), DEVICES["h200"])
    assert ranking[0].schedule.mainloop == "three_parts"
    found = next(ranked for ranked in ranking if ranked.schedule.tile == tile)
    assert found.us == pytest.approx(measured_us, rel=0.25)


def test_norms_of_heads_fit_beside_parts():
    module = coda_ir.parse(programs.qkv_rope("f32", 1024, 128, (8, 2), "", norm=True))
    op = next(op for op in module.walk() if isinstance(op, FusedOp))
    first = rank(op, Space(("warp_specialized",)), DEVICES["h200"])[0]
    assert first.schedule.mainloop == "three_parts" and first.schedule.accumulators == 64


def test_stated_orders_and_other_types_have_no_parts():
    in_parts = Space(("three_parts",), tile=(64, 64, 32))
    refused = best(gemm("512", 512, 512, element="bf16"), in_parts)
    assert refused.refused == ("three parts", "its operands are not in float32")
    assert best(gemm("512", 512, 512, element="f32"), in_parts).refused is None


@pytest.mark.parametrize(("depth", "measured_us"), [(479, 271), (1024, 54)])
def test_rows_of_half_words_are_loaded_by_elements(depth: int, measured_us: float):
    """On one H100; 4 bytes are the fewest that load without waiting."""
    pointers = Space(("pointer",) if depth % 2 else ("warp_specialized",))
    found = best(gemm("16384", 1024, depth), pointers)
    assert found.us == pytest.approx(measured_us, rel=0.15)
    even = best(gemm("16384", 1024, 480), Space(("pointer",)))
    assert even.us < 0.4 * 271


@pytest.mark.parametrize(
    ("shape", "tile", "stages", "measured_us"),
    [
        ((2048, 1152, 4608), (128, 192, 64), 4, 48),
        ((4096, 1152, 4608), (128, 192, 64), 4, 87),
        ((12608, 768, 3072), (128, 192, 64), 4, 96),
        ((1332, 1536, 6144), (128, 128, 64), 5, 48),
        ((4096, 4096, 4096), (128, 256, 64), 3, 190),
    ],
)
def test_tiles_are_those_that_were_the_fastest(
    shape: tuple[int, int, int], tile: tuple[int, int, int], stages: int, measured_us: float
):
    """Measurements of tiles of 256, 192, 128 and 64 columns with 3 to 6 stages, computed by eight
    warps together, on one H100, with epilogues."""
    rows, n, k = shape
    ranking = rank(gemm(str(rows), n, k), Space(("warp_specialized",)), SM_90, rows)
    found = next(each for each in ranking if each.schedule.mainloop == "warp_specialized")
    assert (found.schedule.tile, found.schedule.stages.data) == (tile, stages)
    assert found.us == pytest.approx(measured_us, rel=0.2)


def test_tiles_that_are_no_power_of_two_are_for_one_main_loop():
    found = {
        (ranked.schedule.mainloop, ranked.schedule.block_n.data)
        for loops in (("warp_specialized",), ("tma",), ("pointer",))
        for ranked in rank(gemm("?", 1152, 512), Space(loops), SM_90)
    }
    assert {loop for loop, columns in found if columns == 192} == {"warp_specialized"}


@pytest.mark.parametrize(
    ("shape", "measured_us"),
    [((8192, 2048, 512), 39.5), ((4096, 3072, 768), 37.5), ((16384, 4096, 1024), 236.1)],
)
def test_ping_pong_hides_half_of_an_epilogue(shape: tuple[int, int, int], measured_us: float):
    """On one H200; eight warps together took 41.6, 40.2 and 273.6 us."""
    found = best(with_epilogue(STORED_GELU, *shape), Space(("warp_specialized",)))
    assert found.schedule.mainloop == "ping_pong"
    assert (found.schedule.tile, found.schedule.stages.data) == ((128, 128, 64), 5)
    assert found.us == pytest.approx(measured_us, rel=0.07)


def test_ping_pong_loads_more():
    """A bare GEMM takes longer with `ping_pong`, and a GELU at large K does not choose it."""
    cooperating = layer_us(4096, Space(("warp_specialized",)))
    by_turns = layer_us(4096, Space(("ping_pong",), tile=(128, 128, 64), stages=(5,)))
    assert by_turns / cooperating == pytest.approx(1.09, abs=0.03)
    op = with_epilogue(STORED_GELU, 16384, 11008, 4096)
    assert best(op, Space(("warp_specialized",))).schedule.mainloop == "warp_specialized"


def test_an_epilogue_with_long_code_is_computed_by_eight_warps_together():
    """Two copies exceed the cache. On one H200, it took 87 us, and 129 by turns."""
    op = with_epilogue(GATE_GRADIENT, 4096, 4096, 1024)
    ranking = rank(op, Space(("warp_specialized",)), SM_90)
    by_turns = next(each for each in ranking if each.schedule.alternates)
    assert ranking[0].schedule.mainloop == "warp_specialized"
    assert by_turns.us > 1.4 * ranking[0].us


def test_sums_over_rows_have_code():
    """Those of a norm with a tanh and of biases. On one H200, a tile of 128 x 256 took 102 us."""
    op = with_epilogue(TANH_GRADIENT, 4096, 1024, 4096)
    space = Space(("warp_specialized",), tile=(128, 256, 64), stages=(3,))
    assert best(op, space).us == pytest.approx(102, rel=0.3)
    assert best(op, Space(("warp_specialized",))).schedule.block_n.data == 128


def test_few_rows_are_bound_by_memory_and_use_every_processor():
    found = best(gemm("?", 4096, 4096), Space(("tma",)), rows=1)
    assert found.schedule.tile[:2] == (16, 32)
    assert found.schedule.stages.data > SM_90.stages
    assert found.estimate.waves == pytest.approx(1, abs=0.05)
    assert found.schedule.split_k.data == 1
    floor_us = 4096 * 4096 * 2 / SM_90.memory_gb_per_s / 1000
    assert floor_us < found.us < 1.5 * floor_us


def test_a_single_row_of_few_bits_needs_no_tensor_cores():
    """Programs of few columns that lie side by side in memory, as many as a processor holds."""
    narrow = gemm("?", 4096, 4096, weight="i8")
    found = best(narrow, Space(("tma",)), rows=1)
    assert found.schedule.mainloop == "one_row" and found.schedule.tile == (1, 4, 1024)
    floor_us = 4096 * 4096 / SM_90.memory_gb_per_s / 1000
    assert floor_us < found.us < 2.2 * floor_us
    assert best(narrow, Space(("pointer",)), rows=None).schedule.block_m.data > 1
    assert best(gemm("?", 4096, 4096), Space(("tma",)), rows=1).schedule.block_m.data == 16
    assert best(gemm("?", 128, 2048), Space(("tma",)), rows=1).schedule.has_one_row


def grouped(rows: int) -> Ranked:
    """The gate and up projections of 128 experts, and their gates."""
    text = programs.grouped_swiglu("bf16", 2048, 768, 128, "", packed=True)
    op = next(op for op in coda_ir.parse(text).walk() if isinstance(op, FusedOp))
    return best(op, Space(("tma",)), rows)


def test_tiles_have_rows_of_one_group():
    few, some, many = (grouped(rows) for rows in (1, 8 * 128, 2048 * 128))
    assert few.estimate.tiles == few.estimate.configuration.programs
    assert some.schedule.tile[0] == 16 and many.schedule.tile[0] == 128
    assert some.estimate.tiles == 128 * some.estimate.configuration.programs


def test_the_weights_of_all_groups_that_have_rows_are_read():
    few, some = (grouped(rows).estimate.workload.bytes() for rows in (1, 8 * 128))
    weight = 2 * 1536 * 2048
    assert weight < few < 1.01 * weight and 128 * weight < some < 1.05 * 128 * weight


def test_few_tiles_share_their_k():
    """128 rows of 4096 columns are 32 tiles of 128 x 128, and 16384 rows are many."""
    few, many = (best(gemm("?", 4096, 11008), Space(("tma",)), m) for m in (128, 16384))
    alone = best(gemm("?", 4096, 11008), Space(("tma",), split_k=(1,)), 128)
    assert few.schedule.split_k.data > 1 and few.us < alone.us
    assert few.estimate.waves <= 2
    assert many.schedule.split_k.data == 1


@pytest.mark.parametrize("rows, n, k, by_tma", [(614656, 8, 8, 24.5), (614656, 32, 32, 27.6)])
def test_short_rows_of_weights_are_read_through_pointers(rows: int, n: int, k: int, by_tma: float):
    """On an H200: 7.4 and 20.3 us through pointers, in tiles of few columns that wait together."""
    tile = (128, max(n, 16), max(k, 16))
    tma, *_ = rank(gemm("?", n, k), Space(("tma",), tile=tile), DEVICES["h200"], rows)
    found, *_ = rank(gemm("?", n, k), Space(("warp_specialized",)), DEVICES["h200"], rows)
    assert tma.us == pytest.approx(by_tma, rel=0.2)
    assert (found.schedule.mainloop, found.schedule.tile) == ("pointer", tile)
    assert found.us < 0.85 * tma.us


def test_k_is_split_for_known_rows_only():
    schedules = [r.schedule for r in rank(gemm("?", 256, 8192), Space(("tma",)), SM_90)]
    assert {schedule.split_k.data for schedule in schedules} == {1}


def test_a_stated_order_of_sums_is_not_split():
    ordered = gemm("?", 256, 8192, order="order<depth = 64, columns = 64, rows = 64>")
    assert {r.schedule.split_k.data for r in rank(ordered, Space(), SM_90, 16)} == {1}
    few = gemm("?", 64, 64, order="order<depth = 64, columns = 32, rows = 64>")
    assert not any(r.schedule.has_one_row for r in rank(few, Space(), SM_90, 1))
    with pytest.raises(ValueError, match="split_k is 2, expected 1: K is summed in order"):
        rank(ordered, Space(split_k=(2,)), SM_90, 16)


def test_each_program_of_a_tile_has_some_steps():
    for ranked in rank(gemm("?", 64, 512), Space(("pointer",)), SM_90, rows=16):
        bk, split_k = ranked.schedule.block_k.data, ranked.schedule.split_k.data
        assert split_k == 1 or bk * split_k * 4 <= 512


def test_sharing_tiles_costs_time():
    """Twice the programs for work that was spread over all processors already."""
    one, two = (
        best(gemm("?", 4096, 4096), Space(("tma",), tile=(128, 256, 64), split_k=(s,)), 16384)
        for s in (1, 2)
    )
    assert two.us > one.us
    assert two.estimate.meeting > 0 and one.estimate.meeting == 0


def test_pipelines_of_small_tiles_are_deep():
    """The loads in flight have to cover the latency of memory."""
    waiting = [
        best(gemm("?", 4096, 4096), Space(("tma",), tile=(16, 32, 64), stages=(stages,)), 1)
        for stages in (2, 3, 5)
    ]
    times = [ranked.us for ranked in waiting]
    assert times == sorted(times, reverse=True)
    assert waiting[0].estimate.bound == "latency"


@pytest.mark.parametrize(
    ("shape", "tile", "measured_us"),
    [
        ((512, 768, 3072), (64, 64, 128), 7.8),
        ((512, 768, 768), (64, 64, 128), 4.1),
        ((512, 1024, 4096), (64, 64, 128), 10.2),
        ((1024, 768, 3072), (128, 64, 128), 11.4),
    ],
)
def test_few_small_tiles_have_long_steps(
    shape: tuple[int, int, int], tile: tuple[int, int, int], measured_us: float
) -> None:
    """They are measured with two operands, and without the time of the launch."""
    m, n, k = shape
    found = best(gemm(str(m), n, k), Space(main_loops=("warp_specialized",)), m)
    assert found.schedule.tile == tile and found.schedule.mainloop == "tma"
    assert found.us - SM_90.launch_us == pytest.approx(measured_us, rel=0.3)


def test_many_tiles_have_no_long_steps() -> None:
    space = Space(main_loops=("warp_specialized",))
    shapes = ((512, 2304, 768), (2048, 768, 3072), (512, 768, 256))
    found = [best(gemm(str(m), n, k), space, m).schedule.tile for m, n, k in shapes]
    assert all(bk == 64 for _, _, bk in found)


def test_nothing_is_faster_than_the_device():
    for n, k in ((256, 256), (4096, 512), (512, 8192)):
        for ranked in rank(gemm("?", n, k), Space(("pointer", "tma")), SM_90, 4096):
            work = ranked.estimate.workload
            assert ranked.us > work.bytes() / SM_90.memory_gb_per_s / 1000
            assert ranked.us > work.flops() / SM_90.matrix_tflops / 1e6


def test_ranking_is_sorted_and_has_no_twins():
    ranking = rank(gemm("?", 4096, 4096), Space(("tma", "pointer"), stages=(3, 4)), SM_90)
    times = [ranked.us for ranked in ranking]
    assert times == sorted(times)
    assert len({ranked.schedule for ranked in ranking}) == len(ranking)


def test_columns_are_cut_once_for_each_schedule(monkeypatch: pytest.MonkeyPatch):
    cut: list[ScheduleAttr] = []
    column_ranges = tiling.column_ranges

    def counted(segment: Segment, schedule: ScheduleAttr, order: OrderAttr | None):
        cut.append(schedule)
        return column_ranges(segment, schedule, order)

    monkeypatch.setattr(tiling, "column_ranges", counted)
    rank(gemm("?", 4096, 4096), Space(("warp_specialized",)), SM_90, 16384)
    assert len(cut) == len(set(cut)) > 20


def test_a_main_loop_that_cannot_run_falls_back():
    found = best(gemm("?", 64, 64, "f32"), Space(("tma",)))
    assert found.schedule.mainloop == "pointer"
    assert found.refused is not None and found.refused[0] == "TMA"


def test_a_given_tile_falls_back_to_fewer_stages():
    """Four warps are too few for the only main loop that has six stages of this tile."""
    found = best(gemm("?", 512, 512), Space(("warp_specialized",), tile=(128, 64, 64)))
    assert (found.schedule.mainloop, found.schedule.stages.data) == ("tma", 3)


def test_shared_memory_limits_the_stages():
    stages = {
        ranked.schedule.stages.data
        for ranked in rank(gemm("?", 4096, 4096), Space(stages=(3, 4, 5, 6)), SM_90)
        if ranked.schedule.tile == (128, 256, 64)
    }
    assert stages == {3, 4}  # 48 KiB each of 227


SUM_OF_PRODUCTS = """
fn f(x: bf16[{m}, {k}], w: bf16[{n}, {k}], y: bf16[{m}, {short}], v: bf16[{n}, {short}]) {{
    return linear(x, w) + linear(y, v)
}}
"""


@pytest.mark.parametrize(("short", "buffers"), [(8, 4), (1024, 3)])
def test_a_term_of_one_step_has_a_buffer_beside_the_stages(short: int, buffers: int):
    program = SUM_OF_PRODUCTS.replace("{short}", str(short))
    op = with_epilogue(program, 1024, 1024, 1024)
    assert len(op.inputs) == 2
    space = Space(("tma",), tile=(128, 64, 64), stages=(3,))
    found = best(op, space).estimate.configuration
    assert found.shared_memory(SM_90) == buffers * (128 + 64) * 64 * 2


def test_explanation_is_a_table():
    lines = explanation(rank(gemm("?", 4096, 4096), Space(), SM_90), count=3).splitlines()
    assert len(lines) == 5
    assert lines[2].split()[:3] == ["1", "pointer", "128x256x64"]


def test_sizes():
    assert parse_sizes("B=2, T=8192") == {"B": 2, "T": 8192}
    assert format_sizes({"T": 8192, "B": 2}) == "B=2,T=8192"
    assert parse_sizes(None) == {}
    with pytest.raises(CodaError, match="sizes has 'B'"):
        parse_sizes("B")


def test_row_counts():
    module = coda_ir.parse("fn f(x: f32[B, T, 16], w: f32[8, 16]) {\n    return linear(x, w)\n}")
    lowering = Lowering(module)
    op = next(op for op in lowering.module("gemm").walk() if isinstance(op, FusedOp))
    assert RowCounts({"B": 3, "T": 5}).of(op) == 15
    assert RowCounts({"B": 3}).of(op) is None
    assert RowCounts({}).of(op) is None


@pytest.mark.parametrize(
    ("product", "found"),
    [("NVIDIA H200", "h200"), ("NVIDIA H100 80GB HBM3", "sm_90"), (None, "sm_90")],
)
def test_a_device_is_known_by_the_name_of_the_gpu(product: str | None, found: str) -> None:
    """Code for one architecture runs on products whose memory differs."""
    assert device_named(product, SM_90).name == found
