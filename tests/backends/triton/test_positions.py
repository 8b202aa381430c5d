"""Positions in kernels: computed where a tile, a row, a column or a table would be loaded."""

from collections.abc import Callable

import pytest
import torch
from support.emitted import run_guarded
from torch import Tensor

from coda_ir.backends.triton import emit_module
from coda_ir.context import make_context
from coda_ir.frontends.coda_text import parse_text
from coda_ir.pipeline import PassManager, parse_pipeline
from coda_ir.registry import get_all_passes

PIPELINE = "coda-to-gemm,schedule{target=interpreter},plan-buffers"
SIZES = [(2, 5), (1, 1), (3, 70)]
"""B and T."""


def source(text: str) -> str:
    module = parse_text(text, "f.coda")
    PassManager(parse_pipeline(PIPELINE, get_all_passes())).run(make_context(), module)
    return emit_module(module)


def numbers(n: int, start: int = 0, step: int = 1) -> Tensor:
    return start + step * torch.arange(n)


IN_KERNELS: dict[str, Callable[[Tensor], Tensor]] = {
    # Columns, rows, rows of each sample, samples; static and dynamic.
    "x + cast(arange(8), f32)": lambda x: x + numbers(8),
    "x + cast(arange(8, start=3, step=-2), f32)": lambda x: x + numbers(8, 3, -2),
    "x + cast(reshape(arange(T), [T, 1]), f32)": lambda x: x + numbers(x.shape[1])[:, None],
    "x * cast(reshape(arange(T, start=1), [1, T, 1]), f32)": lambda x: (
        x * numbers(x.shape[1], 1)[:, None]
    ),
    "x + cast(reshape(arange(B, step=4), [B, 1, 1]), f32)": lambda x: (
        x + numbers(x.shape[0], 0, 4)[:, None, None]
    ),
    "x + cast(arange(1, start=7), f32)": lambda x: x + 7,
    # What is computed from positions alone, and both dimensions at once.
    "where(le(arange(8), reshape(arange(T), [T, 1])), x, 0)": lambda x: torch.where(
        numbers(8) <= numbers(x.shape[1])[:, None], x, 0
    ),
    "x * cast(lt(arange(8, dtype=i32) * 2 - 5, 3), f32)": lambda x: x * (numbers(8) * 2 - 5 < 3),
}

FLAT: dict[str, Callable[[Tensor], Tensor]] = {
    # The number of columns of the domain is dynamic.
    "x + cast(arange(T), f32)": lambda x: x + numbers(x.shape[-1]),
    "x + cast(reshape(arange(M), [M, 1]), f32)": lambda x: x + numbers(x.shape[-2])[:, None],
    "where(le(arange(T), reshape(arange(M), [M, 1])), x, 0)": lambda x: torch.where(
        numbers(x.shape[-1]) <= numbers(x.shape[-2])[:, None], x, 0
    ),
    "x * column + row": lambda x: x * column_of(x) + row_of(x),
    "x * cast(reshape(arange(B), [B, 1, 1]), f32)": lambda x: (
        x * numbers(x.shape[0])[:, None, None]
    ),
    "x + sample": lambda x: x + sample_of(x),
}


def row_of(x: Tensor) -> Tensor:
    return torch.linspace(1, 2, x.shape[-1])


def column_of(x: Tensor) -> Tensor:
    return torch.linspace(3, 4, x.shape[-2])[:, None]


def sample_of(x: Tensor) -> Tensor:
    return torch.linspace(5, 6, x.shape[0] * x.shape[-1]).reshape(x.shape[0], 1, -1)


@pytest.mark.slow
@pytest.mark.parametrize(("b", "t"), SIZES)
@pytest.mark.parametrize("expression", IN_KERNELS)
def test_a_kernel_computes_them(expression: str, b: int, t: int):
    text = f"fn f(x: f32[B, T, 8]) {{\n    return {expression}\n}}"
    x = torch.randn(b, t, 8)
    module = source(text)
    (result,) = run_guarded(module, [x])
    torch.testing.assert_close(result, IN_KERNELS[expression](x))
    assert "torch.arange" not in module and module.count("@triton.jit") == module.count("[(") == 1


@pytest.mark.slow
@pytest.mark.parametrize("b", [1, 2])
@pytest.mark.parametrize(("m", "t"), [(5, 7), (1, 9), (6, 1), (40, 70)])
@pytest.mark.parametrize("expression", FLAT)
def test_over_a_dynamic_number_of_columns(expression: str, b: int, m: int, t: int):
    parameters = "x: f32[B, M, T], row: f32[T], column: f32[M, 1], sample: f32[B, 1, T]"
    text = f"fn f({parameters}) {{\n    return {expression} + 0 * (row + column + sample)\n}}"
    x = torch.randn(b, m, t)
    module = source(text)
    (result,) = run_guarded(module, [x, row_of(x), column_of(x), sample_of(x)])
    torch.testing.assert_close(result, FLAT[expression](x))
    assert "expand" not in module, "the kernel broadcasts"


def test_others_read_a_tensor():
    text = """
        fn f(x: f32[B, T, 8], table: f32[64, 8]) {
            return embedding(arange(T, start=2), table), x + cast(reshape(arange(T), [T, 1]), f32)
        }"""
    x, table = torch.randn(2, 5, 8), torch.randn(64, 8)
    rows, shifted = run_guarded(source(text), [x, table])
    torch.testing.assert_close(rows, table[2:7])
    torch.testing.assert_close(shifted, x + numbers(5)[:, None])


def test_they_are_results():
    text = "fn f(_x: f32[B, T, 8]) {\n    return reshape(arange(T, step=3), [T, 1]), arange(4)\n}"
    column, four = run_guarded(source(text), [torch.randn(2, 5, 8)])
    assert torch.equal(column, numbers(5, 0, 3)[:, None]) and torch.equal(four, numbers(4))
