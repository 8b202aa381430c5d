"""Extents as numbers: arguments of kernels, in epilogues, finalizes, pointwise code and calls."""

import pytest
import torch

import coda_ir

PROGRAM = """
epilogue share(acc, n: scalar<i64>) -> (y: tile) {
    y = acc / cast(n, f32)
}

fn halved(x: f32[R, C, 16]) {
    return x / (2 * C)
}

fn f(x: f32[B, T, 16], weight w: f32[24, 16]) {
    y = linear(x, w)
    return y / T, share(linear(x, w), cast(T, i64)), sum(y) * B, halved(x), x - (B * T + 1), cast(B + T, f32), x > T
}
"""


@pytest.mark.parametrize("sizes", [(1, 1), (2, 5), (3, 17)])
@pytest.mark.parametrize("target", ["triton", "reference"])
def test_extents_are_numbers(sizes: tuple[int, int], target: str):
    b, t = sizes
    x, w = torch.randn(b, t, 16), torch.randn(24, 16)
    found = coda_ir.compile(PROGRAM, target=target)(x, w)
    wide = x.double()
    y = wide @ w.double().T
    exact = (
        *(y / t, y / t, y.sum(-1, keepdim=True) * b, wide / (2 * t), wide - (b * t + 1)),
        *(torch.tensor(b + t), x > t),
    )
    for value, wanted in zip(found, exact, strict=True):
        torch.testing.assert_close(value.double(), wanted.double(), rtol=1e-4, atol=1e-4)
