"""Adaptive norms: scale, shift and gate of each sample fuse, whatever sizes are known."""

from collections import Counter

import pytest
import torch
import torch.nn.functional as F

import coda_ir
from coda_ir.api import parse
from coda_ir.context import make_context
from coda_ir.float64 import relative_error
from coda_ir.passes.pipelines.coda_to_gemm import CodaToGemmPass
from coda_ir.remarks import collect_remarks

DIT = """
fn block(
    x: E[B, T, 64], y: E[B, T, 64], shift: E[B, 1, 64], scale: E[B, 1, 64], gate: E[B, 1, 64],
    weight wo: E[64, 64], weight w: E[96, 64],
) {
    x1 = x + gate * linear(y, wo)
    h = layer_norm(x1) * (1 + scale) + shift
    return x1, linear(h, w)
}
"""
SD3 = """
fn block(
    x: E[B, T, 64], y: E[B, T, 64], shift: E[B, 1, 64], scale: E[B, 1, 64], gate: E[B, 1, 1],
    weight wo: E[64, 64], weight w: E[96, 64],
) {
    x1 = linear(y, wo) * tanh(gate) + x
    h = shift + rms_norm(x1) * (scale + 1)
    return x1, linear(h, w)
}
"""
PROGRAMS = {"dit": DIT, "sd3": SD3}
SIZES = {
    "symbolic": {},
    "static batch": {"B": 3},
    "static length": {"T": 37},
    "static": {"B": 3, "T": 37},
}
TYPES = {"bf16": torch.bfloat16, "f32": torch.float32}


def text_of(program: str, sizes: str, dtype: str) -> str:
    text = PROGRAMS[program].replace("E[", f"{dtype}[")
    for symbol, size in SIZES[sizes].items():
        text = text.replace(f"[{symbol},", f"[{size},").replace(f", {symbol},", f", {size},")
    return text


def exact(program: str, arguments: list[torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
    x, y, shift, scale, gate, wo, w = (value.double() for value in arguments)
    if program == "dit":
        x1 = x + gate * (y @ wo.T)
        h = F.layer_norm(x1, (64,)) * (1 + scale) + shift
    else:
        x1 = y @ wo.T * gate.tanh() + x
        h = F.rms_norm(x1, (64,), eps=1e-6) * (1 + scale) + shift
    return x1, h @ w.T


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("mode", ["fp32-epilogue", "eager-exact"])
def test_emitted_programs_agree_with_float64(program: str, sizes: str, dtype: str, mode: str):
    generator = torch.Generator().manual_seed(len(sizes))
    shapes = [(3, 37, 64)] * 2 + [(3, 1, 64)] * 2
    shapes += [(3, 1, 64 if program == "dit" else 1), (64, 64), (96, 64)]
    arguments = [torch.randn(shape, generator=generator).to(TYPES[dtype]) for shape in shapes]
    arguments[-2:] = [weight / 8 for weight in arguments[-2:]]
    run = coda_ir.compile(text_of(program, sizes, dtype), target="triton", numerics=mode)
    for got, wanted in zip(run(*arguments), exact(program, arguments), strict=True):
        assert relative_error(got, wanted) < (1e-6 if dtype == "f32" else 0.01)


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("sizes", SIZES)
def test_gates_scales_and_shifts_take_no_kernels(program: str, sizes: str):
    """Two GEMMs, the statistics, and the one kernel that normalizes, scales and shifts."""
    module = parse(text_of(program, sizes, "bf16"))
    with collect_remarks() as remarks:
        CodaToGemmPass().apply(make_context(), module)
    kernels = Counter(op.name for op in module.walk() if op.name.startswith("gemm."))
    assert (kernels["gemm.fused"], kernels["gemm.finalize"], kernels["gemm.map"]) == (2, 1, 1)
    assert not [op.name for op in module.walk() if op.name.startswith("coda.")]
    assert not [remark for remark in remarks if "broadcasts along" in remark.message]
