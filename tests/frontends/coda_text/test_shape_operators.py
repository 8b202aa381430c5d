"""Operators on shapes, gates and groups, by the numbers of PyTorch."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F

import coda_ir
from coda_ir.options import Target

Tensors = tuple[torch.Tensor, ...]

CASES: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor | Tensors]] = {
    "chunk(x, 4)": lambda x, w: x.chunk(4, -1),
    "chunk(w, 2, dim=0)": lambda x, w: w.chunk(2, 0),
    "broadcast(w, [B, T, 16])": lambda x, w: w.expand(3, 5, 16),
    "broadcast(sum(x), [B, T, 2])": lambda x, w: x.sum(-1, keepdim=True).expand(3, 5, 2),
    "pad(x, 3)": lambda x, w: F.pad(x, (3, 0)),
    "pad(x, 3, 1, dim=1, value=0.5)": lambda x, w: F.pad(x, (0, 0, 3, 1), value=0.5),
    "pad(x, 2, dim=1)[:, :T] + x": lambda x, w: F.pad(x, (0, 0, 2, 0))[:, :5] + x,
    "layer_norm(x, w, w, group=16)": lambda x, w: F.layer_norm(
        x.reshape(3, 5, 4, 16), (16,), w, w
    ).flatten(2),
    "layer_norm(x, group=64)": lambda x, w: F.layer_norm(x, (64,)),
    "glu(x, adjacent=true)": lambda x, w: F.silu(x[..., ::2]) * x[..., 1::2],
    'glu(x, activation="gelu", adjacent=true)': lambda x, w: F.gelu(x[..., ::2]) * x[..., 1::2],
    'activate(x, "gelu_tanh")': lambda x, w: F.gelu(x, approximate="tanh"),
    'activate(x, "identity")': lambda x, w: x,
    "sum(x, dim=1)": lambda x, w: x.sum(1, keepdim=True),
    "softmax(x, 0) * max(x, dim=0)": lambda x, w: x.softmax(0) * x.amax(0, keepdim=True),
    "mean(x, dim=1) @ transpose(x)": lambda x, w: x.mean(1, keepdim=True) @ x.transpose(1, 2),
}


@pytest.mark.slow
@pytest.mark.parametrize("target", ["reference", "triton"])
@pytest.mark.parametrize("text", CASES)
def test_operators_are_those_of_pytorch(text: str, target: Target):
    program = f"fn f(x: f32[B, T, 64], w: f32[16]) {{ return {text} }}"
    x, w = torch.randn(3, 5, 64), torch.randn(16)
    result = coda_ir.compile(program, target=target)(x, w)
    torch.testing.assert_close(result, CASES[text](x, w))


def test_gradients():
    program = """
    fn f(x: f32[B, T, 64], w: f32[16]) {
        y = silu(x)
        return pad(y, 2, dim=1)[:, :T] * layer_norm(y, w, group=16)
    }
    """
    x, w = torch.randn(3, 5, 64, requires_grad=True), torch.randn(16, requires_grad=True)
    y = F.silu(x)
    normalized = F.layer_norm(y.reshape(3, 5, 4, 16), (16,), w).flatten(2)
    expected = F.pad(y, (0, 0, 2, 0))[:, :5] * normalized
    found = coda_ir.compile(program, training=True)(x, w)
    d = torch.randn(3, 5, 64)
    torch.testing.assert_close(
        torch.autograd.grad(found, (x, w), d),
        torch.autograd.grad(expected, (x, w), d),
        rtol=1e-4,
        atol=1e-4,
    )


def test_adjacent_gates_run_in_the_epilogue_of_the_gemm():
    program = "fn f(x: f32[M, 64], w: f32[128, 64]) { return glu(linear(x, w), adjacent=true) }"
    x, w = torch.randn(24, 64, requires_grad=True), torch.randn(128, 64, requires_grad=True)
    compiled = coda_ir.compile(program)
    assert not [remark for remark in compiled.remarks if remark.pass_name == "report-unfused"]
    h = x @ w.T
    expected = F.silu(h[..., ::2]) * h[..., 1::2]
    torch.testing.assert_close(
        compiled(x.detach(), w.detach()), expected.detach(), rtol=1e-4, atol=1e-3
    )
    found, d = coda_ir.compile(program, training=True)(x, w), torch.randn(24, 64)
    torch.testing.assert_close(
        torch.autograd.grad(found, (x, w), d),
        torch.autograd.grad(expected, (x, w), d),
        rtol=1e-3,
        atol=1e-2,
    )
