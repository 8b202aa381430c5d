"""Kernels of `gemm.fused` on Triton's CPU interpreter, against the reference in float64."""

import re
from pathlib import Path

import pytest
import torch
from support import gemm_programs as programs
from support.kernel_harness import (
    assert_right,
    check_against_reference,
    function_of,
    gemms_of,
    module_source,
    parse_module,
    random_arguments,
    run_kernel,
)

from coda_ir.backends.triton.aot import compile_kernels
from coda_ir.backends.triton.gemm_kernel import emit_gemm
from coda_ir.backends.triton.names import NameAllocator
from coda_ir.diagnostics import CodaError

pytestmark = pytest.mark.any_device

DTYPES = ("f32", "f16", "bf16")


def schedule(bm: int, bn: int, bk: int, warps: int = 4, loop: str = "pointer") -> str:
    return f'{loop}, "{bm}x{bn}x{bk}", warps = {warps}, stages = 3, group_m = 2'


IN_PARTS = schedule(16, 32, 16, loop="three_parts")


@pytest.mark.slow
@pytest.mark.parametrize("rows", [[1], [3], [127], [2, 3, 5]])
@pytest.mark.parametrize("dtype", DTYPES)
def test_residual_and_statistics(dtype: str, rows: list[int], tmp_path: Path) -> None:
    kernel = check_against_reference(
        programs.residual_norm(dtype, 40, 72, schedule(16, 32, 16)), rows, tmp_path
    )
    assert kernel.name == "gemm_row_scale_residual_scale_ssq"


@pytest.mark.slow
@pytest.mark.parametrize("n", [1, 16, 33])
@pytest.mark.parametrize("k", [1, 16, 70])
@pytest.mark.parametrize("layout", ["nk", "kn"])
def test_every_extent(layout: str, k: int, n: int, tmp_path: Path) -> None:
    text = programs.residual_norm("bf16", k, n, schedule(16, 16, 16), layout)
    check_against_reference(text, [17], tmp_path, seed=k + n)


@pytest.mark.parametrize(
    "text",
    [
        programs.residual_norm("f32", 70, 33, IN_PARTS, "nk"),
        programs.residual_norm("f32", 16, 1, IN_PARTS, "kn"),
        programs.swiglu("f32", 48, 42, IN_PARTS, "adjacent"),
    ],
)
def test_float32_in_three_parts(text: str, tmp_path: Path) -> None:
    assert "IN_PARTS=True" in check_against_reference(text, [19], tmp_path).source


@pytest.mark.filterwarnings("ignore:invalid value")
def test_parts_of_infinities_are_no_numbers(tmp_path: Path) -> None:
    """Infinite elements have no other parts; elements of one part have zeros beside them."""
    text = programs.residual_norm("f32", 16, 16, IN_PARTS, "nk")
    func = function_of(parse_module(text))
    arguments = random_arguments(func, [4], torch.Generator().manual_seed(0))
    x, w = arguments[:2]
    w.copy_(w.sign())
    x[0, 1], x[1, 2], x[2, 3] = torch.inf, -torch.inf, torch.nan
    _, outputs = run_kernel(func, arguments, tmp_path)
    assert_right(func, arguments, outputs)


@pytest.mark.parametrize("n", [64, 96, 200])
def test_epilogue_in_subtiles(n: int, tmp_path: Path) -> None:
    """One warp with 128 accumulators per thread and more processes one subtile after the other."""
    text = programs.residual_norm("bf16", 32, n, schedule(32, 128, 16, warps=1))
    kernel = check_against_reference(text, [35], tmp_path)
    assert "for subtile in tl.static_range(4):" in kernel.source


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("pairing", ["two weights", "halves", "adjacent", "halves, 12"])
def test_gated_activation(pairing: str, dtype: str, tmp_path: Path) -> None:
    text = programs.swiglu(dtype, 48, 42, schedule(16, 32, 16), pairing)
    assert check_against_reference(text, [19], tmp_path).name == "gemm_row_scale_silu_glu"


@pytest.mark.parametrize("pairing", ["two weights", "adjacent"])
def test_gated_activation_in_subtiles(pairing: str, tmp_path: Path) -> None:
    text = programs.swiglu("bf16", 48, 200, schedule(64, 128, 16, warps=1), pairing)
    kernel = check_against_reference(text, [70], tmp_path)
    assert "for subtile in tl.static_range(8):" in kernel.source


@pytest.mark.slow
@pytest.mark.parametrize("rows", [[2, 7], [1, 1], [3, 40]])
@pytest.mark.parametrize("norm", [False, True], ids=["plain", "qk_norm"])
def test_rotary_embedding(norm: bool, rows: list[int], tmp_path: Path) -> None:
    """Three segments: two in pair mode, one plain; the tables repeat for each sequence."""
    text = programs.qkv_rope("bf16", 40, 16, (5, 2), schedule(16, 32, 16), norm=norm)
    kernel = check_against_reference(text, rows, tmp_path)
    assert kernel.name == ("gemm_scale_qk_norm_rope" if norm else "gemm_rope")


@pytest.mark.slow
@pytest.mark.parametrize(("head", "bn"), [(8, 16), (8, 64), (10, 32), (12, 32), (20, 64), (64, 64)])
def test_norm_per_head(head: int, bn: int, tmp_path: Path) -> None:
    """Heads that are no power of two take more lanes than they have columns."""
    text = programs.qkv_rope("f32", 24, head, (5, 3), schedule(16, bn, 16), norm=True)
    check_against_reference(text, [18], tmp_path)


def test_norm_per_head_in_subtiles(tmp_path: Path) -> None:
    text = programs.qkv_rope("f32", 24, 12, (21, 5), schedule(64, 128, 16, warps=1), norm=True)
    kernel = check_against_reference(text, [18], tmp_path)
    assert "for subtile in tl.static_range(8):" in kernel.source


@pytest.mark.slow
@pytest.mark.parametrize("warps", [4, 1])
@pytest.mark.parametrize("index", ["i64", "i32"])
def test_logsumexp_maximum_and_target(index: str, warps: int, tmp_path: Path) -> None:
    text = programs.lm_head("bf16", 32, 150, schedule(32, 128, 16, warps), index)
    func = function_of(parse_module(text))
    generator = torch.Generator().manual_seed(1)
    targets = torch.tensor([0, 149, 150, -1, -100, 128, 127, 64, 63, 1000, 2**31 - 1])
    dtype = torch.int64 if index == "i64" else torch.int32
    x = torch.randn(len(targets), 32, generator=generator).bfloat16()
    w = torch.randn(150, 32, generator=generator).bfloat16()
    arguments = [x, w, targets.to(dtype)]
    kernel = check_against_reference(text, [len(targets)], tmp_path, arguments=arguments)
    assert kernel.name == "gemm_tanh_lse_max_select"
    _, (_, _, logit) = run_kernel(func, arguments, tmp_path)
    assert torch.equal(logit[2:5], torch.zeros(3))


LSE = """
func.func @f(%x: tensor<?x16xf32>, %w: tensor<40x16xf32>, %mask: tensor<?x40xf32>)
    -> (tensor<?x?xf32>, tensor<?x?xf32>) {
  %lse, %top = gemm.fused %x : tensor<?x16xf32>
      schedule<pointer, "16x16x16", warps = 4, stages = 3, group_m = 2>
      columns(%w : tensor<40x16xf32>) tile(%mask : tensor<?x40xf32>)
      -> (partial_row<lse> : tensor<?x?xf32>, partial_row<max> : tensor<?x?xf32>) {
  ^epilogue(%acc : f32, %m : f32):
    %v = arith.addf %acc, %m : f32
    gemm.yield %v, %v : f32, f32
  }
  func.return %lse, %top : tensor<?x?xf32>, tensor<?x?xf32>
}
"""


def test_special_values_in_logsumexp(tmp_path: Path) -> None:
    """As `torch.logsumexp`: -inf columns vanish, NaN gives NaN, and +inf gives +inf."""
    generator = torch.Generator().manual_seed(2)
    x, w = torch.randn(6, 16, generator=generator), torch.randn(40, 16, generator=generator)
    mask = torch.zeros(6, 40)
    mask[0, :20] = float("-inf")
    mask[1] = float("-inf")
    mask[2, 33] = float("nan")
    mask[3, 5] = float("inf")
    mask[4] = 3e4
    _, (lse, top) = run_kernel(function_of(parse_module(LSE)), [x, w, mask], tmp_path)
    values = (x.double() @ w.double().T) + mask.double()
    combined = lse.double().logsumexp(-1)
    torch.testing.assert_close(combined, values.logsumexp(-1), equal_nan=True)
    torch.testing.assert_close(top.amax(-1).double(), values.amax(-1), equal_nan=True)


COLUMN_SUMS = """
func.func @f(%x: tensor<?x24xf16>, %w0: tensor<16x24xf16>, %w1: tensor<9x24xf16>,
             %s: tensor<1xf32>, %flag: tensor<?xi1>, %count: tensor<?x25xi32>)
    -> (tensor<?x25xf32>, tensor<?x25xf32>, tensor<?x25xf32>, tensor<?x?xf32>, tensor<?x25xi32>) {
  %sum, %top, %lse, %row, %n = gemm.fused %x : tensor<?x24xf16>
      schedule<pointer, "16x16x16", warps = 4, stages = 3, group_m = 2>
      columns(%w0 : tensor<16x24xf16>, %w1 : tensor<9x24xf16>)
          scalar(%s : tensor<1xf32>) col(%flag : tensor<?xi1>) tile(%count : tensor<?x25xi32>)
      -> (partial_col<add> : tensor<?x25xf32>, partial_col<max> : tensor<?x25xf32>,
          partial_col<lse> : tensor<?x25xf32>, partial_row<add> : tensor<?x?xf32>,
          tile : tensor<?x25xi32>) {
  ^epilogue(%acc : f32, %scale : f32, %keep : i1, %c : i32):
    %v = arith.mulf %acc, %scale : f32
    %zero = arith.constant 0.0 : f32
    %kept = arith.select %keep, %v, %zero : f32
    %two = arith.constant 2 : i32
    %doubled = arith.muli %c, %two : i32
    gemm.yield %kept, %v, %v, %scale, %doubled : f32, f32, f32, f32, i32
  }
  func.return %sum, %top, %lse, %row, %n
      : tensor<?x25xf32>, tensor<?x25xf32>, tensor<?x25xf32>, tensor<?x?xf32>, tensor<?x25xi32>
}
"""


@pytest.mark.slow
@pytest.mark.parametrize("rows", [1, 16, 37])
def test_column_partials_of_several_weights(rows: int, tmp_path: Path) -> None:
    """Two weights side by side, scalar and boolean ports, integers, a yield of a scalar."""
    func = function_of(parse_module(COLUMN_SUMS))
    generator = torch.Generator().manual_seed(rows)
    arguments = [
        torch.randn(rows, 24, generator=generator).half(),
        torch.randn(16, 24, generator=generator).half(),
        torch.randn(9, 24, generator=generator).half(),
        torch.tensor([0.25]),
        torch.rand(rows, generator=generator) < 0.5,
        torch.randint(-9, 9, (rows, 25), generator=generator, dtype=torch.int32),
    ]
    check_against_reference(COLUMN_SUMS, [rows], tmp_path, arguments=arguments)
    _, (total, _, _, row, doubled) = run_kernel(func, arguments, tmp_path)
    assert total.shape[0] == -(-rows // 16)
    assert torch.equal(row.sum(-1), torch.full((rows,), 25 * 0.25))
    assert torch.equal(doubled, 2 * arguments[-1])


PAIR_PARTIALS = """
func.func @f(%x: tensor<?x24xf32>, %w: tensor<36x24xf32>, %t: tensor<?x12xf32>,
             %h: tensor<18xf32>, %u: tensor<?x18xf32>)
    -> (tensor<?x36xf32>, tensor<?x36xf32>, tensor<?x?xf32>) {
  %y, %sum, %row = gemm.fused %x : tensor<?x24xf32>
      schedule<pointer, "16x16x16", warps = 4, stages = 3, group_m = 2>
      columns(%w : tensor<36x24xf32>) pair<PAIRING> table(%t : tensor<?x12xf32>)
          half_row(%h : tensor<18xf32>) half_tile(%u : tensor<?x18xf32>)
      -> (tile : tensor<?x36xf32>, partial_col<add> : tensor<?x36xf32>,
          partial_row<add> : tensor<?x?xf32>) {
  ^epilogue(%a : f32, %b : f32, %t0 : f32, %t1 : f32, %hr : f32, %ht : f32):
    %0 = arith.mulf %a, %t0 : f32
    %1 = arith.mulf %b, %t1 : f32
    %2 = arith.mulf %0, %hr : f32
    %3 = arith.addf %1, %ht : f32
    %4 = arith.mulf %2, %3 : f32
    gemm.yield %2, %3, %0, %1, %4 : f32, f32, f32, f32, f32
  }
  func.return %y, %sum, %row : tensor<?x36xf32>, tensor<?x36xf32>, tensor<?x?xf32>
}
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("pairing", "pairs"), [("adjacent", 24), ("adjacent", 18), ("halves", 18), ("halves, 12", 18)]
)
def test_pair_ports(pairing: str, pairs: int, tmp_path: Path) -> None:
    """In tiles that are whole, neighbours are loaded and stored together."""
    text = PAIR_PARTIALS.replace("36x", f"{2 * pairs}x").replace("18x", f"{pairs}x")
    kernel = check_against_reference(text.replace("PAIRING", pairing), [21], tmp_path)
    for helper in ("tl.interleave(", "= column_neighbours("):
        assert (helper in kernel.source) == (pairs == 24)


def tma(bm: int, bn: int, bk: int, warps: int = 4) -> str:
    return schedule(bm, bn, bk, warps).replace("pointer", "tma")


@pytest.mark.slow
@pytest.mark.parametrize("rows", [[1], [2, 33]])
@pytest.mark.parametrize("dtype", DTYPES)
def test_tma(dtype: str, rows: list[int], tmp_path: Path) -> None:
    text = programs.residual_norm(dtype, 40, 72, tma(64, 32, 32))
    kernel = check_against_reference(text, rows, tmp_path)
    assert [a.name for a in kernel.arguments[:2]] == ["x_desc", "w_desc"]


@pytest.mark.parametrize(
    "pairing", ["two weights", "halves", "adjacent", "halves, 64", "halves, 8"]
)
def test_tma_of_pairs(pairing: str, tmp_path: Path) -> None:
    """Boxes of rows that follow one another, lie G/2 apart in each group, or alternate."""
    text = programs.swiglu("bf16", 48, 96, tma(64, 32, 32), pairing)
    check_against_reference(text, [35], tmp_path)


def test_tma_of_segments(tmp_path: Path) -> None:
    text = programs.qkv_rope("bf16", 64, 16, (6, 2), tma(64, 64, 32, warps=1), norm=True)
    check_against_reference(text, [2, 9], tmp_path)


def test_tma_is_refused_where_there_is_no_box(tmp_path: Path) -> None:
    text = programs.swiglu("bf16", 48, 96, tma(64, 32, 32), "halves, 12")
    with pytest.raises(CodaError, match="halves of 6 columns do not divide"):
        check_against_reference(text, [35], tmp_path)


def test_group_minimum_of_one_group_per_tile(tmp_path: Path) -> None:
    text = programs.qkv_rope("f32", 24, 20, (5, 3), schedule(16, 16, 16), norm=True)
    with pytest.raises(CodaError, match="a tile of 8 columns cannot hold a group of 10"):
        check_against_reference(text, [18], tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("main_loop", ["pointer", "tma"])
@pytest.mark.parametrize("columns", [257, 261, 131])
def test_odd_columns(columns: int, main_loop: str, tmp_path: Path) -> None:
    text = programs.unaligned(columns, 72, schedule(64, 64, 32).replace("pointer", main_loop))
    kernel = check_against_reference(text, [70], tmp_path)
    (compiled,) = compile_kernels([kernel], "sm_90", "ttgir")
    stored = re.findall(r"tt\.store .*tensor<64x\d+x!tt.ptr<bf16>, (#\w+)>", compiled.text)
    for layout in stored:
        # Threads of a warp store neighbours of a row.
        assert re.search(f"^{layout} = .*order = \\[1, 0\\]", compiled.text, re.MULTILINE)
    assert stored and compiled.resources.spills == 0


def test_missing_schedule() -> None:
    (op,) = gemms_of(parse_module(programs.swiglu("bf16", 16, 16, "")))
    with pytest.raises(CodaError, match="no schedule"):
        emit_gemm(op, NameAllocator())


def test_float64_is_refused() -> None:
    (op,) = gemms_of(parse_module(programs.swiglu("f64", 16, 16, schedule(16, 16, 16))))
    with pytest.raises(CodaError, match="not f64"):
        emit_gemm(op, NameAllocator())


def test_nan_and_infinity_go_through(tmp_path: Path) -> None:
    text = programs.residual_norm("bf16", 40, 24, schedule(16, 32, 16))
    func = function_of(parse_module(text))
    x, w, residual, gamma, rstd = (
        torch.ones(3, 40).bfloat16(),
        torch.ones(24, 40).bfloat16(),
        torch.zeros(3, 24).bfloat16(),
        torch.ones(24).bfloat16(),
        torch.ones(3, 1),
    )
    x[0, 7], residual[1, 3], residual[2, 4] = float("nan"), float("inf"), 3.3e38
    _, (x1, _, h1) = run_kernel(func, [x, w, residual, gamma, rstd], tmp_path)
    assert x1[0].isnan().all() and h1[0].isnan().all()
    assert x1[1, 3] == float("inf") and x1[1, 2] == 40.0
    assert x1[2, 4] == torch.tensor(3.3e38).bfloat16()


def test_no_bf16_double_rounding(tmp_path: Path) -> None:
    """Ties go to even, as on a GPU, in the interpreter too."""
    text = programs.residual_norm("bf16", 16, 16, schedule(16, 16, 16))
    func = function_of(parse_module(text))
    values = torch.tensor([1 + 2**-8, 1 + 3 * 2**-8, 1 + 2**-8 + 2**-16, -1 - 2**-8])
    rstd = torch.ones(4, 1) * values[:, None]
    x = torch.zeros(4, 16).bfloat16()
    x[:, 0] = 1
    ones = torch.ones(16, 16).bfloat16()
    arguments = [x, ones, torch.zeros(4, 16).bfloat16(), torch.ones(16).bfloat16(), rstd]
    _, (x1, _, _) = run_kernel(func, arguments, tmp_path)
    assert torch.equal(x1[:, 0], values.bfloat16())


def test_names_are_unique_in_a_module() -> None:
    names = NameAllocator()
    ops = [gemms_of(parse_module(programs.swiglu("bf16", 16, 16, schedule(16, 16, 16))))[0]] * 2
    kernels = [emit_gemm(op, names) for op in ops]
    assert [kernel.name for kernel in kernels] == [
        "gemm_row_scale_silu_glu",
        "gemm_row_scale_silu_glu_1",
    ]
    compile(module_source(kernels), "module", "exec")


COLUMN_NUMBERS = """
func.func @f(%x: tensor<?x16xf32>, %w0: tensor<48x16xf32>, %w1: tensor<9x16xf32>,
             %target: tensor<?xi64>) -> (tensor<?x57xf32>, tensor<?x57xi32>) {
  %y, %n = gemm.fused %x : tensor<?x16xf32>
      schedule<pointer, "16x32x16", warps = WARPS, stages = 3, group_m = 2>
      columns(%w0 : tensor<48x16xf32>, %w1 : tensor<9x16xf32>) col(%target : tensor<?xi64>)
      -> (tile : tensor<?x57xf32>, tile : tensor<?x57xi32>) {
  ^epilogue(%acc : f32, %t : i64):
    %wide = gemm.column : i64
    %is_target = arith.cmpi eq, %wide, %t : i64
    %one = arith.constant 1.0 : f32
    %zero = arith.constant 0.0 : f32
    %hit = arith.select %is_target, %one, %zero : f32
    %v = arith.subf %acc, %hit : f32
    %narrow = gemm.column : i32
    gemm.yield %v, %narrow : f32, i32
  }
  func.return %y, %n : tensor<?x57xf32>, tensor<?x57xi32>
}
"""


@pytest.mark.parametrize("warps", [4, 1])
def test_the_region_knows_its_column(warps: int, tmp_path: Path) -> None:
    """Counted over several weights, in tiles past the end and in subtiles."""
    text = COLUMN_NUMBERS.replace("WARPS", str(warps))
    targets = torch.tensor([0, 47, 48, 56, 57, -1, -100, 33])
    generator = torch.Generator().manual_seed(3)
    x, w0, w1 = (torch.randn(rows, 16, generator=generator) for rows in (8, 48, 9))
    arguments = [x, w0, w1, targets]
    check_against_reference(text, [len(targets)], tmp_path, arguments=arguments)
    _, (y, number) = run_kernel(function_of(parse_module(text)), arguments, tmp_path)
    assert torch.equal(number, torch.arange(57, dtype=torch.int32).expand(8, 57))
    onehot = (torch.arange(57) == targets[:, None]).float()
    torch.testing.assert_close(y, x @ torch.cat([w0, w1]).T - onehot)
