"""Every operator of the block level against PyTorch."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from support.equivalence import assert_results_close
from support.programs import run_operator, type_of

from coda_ir.api import parse
from coda_ir.backends.reference import run_module
from coda_ir.diagnostics import IndexOutOfRangeError, NoElementsError
from coda_ir.dialects.coda import ACTIVATIONS

M, D = 5, 8


def normal(*shape: int, dtype: torch.dtype = torch.float64, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)


UNARY: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "coda.neg": torch.neg,
    "coda.abs": torch.abs,
    "coda.exp": torch.exp,
    "coda.tanh": torch.tanh,
    "coda.sigmoid": torch.sigmoid,
    "coda.silu": F.silu,
    "coda.relu": F.relu,
    "coda.relu2": lambda x: F.relu(x) ** 2,
    "coda.detach": torch.detach,
    "coda.gelu": F.gelu,
    "coda.gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "coda.softcap {cap = 3.0 : f64}": lambda x: 3 * torch.tanh(x / 3),
}

POSITIVE: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "coda.log": torch.log,
    "coda.sqrt": torch.sqrt,
    "coda.rsqrt": torch.rsqrt,
}

BINARY: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "coda.add": torch.add,
    "coda.sub": torch.sub,
    "coda.mul": torch.mul,
    "coda.div": torch.div,
    "coda.maximum": torch.maximum,
    "coda.minimum": torch.minimum,
}


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("operator", [*UNARY, *POSITIVE])
def test_unary(operator: str, dtype: torch.dtype):
    x = normal(M, D, dtype=dtype)
    x = x if operator in UNARY else x.abs()
    (result,) = run_operator(operator, x, results=type_of(x))
    computed = x if dtype == torch.float64 else x.float()
    expected = (UNARY | POSITIVE)[operator](computed).to(dtype)
    # Beyond the rounding of the result, float32 functions may differ in their last bit.
    assert_results_close([result], [expected], 1e-15 if dtype == torch.float64 else 1e-6)
    assert result.dtype == dtype


@pytest.mark.parametrize("operator", BINARY)
@pytest.mark.parametrize("shape", [(M, D), (D,), (M, 1), (1,), ()])
def test_binary_broadcasts(operator: str, shape: tuple[int, ...]):
    x, y = normal(M, D, dtype=torch.bfloat16), normal(*shape, dtype=torch.bfloat16, seed=1)
    (result,) = run_operator(operator, x, y, results=type_of(x))
    torch.testing.assert_close(result, BINARY[operator](x, y), rtol=0, atol=0)


def test_float64_rounds_nothing():
    x = normal(M, D)
    half = x.to(torch.bfloat16)
    (result,) = run_operator("coda.silu", half, results=type_of(half), precision="float64")
    assert result.dtype == torch.float64
    assert_results_close([result], [F.silu(half.double())], 1e-15)


def test_stated_rounds_every_result_once():
    x = normal(M, 4 * D, dtype=torch.bfloat16)
    weight = normal(D, 4 * D, dtype=torch.bfloat16, seed=1)
    (result,) = run_operator("coda.linear", x, weight, results=f"tensor<{M}x{D}xbf16>")
    expected = (x.double() @ weight.double().T).to(torch.bfloat16)
    # Float32 accumulation can move a result to the other side of a rounding point, rarely.
    assert (result != expected).sum() <= 1


def test_linear_with_wider_result():
    x, weight = normal(M, D, dtype=torch.bfloat16), normal(3, D, dtype=torch.bfloat16, seed=1)
    (result,) = run_operator("coda.linear", x, weight, results=f"tensor<{M}x3xf32>")
    assert_results_close([result], [x.float() @ weight.float().T], 1e-6)


def test_linear_bias_and_matmul():
    x, weight, bias = normal(2, M, D), normal(3, D, seed=1), normal(3, seed=2)
    (result,) = run_operator("coda.linear", x, weight, bias, results=f"tensor<2x{M}x3xf64>")
    assert_results_close([result], [F.linear(x, weight, bias)], 1e-14)
    transposed = weight.T.contiguous()
    (result,) = run_operator("coda.matmul", x, transposed, results=f"tensor<2x{M}x3xf64>")
    assert_results_close([result], [x @ transposed], 1e-14)


def test_rms_norm():
    x, weight = normal(M, D), normal(D, seed=1)
    (result,) = run_operator("coda.rms_norm {eps = 0.1 : f64}", x, weight, results=type_of(x))
    assert_results_close([result], [F.rms_norm(x, (D,), weight, 0.1)], 1e-14)
    (result,) = run_operator("coda.rms_norm {eps = 0.1 : f64}", x, results=type_of(x))
    assert_results_close([result], [F.rms_norm(x, (D,), None, 0.1)], 1e-14)


def test_rms_norm_of_groups():
    x, weight = normal(M, D), normal(4, seed=1)
    operator = "coda.rms_norm {eps = 0.1 : f64, group = 4 : i64}"
    (result,) = run_operator(operator, x, weight, results=type_of(x))
    heads = F.rms_norm(x.reshape(M, 2, 4), (4,), weight, 0.1)
    assert_results_close([result], [heads.reshape(M, D)], 1e-14)


@pytest.mark.parametrize("count", [0, 1, 2])
def test_layer_norm(count: int):
    x, params = normal(M, D), [normal(D, seed=1), normal(D, seed=2)][:count]
    operator = "coda.layer_norm {eps = 0.1 : f64}"
    (result,) = run_operator(operator, x, *params, results=type_of(x))
    padded = [*params, None, None][:2]
    assert_results_close([result], [F.layer_norm(x, (D,), padded[0], padded[1], 0.1)], 1e-14)


def test_norm_stats():
    x = normal(M, D) + 1
    column = f"tensor<{M}x1xf32>"
    (rstd,) = run_operator(
        'coda.norm_stats {kind = "rms", eps = 0.1 : f64}', x, results=column, precision="float64"
    )
    assert_results_close([rstd], [(x.square().mean(-1, keepdim=True) + 0.1) ** -0.5], 1e-14)
    operator = 'coda.norm_stats {kind = "layer", eps = 0.1 : f64}'
    stats = run_operator(operator, x, results=f"{column}, {column}", precision="float64")
    variance, mean = torch.var_mean(x, -1, correction=0, keepdim=True)
    assert_results_close(stats, [(variance + 0.1) ** -0.5, mean], 1e-14)


def test_softmax_and_reductions():
    x, column = normal(M, D), f"tensor<{M}x1xf64>"
    (result,) = run_operator("coda.softmax", x, results=type_of(x))
    assert_results_close([result], [torch.softmax(x, -1)], 1e-14)
    expected = {
        "sum": x.sum(-1, keepdim=True),
        "mean": x.mean(-1, keepdim=True),
        "max": x.max(-1, keepdim=True).values,
        "lse": x.exp().sum(-1, keepdim=True).log(),
    }
    for kind, wanted in expected.items():
        (result,) = run_operator(f'coda.reduce {{kind = "{kind}"}}', x, results=column)
        assert_results_close([result], [wanted], 1e-14)


GATES = {
    "silu": F.silu,
    "gelu": F.gelu,
    "gelu_tanh": UNARY["coda.gelu_tanh"],
    "sigmoid": torch.sigmoid,
    "relu": F.relu,
    "relu2": UNARY["coda.relu2"],
    "tanh": torch.tanh,
    "identity": torch.clone,
}


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_glu(activation: str):
    x = normal(M, D)
    operator = f'coda.glu {{activation = "{activation}"}}'
    (result,) = run_operator(operator, x, results=f"tensor<{M}x{D // 2}xf64>")
    assert_results_close([result], [GATES[activation](x[:, : D // 2]) * x[:, D // 2 :]], 1e-14)


def rotate(x: torch.Tensor, angles: torch.Tensor, layout: str) -> torch.Tensor:
    """RoPE by complex numbers: x (B, T, heads, head_dim), angles (..., T, head_dim/2)."""
    half = x.shape[-1] // 2
    if layout == "half_split":
        pairs = torch.complex(x[..., :half], x[..., half:])
    else:
        pairs = torch.complex(x[..., ::2], x[..., 1::2])
    rotated = pairs * torch.polar(torch.ones_like(angles), angles).unsqueeze(-2)
    if layout == "half_split":
        return torch.cat([rotated.real, rotated.imag], -1)
    return torch.view_as_real(rotated).flatten(-2)


@pytest.mark.parametrize("layout", ["half_split", "interleaved"])
@pytest.mark.parametrize("leading", [(), (2,)])
def test_rope(layout: str, leading: tuple[int, ...]):
    x, angles = normal(2, 3, 8), normal(*leading, 3, 2, seed=1)
    operator = f'coda.rope {{head_dim = 4 : i64, layout = "{layout}"}}'
    (result,) = run_operator(operator, x, angles.cos(), angles.sin(), results=type_of(x))
    expected = rotate(x.reshape(2, 3, 2, 4), angles, layout).reshape(2, 3, 8)
    assert_results_close([result], [expected], 1e-14)


@pytest.mark.parametrize("layout", ["half_split", "interleaved"])
def test_rope_with_tables_of_two_heads(layout: str):
    x, angles = normal(2, 3, 16), normal(3, 4, seed=1)
    operator = f'coda.rope {{head_dim = 4 : i64, layout = "{layout}", table_heads = 2}}'
    (result,) = run_operator(operator, x, angles.cos(), angles.sin(), results=type_of(x))
    heads = [
        rotate(x[..., start : start + 4].unsqueeze(-2), angles[:, table : table + 2], layout)
        for start, table in ((0, 0), (4, 2), (8, 0), (12, 2))
    ]
    assert_results_close([result], [torch.cat(heads, -2).reshape(2, 3, 16)], 1e-14)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("layout", ["half_split", "interleaved"])
def test_rope_with_tables_of_each_column(layout: str, transposed: bool):
    """As models have it, or its transpose, in which a column has the sine of the other one."""
    x, cos, sin = normal(2, 3, 8), normal(3, 4, seed=1), normal(3, 4, seed=2)
    operator = f'coda.rope {{head_dim = 4 : i64, layout = "{layout}", per_column'
    operator += ", transposed}" if transposed else "}"
    (result,) = run_operator(operator, x, cos, sin, results=type_of(x))

    def rotated(heads: torch.Tensor) -> torch.Tensor:
        if layout == "half_split":
            return torch.cat([-heads[..., 2:], heads[..., :2]], -1)
        return torch.stack([-heads[..., 1::2], heads[..., ::2]], -1).flatten(-2)

    heads = x.reshape(2, 3, 2, 4)
    expected = heads * cos[:, None] + rotated(heads) * sin[:, None]
    if transposed:
        expected = heads * cos[:, None] - rotated(heads * sin[:, None])
    assert_results_close([result], [expected.reshape(2, 3, 8)], 1e-14)


def heads_of(x: torch.Tensor, head_dim: int) -> torch.Tensor:
    heads = x.reshape(*x.shape[:2], x.shape[-1] // head_dim, head_dim)
    return heads.transpose(1, 2)


@pytest.mark.parametrize("batch", [2, 0])
@pytest.mark.parametrize("causal", ["true", "false"])
@pytest.mark.parametrize("kv_heads", [1, 2, 4])
def test_attention(causal: str, kv_heads: int, batch: int):
    q, k, v = (
        normal(batch, 5, 16),
        normal(batch, 5, 4 * kv_heads, seed=1),
        normal(batch, 5, 4 * kv_heads, seed=2),
    )
    operator = f"coda.attention {{head_dim = 4 : i64, causal = {causal}}}"
    (result,) = run_operator(operator, q, k, v, results=type_of(q))
    expected = F.scaled_dot_product_attention(
        heads_of(q, 4), heads_of(k, 4), heads_of(v, 4), is_causal=causal == "true", enable_gqa=True
    )
    assert_results_close([result], [expected.transpose(1, 2).flatten(-2)], 1e-14)


def test_attention_of_fewer_queries_than_keys_is_aligned_at_the_last():
    q, k, v = normal(2, 3, 8), normal(2, 5, 8, seed=1), normal(2, 5, 8, seed=2)
    operator = "coda.attention {head_dim = 4 : i64, causal = true}"
    (result,) = run_operator(operator, q, k, v, results=type_of(q))
    whole = torch.cat([normal(2, 2, 8, seed=3), q], 1)
    (expected,) = run_operator(operator, whole, k, v, results=type_of(whole))
    assert_results_close([result], [expected[:, 2:]], 1e-14)


def test_attention_without_a_batch_dimension():
    q, k, v = normal(5, 8), normal(5, 8, seed=1), normal(5, 8, seed=2)
    operator = "coda.attention {head_dim = 4 : i64, causal = true}"
    (flat,) = run_operator(operator, q, k, v, results=type_of(q))
    batched = [x[None] for x in (q, k, v)]
    (expected,) = run_operator(operator, *batched, results=type_of(batched[0]))
    assert_results_close([flat], [expected[0]], 1e-15)


def test_attention_scale_and_softcap():
    q, k, v = normal(1, 3, 4), normal(1, 5, 4, seed=1), normal(1, 5, 4, seed=2)
    properties = "head_dim = 4 : i64, causal = false, scale = 0.7 : f64, softcap = 2.0 : f64"
    operator = f"coda.attention {{{properties}}}"
    (result,) = run_operator(operator, q, k, v, results=type_of(q))
    scores = 2 * torch.tanh(0.7 * q @ k.transpose(-1, -2) / 2)
    assert_results_close([result], [torch.softmax(scores, -1) @ v], 1e-14)


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_cross_entropy(reduction: str):
    logits = normal(M, D)
    target = torch.tensor([3, -7, 0, 7, -7])
    result_type = f"tensor<{M}xf32>" if reduction == "none" else "tensor<f32>"
    operator = f'coda.cross_entropy {{ignore_index = -7 : i64, reduction = "{reduction}"}}'
    (result,) = run_operator(operator, logits, target, results=result_type, precision="float64")
    chosen = torch.logsumexp(logits, -1) - logits[torch.arange(M), target.clamp(min=0)]
    losses = torch.where(target == -7, 0.0, chosen)
    expected = {"none": losses, "sum": losses.sum(), "mean": losses.sum() / 3}[reduction]
    assert_results_close([result], [expected], 1e-14)


def test_embedding_takes_rows():
    table, ids = normal(6, D), torch.tensor([[5, 0], [1, 1]], dtype=torch.int32)
    (result,) = run_operator("coda.embedding", ids, table, results=f"tensor<2x2x{D}xf64>")
    assert torch.equal(result, table[ids.long()])


def test_tables_may_end_before_the_padding_row():
    module = parse("""
      func.func @f(%i : tensor<2xi32>, %t : tensor<?x8xf64>, %dy : tensor<2x8xf64>)
          -> (tensor<2x8xf64>, tensor<?x8xf64>) {
        %y = coda.embedding %i, %t {padding_idx = 1 : i64} :
            (tensor<2xi32>, tensor<?x8xf64>) -> tensor<2x8xf64>
        %d = coda.embedding_grad %i, %dy, %t {padding_idx = 1 : i64} :
            (tensor<2xi32>, tensor<2x8xf64>, tensor<?x8xf64>) -> tensor<?x8xf64>
        func.return %y, %d : tensor<2x8xf64>, tensor<?x8xf64>
      }
    """)
    table, ones = normal(1, D), torch.ones(2, D, dtype=torch.float64)
    result, gradient = run_module(module, [torch.zeros(2, dtype=torch.int32), table, ones])
    assert torch.equal(result, table.expand(2, D))
    assert torch.equal(gradient, torch.full_like(table, 2.0))


def test_shape_operators():
    x = normal(2, 3, 4)
    (result,) = run_operator("coda.reshape", x, results="tensor<6x4xf64>")
    assert torch.equal(result, x.reshape(6, 4))
    perm = "coda.transpose {perm = [2, 0, 1]}"
    (result,) = run_operator(perm, x, results="tensor<4x2x3xf64>")
    assert torch.equal(result, x.permute(2, 0, 1))
    part = "coda.slice {dim = 2 : i64, start = 1 : i64, stop = 3 : i64}"
    (result,) = run_operator(part, x, results="tensor<2x3x2xf64>")
    assert torch.equal(result, x[..., 1:3])
    (result,) = run_operator("coda.concat {dim = 1 : i64}", x, x + 1, results="tensor<2x6x4xf64>")
    assert torch.equal(result, torch.cat([x, x + 1], 1))


def test_cast_rounds_to_nearest_even():
    x = torch.tensor([1 + 2**-8, 1 + 3 * 2**-8, 1e-40, 3.4e38])
    (result,) = run_operator("coda.cast", x, results="tensor<4xbf16>")
    assert torch.equal(result, x.to(torch.bfloat16))
    (result,) = run_operator("coda.cast", x, results="tensor<4xbf16>", precision="float64")
    assert torch.equal(result, x.double())


SPECIAL = torch.tensor([[0.0, -0.0, torch.nan, torch.inf], [-torch.inf, 1e38, -3e38, 1e-45]])


@pytest.mark.parametrize("operator", [*UNARY, *POSITIVE])
def test_special_values_of_unary(operator: str):
    (result,) = run_operator(operator, SPECIAL, results=type_of(SPECIAL))
    expected = (UNARY | POSITIVE)[operator](SPECIAL)
    if operator == "coda.gelu":
        # F.gelu(inf) is NaN on CPUs and inf on GPUs.
        expected[torch.inf == SPECIAL] = torch.inf
    torch.testing.assert_close(result, expected, equal_nan=True)


@pytest.mark.parametrize("operator", BINARY)
def test_special_values_of_binary(operator: str):
    flat = SPECIAL.flatten()
    x, y = flat[:, None].expand(8, 8).contiguous(), flat[None].expand(8, 8).contiguous()
    (result,) = run_operator(operator, x, y, results=type_of(x))
    torch.testing.assert_close(result, BINARY[operator](x, y), equal_nan=True)


@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf, 1e30, 3e38])
def test_special_values_of_norms(value: float):
    x = normal(M, D, dtype=torch.bfloat16)
    x[1, 2] = value
    weight = normal(D, dtype=torch.bfloat16, seed=1)
    operator = "coda.rms_norm {eps = 1.0e-6 : f64}"
    (result,) = run_operator(operator, x, weight, results=type_of(x))
    torch.testing.assert_close(result, F.rms_norm(x, (D,), weight, 1e-6), equal_nan=True)
    (result,) = run_operator("coda.softmax", x, results=type_of(x))
    torch.testing.assert_close(result, torch.softmax(x, -1), equal_nan=True)


def test_a_range_outside_of_a_symbolic_dimension_is_an_error():
    module = parse("fn f(x: f32[M, N]) {\n    return x[:, 5]\n}")
    (y,) = run_module(module, [torch.arange(12.0).reshape(2, 6)])
    assert torch.equal(y.float(), torch.tensor([5.0, 11.0]))
    message = r"coda\.slice at <text>:2:13: dimension 1 has 3 elements, expected at least 6"
    with pytest.raises(IndexOutOfRangeError, match=message):
        run_module(module, [torch.ones(2, 3)])


def test_a_maximum_of_no_elements_is_an_error():
    module = parse("fn f(x: f32[M, N]) {\n    return max(x)\n}")
    with pytest.raises(NoElementsError, match=r"coda\.reduce at <text>:2:12: .* has no value"):
        run_module(module, [torch.ones(2, 0)])
