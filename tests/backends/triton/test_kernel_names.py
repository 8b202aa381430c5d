"""Names of kernels say what they do."""

import pytest

import coda_ir

NAMES = {
    "1 + n": "map_add",
    "1 - n": "map_sub",
    "2 * n": "map_mul",
    "n + m": "map_add",
    "n - m": "map_sub",
    "n * m": "map_mul",
    "n * n": "map_mul",
    "2 * n + m": "map_add",
    "gelu(n)": "map_gelu",
    "gelu_tanh(n)": "map_gelu_tanh",
    "n * silu(n)": "map_silu",
    "n * w": "map_scale",
    "n * (1 + w)": "map_scale",
    "n + w": "map_bias",
    "n * c": "map_row_scale",
    "linear(x, v) * (1 + w)": "gemm_scale",
    "linear(x, v) + w": "gemm_bias",
    "1 + linear(x, v)": "gemm",
    "n + linear(x, v)": "gemm_residual",
    "0.5 * n + linear(x, v)": "gemm_residual",
    "silu(linear(x, v)) * n": "gemm_gate_silu",
}


@pytest.mark.parametrize("body", NAMES)
def test_name(body: str):
    program = f"""fn f(n: f32[M, 64], m: f32[M, 64], w: f32[64], c: f32[M, 1], x: f32[M, 32],
        v: f32[64, 32]) {{ return {body} }}"""
    assert coda_ir.compile(program, device="cpu").kernels == (NAMES[body],)
