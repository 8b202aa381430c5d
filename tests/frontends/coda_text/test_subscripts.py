"""Subscripts, by the numbers that PyTorch gives for the same text."""

import re

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
    "reshape(x[0], [-1])[1::2]",
    "reshape(x[1], [-1])[3:-1:8]",
    "table[:T]",
    "table[T:]",
    "(2 * x)[..., :8] + silu(x)[..., 8:]",
    "-x[..., 0:1]",
    "table[ids]",
    "table[ids - 4]",
    "table[reshape(ids, [2, 2])]",
    "x[ids[1:]]",
    "x[:, ids]",
    "x[..., ids]",
    "x[1:, ids, ::2]",
    "x[:, -1, ids]",
    "x[0, :, ids]",
    "x[..., ids, 3]",
    "x[:, cast(ids, i32)][..., 0]",
]


@pytest.mark.slow
@pytest.mark.parametrize("target", ["reference", "triton"])
@pytest.mark.parametrize("text", SUBSCRIPTS)
def test_subscripts_are_those_of_pytorch(text: str, target: Target):
    program = f"fn f(_x: f32[B, T, 16], _table: f32[P, 8], _ids: i64[4]) {{ return {text} }}"
    for name in ("x", "table", "ids"):
        used = re.search(rf"\b{name}\b", text)
        program = program.replace(f"_{name}:", f"{name}:") if used else program
    x, table, ids = torch.randn(3, 5, 16), torch.randn(9, 8), torch.tensor([0, 2, 1, 1])
    values = {"x": x, "table": table, "ids": ids, "T": 5, "silu": torch.nn.functional.silu}
    functions = {"reshape": torch.reshape, "cast": torch.Tensor.to, "i32": torch.int32}
    result = coda_ir.compile(program, target=target)(x, table, ids)
    torch.testing.assert_close(result, eval(text, values | functions))


def test_gradient_of_parts():
    program = "fn f(x: f32[B, T, 16]) { return silu(x[..., ::2]) * x[..., 1::2] + x[:, :, 0:8] }"
    x, d = torch.randn(2, 3, 16, requires_grad=True), torch.randn(2, 3, 8)
    expected = torch.nn.functional.silu(x[..., ::2]) * x[..., 1::2] + x[:, :, 0:8]
    found = coda_ir.compile(program, training=True)(x)
    torch.testing.assert_close(
        torch.autograd.grad(found, x, d), torch.autograd.grad(expected, x, d)
    )


def test_gradient_of_named_rows():
    """Rows that are named several times get the sum of their gradients."""
    program = "fn f(x: f32[B, 16], ids: i64[4]) { return silu(x)[ids] * x[:, 0:8][ids, 0:1] }"
    x, d = torch.randn(3, 16, requires_grad=True), torch.randn(4, 16)
    ids = torch.tensor([0, 2, 1, 1])
    expected = torch.nn.functional.silu(x)[ids] * x[:, 0:8][ids, 0:1]
    found = coda_ir.compile(program, training=True)(x, ids)
    torch.testing.assert_close(
        torch.autograd.grad(found, x, d), torch.autograd.grad(expected, x, d)
    )
