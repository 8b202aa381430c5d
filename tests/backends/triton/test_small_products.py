"""Products of batches of small matrices: the kernel compared with float64."""

from typing import Any, cast

import pytest
import torch

import coda_ir

pytestmark = pytest.mark.any_device

FACTORS = {
    "dense": ("T, 5, 4", "T, 4, 33", "a @ b"),
    "transposed": (
        "T, 4, 5",
        "T, 33, 4",
        "transpose(a, [0, 1, 3, 2]) @ transpose(b, [0, 1, 3, 2])",
    ),
    "deep": ("T, 5, 300", "T, 4, 300", "a @ transpose(b, [0, 1, 3, 2])"),
    "high": ("T, 70, 3", "T, 3, 9", "a @ b"),
    "parts": ("T, 5, 9", "T, 6, 20", "a[:, :, :, 2:6] @ b[:, :, 1:5]"),
    "permuted": ("5, 7, 4", "4, 7, 33", "transpose(a, [0, 2, 1, 3]) @ transpose(b, [0, 2, 1, 3])"),
}


@pytest.mark.slow
@pytest.mark.parametrize("factors", FACTORS)
def test_matrices(factors: str) -> None:
    *shapes, product = FACTORS[factors]
    a, b = (torch.randn(3, *eval(f"({shape.replace('T', '7')})")).bfloat16() for shape in shapes)
    text = f"fn f(a: bf16[B, {shapes[0]}], b: bf16[B, {shapes[1]}]) {{ return {product} }}"
    function = cast(Any, coda_ir.compile(text, device="cpu"))
    assert "def products(" in function.source and "matmul" not in function.source
    places = {"a": a.double(), "b": b.double(), "transpose": torch.permute}
    torch.testing.assert_close(function(a, b), eval(product, places).bfloat16())


def test_matrices_without_contiguous_lines_are_copied() -> None:
    product = "transpose(a, [0, 3, 1, 2]) @ b"
    text = f"fn f(a: bf16[B, 5, 40, 3], b: bf16[B, 3, 40, 6]) {{ return {product} }}"
    function = cast(Any, coda_ir.compile(text, device="cpu"))
    a, b = torch.randn(2, 5, 40, 3).bfloat16(), torch.randn(2, 3, 40, 6).bfloat16()
    exact = a.double().permute(0, 3, 1, 2) @ b.double()
    torch.testing.assert_close(function(a, b), exact.bfloat16())
    copy, multiplication = function.kernels
    assert copy.startswith("copy") and multiplication.startswith("products")


@pytest.mark.parametrize(("rows", "most"), [(2, 4096), (8, 512)])
def test_deep_sums_are_left_to_the_library(rows: int, most: int) -> None:
    text = "fn f(a: bf16[B, {1}, {0}], b: bf16[B, {0}, {1}]) {{ return a @ b }}"
    sources = [
        cast(Any, coda_ir.compile(text.format(k, rows), device="cpu")).source
        for k in (most, most + 8)
    ]
    assert ["def products(" in source for source in sources] == [True, False]
