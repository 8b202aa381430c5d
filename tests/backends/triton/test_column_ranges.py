"""Pointwise kernels read ranges of the columns of a wider tensor where they are."""

import re

import pytest
import torch
import torch.nn.functional as F
from support.emitted import load_module

import coda_ir
from coda_ir.api import parse
from coda_ir.backends.triton import emit_module

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

PROGRAM = """
    func.func @f(%x : tensor<?x?xWxf32>, %y : tensor<?x?x24xf32>)
        -> (tensor<?x?x24xf32>, tensor<24xf32>, tensor<?x?x1xf32>) {
      %z = PRODUCER
      %part = coda.slice %z {dim = 2 : i64, start = START : i64, stop = STOP : i64}
        : (tensor<?x?xWxf32>) -> tensor<?x?x24xf32>
      %p, %sums, %rows = gemm.map tile(%part : tensor<?x?x24xf32>, %y : tensor<?x?x24xf32>)
          -> (tile : tensor<?x?x24xf32>, partial_col<add> : tensor<?x24xf32>,
              partial_row<add> : tensor<?x?x?xf32>) {
      ^bb0(%a : f32, %b : f32):
        %0 = arith.mulf %a, %b : f32
        gemm.yield %0, %0, %0 : f32, f32, f32
      }
      %s = gemm.finalize col (add %sums : tensor<?x24xf32>) -> (tensor<24xf32>) {
      ^bb0(%a : f32):
        gemm.yield %a : f32
      }
      %r = gemm.finalize row (add %rows : tensor<?x?x?xf32>) -> (tensor<?x?x1xf32>) {
      ^bb0(%a : f32):
        gemm.yield %a : f32
      }
      func.return %p, %s, %r : tensor<?x?x24xf32>, tensor<24xf32>, tensor<?x?x1xf32>
    }"""
RESULT = """gemm.map tile(%x : tensor<?x?xWxf32>) -> (tile : tensor<?x?xWxf32>) {
      ^bb0(%a : f32):
        gemm.yield %a : f32
      }"""


def emitted(producer: str, start: int, width: int) -> str:
    text = PROGRAM.replace("PRODUCER", producer) if producer else PROGRAM.replace("%z", "%x")
    if not producer:
        text = text.replace("      %x = PRODUCER\n", "")
    replaced = {"STOP": start + 24, "START": start, "xWx": f"x{width}x"}
    for name, value in replaced.items():
        text = text.replace(name, str(value))
    return emit_module(parse(text))


def check(source: str, width: int, start: int, *, is_strided: bool) -> None:
    torch.default_generator.manual_seed(start)
    x, y = torch.randn(3, 14, width), torch.randn(3, 14, 24)
    if is_strided:
        x = torch.randn(3, width, 14).transpose(1, 2)
    product = x[..., start : start + 24].double() * y
    results = load_module(source).run(x, y)
    sums = (product, product.sum((0, 1)), product.sum(-1, keepdim=True))
    for result, exact in zip(results, sums, strict=True):
        torch.testing.assert_close(result, exact.float(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("producer", ["", RESULT], ids=["argument", "result"])
def test_a_range_is_not_copied(producer: str):
    source = emitted(producer, 24, 72)
    assert "dense(part)" not in source
    assert "* 72 + column" in source
    # An argument of the caller may have any strides.
    check(source, 72, 24, is_strided=not producer)


@pytest.mark.parametrize(("start", "width"), [(3, 72), (24, 75)])
def test_rows_that_are_not_aligned_are_copied(start: int, width: int):
    source = emitted("", start, width)
    assert "\ndef copy(" in source
    check(source, width, start, is_strided=False)


SELECTIONS = """
fn f(x: f32[B, T, 512], g: f32[32], b: f32[32]) {
    q = reshape(VALUE, [B, T, 4, 2, 2, 32])
    first, second = q[:, :, :, 1, 0], q[:, :, 2, 0, 1]
    heads = reshape(q[:, :, :, 1, 1], [B * T, 4, 32])
    normal, centered = rms_norm(first, g), layer_norm(second, g, b)
    shares, total = softmax(heads), sum(second)
    apart = max(q[:, 1:, :, 0, 1])
    return silu(first), abs(heads), normal, centered, shares, total, logsumexp(first), apart
}
"""


def selections(x: torch.Tensor, g: torch.Tensor, b: torch.Tensor) -> list[torch.Tensor]:
    q = x.reshape(*x.shape[:2], 4, 2, 2, 32)
    first, second, heads = q[..., 1, 0, :], q[..., 2, 0, 1, :], q[..., 1, 1, :].flatten(0, 1)
    return [
        *(F.silu(first), heads.abs(), F.rms_norm(first, (32,), g, 1e-6)),
        *(F.layer_norm(second, (32,), g, b), heads.softmax(-1)),
        *(second.sum(-1, keepdim=True), first.logsumexp(-1, keepdim=True)),
        q[:, 1:, :, 0, 1].amax(-1, keepdim=True),
    ]


@pytest.mark.parametrize("value", ["x", "tanh(x)"])
def test_selected_positions_are_not_copied(value: str):
    """Heads, or one of several: their rows are a number of elements apart. Not those of some rows
    of each sample, whose samples are farther apart.
    """
    text = SELECTIONS.replace("VALUE", value)
    run = coda_ir.compile(text, device="cpu")
    x, g, b = torch.randn(2, 512, 5).transpose(1, 2), torch.randn(32), torch.randn(32)
    exact = selections((x.double() if value == "x" else x.double().tanh()), g.double(), b.double())
    for result, expected in zip(run(x, g, b), exact, strict=True):
        torch.testing.assert_close(result, expected.float(), rtol=1e-5, atol=1e-5)
    assert len(re.findall(r"^    dense_\w+ = ", run.source, re.MULTILINE)) == 1


PERMUTED = """
fn f(x: f32[2, POSITIONS, WIDTH], g: f32[COLUMNS], y: f32[6, 7, COLUMNS]) {
    q = transpose(reshape(VALUE, [2, POSITIONS, 3, COLUMNS]), [0, 2, 1, 3])
    parts = transpose(reshape(q[:, 1:], [2, 2, POSITIONS, COLUMNS]), [1, 2, 0, 3])
    transposed = silu(transpose(y, [1, 0, 2]))
    return silu(q), abs(parts) * g, rms_norm(q, g), sum(softmax(parts)), transposed
}
"""


def permuted(x: torch.Tensor, g: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
    q = x.reshape(2, 5, 3, len(g)).transpose(1, 2)
    parts = q[:, 1:].permute(1, 2, 0, 3)
    sums = parts.softmax(-1).sum(-1, keepdim=True)
    normal = F.rms_norm(q, (len(g),), g, 1e-6)
    return [F.silu(q), parts.abs() * g, normal, sums, F.silu(y.transpose(0, 1))]


@pytest.mark.parametrize(
    ("positions", "columns", "copies"),
    [("5", 16, 0), ("T", 16, 2), ("5", 4, 3)],
    ids=["static", "symbolic", "short"],
)
def test_permuted_rows_are_not_copied(positions: str, columns: int, copies: int):
    """Unless they are shorter than what a GPU moves at a time, or their strides are symbolic."""
    text = PERMUTED.replace("POSITIONS", positions).replace("VALUE", "tanh(x)")
    text = text.replace("COLUMNS", str(columns)).replace("WIDTH", str(3 * columns))
    run = coda_ir.compile(text, device="cpu")
    x, g = torch.randn(2, 5, 3 * columns), torch.randn(columns)
    y = torch.randn(6, 7, columns)
    exact = permuted(x.double().tanh(), g.double(), y.double())
    for result, expected in zip(run(x, g, y), exact, strict=True):
        torch.testing.assert_close(result, expected.float(), rtol=1e-5, atol=1e-5)
    assert len(re.findall(r"^def copy|^    dense_", run.source, re.MULTILINE)) == copies
