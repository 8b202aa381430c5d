"""The equivalence check sees what a wrong pass would do."""

import pytest
import torch
from support.equivalence import assert_equivalent
from support.inputs import random_inputs
from support.programs import parse_mlir
from xdsl.dialects.func import FuncOp

from coda_ir.float64 import relative_error

NORM = """
func.func @f(%x : tensor<?x8xbf16> {coda.dims = ["M", 8]}, %w : tensor<8xbf16>)
    -> tensor<?x8xbf16> {
  %y = coda.rms_norm %x, %w {eps = EPS : f64}
    : (tensor<?x8xbf16>, tensor<8xbf16>) -> tensor<?x8xbf16>
  func.return %y : tensor<?x8xbf16>
}"""

LOSS = """
func.func @f(
    %h : tensor<?x8xbf16> {coda.dims = ["M", 8]},
    %w : tensor<11x8xbf16> {coda.weight},
    %t : tensor<?xi64> {coda.dims = ["M"]},
    %ids : tensor<?xi32> {coda.dims = ["M"]},
    %cos : tensor<?x2xf32> {coda.dims = ["M", 2]},
    %sin : tensor<?x2xf32> {coda.dims = ["M", 2]}
) -> tensor<f32> {
  %e = coda.embedding %ids, %w : (tensor<?xi32>, tensor<11x8xbf16>) -> tensor<?x8xbf16>
  %r = coda.rope %h, %cos, %sin {head_dim = 4 : i64, layout = "interleaved"}
    : (tensor<?x8xbf16>, tensor<?x2xf32>, tensor<?x2xf32>) -> tensor<?x8xbf16>
  %s = coda.add %e, %r : (tensor<?x8xbf16>, tensor<?x8xbf16>) -> tensor<?x8xbf16>
  %l = coda.linear %s, %w : (tensor<?x8xbf16>, tensor<11x8xbf16>) -> tensor<?x11xbf16>
  %c = coda.cross_entropy %l, %t {ignore_index = -100 : i64, reduction = "mean"}
    : (tensor<?x11xbf16>, tensor<?xi64>) -> tensor<f32>
  func.return %c : tensor<f32>
}"""


def norm(eps: str):
    return parse_mlir(NORM.replace("EPS", eps))


def test_equal_programs():
    assert_equivalent(norm("1.0e-6"), norm("1.0e-6"), dims={"M": 7})


def test_a_lost_eps_shows():
    with pytest.raises(AssertionError, match="result 0"):
        assert_equivalent(norm("1.0e-6"), norm("0.0"), dims={"M": 7})


def test_inputs_are_plausible():
    (function,) = [op for op in parse_mlir(LOSS).ops if isinstance(op, FuncOp)]
    hidden, weight, target, ids, cos, sin = random_inputs(function, {"M": 50}, seed=1)
    assert hidden.shape == (50, 8)
    assert hidden.dtype == weight.dtype == torch.bfloat16
    assert weight.double().std() < 0.5
    assert {int(index) for index in target} <= {-100, *range(11)}
    assert -100 in target
    assert ids.dtype == torch.int32
    assert 0 <= int(ids.min()) <= int(ids.max()) < 11
    torch.testing.assert_close(cos**2 + sin**2, torch.ones(50, 2))


def test_inputs_depend_on_the_seed_only():
    (function,) = [op for op in parse_mlir(LOSS).ops if isinstance(op, FuncOp)]
    first, again, other = (random_inputs(function, seed=seed) for seed in (1, 1, 2))
    assert all(map(torch.equal, first, again))
    assert not torch.equal(first[1], other[1])


def test_relative_error_of_special_values():
    nan, inf = torch.nan, torch.inf
    x = torch.tensor([1.0, nan, inf, -inf])
    assert relative_error(x, x) == 0
    assert relative_error(torch.tensor([1.0, nan, inf, inf]), x) == inf
    assert relative_error(torch.tensor([1.0, 1.0, inf, -inf]), x) == inf
    assert relative_error(torch.tensor([nan, nan, inf, -inf]), x) == inf
    assert relative_error(torch.tensor([1.5]), torch.tensor([1.0])) == 0.5
