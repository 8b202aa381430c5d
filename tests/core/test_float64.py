"""The exact side of comparisons: PyTorch computing in float64."""

import pytest
import torch

from coda_ir.float64 import computing_in_float64, grouped_mm

OFFSETS = torch.tensor([3, 3, 8], dtype=torch.int32)


@pytest.mark.parametrize(
    ("a", "b"),
    [((8, 16), (3, 16, 32)), ((3, 16, 32), (32, 8)), ((16, 8), (8, 32)), ((3, 16, 8), (3, 8, 32))],
    ids=["rows", "columns", "sums", "batch"],
)
def test_grouped_products_are_those_of_pytorch(a: tuple[int, ...], b: tuple[int, ...]):
    x, y = torch.randn(a).bfloat16(), torch.randn(b).bfloat16()
    offsets = None if len(a) == len(b) == 3 else OFFSETS
    found = grouped_mm(x.double(), y.double(), offsets)
    wanted = torch.ops.aten._grouped_mm.default(x, y, offsets)
    torch.testing.assert_close(found.bfloat16(), wanted, rtol=0.01, atol=0.01)


def test_gradients_of_grouped_products():
    x, y = torch.randn(8, 4), torch.randn(3, 4, 5)
    wide = [x.double().requires_grad_(), y.double().requires_grad_()]
    upstream = torch.randn(8, 5).double()
    with computing_in_float64():
        result = torch.ops.aten._grouped_mm.default(*wide, OFFSETS)
        gradients = torch.autograd.grad(result, wide, upstream)
    parts = zip([slice(0, 3), slice(3, 3), slice(3, 8)], wide[1], strict=True)
    wanted = torch.autograd.grad(torch.cat([wide[0][s] @ w for s, w in parts]), wide, upstream)
    torch.testing.assert_close(gradients, wanted)
