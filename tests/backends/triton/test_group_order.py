"""The kernels that sort rows by the number of their group: a stable sort, and its counts."""

from typing import Any, cast

import pytest
import torch
from support.kernel_harness import parse_module

from coda_ir.api import compile
from coda_ir.backends.triton.aot import compile_kernels
from coda_ir.backends.triton.group_order_kernels import group_count_kernel, group_order_kernel
from coda_ir.dialects.coda import GroupOrderOp

pytestmark = pytest.mark.any_device


def program(rows: int | str, groups: int, type: str = "i64") -> str:
    types = f"(tensor<{rows}x{type}>) -> (tensor<{rows}xi64>, tensor<{groups}xi32>)"
    return f"""
func.func @f(%ids: tensor<{rows}x{type}>) -> (tensor<{rows}xi64>, tensor<{groups}xi32>) {{
  %order, %ends = coda.group_order %ids {{groups = {groups} : i64}} : {types}
  func.return %order, %ends : tensor<{rows}xi64>, tensor<{groups}xi32>
}}
"""


def check(ids: torch.Tensor, groups: int, *, is_static: bool, type: str = "i64") -> None:
    function: Any = compile(program(len(ids) if is_static else "?", groups, type), device="cpu")
    order, ends = cast(tuple[torch.Tensor, torch.Tensor], function(ids))
    assert torch.equal(order, ids.sort(stable=True).indices)
    counts = torch.bincount(ids.long(), minlength=groups)
    assert torch.equal(ends, counts.cumsum(0).to(torch.int32))


@pytest.mark.parametrize("is_static", [True, False])
@pytest.mark.parametrize(("rows", "groups"), [(1, 4), (8, 128), (1024, 5), (2500, 300)])
def test_order_and_ends(rows: int, groups: int, is_static: bool) -> None:
    check(torch.randint(0, groups, (rows,)), groups, is_static=is_static)


@pytest.mark.parametrize("type", ["i32", "i16"])
def test_narrow_numbers(type: str) -> None:
    dtype = {"i32": torch.int32, "i16": torch.int16}[type]
    check(torch.randint(0, 6, (70,)).to(dtype), 6, is_static=True, type=type)


def test_empty_groups_and_one_with_all_rows() -> None:
    check(torch.full((1500,), 3), 7, is_static=False)


@pytest.mark.parametrize("architecture", ["sm_80", "sm_90", "sm_100", "gfx942"])
def test_compiled_ahead(architecture: str) -> None:
    (op,) = [op for op in parse_module(program("?", 128)).walk() if isinstance(op, GroupOrderOp)]
    kernels = [
        group_count_kernel(op, "count", 1024),
        group_order_kernel(op, "order", 1024, is_alone=False),
        group_order_kernel(op, "alone", 16, is_alone=True),
    ]
    for kernel in compile_kernels(kernels, architecture):
        assert kernel.resources.fits and not kernel.resources.spills
