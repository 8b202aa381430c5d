"""Subscripts, by the numbers that PyTorch gives for the same text."""

import pytest
import torch

import coda_ir
from coda_ir.options import Target

SUBSCRIPTS = [
    "x[:, 0:4]",
    "x[..., -4:]",
    "x[..., 1::2]",
    "x[0:2]",
    "x[:, -1]",
    "x[:, -2]",
    "x[:, 1:-1]",
    "x[:, :-1, 2:6][..., 0]",
    "x[0:2, 1:, ::4]",
    "x[1, ..., 3]",
    "x[...]",
    "x[:, T - 1]",
    "x[:, :T - 1]",
    "x[..., 3:11:3]",
    "table[:T]",
    "table[T:]",
    "(2 * x)[..., :8] + silu(x)[..., 8:]",
    "-x[..., 0:1]",
]


@pytest.mark.parametrize("target", ["reference", "triton"])
@pytest.mark.parametrize("text", SUBSCRIPTS)
def test_subscripts_are_those_of_pytorch(text: str, target: Target):
    program = f"fn f(x: f32[B, T, 16], _table: f32[P, 8]) {{ return {text} }}"
    program = program.replace("_table", "table") if "table" in text else program
    x, table = torch.randn(3, 5, 16), torch.randn(9, 8)
    values = {"x": x, "table": table, "T": 5, "silu": torch.nn.functional.silu}
    result = coda_ir.compile(program, target=target)(x, table)
    torch.testing.assert_close(result, eval(text, values))


def test_gradient_of_parts():
    program = "fn f(x: f32[B, T, 16]) { return silu(x[..., ::2]) * x[..., 1::2] + x[:, :, 0:8] }"
    x, d = torch.randn(2, 3, 16, requires_grad=True), torch.randn(2, 3, 8)
    expected = torch.nn.functional.silu(x[..., ::2]) * x[..., 1::2] + x[:, :, 0:8]
    found = coda_ir.compile(program, training=True)(x)
    torch.testing.assert_close(
        torch.autograd.grad(found, x, d), torch.autograd.grad(expected, x, d)
    )
