"""Operands with one element for each group of columns: emitted kernels against float64."""

import re
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from support.compiled_kernels import compiled
from support.kernel_harness import (
    assert_rounded,
    function_of,
    gemms_of_func,
    parse_module,
    run_kernel,
)
from support.kernel_steps import kernel_steps
from torch import Tensor

import coda_ir
from coda_ir.backends.triton.gemm_kernel import emit_gemm
from coda_ir.backends.triton.names import NameAllocator
from coda_ir.context import make_context
from coda_ir.float64 import relative_error
from coda_ir.frontends.coda_text import parse_text
from coda_ir.passes.pipelines.differentiate import DifferentiatePass

SCHEDULES = {
    "pointer": 'pointer, "32x64x32", warps = 4, stages = 2, group_m = 2',
    "tma": 'tma, "64x64x64", warps = 4, stages = 2, group_m = 2',
    "warp_specialized": 'warp_specialized, "128x256x64", warps = 8, stages = 3, group_m = 2',
    "ping_pong": 'ping_pong, "128x128x64", warps = 8, stages = 4, group_m = 2',
}


def draw(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


def scaled(schedule: str, columns: int, groups: int) -> str:
    """acc · scale + offset · gain: of each row, of each sample, and of all rows."""
    x, y, scale = (f"tensor<?x?x{n}xbf16>" for n in (72, columns, groups))
    offset, gain = f"tensor<?x1x{groups}xf32>", f"tensor<{groups}xf32>"
    return f"""
func.func @f(%x : {x}, %w : tensor<{columns}x72xbf16>, %scale : {scale},
             %offset : {offset}, %gain : {gain}) -> {y} {{
  %y = gemm.fused %x : {x} schedule<{schedule}> columns(%w : tensor<{columns}x72xbf16>)
      group(%scale : {scale}, %offset : {offset}, %gain : {gain}) -> (tile : {y}) {{
  ^epilogue(%acc : f32, %s : f32, %o : f32, %g : f32):
    %a = arith.mulf %acc, %s : f32
    %b = arith.mulf %o, %g : f32
    %c = arith.addf %a, %b : f32
    gemm.yield %c : f32
  }}
  func.return %y : {y}
}}
"""


COLUMNS = [(512, 2), (512, 4), (512, 16), (512, 256), (264, 11), (130, 26), (320, 5), (192, 1)]
"""Groups of several tiles, of one, of a part of one, across tiles, and of all columns."""


@pytest.mark.parametrize("schedule", SCHEDULES)
class TestKernels:
    @pytest.mark.slow
    @pytest.mark.parametrize(("columns", "groups"), COLUMNS)
    def test_elements_of_groups(self, schedule: str, columns: int, groups: int, tmp_path: Path):
        if columns == 130 and schedule != "pointer":
            pytest.skip("rows of 260 bytes")
        func = function_of(parse_module(scaled(SCHEDULES[schedule], columns, groups)))
        scale, offset, gain = draw(3, 29, groups), draw(3, 1, groups), draw(groups)
        x, w = draw(3, 29, 72).bfloat16(), draw(columns, 72).bfloat16()
        _, (y,) = run_kernel(func, [x, w, scale.bfloat16(), offset, gain], tmp_path)
        groups_of = (scale.bfloat16().double(), offset.double() * gain.double())
        a, b = (v.repeat_interleave(columns // groups, -1) for v in groups_of)
        (op,) = gemms_of_func(func)
        assert_rounded(op.results[0], y.double(), x.double() @ w.double().T * a + b)

    def test_one_load_for_a_row_of_a_tile(self, schedule: str):
        """A group of whole tiles has one element for the row of a tile."""
        (op,) = gemms_of_func(function_of(parse_module(scaled(SCHEDULES[schedule], 512, 2))))
        source = emit_gemm(op, NameAllocator()).source
        assert re.search(r"row\[:, None\] \* 2 \+ \(\w+ \* \d+ // 256\)$", source, re.MULTILINE)

    def test_kernels_compile_for_hopper_without_spills(self, schedule: str):
        compiled(scaled(SCHEDULES[schedule], 512, 4), "sm_90")


PAIRS = """
epilogue gated(g, u, scale: group, gate: half_group<32>) -> (y: half) {
    scale_g, scale_u = scale
    y = silu(g * scale_g) * (u * scale_u) * gate
}

fn f(x: bf16[B, T, 64], w: bf16[96, 64], scale: bf16[B, T, 6], gate: f32[B, 1, 3]) {
    return gated(pairs(linear(x, w)), scale, gate)
}
"""


def test_pairs_of_columns():
    """Each 16 of the 48 pairs have one gate, and each 16 columns one scale."""
    x, w = draw(3, 29, 64).bfloat16(), (draw(96, 64) / 8).bfloat16()
    scale, gate = draw(3, 29, 6).bfloat16(), draw(3, 1, 3)
    y = coda_ir.compile(PAIRS, target="triton")(x, w, scale, gate)
    scales, gates = (v.double().repeat_interleave(16, -1) for v in (scale, gate))
    g, u = (x.double() @ w.double().T * scales).chunk(2, -1)
    torch.testing.assert_close(y.double(), F.silu(g) * u * gates, rtol=2**-8, atol=1e-5)


RESULTS = """
epilogue rescaled(acc, scale: group<G>) -> (y: tile, largest: group<G>, same: group<G>) {
    y = acc * scale
    largest = group_max(abs(y), group=G) / scale
    same = 1 / scale
}

fn f(x: f32[M, 64], w: f32[6 * G, 64], scale: f32[M, 6]) {
    y, largest, same = rescaled(linear(x, w), scale)
    return y, largest, same
}
"""


@pytest.mark.parametrize("group", [16, 10, 24])
def test_results_of_groups(group: int):
    """Elements of a port are stored once for each group, which may fill only part of its lanes."""
    x, w, scale = draw(29, 64), draw(6 * group, 64), draw(29, 6)
    program = f"const G = {group}\n{RESULTS}"
    y, largest, same = coda_ir.compile(program, target="triton")(x, w, scale)
    exact = x.double() @ w.double().T * scale.double().repeat_interleave(group, -1)
    torch.testing.assert_close(y.double(), exact, rtol=1e-5, atol=1e-4)
    expected = exact.reshape(29, 6, group).abs().amax(-1) / scale.double()
    torch.testing.assert_close(largest.double(), expected, rtol=1e-5, atol=1e-4)
    torch.testing.assert_close(same, 1 / scale)


MAP = """
epilogue dequantized(q: tile<i8>, scale: group<32>, zero: group) -> (y: tile<f32>) {
    y = (cast(q, f32) - zero) * scale
}

fn f(q: i8[M, 160], scale: f32[M, 5], zero: f32[10]) {
    return dequantized(q, scale, zero)
}
"""


def test_pointwise_kernel():
    q = torch.arange(-100, 60, dtype=torch.int8).expand(29, 160).contiguous()
    scale, zero = draw(29, 5), draw(10)
    y = coda_ir.compile(MAP, target="triton")(q, scale, zero)
    expected = (q - zero.repeat_interleave(16)) * scale.repeat_interleave(32, -1)
    torch.testing.assert_close(y, expected)


SCALED = "fn f(x: f32[M, 16], weight w: f32[32, 16], s: f32[M, 4]) {{ return {} }}"
CODE = {
    "groups": "reshape(reshape(linear(x, w), [M, 4, 8]) * reshape(s, [M, 4, 1]), [M, 32])",
    "repeated": "linear(x, w) * reshape(broadcast(reshape(s, [M, 4, 1]), [M, 4, 8]), [M, 32])",
    "alone": "exp(reshape(broadcast(reshape(s, [M, 4, 1]), [M, 4, 8]), [M, 32]))",
}


@pytest.mark.parametrize("name", CODE)
def test_what_repeats_is_no_tensor(name: str):
    """An epilogue loads the scale of a group where a program repeats it for each column."""
    program = SCALED.format(CODE[name])
    expected_steps = "map" if name == "alone" else "fused"
    assert kernel_steps(parse_text(program, "a.coda")) == {"f": expected_steps}
    x, w, s = draw(29, 16), draw(32, 16), draw(29, 4)
    y = coda_ir.compile(program, target="triton")(x, w, s)
    scales = s.double().repeat_interleave(8, -1)
    expected = scales.exp() if name == "alone" else x.double() @ w.double().T * scales
    torch.testing.assert_close(y.double(), expected, rtol=1e-5, atol=1e-4)


EXPERTS = """import "std/moe.coda"
fn f(x: bf16[B, T, 64], gates: bf16[B, T, 4], weight wg: bf16[128, 64], weight wu: bf16[128, 64],
     weight wd: bf16[64, 128]) {
    return dense_experts(x, gates, wg, wu, wd, experts=4, hidden=32)
}
"""


@pytest.mark.slow
def test_gradients_of_gates():
    """The gradient of the columns is in the epilogue of its GEMM, that of the gates a sum."""
    module = parse_text(EXPERTS, "a.coda")
    DifferentiatePass().apply(make_context(), module)
    steps = kernel_steps(module)
    assert steps["f_forward"] == "fused fused"
    assert steps["f_backward"] == "fused fused map finalize fused fused"
    shapes = ((2, 7, 64), (2, 7, 4), (128, 64), (128, 64), (64, 128))
    values = [(draw(*shape) / 4).bfloat16().requires_grad_() for shape in shapes]
    exact = [value.detach().double().requires_grad_() for value in values]
    x, gates, gate, up, down = exact
    hidden = F.silu(x @ gate.T) * (x @ up.T) * gates.repeat_interleave(32, -1)
    d = draw(2, 7, 64).bfloat16()
    expected = torch.autograd.grad(hidden @ down.T, exact, d.double())
    found = torch.autograd.grad(coda_ir.compile(EXPERTS, training=True)(*values), values, d)
    for gradient, other in zip(found, expected, strict=True):
        assert relative_error(gradient, other) <= 2**-7
