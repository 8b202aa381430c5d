"""The kernel of the largest elements of short rows: PyTorch's values, and the lowest of equal
columns.
"""

from typing import Any, cast

import pytest
import torch
from support.kernel_harness import parse_module

from coda_ir.api import compile
from coda_ir.backends.triton.aot import compile_kernels
from coda_ir.backends.triton.topk_kernel import topk_kernel
from coda_ir.dialects.coda import TopkOp

pytestmark = pytest.mark.any_device

TYPES = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}


def largest(x: torch.Tensor, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    type = next(name for name, dtype in TYPES.items() if dtype == x.dtype)
    columns = x.shape[-1]
    text = f"fn f(x: {type}[M, {columns}]) {{ v, i = topk(x, {k})\n return v, i }}"
    function = cast(Any, compile(text, device="cpu"))
    assert "topk.default" not in function.source
    return function(x)


@pytest.mark.parametrize("type", TYPES)
@pytest.mark.parametrize(("columns", "k"), [(128, 8), (5, 2), (8, 8), (1, 1), (300, 16)])
def test_values(columns: int, k: int, type: str) -> None:
    x = torch.randn(37, columns).to(TYPES[type])
    values, ids = largest(x, k)
    assert torch.equal(values, x.topk(k).values)
    assert torch.equal(x.gather(1, ids), values)
    assert (ids.sort().values.diff() > 0).all()


def test_an_only_row_counts_larger_elements() -> None:
    text = "fn f(x: f32[1, 128]) { v, i = topk(x, 8)\n return v, i }"
    function = cast(Any, compile(text, device="cpu"))
    x = torch.randint(-9, 9, (1, 128)).float()
    values, ids = function(x)
    assert "larger" in function.source
    assert torch.equal(values, x.topk(8).values) and torch.equal(
        ids, x.sort(stable=True, descending=True).indices[:, :8]
    )


def test_equal_elements_are_taken_from_the_left() -> None:
    x = torch.tensor([[1.0, 2, 2, 0, 2], [0, 0, 0, 0, 0]])
    _, ids = largest(x, 3)
    assert torch.equal(ids, torch.tensor([[1, 2, 4], [0, 1, 2]]))
    wide = torch.randint(-2, 2, (3, 200)).float()
    wide[0, 7], wide[1] = torch.nan, -torch.inf
    _, ids = largest(wide, 9)
    assert torch.equal(ids, wide.sort(stable=True, descending=True).indices[:, :9])


@pytest.mark.parametrize(("rows", "columns"), [(1, 128), (2, 5), (3, 200)])
def test_zeros_of_both_signs_are_equal(rows: int, columns: int) -> None:
    x = torch.tensor([-0.0, 0.0, -1.0]).repeat(columns)[:columns].repeat(rows, 1)
    _, ids = largest(x, 3)
    assert torch.equal(ids, torch.tensor([[0, 1, 3]]).expand(rows, 3))


def test_nan_is_the_largest_and_infinity_next() -> None:
    nan, inf = torch.nan, torch.inf
    x = torch.tensor([[-inf, nan, inf, -0.0, 3], [-inf, -inf, -inf, -inf, -1], [-nan, 1, 2, 3, 4]])
    values, ids = largest(x, 5)
    assert torch.equal(values.nan_to_num(99), x.topk(5).values.nan_to_num(99))
    assert torch.equal(ids[:, 0], torch.tensor([1, 4, 0]))


@pytest.mark.parametrize("architecture", ["sm_80", "sm_90", "sm_100", "gfx942"])
def test_compiled_ahead(architecture: str) -> None:
    types = "(tensor<?x128xf32>) -> (tensor<?x8xf32>, tensor<?x8xi64>)"
    module = parse_module(f"""
func.func @f(%x: tensor<?x128xf32>) -> (tensor<?x8xf32>, tensor<?x8xi64>) {{
  %v, %i = coda.topk %x {{k = 8 : i64, dim = 1 : i64}} : {types}
  func.return %v, %i : tensor<?x8xf32>, tensor<?x8xi64>
}}
""")
    (op,) = [op for op in module.walk() if isinstance(op, TopkOp)]
    (kernel,) = compile_kernels([topk_kernel(op, "topk")], architecture)
    assert kernel.resources.fits and not kernel.resources.spills
