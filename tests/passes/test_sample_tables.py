"""Adaptive norms: scale, shift and gate of each sample fuse, whatever sizes are known."""

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from xdsl.dialects.builtin import ModuleOp

import coda_ir
from coda_ir.api import parse
from coda_ir.context import make_context
from coda_ir.diagnostics import CodaError
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
LUMINA = """
fn block(
    x: E[B, T, 64], y: E[B, T, 64], shift: E[B, 1, 64], scale: E[B, 1, 64], gate: E[B, 1, 64],
    weight wo: E[64, 64], weight w: E[96, 64],
) {
    x1 = x + gate * linear(y, wo) + shift
    h = rms_norm(x1) * (1 + scale)
    return x1, linear(h, w)
}
"""
OWN = """
fn block(
    x: E[B, T, 64], y: E[B, T, 64], shift: E[B, 1, 64], scale: E[B, 1, 64], gate: E[B, 1, 64],
    weight wo: E[64, 64], weight w: E[96, 64], weight norm: E[64], weight bias: E[64],
) {
    x1 = x + gate * linear(y, wo)
    h = layer_norm(x1, norm, bias) * (1 + scale) + shift
    return x1, linear(h, w)
}
"""
ARGUMENT = """
fn block(
    x: E[B, T, 64], y: E[B, T, 64], shift: E[B, 1, 64], scale: E[B, 1, 64], gate: E[B, 1, 64],
    weight wo: E[64, 64], weight w: E[96, 64],
) {
    h = layer_norm(x) * (1 + scale) + shift
    return y * gate, linear(h, w)
}
"""
PROGRAMS = {"dit": DIT, "sd3": SD3, "lumina": LUMINA, "own": OWN, "argument": ARGUMENT}
KERNELS = {
    # GEMMs, finalizes, pointwise kernels, norms: apart, and where the norm moves past the GEMM.
    "dit": ((2, 0, 0, 0), (3, 1, 1, 0)),
    "sd3": ((2, 0, 0, 0), (2, 0, 0, 0)),
    "lumina": ((2, 1, 0, 0), (2, 1, 0, 0)),
    "own": ((2, 0, 0, 0), (3, 1, 2, 0)),
    "argument": ((1, 0, 2, 1), (1, 0, 2, 1)),
}
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


def computed(program: str, arguments: Sequence[torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
    """Return what PyTorch computes in the type of the arguments."""
    x, y, shift, scale, gate, wo, w, *own = arguments
    match program:
        case "dit" | "own":
            x1 = x + gate * (y @ wo.T)
            weight, bias = own or (None, None)
            h = F.layer_norm(x1, (64,), weight, bias) * (1 + scale) + shift
        case "sd3":
            x1 = y @ wo.T * gate.tanh() + x
            h = F.rms_norm(x1, (64,), eps=1e-6) * (1 + scale) + shift
        case "lumina":
            x1 = x + gate * (y @ wo.T) + shift
            h = F.rms_norm(x1, (64,), eps=1e-6) * (1 + scale)
        case _:
            x1 = y * gate
            h = F.layer_norm(x, (64,)) * (1 + scale) + shift
    return x1, h @ w.T


def arguments_of(program: str, dtype: str, seed: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    shapes = [(3, 37, 64)] * 2 + [(3, 1, 64)] * 2
    shapes += [(3, 1, 1 if program == "sd3" else 64), (64, 64), (96, 64)]
    shapes += [(64,), (64,)] if program == "own" else []
    arguments = [torch.randn(shape, generator=generator).to(TYPES[dtype]) for shape in shapes]
    arguments[5:7] = [weight / 8 for weight in arguments[5:7]]
    return arguments


def lowered(program: str, sizes: str, dtype: str, modulated: str) -> ModuleOp:
    module = parse(text_of(program, sizes, dtype))
    CodaToGemmPass(modulated_norms=modulated).apply(make_context(), module)
    return module


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("mode", ["fp32-epilogue", "eager-exact"])
def test_emitted_programs_agree_with_float64(program: str, sizes: str, dtype: str, mode: str):
    arguments = arguments_of(program, dtype, len(sizes))
    run = coda_ir.compile(text_of(program, sizes, dtype), target="triton", numerics=mode)
    exact = computed(program, [value.double() for value in arguments])
    for got, wanted in zip(run(*arguments), exact, strict=True):
        assert relative_error(got, wanted) < (1e-6 if dtype == "f32" else 0.01)


@pytest.mark.slow
@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("offset", [0.0, 4.0])
def test_deferred_norms_are_as_exact_as_eager(program: str, sizes: str, offset: float):
    """Also where the mean of a row is far from 0: what it adds to both products cancels."""
    arguments = arguments_of(program, "bf16", len(sizes))
    arguments[0] += offset
    run = coda_ir.compile(lowered(program, sizes, "bf16", "always"), target="triton")
    exact = computed(program, [value.double() for value in arguments])
    eager = computed(program, arguments)
    for got, wanted, reference in zip(run(*arguments), exact, eager, strict=True):
        assert relative_error(got, wanted) <= 1.25 * relative_error(reference, wanted)


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("modulated", ["never", "always"])
def test_gates_scales_and_shifts_take_no_kernels(program: str, sizes: str, modulated: str):
    """The epilogue whose tiles have whole rows normalizes, scales and shifts, or a kernel does."""
    with collect_remarks() as remarks:
        module = lowered(program, sizes, "bf16", modulated)
    counts = Counter(op.name for op in module.walk())
    names = ("gemm.fused", "gemm.finalize", "gemm.map", "coda.layer_norm")
    expected = KERNELS[program][modulated == "always"]
    assert tuple(counts[name] for name in names) == expected
    assert not [remark for remark in remarks if "broadcasts along" in remark.message]


@pytest.mark.parametrize(("rows", "is_deferred"), [(1024, False), (65536, True)])
def test_norms_move_where_that_saves_more_than_it_costs(rows: int, is_deferred: bool):
    text = DIT.replace("E[", "bf16[").replace("B, T,", f"4, {rows // 4},").replace("B,", "4,")
    module = parse(text.replace("64", "512"))
    with collect_remarks() as remarks:
        CodaToGemmPass().apply(make_context(), module)
    costly = [remark for remark in remarks if "another kernel would move" in remark.message]
    assert bool(costly) != is_deferred


def test_unknown_choice_is_an_error():
    with pytest.raises(CodaError, match="unknown modulated-norms 'often'"):
        lowered("dit", "symbolic", "f32", "often")


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["fp32-epilogue", "eager-exact"])
def test_gradients_of_parameters_of_samples(mode: str):
    text = """
    fn f(x: f32[B, T, 32], scale: f32[B, 1, 32], shift: f32[B, 1, 32], weight w: f32[24, 32]) {
        return linear(layer_norm(x, scale, shift) + rms_norm(x, scale), w)
    }
    """
    generator = torch.Generator().manual_seed(1)
    shapes = (3, 5, 32), (3, 1, 32), (3, 1, 32), (24, 32)
    given = [torch.randn(shape, generator=generator, requires_grad=True) for shape in shapes]
    got = coda_ir.compile(text, training=True, numerics=mode)(*given)
    d_got = torch.randn(got.shape, generator=generator)
    exact = [value.detach().double().requires_grad_() for value in given]
    x, scale, shift, w = exact
    normed = F.layer_norm(x, (32,)) * scale + shift + F.rms_norm(x, (32,), eps=1e-6) * scale
    gradients = torch.autograd.grad(got, given, d_got)
    wanted = torch.autograd.grad(normed @ w.T, exact, d_got.double())
    for gradient, value in zip(gradients, wanted, strict=True):
        assert relative_error(gradient, value) < 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("mode", ["fp32-epilogue", "eager-exact"])
def test_gradients_are_as_exact_as_eager(program: str, sizes: str, mode: str):
    """Those of scales, shifts and gates of samples too, which no kernel of their own adds up."""
    arguments = arguments_of(program, "bf16", len(sizes))
    text = text_of(program, sizes, "bf16")
    trained = coda_ir.compile(text, training=True, target="triton", numerics=mode)
    found = gradients(trained, arguments)
    eager = gradients(partial(called, program), arguments)
    exact = gradients(partial(called, program), [value.double() for value in arguments])
    for got, reference, wanted in zip(found, eager, exact, strict=True):
        assert relative_error(got, wanted) <= 1.25 * relative_error(reference, wanted)
    missed = [r for r in trained.remarks if r.kind == "missed" and r.operator == "coda.sum_to"]
    # The gate that is one number for each sample: its gradient is a sum over columns, too.
    assert bool(missed) == (program == "sd3")


def called(program: str, *arguments: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return computed(program, arguments)


def gradients(
    function: Callable[..., tuple[torch.Tensor, ...]], arguments: Sequence[torch.Tensor]
) -> Sequence[torch.Tensor]:
    """The gradients of the arguments that have some, for the same gradients of the results."""
    leaves = [value.detach().requires_grad_() for value in arguments]
    results = function(*leaves)
    generator = torch.Generator().manual_seed(5)
    d_results = [torch.randn(x.shape, generator=generator).to(x.dtype) for x in results]
    return torch.autograd.grad(
        results, leaves, d_results, allow_unused=True, materialize_grads=True
    )
