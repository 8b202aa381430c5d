"""Results with one element for each group of columns: emitted kernels against PyTorch."""

from typing import Literal, TypeAlias

import pytest
import torch
import torch.nn.functional as F
from support.device import DEVICE, on_device
from torch import Tensor

import coda_ir

pytestmark = pytest.mark.any_device

Target: TypeAlias = Literal["triton", "reference"]

TARGETS: tuple[Target, ...] = ("triton", "reference")

QUANTIZED = """
epilogue quantized(acc, shift: table) -> (q: tile<i8>, scale: group<G>, y: tile) {
    y = acc + shift
    scale = group_max(abs(y), group=G) / 127
    q = cast(y / scale, i8, rounding="nearest_even", saturate=true)
}
"""


def draw(*shape: int) -> Tensor:
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.randn(shape, generator=generator)


def run(text: str, target: Target, *inputs: Tensor, numerics: str | None = None) -> list[Tensor]:
    function = coda_ir.compile(text, target=target, device=DEVICE, numerics=numerics)
    results = on_device(function)(*inputs)
    return [results] if isinstance(results, Tensor) else list(results)


def assert_quantized(q: Tensor, scale: Tensor, y: Tensor, group: int) -> None:
    """`scale` is that of the groups of `y`, and `q` is the nearest integer to each element."""
    groups = y.reshape(*y.shape[:-1], -1, group).double()
    torch.testing.assert_close(scale.double(), groups.abs().amax(-1) / 127, rtol=1e-5, atol=0)
    exact = groups / scale.double()[..., None]
    assert (q.reshape(groups.shape).double() - exact).abs().max() <= 0.5 + 1e-3
    assert q.dtype == torch.int8 and scale.dtype == torch.float32


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("columns", "group"), [(128, 128), (192, 64), (320, 32), (96, 48), (144, 24), (130, 2)]
)
def test_scales_of_columns(columns: int, group: int, target: Target):
    """Groups that fill tiles, leave some of the last tile, and take more lanes than columns."""
    text = f"""const G = {group}{QUANTIZED}
    fn f(x: f32[B, T, 32], w: f32[{columns}, 32], shift: f32[B, 1, {columns}]) {{
        q, scale, y = quantized(linear(x, w), shift)
        return q, scale, y
    }}"""
    x, w, shift = draw(3, 7, 32), draw(columns, 32), draw(3, 1, columns)
    q, scale, y = run(text, target, x, w, shift)
    torch.testing.assert_close(y, F.linear(x, w) + shift, rtol=1e-5, atol=1e-4)
    assert_quantized(q, scale, y, group)


@pytest.mark.parametrize("target", TARGETS)
def test_scales_of_pairs(target: Target):
    """A group of 64 columns has 32 pairs, which are 32 columns of the gated result."""
    text = """epilogue gated(g, u) -> (q: half<i8>, scale: group<64>, y: half) {
        y = silu(g) * u
        scale = group_max(abs(y), group=64) / 127
        q = cast(y / scale, i8, rounding="nearest_even", saturate=true)
    }
    fn f(x: f32[M, 32], w: f32[96, 32], v: f32[96, 32]) {
        q, scale, y = gated(linear(x, w), linear(x, v))
        return q, scale, y
    }"""
    x, w, v = draw(7, 32), draw(96, 32), draw(96, 32) + 0.5
    q, scale, y = run(text, target, x, w, v)
    torch.testing.assert_close(y, F.silu(F.linear(x, w)) * F.linear(x, v), rtol=1e-5, atol=1e-4)
    assert_quantized(q, scale, y, 32)


@pytest.mark.parametrize("target", TARGETS)
def test_scales_of_a_pointwise_kernel(target: Target):
    text = """epilogue quantized(x: tile) -> (q: tile<i8>, scale: group<40>) {
        scale = group_max(abs(x), group=40) / 127
        q = cast(x / scale, i8, rounding="nearest_even", saturate=true)
    }
    fn f(x: f32[M, 600]) {
        q, scale = quantized(x)
        return q, scale
    }"""
    x = draw(9, 600)
    q, scale = run(text, target, x)
    assert_quantized(q, scale, x, 40)


@pytest.mark.parametrize("target", TARGETS)
def test_scales_of_rows_in_several_tiles(target: Target):
    """The pointwise kernel after the GEMM stores what it scales each row by: for the caller, and
    for another GEMM.
    """
    text = """fn f(x: f32[M, 32], w: f32[1100, 32], v: f32[24, 1100]) {
        y = linear(x, w)
        scale = max(abs(y)) / 127
        q = cast(y / scale, i8, rounding="nearest_even", saturate=true)
        return q, scale, y, linear(cast(q, f32), v) * scale
    }"""
    x, w, v = draw(9, 32), draw(1100, 32), draw(24, 1100)
    q, scale, y, z = run(text, target, x, w, v)
    assert_quantized(q, scale, y, 1100)
    torch.testing.assert_close(z, F.linear(q * scale, v), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("target", TARGETS)
def test_zeros_and_nan(target: Target):
    """A scale of 0 makes 0 of 0, NaN is the scale of its group and no other, infinity is one."""
    text = f"""const G = 32{QUANTIZED}
    fn f(x: f32[M, 64], w: f32[64, 64], shift: f32[M, 64]) {{
        q, scale, y = quantized(linear(x, w), shift)
        return q, scale, y
    }}"""
    x, w = draw(4, 64), torch.eye(64)
    x[0, :32] = 0.0
    shift = torch.zeros(4, 64)
    shift[1, 40], shift[2, 3] = float("nan"), float("inf")
    q, scale, y = run(text, target, x, w, shift)
    assert (scale[0, 0], q[0, :32].any()) == (0.0, False)
    assert [bool(x) for x in scale[1].isnan()] == [False, True] and not q[1, 32:].any()
    assert [bool(x) for x in scale[2].isinf()] == [True, False] and not q[2, :32].any()
    assert_quantized(q[3:], scale[3:], y[3:], 32)


@pytest.mark.parametrize("target", TARGETS)
def test_after_a_deferred_norm(target: Target):
    """The accumulator that the epilogue quantizes is scaled by the statistics of its row first."""
    text = f"""const G = 64{QUANTIZED}
    fn f(x: f32[M, 32], v: f32[64, 32], n: f32[64], w: f32[128, 64], shift: f32[1, 128]) {{
        h = rms_norm(linear(x, v), n, eps=1e-5)
        q, scale, y = quantized(linear(h, w), shift)
        return q, scale, y
    }}"""
    x, v, n, w, shift = draw(7, 32), draw(64, 32), draw(64), draw(128, 64) / 8, draw(1, 128)
    q, scale, y = run(text, target, x, v, n, w, shift)
    h = F.rms_norm(F.linear(x.double(), v.double()), (64,), n.double(), 1e-5)
    torch.testing.assert_close(y.double(), F.linear(h, w.double()) + shift, rtol=1e-4, atol=1e-4)
    assert_quantized(q, scale, y, 64)
    remarks = coda_ir.compile(text, target=target, device=DEVICE).remarks
    assert any(r.pass_name == "defer-norms" and r.kind == "passed" for r in remarks)


def test_deterministic_order():
    text = f"""const G = 64{QUANTIZED}
    fn f(x: f32[M, 32], w: f32[128, 32], shift: f32[1, 128]) {{
        q, scale, y = quantized(linear(x, w), shift)
        return q, scale, y
    }}"""
    x, w, shift = draw(7, 32), draw(128, 32), draw(1, 128)
    q, scale, y = run(text, "triton", x, w, shift, numerics="deterministic")
    assert_quantized(q, scale, y, 64)
