"""Gradients of biases of groups of rows, through kernels, against float64."""

from typing import Any

import pytest
import torch

from coda_ir.api import compile
from coda_ir.float64 import relative_error

PROGRAM = """
fn f(x: bf16[M, 64], weight w: bf16[4, {extents}], weight b: bf16[4, 48], ends: i32[4])
    -> bf16[M, 48] {{
    return silu({product}(x, w, ends, b))
}}
"""


@pytest.mark.slow
@pytest.mark.parametrize("ends", [[3, 3, 10, 23], [0, 0, 0, 5], [1, 2, 3, 4]])
@pytest.mark.parametrize("product", ["grouped_linear", "grouped_matmul"])
def test_gradients(product: str, ends: list[int]) -> None:
    is_linear = product == "grouped_linear"
    extents = (48, 64) if is_linear else (64, 48)
    text = PROGRAM.format(product=product, extents="{}, {}".format(*extents))
    function = compile(text, training=True, device="cpu")
    drawn = torch.randn(ends[-1], 64), 0.2 * torch.randn(4, *extents), torch.randn(4, 48)
    given = [x.bfloat16().requires_grad_() for x in drawn]
    upstream = torch.randn(ends[-1], 48).bfloat16()
    result: Any = function(*given, torch.tensor(ends, dtype=torch.int32))
    result.backward(upstream)
    x, w, b = exact = [x.detach().double().requires_grad_() for x in given]
    rows = [
        x[first:end] @ (w[group].T if is_linear else w[group]) + b[group]
        for group, (first, end) in enumerate(zip([0, *ends], ends, strict=False))
    ]
    expected: Any = torch.nn.functional.silu(torch.cat(rows))
    expected.backward(upstream.double())
    assert relative_error(result.detach(), expected.detach()) < 4e-3
    for mine, theirs in zip(given, exact, strict=True):
        assert mine.grad is not None and theirs.grad is not None
        assert relative_error(mine.grad, theirs.grad) < 6e-3
