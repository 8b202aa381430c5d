"""Softmax where a tile has whole rows: in epilogues of GEMMs and in pointwise kernels."""

from typing import Literal, TypeAlias

import pytest
import torch
import torch.nn.functional as F
from support.device import DEVICE, on_device
from support.kernel_steps import kernel_steps
from torch import Tensor

import coda_ir
from coda_ir.frontends.coda_text import parse_text

pytestmark = pytest.mark.any_device

Target: TypeAlias = Literal["triton", "reference"]

MODES = ("fp32-epilogue", "eager-exact", "deterministic")


def draw(*shape: int, scale: float = 1.0) -> Tensor:
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.randn(shape, generator=generator) * scale


def run(text: str, *inputs: Tensor, target: Target = "triton", numerics: str | None = None):
    function = coda_ir.compile(text, target=target, device=DEVICE, numerics=numerics)
    return on_device(function)(*inputs)


def classifier(columns: int) -> str:
    return f"""fn f(x: f32[B, T, 32], w: f32[{columns}, 32]) {{
        return softmax(linear(x, w))
    }}"""


@pytest.mark.parametrize(
    ("columns", "steps"),
    [
        *((2, "fused"), (8, "fused"), (60, "fused map")),
        *((144, "fused map"), (256, "fused"), (257, "fused map")),
    ],
)
def test_rows_of_a_gemm(columns: int, steps: str):
    """A tile has rows of up to 256 columns, of which some may take more lanes than columns. The
    schedule runs the softmax as a kernel where it pads many, as 144 columns to 256.
    """
    text = classifier(columns)
    x, w = draw(3, 7, 32), draw(columns, 32)
    assert kernel_steps(parse_text(text, "a.coda")) == {"f": steps}
    exact = F.linear(x.double(), w.double()).softmax(-1)
    torch.testing.assert_close(run(text, x, w).double(), exact, rtol=2e-5, atol=1e-9)


@pytest.mark.parametrize("numerics", MODES)
def test_modes(numerics: str):
    """Every mode, in the epilogue and after a call."""
    text = """fn f(x: bf16[M, 32], w: bf16[12, 32]) {
        top, ids = topk(softmax(linear(x, w)), 5)
        return cast(softmax(3 * cast(top, f32)), bf16), ids
    }"""
    x, w = draw(9, 32).bfloat16(), draw(12, 32, scale=0.3).bfloat16()
    gates, ids = run(text, x, w, numerics=numerics)
    top = F.linear(x.double(), w.double()).softmax(-1).gather(-1, ids)
    exact = (3 * top).softmax(-1)
    assert ((gates.double() - exact).abs() <= 2**-7 * exact).all()
    assert (gates.diff() <= 0).all()


def test_rows_without_numbers():
    """As in PyTorch: 0 for -inf, and NaN in rows of -inf alone, or with +inf or NaN."""
    text = """fn f(x: f32[M, 4], w: f32[3, 4], bias: f32[M, 3]) {
        return softmax(linear(x, w) + bias), softmax(bias)
    }"""
    inf, nan = torch.inf, torch.nan
    bias = torch.tensor([[0.0, 1, -inf], [-inf, -inf, -inf], [1, inf, 0], [1, nan, 0]])
    expected = bias.softmax(-1)
    for found in run(text, torch.zeros(4, 4), draw(3, 4), bias):
        torch.testing.assert_close(found, expected, equal_nan=True)


def test_large_scores():
    """The largest score is subtracted before a power is taken of any."""
    x = draw(5, 32, scale=50.0)
    w = draw(8, 32, scale=5.0)
    exact = F.linear(x.double(), w.double()).softmax(-1)
    found = run(classifier(8), x[None], w)[0].double()
    assert found.isfinite().all()
    torch.testing.assert_close(found, exact, rtol=1e-2, atol=1e-6)


def test_gradient():
    """The derivative is that of PyTorch, where both passes run in tiles."""
    text = """fn f(x: f32[M, 32], w: f32[12, 32], v: f32[24, 12]) {
        return linear(softmax(linear(x, w)), v)
    }"""
    inputs = [draw(9, 32), draw(12, 32, scale=0.2), draw(24, 12)]
    dy = draw(9, 24)
    function = on_device(coda_ir.compile(text, device=DEVICE, training=True))
    ours = [x.clone().requires_grad_() for x in inputs]
    found = torch.autograd.grad(function(*ours), ours, dy)
    exact = [x.double().requires_grad_() for x in inputs]
    y = F.linear(F.linear(exact[0], exact[1]).softmax(-1), exact[2])
    expected = torch.autograd.grad(y, exact, dy.double())
    for mine, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(mine.double(), theirs, rtol=1e-4, atol=1e-5)
