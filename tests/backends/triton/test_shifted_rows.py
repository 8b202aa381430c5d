"""Shifted rows and columns of weights, which kernels read where they are."""

import pytest
import torch
import torch.nn.functional as F

import coda_ir
from coda_ir.float64 import relative_error

CONVOLUTION = """
fn f(h: bf16[B, T, 96], weight w: bf16[32, 1, 4], weight b: bf16[32]) {
    _, x, z = chunk(h, 3)
    return silu(conv1d(x, w, b, groups=32, causal=true)) * z
}
"""

COPIED = """
fn f(x: bf16[B, T, 32], w: bf16[48, 32]) {
    return linear(shift(x, BY), w)
}
"""


def convolution(h: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    _, x, z = h.chunk(3, -1)
    y = F.conv1d(F.pad(x.transpose(1, 2), (3, 0)), w, b, groups=32)
    return F.silu(y.transpose(1, 2)) * z


@pytest.mark.parametrize("length", [1, 2, 5, 130])
def test_a_causal_convolution_is_one_kernel_without_copies(length: int):
    program = coda_ir.compile(CONVOLUTION, device="cpu")
    values = [torch.randn(3, length, 96), torch.randn(32, 1, 4), torch.randn(32)]
    given = [value.bfloat16() for value in values]
    exact = convolution(*(value.double() for value in given))
    assert relative_error(program(*given), exact) <= 1.1 * relative_error(
        convolution(*given), exact
    )
    assert len(program.kernels) == 1
    body = program.source.partition("def run(")[2]
    assert "shifted(" not in body and "dense_" not in body and "torch.cat" not in body


@pytest.mark.parametrize("rows", ["T", "5"])
@pytest.mark.parametrize("by", [0, 1, -2, 7])
def test_a_gemm_takes_a_copy(by: int, rows: str):
    text = COPIED.replace("BY", str(by)).replace("T,", f"{rows},")
    program = coda_ir.compile(text, device="cpu")
    x, w = torch.randn(2, 5, 32).bfloat16(), torch.randn(48, 32).bfloat16()
    moved = torch.zeros_like(x)
    for t in range(5):
        if 0 <= t - by < 5:
            moved[:, t] = x[:, t - by]
    torch.testing.assert_close(program(x, w), F.linear(moved, w), rtol=2e-2, atol=2e-2)
    assert program.kernels == (("gemm",) if rows == "T" else ("shift", "gemm"))


NARROW = """
fn f(x: TYPE[B, T, 8], y: f32[B, T, 8]) {
    return y + cast(shift(x, BY), f32)
}
"""


@pytest.mark.parametrize("by", [1, -2])
@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2, torch.int8], ids=str)
def test_narrow_rows_outside_are_zero(dtype: torch.dtype, by: int):
    names = {torch.float8_e4m3fn: "f8e4m3", torch.float8_e5m2: "f8e5m2", torch.int8: "i8"}
    text = NARROW.replace("TYPE", names[dtype]).replace("BY", str(by))
    program = coda_ir.compile(text, device="cpu")
    x, y = (4 * torch.randn(2, 5, 8)).to(dtype), torch.randn(2, 5, 8)
    outside = torch.zeros(2, abs(by), 8)
    wide = torch.cat((outside, x.float(), outside), 1)
    moved = wide[:, abs(by) - by : abs(by) - by + 5]
    torch.testing.assert_close(program(x, y), y + moved, rtol=0, atol=0)
