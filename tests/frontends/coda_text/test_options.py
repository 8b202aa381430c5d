"""Options: parameters of functions that are numbers, booleans or strings with a default."""

import torch
import torch.nn.functional as F

import coda_ir

MLP = """
fn f(x: f32[B, T, 64], w: f32[128, 64]) {
    return mlp(x, w), mlp(x, w, activation="gelu", eps=1, scale=2), causal(x, size=16, hidden=false)
}

fn mlp(x: f32[B, T, D], w: f32[N, D], eps=1e-5, activation="silu", scale=HALF) {
    return activate(linear(rms_norm(x, eps=eps), w), activation) * scale
}

fn causal(x: f32[B, T, count * size], size=32, count=4, hidden=true) {
    return attention(x, x, x, head_dim=size, causal=hidden)
}

const HALF = 0.5
"""


def reference(x: torch.Tensor) -> torch.Tensor:
    heads = x.reshape(2, 5, 4, 16).transpose(1, 2)
    return F.scaled_dot_product_attention(heads, heads, heads).transpose(1, 2).flatten(2)


def test_calls_state_options_or_take_defaults():
    x, w = torch.randn(2, 5, 64), torch.randn(128, 64) / 8
    found = coda_ir.compile(MLP)(x, w)
    plain = F.silu(F.rms_norm(x, (64,), eps=1e-5) @ w.T) / 2
    other = F.gelu(F.rms_norm(x, (64,), eps=1.0) @ w.T) * 2
    for result, expected in zip(found, (plain, other, reference(x)), strict=True):
        torch.testing.assert_close(result, expected, rtol=1e-4, atol=1e-4)


def test_a_function_by_itself_has_its_defaults():
    call = '"aten.topk.default({0}, columns)", x, dtype=f32, shape=[M, columns], positions=[0]'
    program = f"""
    fn scaled(x: f32[M, columns], columns=8, factor=0.25) {{
        return torch({call}) * factor
    }}
    """
    x = torch.randn(3, 8)
    torch.testing.assert_close(coda_ir.compile(program)(x), x.sort(-1, descending=True).values / 4)
