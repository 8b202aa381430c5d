"""Extents as numbers: arguments of kernels, in epilogues, finalizes, pointwise code and calls."""

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim

import coda_ir
from coda_ir.frontends.torch.export import export
from coda_ir.options import Target

PROGRAM = """
epilogue share(acc, n: scalar<i64>) -> (y: tile) {
    y = acc / cast(n, f32)
}

fn halved(x: f32[R, C, 16]) {
    return x / (2 * C)
}

fn f(x: f32[B, T, 16], weight w: f32[24, 16]) {
    y = linear(x, w)
    shares = share(linear(x, w), cast(T, i64))
    return y / T, shares, sum(y) * B, halved(x), x - (B * T + 1), cast(B + T, f32), x > T
}
"""


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [(1, 1), (2, 5), (3, 17)])
@pytest.mark.parametrize("target", ["triton", "reference"])
def test_extents_are_numbers(sizes: tuple[int, int], target: Target):
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


class Shares(nn.Module):
    """Sizes as numbers, beside elements that are too narrow for them."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(16, 16, bias=False)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        y, positions = self.linear(x), x.shape[1]
        return y / positions, y.sum(1) / (positions * x.shape[0]), x * 1000 > positions


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_models_compute_with_sizes(dtype: torch.dtype):
    model, x = Shares().to(dtype), torch.randn(2, 1001, 16).to(dtype)
    dims = {"x": {0: Dim.DYNAMIC, 1: Dim.DYNAMIC}}
    exported = export(model, (x,), dynamic_shapes=dims)
    assert "torch.call" not in str(exported.module)
    found, exact = exported.compile()(x), model.double()(x.double())
    for value, wanted in zip(found, exact, strict=True):
        torch.testing.assert_close(value, wanted.to(value.dtype), rtol=2e-2, atol=1e-4)
