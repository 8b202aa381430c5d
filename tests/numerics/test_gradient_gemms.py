"""The GEMMs of backward passes are as accurate as eager PyTorch's, for any number of rows."""

from functools import cache

import pytest
import torch

import coda_ir
from coda_ir.api import CompiledFunction
from coda_ir.devices import default_device
from coda_ir.float64 import relative_error

N, K = 40, 24
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}


@cache
def backward(
    dtype: str, schedule: str | None = None, numerics: str | None = None
) -> CompiledFunction:
    """The gradients of two linear maps of one x: those of x, of both weights and of a bias."""
    dz, x = f"tensor<?x{N}x{dtype}>", f"tensor<?x{K}x{dtype}>"
    w = f"tensor<{N}x{K}x{dtype}>"
    columns, rows = f'{{coda.dims = ["M", {N}]}}', f'{{coda.dims = ["M", {K}]}}'
    program = f"""
func.func @backward(%dy: {dz} {columns}, %dz: {dz} {columns}, %x: {x} {rows}, %w: {w}, %v: {w})
    -> ({x}, {w}, {w}, tensor<{K}x{dtype}>) {{
  %a = coda.matmul %dy, %w : ({dz}, {w}) -> {x}
  %b = coda.matmul %dz, %v : ({dz}, {w}) -> {x}
  %dx = coda.add %a, %b : ({x}, {x}) -> {x}
  %dw = coda.weight_gradient %dy, %x : ({dz}, {x}) -> {w}
  %dv = coda.weight_gradient %dz, %x : ({dz}, {x}) -> {w}
  %dbias = coda.sum_to %dx : ({x}) -> tensor<{K}x{dtype}>
  func.return %dx, %dw, %dv, %dbias : {x}, {w}, {w}, tensor<{K}x{dtype}>
}}"""
    return coda_ir.compile(program, schedule=schedule, numerics=numerics)


def draw(dtype: str, rows: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(rows)
    shapes = ((rows, N), (rows, N), (rows, K), (N, K), (N, K))
    return [
        torch.randn(shape, generator=generator).to(default_device(), DTYPES[dtype])
        for shape in shapes
    ]


def by_torch(
    dy: torch.Tensor, dz: torch.Tensor, x: torch.Tensor, w: torch.Tensor, v: torch.Tensor
) -> tuple[torch.Tensor, ...]:
    dx = dy @ w + dz @ v
    return dx, dy.T @ x, dz.T @ x, dx.sum(0)


@pytest.mark.parametrize("rows", [1, 3, 127, 1000])
@pytest.mark.parametrize("dtype", DTYPES)
def test_errors_are_those_of_eager(dtype: str, rows: int):
    arguments = draw(dtype, rows)
    exact = by_torch(*(argument.double() for argument in arguments))
    eager, ours = by_torch(*arguments), backward(dtype)(*arguments)
    for name, wanted, other, actual in zip(
        ("dx", "dw", "dv", "dbias"), exact, eager, ours, strict=True
    ):
        allowed = 1.25 * relative_error(other, wanted)
        assert relative_error(actual, wanted) <= allowed, name


@pytest.mark.parametrize(("dtype", "depth"), [("f32", 16), ("bf16", 64)])
def test_bits_do_not_depend_on_the_schedule(dtype: str, depth: int):
    arguments = draw(dtype, 150)
    first, second = (
        backward(dtype, f"target=interpreter tile=64x{bn}x{depth}", "deterministic")
        for bn in (64, 256)
    )
    expected = first.reference(arguments, level="scheduled", precision="stated")
    for one, other, wanted in zip(first(*arguments), second(*arguments), expected, strict=True):
        assert torch.equal(one, other)
        assert default_device().type == "cuda" or torch.equal(one, wanted)


def test_gradients_of_no_rows_are_zero():
    empty, weight = torch.zeros(0, N, device=default_device()), torch.zeros(N, K)
    x, weight = torch.zeros(0, K, device=default_device()), weight.to(default_device())
    dx, dw, dv, dbias = backward("f32")(empty, empty, x, weight, weight)
    assert dx.shape == (0, K)
    assert not dw.any() and not dv.any() and not dbias.any()
