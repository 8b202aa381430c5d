"""Kernels of unfused operators against float64, and against PyTorch for NaN and inf."""

from collections.abc import Callable, Sequence
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from support.emitted import (
    assert_as_accurate,
    load_program,
    operator_program,
    relative_error,
    run_operator,
)
from support.programs import type_of

DTYPES = [torch.float32, torch.float16, torch.bfloat16]
SHAPES = [(1, 7), (3, 130), (127, 1), (2, 5, 64)]
Eager = Callable[..., torch.Tensor]
NAN, INF = float("nan"), float("inf")

# The interpreter computes with NumPy, which warns of overflow.
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.default_generator.manual_seed(2)


def rms_norm(x: torch.Tensor, weight: torch.Tensor | None = None) -> torch.Tensor:
    return F.rms_norm(x, x.shape[-1:], weight, 1e-6)


def layer_norm(
    x: torch.Tensor, weight: torch.Tensor | None = None, bias: torch.Tensor | None = None
) -> torch.Tensor:
    return F.layer_norm(x, x.shape[-1:], weight, bias)


def softmax(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x, -1)


def column(reduction: Eager) -> Eager:
    return partial(reduction, dim=-1, keepdim=True)


def gelu_tanh(x: torch.Tensor) -> torch.Tensor:
    return F.gelu(x, approximate="tanh")


def relu2(x: torch.Tensor) -> torch.Tensor:
    return F.relu(x).square()


def identity(x: torch.Tensor) -> torch.Tensor:
    return x


REDUCTIONS: dict[str, Eager] = {
    "sum": torch.sum,
    "mean": torch.mean,
    "max": torch.amax,
    "lse": torch.logsumexp,
}
ACTIVATIONS: dict[str, Eager] = {
    "identity": identity,
    "silu": F.silu,
    "gelu": F.gelu,
    "gelu_tanh": gelu_tanh,
    "relu": F.relu,
    "relu2": relu2,
}


def check(operator: str, eager: Eager, *operands: torch.Tensor, result: str | None = None) -> None:
    """The operator is as accurate as `eager`, a function of the same operands."""
    actual = run_operator(operator, *operands, result=result)
    exact = eager(*(x.double() if x.is_floating_point() else x for x in operands))
    assert_as_accurate(actual, eager(*operands).to(actual.dtype), exact)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [*SHAPES, (2, 9000)], ids=str)
class TestNorms:
    def test_rms_norm(self, shape: Sequence[int], dtype: torch.dtype) -> None:
        x, weight = torch.randn(*shape).to(dtype), torch.randn(shape[-1]).to(dtype)
        check("coda.rms_norm {eps = 1.0e-6 : f64}", rms_norm, x, weight)

    def test_rms_norm_without_weight(self, shape: Sequence[int], dtype: torch.dtype) -> None:
        check("coda.rms_norm {eps = 1.0e-6 : f64}", rms_norm, torch.randn(*shape).to(dtype))

    def test_layer_norm(self, shape: Sequence[int], dtype: torch.dtype) -> None:
        x = (torch.randn(*shape) + 3).to(dtype)
        weight, bias = torch.randn(2, shape[-1]).to(dtype)
        operator = "coda.layer_norm {eps = 1.0e-5 : f64}"
        check(operator, layer_norm, x, weight.clone(), bias.clone())

    def test_softmax(self, shape: Sequence[int], dtype: torch.dtype) -> None:
        check("coda.softmax", softmax, (torch.randn(*shape) * 5).to(dtype))

    @pytest.mark.parametrize("kind", ["sum", "mean", "max", "lse"])
    def test_reduce(self, shape: Sequence[int], dtype: torch.dtype, kind: str) -> None:
        x = (torch.randn(*shape) + 0.5).to(dtype)
        operator = f'coda.reduce {{kind = "{kind}"}}'
        check(operator, column(REDUCTIONS[kind]), x, result=type_of(x[..., :1]))


def test_layer_norm_does_not_cancel() -> None:
    """E[x²] − mean² would lose everything here."""
    x = torch.randn(4, 300) * 0.01 + 1000
    actual = run_operator("coda.layer_norm {eps = 1.0e-5 : f64}", x)
    assert relative_error(actual, layer_norm(x.double())) < 0.02


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_rms_norm_of_groups(dtype: torch.dtype) -> None:
    def eager(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return rms_norm(x.reshape(5, 3, 12), weight).reshape(5, 36)

    x, weight = torch.randn(5, 3 * 12).to(dtype), torch.randn(12).to(dtype)
    check("coda.rms_norm {eps = 1.0e-6 : f64, group = 12 : i64}", eager, x, weight)


@pytest.mark.parametrize("kind", ["rms", "layer"])
def test_norm_stats(kind: str) -> None:
    x = (torch.randn(3, 130) + 1).to(torch.bfloat16)
    column = "tensor<3x1xf32>"
    result = column if kind == "rms" else f"{column}, {column}"
    stats = run_operator(
        f'coda.norm_stats {{kind = "{kind}", eps = 1.0e-6 : f64}}', x, result=result
    )
    exact = x.double()
    mean = exact.mean(-1, keepdim=True)
    if kind == "rms":
        torch.testing.assert_close(stats, rsqrt_mean(exact).float())
        return
    torch.testing.assert_close(stats[0], rsqrt_mean(exact - mean).float())
    torch.testing.assert_close(stats[1], mean.float())


def rsqrt_mean(x: torch.Tensor) -> torch.Tensor:
    return torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6)


SPECIAL_ROWS = torch.tensor(
    [
        [NAN, 1.0, 2.0],
        [INF, 1.0, 2.0],
        [-INF, 1.0, 2.0],
        [-INF, -INF, -INF],
        [INF, -INF, 0.0],
        [INF, NAN, INF],
        [3e38, 3e38, 1.0],
    ]
)


@pytest.mark.parametrize(
    ("operator", "eager"),
    [
        ("coda.softmax", softmax),
        ('coda.reduce {kind = "max"}', column(torch.amax)),
        ('coda.reduce {kind = "sum"}', column(torch.sum)),
        ('coda.reduce {kind = "lse"}', column(torch.logsumexp)),
        ("coda.rms_norm {eps = 1.0e-6 : f64}", rms_norm),
        ("coda.layer_norm {eps = 1.0e-5 : f64}", layer_norm),
    ],
)
def test_special_values(operator: str, eager: Eager) -> None:
    expected = eager(SPECIAL_ROWS)
    actual = run_operator(operator, SPECIAL_ROWS, result=type_of(expected))
    torch.testing.assert_close(actual, expected, equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_huge_values_in_a_norm(dtype: torch.dtype) -> None:
    """x² overflows float32: rstd is 0 and the result with it, as in PyTorch."""
    x = torch.full((2, 16), 1e30).to(dtype)
    actual = run_operator("coda.rms_norm {eps = 1.0e-6 : f64}", x)
    torch.testing.assert_close(actual, rms_norm(x))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("shape", [(1, 7), (127, 130), (2, 3, 9000)], ids=str)
def test_cross_entropy(shape: Sequence[int], reduction: str, dtype: torch.dtype) -> None:
    logits = (torch.randn(*shape) * 3).to(dtype)
    target = torch.randint(shape[-1], shape[:-1])
    target.view(-1)[::3] = -100 if target.numel() > 1 else 0

    def eager(logits: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        loss = F.cross_entropy(
            logits.reshape(-1, shape[-1]), target.reshape(-1), reduction=reduction
        )
        return loss.reshape(target.shape) if reduction == "none" else loss

    result = type_of(target.float()) if reduction == "none" else "tensor<f32>"
    properties = f'{{reduction = "{reduction}", ignore_index = -100 : i64}}'
    check(f"coda.cross_entropy {properties}", eager, logits, target, result=result)


@pytest.mark.parametrize("integer", [torch.int32, torch.int64], ids=str)
def test_cross_entropy_of_a_target_that_is_no_column(integer: torch.dtype) -> None:
    """It raises, as PyTorch does. The ignored index wins."""
    logits = torch.randn(2, 5)
    operator = 'coda.cross_entropy {reduction = "none", ignore_index = 1000 : i64}'
    loss = run_operator(
        operator, logits, torch.tensor([4, 1000], dtype=integer), result="tensor<2xf32>"
    )
    expected = F.cross_entropy(logits[:1], torch.tensor([4]))
    torch.testing.assert_close(loss, torch.tensor([expected.item(), 0.0]))
    for wrong in (5, -1, -100):
        target = torch.tensor([0, wrong], dtype=integer)
        with pytest.raises(IndexError, match=f"row 1 has {wrong}, expected 0 to 4, or 1000"):
            run_operator(operator, logits, target, result="tensor<2xf32>")


def test_cross_entropy_of_special_values() -> None:
    target = torch.tensor([1, 1, 1, 1, 0, 0, 2])
    operator = 'coda.cross_entropy {reduction = "none", ignore_index = -100 : i64}'
    loss = run_operator(operator, SPECIAL_ROWS, target, result="tensor<7xf32>")
    expected = F.cross_entropy(SPECIAL_ROWS, target, reduction="none")
    torch.testing.assert_close(loss, expected, equal_nan=True)


@pytest.mark.parametrize(("reduction", "expected"), [("mean", NAN), ("sum", 0.0)])
@pytest.mark.parametrize("rows", [0, 3])
def test_cross_entropy_without_targets(reduction: str, expected: float, rows: int) -> None:
    logits, target = torch.randn(rows, 8), torch.full((rows,), -100)
    operator = f'coda.cross_entropy {{reduction = "{reduction}", ignore_index = -100 : i64}}'
    loss = run_operator(operator, logits, target, result="tensor<f32>")
    torch.testing.assert_close(loss, torch.tensor(expected), equal_nan=True)


def test_columns_that_are_known_at_run_time() -> None:
    """A row kernel over a symbolic number of columns, in several blocks and in one."""
    text = """
        func.func @f(%x : tensor<?x?xf32>) -> (tensor<?x?xf32>, tensor<?x1xf32>, tensor<?x?xf32>) {
          %s = coda.softmax %x : (tensor<?x?xf32>) -> tensor<?x?xf32>
          %m = coda.reduce %x {kind = "mean"} : (tensor<?x?xf32>) -> tensor<?x1xf32>
          %n = coda.layer_norm %x {eps = 1.0e-5 : f64} : (tensor<?x?xf32>) -> tensor<?x?xf32>
          func.return %s, %m, %n : tensor<?x?xf32>, tensor<?x1xf32>, tensor<?x?xf32>
        }"""
    run = load_program(text)
    for shape in [(3, 7), (2, 5000), (1, 1)]:
        x = torch.randn(*shape)
        probabilities, mean, norm = run(x)
        torch.testing.assert_close(probabilities, softmax(x))
        torch.testing.assert_close(mean, x.mean(-1, keepdim=True))
        torch.testing.assert_close(norm, layer_norm(x))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("activation", list(ACTIVATIONS))
@pytest.mark.parametrize("shape", [(1, 14), (127, 2), (2, 3, 130)], ids=str)
def test_glu(shape: Sequence[int], activation: str, dtype: torch.dtype) -> None:
    def eager(x: torch.Tensor) -> torch.Tensor:
        gate, up = x.chunk(2, -1)
        return ACTIVATIONS[activation](gate) * up

    x = torch.randn(*shape).to(dtype)
    result = type_of(x[..., : shape[-1] // 2])
    check(f'coda.glu {{activation = "{activation}"}}', eager, x, result=result)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("layout", ["half_split", "interleaved"])
@pytest.mark.parametrize("rank", [2, 3])
def test_rope(layout: str, rank: int, dtype: torch.dtype) -> None:
    """Tables over the positions alone (repeated for each of the batch), and over all rows."""
    batch, time, heads, head_dim = 2, 5, 3, 12
    angle = torch.rand((batch, time, head_dim // 2)[3 - rank :]) * 6
    cos, sin = angle.cos().to(dtype), angle.sin().to(dtype)

    def eager(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        cos, sin = cos.unsqueeze(-2), sin.unsqueeze(-2)
        heads_of_x = x.reshape(batch, time, heads, head_dim)
        if layout == "half_split":
            a, b = heads_of_x.chunk(2, -1)
            rotated = torch.cat([a * cos - b * sin, b * cos + a * sin], -1)
        else:
            a, b = heads_of_x[..., ::2], heads_of_x[..., 1::2]
            rotated = torch.stack([a * cos - b * sin, b * cos + a * sin], -1)
        return rotated.reshape(x.shape)

    x = torch.randn(batch, time, heads * head_dim).to(dtype)
    check(f'coda.rope {{head_dim = {head_dim} : i64, layout = "{layout}"}}', eager, x, cos, sin)


@pytest.mark.parametrize("layout", ["half_split", "interleaved"])
def test_rope_with_tables_of_each_column(layout: str) -> None:
    batch, time, heads, head_dim = 2, 5, 3, 12
    cos, sin = torch.randn(time, head_dim), torch.randn(time, head_dim)

    def eager(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        h = x.reshape(batch, time, heads, head_dim)
        if layout == "half_split":
            rotated = torch.cat([-h[..., head_dim // 2 :], h[..., : head_dim // 2]], -1)
        else:
            rotated = torch.stack([-h[..., 1::2], h[..., ::2]], -1).flatten(-2)
        return (h * cos.unsqueeze(-2) + rotated * sin.unsqueeze(-2)).reshape(x.shape)

    x = torch.randn(batch, time, heads * head_dim)
    operator = f'coda.rope {{head_dim = {head_dim} : i64, layout = "{layout}", per_column}}'
    check(operator, eager, x, cos, sin)


def test_equal_operators_share_a_kernel() -> None:
    text = """
        func.func @f(%x : tensor<?x8xf32>) -> tensor<?x8xf32> {
          %a = coda.softmax %x : (tensor<?x8xf32>) -> tensor<?x8xf32>
          %b = coda.softmax %a : (tensor<?x8xf32>) -> tensor<?x8xf32>
          func.return %b : tensor<?x8xf32>
        }"""
    run = load_program(text)
    x = torch.randn(3, 8)
    torch.testing.assert_close(run(x), torch.softmax(torch.softmax(x, -1), -1))
    assert run.__globals__["KERNELS"] == ("softmax",)


def test_text_of_a_norm_is_deterministic() -> None:
    text = operator_program("coda.softmax", [torch.randn(2, 3)], "tensor<2x3xf32>")
    first, second = load_program(text), load_program(text)
    assert first.__code__.co_code == second.__code__.co_code
