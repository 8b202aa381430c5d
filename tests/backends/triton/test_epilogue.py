"""Every scalar operator that an epilogue can have, against PyTorch."""

from collections.abc import Callable
from math import sqrt
from pathlib import Path

import pytest
import torch
from support.kernel_harness import function_of, gemms_of, parse_module, run_kernel

from coda_ir.backends.triton.epilogue import RegionEmitter
from coda_ir.backends.triton.gemm_kernel import emit_gemm
from coda_ir.backends.triton.names import LocalNames, NameAllocator
from coda_ir.diagnostics import CodaError

pytestmark = pytest.mark.any_device

Reference = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def program(body: str) -> str:
    """%a is the element of x, %b that of a tile port, %i that of an integer column."""
    return f"""
func.func @f(%x: tensor<?x16xf32>, %w: tensor<16x16xf32>, %t: tensor<?x16xf32>, %n: tensor<?xi32>)
    -> tensor<?x16xf32> {{
  %y = gemm.fused %x : tensor<?x16xf32>
      schedule<pointer, "16x16x16", warps = 4, stages = 2, group_m = 1>
      columns(%w : tensor<16x16xf32>) tile(%t : tensor<?x16xf32>) col(%n : tensor<?xi32>)
      -> (tile : tensor<?x16xf32>) {{
  ^epilogue(%a : f32, %b : f32, %i : i32):
    %one = arith.constant 1.0 : f32
    %two = arith.constant 2.0 : f32
    {body}
    gemm.yield %r : f32
  }}
  func.return %y : tensor<?x16xf32>
}}
"""


VALUES = torch.tensor(
    [
        0.0,
        3e-5,
        1e-30,
        -1e-8,
        1e-4,
        -0.1,
        0.5,
        -0.624,
        0.626,
        1.0,
        -1.5,
        2.5,
        -3.0,
        7.0,
        30.0,
        -88.0,
    ]
)


def run(body: str, folder: Path) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The result, %a and %b: all pairs of the test values."""
    func = function_of(parse_module(program(body)))
    a = VALUES.repeat(16, 1)
    b = VALUES[:, None].repeat(1, 16).contiguous()
    n = torch.arange(-8, 8, dtype=torch.int32)
    _, (result,) = run_kernel(func, [a, torch.eye(16), b, n], folder)
    return result, a, b


BINARY: dict[str, Reference] = {
    "arith.addf": torch.add,
    "arith.subf": torch.sub,
    "arith.mulf": torch.mul,
    "arith.divf": torch.div,
    "arith.maximumf": torch.maximum,
    "arith.minimumf": torch.minimum,
    "arith.maxnumf": torch.fmax,
    "arith.minnumf": torch.fmin,
}


@pytest.mark.parametrize("name", BINARY)
def test_binary(name: str, tmp_path: Path) -> None:
    result, a, b = run(f"%r = {name} %a, %b : f32", tmp_path)
    torch.testing.assert_close(result, BINARY[name](a, b), equal_nan=True)


UNARY: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "arith.negf": torch.neg,
    "math.absf": torch.abs,
    "math.ceil": torch.ceil,
    "math.cos": torch.cos,
    "math.erf": torch.erf,
    "math.exp": torch.exp,
    "math.exp2": torch.exp2,
    "math.floor": torch.floor,
    "math.log": torch.log,
    "math.log2": torch.log2,
    "math.rsqrt": torch.rsqrt,
    "math.sin": torch.sin,
    "math.sqrt": torch.sqrt,
    "math.tanh": torch.tanh,
}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*encountered in:RuntimeWarning")
@pytest.mark.parametrize("name", UNARY)
def test_unary(name: str, tmp_path: Path) -> None:
    result, a, _ = run(f"%r = {name} %a : f32", tmp_path)
    expected = UNARY[name](a.double()).float()
    torch.testing.assert_close(result, expected, rtol=2e-6, atol=0, equal_nan=True)


def test_tanh_is_accurate_everywhere(tmp_path: Path) -> None:
    """A few units in the last place, also near 0 and at both ends."""
    func = function_of(parse_module(program("%r = math.tanh %b : f32")))
    exponents = torch.linspace(-30, 5, 16 * 120)
    magnitude = torch.exp2(exponents).reshape(-1, 16)
    b = torch.cat([magnitude, -magnitude, torch.full((1, 16), 1e30), torch.zeros(1, 16)])
    b[-2, 1::2] = float("inf")
    n = torch.zeros(len(b), dtype=torch.int32)
    _, (result,) = run_kernel(func, [torch.zeros(len(b), 16), torch.eye(16), b, n], tmp_path)
    expected = b.double().tanh()
    error = (result.double() - expected).abs() / expected.abs().clamp_min(1e-300)
    assert error.max() < 3 * 2.0**-23


def test_normal_cdf_is_accurate_everywhere(tmp_path: Path) -> None:
    """Relative to 1 everywhere, and relative to itself down to 1e-3, where 1 + erf would cancel."""
    func = function_of(parse_module(program("%r = gemm.normal_cdf %b")))
    b = torch.cat([torch.linspace(-12, 12, 16 * 400), torch.randn(16 * 40) / 100]).reshape(-1, 16)
    b = torch.cat([b, torch.tensor([[0.0, -0.0, 1e30, -1e30, torch.inf, -torch.inf] + [0.0] * 10])])
    n = torch.zeros(len(b), dtype=torch.int32)
    _, (result,) = run_kernel(func, [torch.zeros(len(b), 16), torch.eye(16), b, n], tmp_path)
    expected = torch.erfc(-b.double() * sqrt(0.5)) / 2
    error = (result.double() - expected).abs()
    assert error.max() < 1.2e-7
    assert (error / expected)[expected > 1e-3].max() < 1e-5


COMPARISONS: dict[str, Reference] = {
    "oeq": torch.eq,
    "one": lambda a, b: (a < b) | (a > b),
    "olt": torch.lt,
    "oge": torch.ge,
    "ord": lambda a, b: ~(a.isnan() | b.isnan()),
    "ueq": lambda a, b: ~((a < b) | (a > b)),
    "une": torch.ne,
    "ult": lambda a, b: ~(a >= b),
    "uge": lambda a, b: ~(a < b),
    "uno": lambda a, b: a.isnan() | b.isnan(),
}


@pytest.mark.filterwarnings("ignore:.*encountered in:RuntimeWarning")
@pytest.mark.parametrize("predicate", COMPARISONS)
def test_comparison_of_floats(predicate: str, tmp_path: Path) -> None:
    """The square root makes NaN of the negative numbers."""
    body = f"""
    %s = math.sqrt %a : f32
    %c = arith.cmpf {predicate}, %s, %b : f32
    %r = arith.select %c, %one, %two : f32"""
    result, a, b = run(body, tmp_path)
    assert torch.equal(result == 1, COMPARISONS[predicate](a.sqrt(), b))


INTEGERS: dict[str, Callable[[int], float]] = {
    "%k = arith.addi %i, %c3 : i32": lambda i: i + 3,
    "%k = arith.subi %c3, %i : i32": lambda i: 3 - i,
    "%k = arith.muli %i, %i : i32": lambda i: i * i,
    "%k = arith.floordivsi %i, %c3 : i32": lambda i: i // 3,
    "%d = arith.constant -3 : i32\n%k = arith.floordivsi %i, %d : i32": lambda i: i // -3,
    "%k = arith.remsi %i, %c3 : i32": lambda i: i - 3 * int(i / 3),
    "%k = arith.andi %i, %c3 : i32": lambda i: i & 3,
    "%k = arith.ori %i, %c3 : i32": lambda i: i | 3,
    "%k = arith.xori %i, %c3 : i32": lambda i: i ^ 3,
    "%k = arith.shli %i, %c3 : i32": lambda i: i << 3,
    "%k = arith.shrsi %i, %c3 : i32": lambda i: i >> 3,
    "%k = arith.shrui %i, %c3 : i32": lambda i: (i % 2**32) >> 3,
    "%k = arith.maxsi %i, %c3 : i32": lambda i: max(i, 3),
    "%k = arith.minsi %i, %c3 : i32": lambda i: min(i, 3),
    "%k = arith.maxui %i, %c3 : i32": lambda i: i if i < 0 else max(i, 3),
    "%k = arith.minui %i, %c3 : i32": lambda i: 3 if i < 0 else min(i, 3),
    "%l = arith.extui %i : i32 to i64\n%m = arith.constant 1 : i64\n"
    "%h = arith.shrsi %l, %m : i64\n%k = arith.trunci %h : i64 to i32": lambda i: (i % 2**32) >> 1,
    "%p = arith.cmpi slt, %i, %c3 : i32\n%k = arith.extui %p : i1 to i32": lambda i: i < 3,
    "%p = arith.cmpi ult, %i, %c3 : i32\n%k = arith.extui %p : i1 to i32": lambda i: 0 <= i < 3,
    "%f = arith.sitofp %i : i32 to f32\n%g = arith.divf %f, %two : f32\n"
    "%k = arith.fptosi %g : f32 to i32": lambda i: int(i / 2),
}


@pytest.mark.parametrize("body", INTEGERS)
def test_integers(body: str, tmp_path: Path) -> None:
    text = f"%c3 = arith.constant 3 : i32\n{body}\n%r = arith.sitofp %k : i32 to f32"
    result, _, _ = run(text, tmp_path)
    signed = [(int(INTEGERS[body](i)) + 2**31) % 2**32 - 2**31 for i in range(-8, 8)]
    assert torch.equal(result[:, 0], torch.tensor(signed).float())


def test_a_fused_product_is_rounded_once(tmp_path: Path) -> None:
    body = """
    %0 = arith.negf %one : f32
    %p = math.fma %a, %b, %0 : f32
    %r = math.fma %p, %two, %one : f32"""
    result, a, b = run(body, tmp_path)
    product = (a.double() * b.double() - 1).float()
    assert torch.equal(result, (2 * product.double() + 1).float())


@pytest.mark.parametrize("type", ["bf16", "f16"])
def test_explicit_rounding(type: str, tmp_path: Path) -> None:
    body = f"%0 = arith.truncf %a : f32 to {type}\n%r = arith.extf %0 : {type} to f32"
    result, a, _ = run(body, tmp_path)
    dtype = torch.bfloat16 if type == "bf16" else torch.float16
    assert torch.equal(result, a.to(dtype).float())


def test_constants_only(tmp_path: Path) -> None:
    result, _, _ = run("%0 = arith.addf %one, %two : f32\n%r = math.exp %0 : f32", tmp_path)
    torch.testing.assert_close(result, torch.full((16, 16), 3.0).exp())


def test_yield_of_a_constant_and_of_a_column(tmp_path: Path) -> None:
    result, _, _ = run("%r = arith.constant 0.5 : f32", tmp_path)
    assert torch.equal(result, torch.full((16, 16), 0.5))
    result, _, _ = run("%r = arith.sitofp %i : i32 to f32", tmp_path)
    assert torch.equal(result, torch.arange(-8.0, 8.0)[:, None].expand(16, 16))


def test_infinite_constants(tmp_path: Path) -> None:
    body = """
    %inf = arith.constant 0x7F800000 : f32
    %c = arith.cmpf ogt, %a, %one : f32
    %r = arith.select %c, %inf, %a : f32"""
    result, a, _ = run(body, tmp_path)
    assert torch.equal(result, torch.where(a > 1, float("inf"), a))


def source_of(body: str) -> str:
    return emit_gemm(gemms_of(parse_module(program(body)))[0], NameAllocator()).source


def test_short_unnamed_values_stay_in_expressions() -> None:
    source = source_of(
        "%0 = arith.negf %a : f32\n%1 = math.exp %0 : f32\n%2 = arith.addf %one, %1 : f32\n"
        "%3 = arith.subf %a, %2 : f32\n%4 = arith.subf %b, %3 : f32\n%r = arith.divf %4, %2 : f32"
    )
    assert "total = 1.0 + tl.exp(-a)\n    r = (b - (a - total)) / total\n" in source


def test_dead_operators_are_left_out() -> None:
    assert "tl.exp" not in source_of("%0 = math.exp %a : f32\n%r = arith.addf %a, %b : f32")


def test_unknown_operator_is_named() -> None:
    with pytest.raises(CodaError, match=r"cannot emit math\.atan"):
        source_of("%r = math.atan %a : f32")


def test_arithmetic_on_bf16_is_refused() -> None:
    body = """%0 = arith.truncf %a : f32 to bf16
    %1 = arith.addf %0, %0 : bf16
    %r = arith.extf %1 : bf16 to f32"""
    with pytest.raises(CodaError, match=r"cannot emit arith\.addf on bf16"):
        source_of(body)


def test_group_reduction_outside_of_a_tile_is_refused() -> None:
    body = "%r = gemm.group_reduce add %a over 4 : f32"
    (op,) = gemms_of(parse_module(program(body)))
    block = op.segments()[0].block
    with pytest.raises(CodaError, match="outside of a tile"):
        RegionEmitter(LocalNames()).emit(block, dict.fromkeys(block.args, "v"))


def test_names_are_identifiers() -> None:
    names = NameAllocator(["exp"])
    hints = ["x", "x", "3d", "lambda", "a-b", "exp", None]
    assert [names.fresh(hint, "v") for hint in hints] == [
        *("x", "x_1", "v3d", "lambda_", "a_b", "exp_1", "v"),
    ]
