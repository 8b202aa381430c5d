"""Pointwise operators that reach the backend unfused, and `gemm.map`."""

from collections.abc import Callable, Sequence

import pytest
import torch
import torch.nn.functional as F
from support.emitted import assert_as_accurate, load_program, run_operator
from support.function_numbers import some_numbers, with_numbers
from support.programs import type_of

import coda_ir
from coda_ir.diagnostics import CodaError
from coda_ir.dialects import coda

Eager = Callable[..., torch.Tensor]
DTYPES = [torch.float32, torch.float16, torch.bfloat16]
NAN, INF = float("nan"), float("inf")

# The interpreter computes with NumPy, which warns of overflow.
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.default_generator.manual_seed(4)


def relu2(x: torch.Tensor) -> torch.Tensor:
    return F.relu(x).square()


def softcap(x: torch.Tensor) -> torch.Tensor:
    return 30.0 * torch.tanh(x / 30.0)


def aten(operator: type[coda.ElementwiseOp]) -> Eager:
    name, _, suffix = str(operator.ATEN).partition(".")
    function = getattr(getattr(torch.ops.aten, name), suffix)
    numbers = some_numbers(operator)
    return lambda *x: function(*x, *numbers, **operator.ATEN_OPTIONS)


PREDICATES: dict[str, Eager] = {
    name: aten(op) for name, op in coda.REAL_FUNCTIONS.items() if issubclass(op, coda.Predicate)
}
UNARY: dict[str, Eager] = {
    **{
        with_numbers(name, op): aten(op)
        for name, op in coda.REAL_FUNCTIONS.items()
        if op.ATEN is not None and name not in PREDICATES
    },
    "neg": torch.neg,
    "relu2": relu2,
    "softcap {cap = 30.0 : f64}": softcap,
}
RELATIONS: dict[str, Eager] = {
    "eq": torch.eq,
    "ne": torch.ne,
    "lt": torch.lt,
    "le": torch.le,
    "gt": torch.gt,
    "ge": torch.ge,
}
BINARY: dict[str, Eager] = {
    "add": torch.add,
    "sub": torch.sub,
    "mul": torch.mul,
    "div": torch.div,
    **{name: aten(op) for name, op in coda.FUNCTIONS_OF_TWO.items()},
}
LOGICAL = [
    name for name, op in coda.FUNCTIONS_OF_TWO.items() if op.ELEMENTS == coda.Elements.BOOLEANS
]
ARITHMETIC = [name for name in BINARY if name not in LOGICAL]
OF_INTEGERS = [
    op.name.removeprefix("coda.")
    for op in coda.ELEMENTWISE_OPS
    if op.ELEMENTS in (coda.Elements.NUMBERS, coda.Elements.ANY)
]


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", UNARY)
def test_unary(name: str, dtype: torch.dtype) -> None:
    x = (torch.randn(3, 5, 130) * 3).to(dtype)
    function = coda.REAL_FUNCTIONS.get(name.partition(" ")[0])
    if function is not None and function.OF_POSITIVE:
        x = x.abs() + 0.01
    actual = run_operator(f"coda.{name}", x)
    eager = UNARY[name]
    # PyTorch's bfloat16 tanh and softcap round in between: compare with one rounding.
    once = eager(x.float()).to(dtype)
    assert_as_accurate(actual, once, eager(x.double()))


@pytest.mark.parametrize("name", [n for n in UNARY if not n.startswith(("softcap", "relu2"))])
def test_unary_special_values(name: str) -> None:
    x = torch.tensor([[NAN, INF, -INF, 0.0, -0.0, 3e38, -3e38, -1.0]])
    # In double precision: PyTorch's vectorized float32 GELU gives NaN for inf.
    expected = UNARY[name](x.double()).float()
    torch.testing.assert_close(run_operator(f"coda.{name}", x), expected, equal_nan=True)


def test_zero_has_a_sign_after_a_negation() -> None:
    x = torch.tensor([[0.0, -0.0]])
    assert run_operator("coda.neg", x).signbit().tolist() == [[True, False]]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_predicates(dtype: torch.dtype) -> None:
    x = torch.tensor([[NAN, INF, -INF, 0.0, 6e4, -6e4]]).to(dtype)
    for name, eager in PREDICATES.items():
        actual = run_operator(f"coda.{name}", x, result=type_of(x > 0))
        assert torch.equal(actual, eager(x)), name


def test_what_is_infinite_in_the_type_of_an_unfinished_sum() -> None:
    """A sum is rounded to its type before it is asked, as where it is stored."""
    text = "fn f(x: f16[M, 8], y: f16[M, 8]) { return isinf(x + y), x + y }"
    x = torch.tensor([[6e4, 3e4, -6e4, 6e4, INF, 1.0, 65504.0, 65504.0]]).half()
    y = torch.tensor([[6e4, 3e4, -6e4, -6e4, 1.0, INF, 8.0, 16.0]]).half()
    actual, total = coda_ir.compile(text)(x, y)
    assert torch.equal(actual, (x + y).isinf()) and torch.equal(total.isinf(), actual)


@pytest.mark.parametrize("name", ["expm1", "log1p", "softplus", with_numbers("elu", coda.EluOp)])
def test_accuracy_near_zero(name: str) -> None:
    x = torch.logspace(-30, 1, 200)[None] * torch.tensor([[1.0], [-0.05]])
    once = UNARY[name](x.double())
    torch.testing.assert_close(run_operator(f"coda.{name}", x).double(), once, rtol=4e-7, atol=0)


def test_softplus_is_accurate_everywhere() -> None:
    x = torch.cat([torch.linspace(-80, 80, 4000), torch.tensor([INF, -INF, NAN])])[None]
    exact = torch.logaddexp(torch.zeros(()).double(), x.double())
    found = run_operator("coda.softplus", x).double()
    torch.testing.assert_close(found, exact, rtol=4e-6, atol=0, equal_nan=True)


@pytest.mark.parametrize("exponent", [0.3, -2.7, 5.0, -3.0, 18.0, 1e-3, 100.5])
def test_powers(exponent: float) -> None:
    """To a rounding of float32, and what PyTorch has for zeros, infinities and negative numbers."""
    x = torch.cat([torch.logspace(-30, 30, 600), torch.tensor([NAN, INF, 0.0, 1.0])])
    x = torch.stack([x, -x])
    actual = run_operator(f"coda.pow {{exponent = {exponent} : f64}}", x)
    exact = x.double().pow(exponent).float()
    torch.testing.assert_close(actual, exact, rtol=1.2e-7, atol=1e-45, equal_nan=True)


def test_round_takes_the_even_number_at_a_tie() -> None:
    numbers = torch.arange(-9, 10) / 2
    near = torch.nextafter(numbers, numbers + 1), torch.nextafter(numbers, numbers - 1)
    large = [2.0**22 + numbers, 2.0**23 + numbers, -(2.0**22) - numbers, numbers * 2**23]
    special = torch.tensor([NAN, INF, -INF, -0.3, 3e38]).repeat(4)[: len(numbers)]
    x = torch.stack([numbers, *near, *large, special])
    found = run_operator("coda.round", x)
    torch.testing.assert_close(found, x.round(), rtol=0, atol=0, equal_nan=True)
    assert found[-1, 3].signbit()


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool], ids=str)
def test_compare(relation: str, dtype: torch.dtype) -> None:
    if dtype == torch.bool and relation not in ("eq", "ne"):
        pytest.skip("booleans have no order")
    a, b = torch.randint(0, 2, (2, 5, 130)).to(dtype).unbind()
    if dtype.is_floating_point:
        a[0], b[1], a[2, :3] = NAN, NAN, torch.tensor([INF, -INF, -0.0]).to(dtype)
    code = f'coda.compare {{relation = "{relation}"}}'
    actual = run_operator(code, a, b, result=type_of(a > b))
    assert torch.equal(actual, RELATIONS[relation](a, b))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64], ids=str)
def test_where(dtype: torch.dtype) -> None:
    condition = torch.randn(5, 130) > 0
    a, b = (torch.randn(5, 130) * 10).to(dtype), (torch.randn(130) * 10).to(dtype)
    actual = run_operator("coda.where", condition, a, b, result=type_of(a))
    assert torch.equal(actual, torch.where(condition, a, b))


def test_truth_values() -> None:
    a, b = (torch.randn(2, 3, 130) > 0).unbind()
    assert torch.equal(run_operator("coda.logical_not", a), ~a)
    for name in LOGICAL:
        assert torch.equal(run_operator(f"coda.{name}", a, b), BINARY[name](a, b))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", ARITHMETIC)
def test_binary(name: str, dtype: torch.dtype) -> None:
    a, b = torch.randn(2, 127, 7).to(dtype).unbind()
    eager = BINARY[name]
    assert_as_accurate(
        run_operator(f"coda.{name}", a, b), eager(a, b), eager(a.double(), b.double())
    )


@pytest.mark.parametrize("name", ARITHMETIC)
def test_binary_special_values(name: str) -> None:
    values = torch.tensor([NAN, INF, -INF, 0.0, -0.0, 1.0])
    a, b = values.repeat(6)[None], values.repeat_interleave(6)[None]
    actual = run_operator(f"coda.{name}", a, b)
    torch.testing.assert_close(actual, BINARY[name](a, b), equal_nan=True)


@pytest.mark.parametrize("name", ARITHMETIC)
def test_numbers_as_operands(name: str) -> None:
    type = "tensor<3x130xf32>"
    run = load_program(f"""
        func.func @f(%x : {type}) -> ({type}, {type}) {{
          %c = coda.constant {{value = 2.5 : f64}} : tensor<f32>
          %a = coda.{name} %x, %c : ({type}, tensor<f32>) -> {type}
          %b = coda.{name} %c, %x : (tensor<f32>, {type}) -> {type}
          func.return %a, %b : {type}, {type}
        }}""")
    x, number = 4 * torch.randn(3, 130), torch.tensor(2.5)
    eager = BINARY[name]
    for actual, exact in zip(run(x), (eager(x, number), eager(number, x)), strict=True):
        torch.testing.assert_close(actual, exact, equal_nan=True)


def near_multiples() -> tuple[torch.Tensor, torch.Tensor]:
    """Dividends beside multiples of divisors, with quotients below 2^20 of both signs."""
    b = torch.randn(20, 500).abs() + 0.01
    multiples = (torch.randn(20, 500) * 2 ** (20 * torch.rand(20, 500) - 2)).trunc() * b
    a = torch.cat([multiples, *(multiples.nextafter(multiples + sign) for sign in (1, -1))])
    b = torch.cat([b, -b, b])
    return a, b


@pytest.mark.parametrize("name", ["remainder", "floor_divide"])
def test_quotients_near_whole_numbers(name: str) -> None:
    """As float64 has it, whichever of two integers the quotient rounds to."""
    a, b = near_multiples()
    assert (a / b).abs().max() > 2**18
    exact = BINARY[name](a.double(), b.double()).float()
    assert torch.equal(run_operator(f"coda.{name}", a, b), exact)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((3, 5, 8), (8,)),
        ((3, 5, 8), (1, 1, 8)),
        ((3, 5, 8), (5, 8)),
        ((3, 5, 8), (1, 5, 8)),
        ((3, 5, 8), (3, 5, 1)),
        ((3, 5, 8), (5, 1)),
        ((3, 5, 8), (3, 1, 8)),
        ((3, 5, 8), (3, 1, 1)),
        ((3, 5, 8), (1,)),
        ((3, 5, 8), ()),
        ((2, 3, 5, 8), (2, 1, 5, 8)),
        ((2, 3, 5, 8), (2, 1, 5, 1)),
        ((2, 3, 1, 5, 2, 8), (2, 1, 1, 5, 1, 8)),
        ((3, 1, 8), (1, 5, 1)),
        ((5, 1), (1, 7)),
        ((4,), (4,)),
        ((), ()),
        ((1,), ()),
        ((5, 1), (5, 1)),
        ((3, 700), (700,)),
    ],
    ids=str,
)
def test_broadcast(left: Sequence[int], right: Sequence[int]) -> None:
    a, b = torch.randn(tuple(left)), torch.randn(tuple(right))
    expected = a - b
    torch.testing.assert_close(run_operator("coda.sub", a, b, result=type_of(expected)), expected)
    torch.testing.assert_close(run_operator("coda.sub", b, a, result=type_of(expected)), b - a)


DYNAMIC = """
    func.func @f(%x : tensor<?x?xf32> {coda.dims = ["M", "N"]},
                 %row : tensor<?xf32> {coda.dims = ["N"]},
                 %col : tensor<?x1xf32> {coda.dims = ["M", 1]},
                 %one : tensor<1xf32>) -> tensor<?x?xf32> {
      %a = coda.add %x, %row : (tensor<?x?xf32>, tensor<?xf32>) -> tensor<?x?xf32>
      %b = coda.mul %a, %col : (tensor<?x?xf32>, tensor<?x1xf32>) -> tensor<?x?xf32>
      %c = coda.sub %b, %one : (tensor<?x?xf32>, tensor<1xf32>) -> tensor<?x?xf32>
      func.return %c : tensor<?x?xf32>
    }"""


def test_columns_that_are_known_at_run_time() -> None:
    run = load_program(DYNAMIC)
    for m, n in [(1, 1), (3, 700), (5, 7), (0, 4)]:
        x, row, col, one = torch.randn(m, n), torch.randn(n), torch.randn(m, 1), torch.randn(1)
        torch.testing.assert_close(run(x, row, col, one), (x + row) * col - one)


def test_constants_are_in_the_kernel() -> None:
    text = """
        func.func @f(%x : tensor<?x8xbf16>) -> (tensor<?x8xbf16>, tensor<bf16>) {
          %half = coda.constant {value = 0.3 : f64} : tensor<bf16>
          %y = coda.mul %half, %x : (tensor<bf16>, tensor<?x8xbf16>) -> tensor<?x8xbf16>
          func.return %y, %half : tensor<?x8xbf16>, tensor<bf16>
        }"""
    run = load_program(text)
    x = torch.randn(5, 8).bfloat16()
    y, half = run(x)
    torch.testing.assert_close(y, x * 0.3)
    torch.testing.assert_close(half, torch.tensor(0.3).bfloat16())


def test_one_element_as_a_vector() -> None:
    """It has no rows, whose columns a concatenation could have."""
    text = """func.func @f(%x: tensor<f32>) -> tensor<5xf32> {
      %y = coda.broadcast %x : (tensor<f32>) -> tensor<5xf32>
      func.return %y : tensor<5xf32>
    }"""
    x = torch.randn(())
    assert torch.equal(coda_ir.compile(text, device="cpu")(x), x.expand(5))


def test_constants_that_are_compared() -> None:
    """Beside a tile: the interpreter has no logical operators of a comparison of numbers."""
    text = """fn f(x: f32[M, 8]) {
        is_less = lt(cast(1.0, f32), 2.0)
        mixed = logical_and(logical_or(is_less, gt(cast(1.0, f32), 2.0)), x > 0)
        return where(mixed, x, 0), where(is_less, x, 0), x + cast(is_less, f32)
    }"""
    x = torch.randn(5, 8)
    for found, expected in zip(
        coda_ir.compile(text, device="cpu")(x), (x.relu(), x, x + 1), strict=True
    ):
        assert torch.equal(found, expected)


def test_scalars_that_are_compared() -> None:
    """The interpreter repeats the outcome of a comparison of two scalars as a number."""
    text = """fn f(x: f32[M, 8], a: f32[], b: f32[]) {
        is_less = lt(a, b)
        both = logical_and(is_less, x > a)
        return where(both, x, 0), where(logical_xor(both, ne(a, b)), x, b)
    }"""
    x, a, b = torch.randn(5, 8), torch.tensor(-0.5), torch.tensor(0.25)
    compiled = coda_ir.compile(text, device="cpu")
    for low, high in ((a, b), (b, a), (a, a)):
        both = (low < high) & (x > low)
        expected = torch.where(both, x, 0), torch.where(both ^ (low != high), x, high)
        assert all(map(torch.equal, compiled(x, low, high), expected))


def test_scalars_that_are_compared_beside_partials() -> None:
    finalize = load_program("""
        func.func @f(%p: tensor<?x2xf32>, %a: tensor<f32>, %b: tensor<f32>) -> tensor<?xf32> {
          %y = gemm.finalize row (add %p : tensor<?x2xf32>)
              scalar(%a : tensor<f32>, %b : tensor<f32>) -> (tensor<?xf32>) {
          ^bb0(%sum: f32, %a_1: f32, %b_1: f32):
            %less = arith.cmpf olt, %a_1, %b_1 : f32
            %more = arith.cmpf ogt, %sum, %a_1 : f32
            %both = arith.andi %less, %more : i1
            %chosen = arith.select %both, %sum, %b_1 : f32
            gemm.yield %chosen : f32
          }
          func.return %y : tensor<?xf32>
        }
    """)
    p, a, b = torch.randn(5, 2), torch.tensor(-0.5), torch.tensor(0.25)
    assert torch.equal(finalize(p, a, b), torch.where(p.sum(1) > a, p.sum(1), b))


@pytest.mark.parametrize("source", [*DTYPES, torch.int32, torch.int64], ids=str)
@pytest.mark.parametrize("target", [*DTYPES, torch.int32, torch.int64], ids=str)
def test_cast(source: torch.dtype, target: torch.dtype) -> None:
    x = (torch.randn(3, 130) * 100).to(source)
    result = type_of(x.to(target))
    assert torch.equal(run_operator("coda.cast", x, result=result), x.to(target))


def test_cast_rounds_to_nearest_even() -> None:
    x = torch.tensor([[1.00390625, 1.01171875, -1.00390625, 3.3961775e38]])
    actual = run_operator("coda.cast", x, result="tensor<1x4xbf16>")
    assert torch.equal(actual, x.bfloat16())


@pytest.mark.parametrize("name", [name for name in ARITHMETIC if name in OF_INTEGERS])
def test_integers(name: str) -> None:
    a, b = torch.randint(-50, 50, (2, 3, 70)).unbind()
    b[b == 0] = 7
    assert torch.equal(run_operator(f"coda.{name}", a, b), BINARY[name](a, b))
    assert torch.equal(run_operator("coda.abs", a), a.abs())
    assert torch.equal(run_operator("coda.neg", a), -a)


def test_an_integer_operator_without_a_kernel() -> None:
    with pytest.raises(CodaError, match="an operand has element type i64, expected floats"):
        run_operator("coda.exp", torch.tensor([[1, 2]]))


def test_double_precision_is_refused() -> None:
    with pytest.raises(CodaError, match="does not support tensors of f64"):
        run_operator("coda.exp", torch.randn(2, 3).double())


MAP = """
    func.func @f(%x : tensor<?x?x130xbf16> {coda.dims = ["B", "T", 130]}, %row : tensor<130xbf16>,
                 %col : tensor<?x?xf32> {coda.dims = ["B", "T"]},
                 %table : tensor<?x65xf32> {coda.dims = ["T", 65]}, %scale : tensor<f32>,
                 %pick : tensor<?x?xi64> {coda.dims = ["B", "T"]})
        -> (tensor<?x?x130xbf16>, tensor<?x?x?xf32>, tensor<?x130xf32>, tensor<?x?xf32>) {
      %y, %sums, %maxima, %picked = gemm.map tile(%x : tensor<?x?x130xbf16>)
          row(%row : tensor<130xbf16>) col(%col : tensor<?x?xf32>, %pick : tensor<?x?xi64>)
          table(%table : tensor<?x65xf32>) scalar(%scale : tensor<f32>)
          -> (tile : tensor<?x?x130xbf16>, partial_row<add> : tensor<?x?x?xf32>,
              partial_col<max> : tensor<?x130xf32>, select<3> : tensor<?x?xf32>) {
      ^bb0(%a : f32, %r : f32, %c : f32, %i : i64, %t : f32, %s : f32):
        %0 = arith.mulf %a, %r : f32
        %1 = arith.addf %0, %c : f32
        %2 = arith.subf %1, %t : f32
        %3 = arith.mulf %2, %s : f32
        gemm.yield %3, %3, %3, %3 : f32, f32, f32, f32
      }
      func.return %y, %sums, %maxima, %picked
        : tensor<?x?x130xbf16>, tensor<?x?x?xf32>, tensor<?x130xf32>, tensor<?x?xf32>
    }"""


@pytest.mark.parametrize(("batch", "time"), [(1, 1), (3, 5), (2, 40)])
def test_every_port_of_a_map(batch: int, time: int) -> None:
    run = load_program(MAP)
    x = torch.randn(batch, time, 130).bfloat16()
    row, scale = torch.randn(130).bfloat16(), torch.randn(())
    col, table = torch.randn(batch, time), torch.randn(time, 65)
    pick = torch.randint(-2, 132, (batch, time))
    y, sums, maxima, picked = run(x, row, col, table, scale, pick)
    exact = ((x.double() * row + col[..., None]) - table.repeat(1, 2)) * scale
    in_range = (pick >= 0) & (pick < 130)
    chosen = exact.gather(-1, pick.clamp(0, 129)[..., None])[..., 0]
    torch.testing.assert_close(y, exact.bfloat16())
    torch.testing.assert_close(sums.sum(-1).double(), exact.sum(-1), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(maxima.amax(0), exact.flatten(0, 1).amax(0).float())
    torch.testing.assert_close(picked, torch.where(in_range, chosen, 0.0).float())
