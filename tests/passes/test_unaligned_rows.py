"""Logits of an odd vocabulary: results and gradients through kernels, and how rows are stored."""

from typing import Literal

import pytest
import torch

import coda_ir
from coda_ir.float64 import relative_error

LOGITS = """
fn logits(x: f32[2, 160, 16], weight norm: f32[16], weight w: f32[4099, 16]) -> f32[2, 160, 4099] {
    return linear(rms_norm(x, norm, eps=1e-5), w)
}
"""


def exact(*tensors: torch.Tensor) -> torch.Tensor:
    x, norm, w = (tensor.double() for tensor in tensors)
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-5) * norm @ w.T


def inputs() -> list[torch.Tensor]:
    shapes = (2, 160, 16), (16,), (4099, 16)
    return [torch.randn(shape, requires_grad=True) for shape in shapes]


@pytest.mark.slow
def test_results_are_dense():
    x, norm, w = inputs()
    with torch.no_grad():
        y = coda_ir.compile(LOGITS, target="triton")(x, norm, w)
    assert y.is_contiguous() and y.shape == (2, 160, 4099)
    assert relative_error(y, exact(x, norm, w)) < 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("target", ["triton", "reference"])
def test_gradients(target: Literal["triton", "reference"]):
    tensors = inputs()
    function = coda_ir.compile(LOGITS, training=True, target=target)
    y = function(*tensors)
    d_y = torch.randn_like(y)
    gradients = torch.autograd.grad(y, tensors, d_y)
    wide = [tensor.detach().double().requires_grad_() for tensor in tensors]
    expected = torch.autograd.grad(exact(*wide), wide, d_y.double())
    for gradient, expected_gradient in zip(gradients, expected, strict=True):
        assert gradient.is_contiguous()
        assert relative_error(gradient, expected_gradient) < 1e-5


@pytest.mark.slow
def test_each_product_that_reads_them_is_reported_once():
    text = LOGITS.replace("2, 160", "B, T")
    function = coda_ir.compile(text, training=True, device="cpu")
    function(*inputs()).sum().backward()
    found = [remark for remark in function.remarks if remark.pass_name == "pad-rows"]
    assert sorted(str(remark).partition("pad-rows: ")[2].partition(":")[0] for remark in found) == [
        "coda.matmul",
        "coda.weight_gradient",
    ]
