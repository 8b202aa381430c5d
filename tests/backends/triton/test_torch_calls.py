"""Calls of PyTorch inside a compiled program, between kernels."""

import pytest
import torch
from support.programs import parse_mlir

import coda_ir
from coda_ir.backends.reference import run_function
from coda_ir.diagnostics import CodaError

PROGRAM = """
func.func @f(%x: tensor<?x8xf32> {coda.name = "x", coda.dims = ["M", 8 : i64]},
             %w: tensor<8x8xf32> {coda.name = "w", coda.dims = [8 : i64, 8 : i64]})
    -> (tensor<?x8xf32>, tensor<?x4xf32>) {
  %a = coda.linear %x, %w : (tensor<?x8xf32>, tensor<8x8xf32>) -> tensor<?x8xf32>
  %sum = torch.call "aten.cumsum.default"(%a) {arguments = "{0}, 0"} : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %steps = torch.call "aten.arange.default"() {arguments = "M, dtype=torch.float32, device=device", coda.dims = ["M"]} : () -> tensor<?xf32>
  %column = coda.reshape %steps : (tensor<?xf32>) -> tensor<?x1xf32>
  %y = coda.mul %sum, %column : (tensor<?x8xf32>, tensor<?x1xf32>) -> tensor<?x8xf32>
  %left, %right = torch.call "aten.split.Tensor"(%y) {arguments = "{0}, 4, 1", view} : (tensor<?x8xf32>) -> (tensor<?x4xf32>, tensor<?x4xf32>)
  %z = coda.silu %right : (tensor<?x4xf32>) -> tensor<?x4xf32>
  %last = coda.linear %a, %w : (tensor<?x8xf32>, tensor<8x8xf32>) -> tensor<?x8xf32>
  func.return %last, %z : tensor<?x8xf32>, tensor<?x4xf32>
}
"""  # noqa: E501


def expected(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    a = x @ w.T
    y = a.cumsum(0) * torch.arange(len(x))[:, None]
    return a @ w.T, torch.nn.functional.silu(y[:, 4:])


@pytest.mark.parametrize("rows", [1, 5])
def test_program(rows: int):
    x, w = torch.randn(rows, 8, dtype=torch.float64), torch.randn(8, 8, dtype=torch.float64)
    wanted = expected(x, w)
    module = parse_mlir(PROGRAM)
    (func,) = module.ops
    for exact, result in zip(wanted, run_function(func, [x, w]), strict=True):  # pyright: ignore
        torch.testing.assert_close(result, exact, rtol=1e-12, atol=1e-12)
    compiled = coda_ir.compile(module, device="cpu")
    assert "torch.ops.aten.cumsum.default(" in compiled.source
    for exact, result in zip(wanted, compiled(x.float(), w.float()), strict=True):
        torch.testing.assert_close(result.double(), exact, rtol=1e-4, atol=1e-4)


def test_a_dimension_that_nothing_tells():
    text = PROGRAM.replace('"M, dtype', '"N, dtype').replace('coda.dims = ["M"]', "a")
    with pytest.raises(CodaError, match="the extent N cannot be told from the arguments"):
        coda_ir.compile(parse_mlir(text), device="cpu")


def test_an_operator_that_pytorch_does_not_have():
    module = parse_mlir(PROGRAM.replace("aten.cumsum.default", "aten.cum_sum.default"))
    (func,) = module.ops
    with pytest.raises(CodaError, match=r"PyTorch has no operator aten\.cum_sum\.default"):
        run_function(func, [torch.randn(2, 8), torch.randn(8, 8)])  # pyright: ignore
