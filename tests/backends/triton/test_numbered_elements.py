"""The kernels of `gather`, `scatter` and `index` of a vector: PyTorch's results, bit for bit."""

from typing import Any, cast

import pytest
import torch

from coda_ir.api import compile
from coda_ir.diagnostics import CodaError

pytestmark = pytest.mark.any_device

TYPES = {"bf16": torch.bfloat16, "f32": torch.float32, "i64": torch.int64}


def run(text: str, *arguments: torch.Tensor) -> torch.Tensor:
    function = cast(Any, compile(text, device="cpu"))
    assert "aten" not in function.source
    return function(*arguments)


def tensor(type: str, *shape: int) -> torch.Tensor:
    return (torch.randn(shape) * 9).to(TYPES[type])


def numbers(rows: int, columns: int, count: int) -> torch.Tensor:
    """Return numbers of columns that differ in each row."""
    return torch.rand(rows, columns).argsort(1)[:, :count].contiguous()


@pytest.mark.parametrize("type", TYPES)
@pytest.mark.parametrize(("columns", "count"), [(16, 3), (300, 17), (5, 5), (1, 1)])
def test_rows(columns: int, count: int, type: str) -> None:
    x, ids, values = (
        tensor(type, 37, columns),
        numbers(37, columns, count),
        tensor(type, 37, count),
    )
    shapes = f"x: {type}[M, {columns}], i: i64[M, {count}]"
    assert torch.equal(run(f"fn f({shapes}) {{ return gather(x, i) }}", x, ids), x.gather(1, ids))
    text = f"fn f({shapes}, v: {type}[M, {count}]) {{ return scatter(x, i, v) }}"
    assert torch.equal(run(text, x, ids, values), x.scatter(1, ids, values))


FILLED = """
func.func @f(%like: tensor<?x8xf32>, %ids: tensor<?x2xi64>) -> tensor<?x8xf32> {
  %0 = coda.constant {value = 0.0 : f64} : tensor<f32>
  %1 = coda.constant {value = 1.5 : f64} : tensor<f32>
  %x = coda.broadcast %0, %like : (tensor<f32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  %v = coda.broadcast %1, %ids : (tensor<f32>, tensor<?x2xi64>) -> tensor<?x2xf32>
  %s = coda.scatter %x, %ids, %v {dim = 1 : i64}
      : (tensor<?x8xf32>, tensor<?x2xi64>, tensor<?x2xf32>) -> tensor<?x8xf32>
  func.return %s : tensor<?x8xf32>
}
"""


def test_numbers_in_the_code() -> None:
    ids = numbers(9, 8, 2)
    expected = torch.zeros(9, 8).scatter(1, ids, torch.full((9, 2), 1.5))
    assert torch.equal(run(FILLED, expected, ids), expected)


@pytest.mark.parametrize("rows", [1, 2500])
def test_vectors(rows: int) -> None:
    x, order = tensor("bf16", rows), torch.randperm(rows)
    ids = torch.randint(-rows, rows, (7,))
    text = "fn f(x: bf16[N], i: i64[M]) { return index(x, i) }"
    assert torch.equal(run(text, x, ids), x[ids])
    text = "fn f(x: bf16[N], i: i64[N], v: bf16[N]) { return scatter(x, i, v) }"
    assert torch.equal(run(text, x, order, x), torch.empty_like(x).scatter(0, order, x))


@pytest.mark.parametrize("wrong", [5, -1])
def test_a_wrong_number_is_an_error(wrong: int) -> None:
    ids = torch.tensor([[0, wrong]])
    function: Any = compile(
        "fn f(x: f32[M, 5], i: i64[M, 2]) { return gather(x, i) }", device="cpu"
    )
    with pytest.raises((CodaError, IndexError, RuntimeError)):
        function(torch.randn(1, 5), ids)
