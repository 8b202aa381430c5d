"""Attention as a kernel of the program, compared with float64."""

import pytest
import torch
from support.attention_heads import Heads, attend
from support.joints import function_of

import coda_ir
from coda_ir.backends.reference import run_function
from coda_ir.backends.triton import emit_program
from coda_ir.backends.triton.aot import compile_kernels
from coda_ir.backends.triton.architectures import ARCHITECTURES
from coda_ir.context import make_context
from coda_ir.float64 import relative_error
from coda_ir.frontends.coda_text import parse_text
from coda_ir.lowering import Lowering
from coda_ir.options import CompileOptions
from coda_ir.passes.fusion.convert_attention_to_gemm import ConvertAttentionToGemmPass

PROGRAMS = {
    "capped": Heads(options="causal=true, softcap=1.5"),
    "one head of keys": Heads(3, 1, options="causal=true, scale=0.5, softcap=4.0"),
    "window": Heads(2, 2, 32, "causal=true, window=21", element="f16"),
    "window on both sides": Heads(options="window=18"),
    "narrow window": Heads(options="causal=true, window=1"),
    "capped in a window": Heads(options="causal=true, window=49, scale=0.3, softcap=0.7"),
    "no batch": Heads(options="window=9", batches=""),
    "heads of 24": Heads(4, 2, 24, "causal=true, softcap=1.5"),
    "heads of 56": Heads(2, 1, 56, "window=48, softcap=3.0"),
    "heads of 80": Heads(2, 1, 80, "causal=true, window=48"),
}

SIZES = [(64, 64), (33, 90), (90, 33), (17, 40), (1, 50)]


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize(("queries", "keys"), SIZES)
def test_agrees_with_float64(name: str, queries: int, keys: int):
    of = PROGRAMS[name]
    compiled = coda_ir.compile(of.text, device="cpu")
    assert "o_of_tile(" in compiled.source and "scaled_dot_product" not in compiled.source
    tensors = of.inputs(queries, keys)
    wanted = attend(of, *(x.double() for x in tensors))
    assert relative_error(compiled(*tensors), wanted) < 5e-3


@pytest.mark.parametrize("window", [2**31 - 1, 2**40])
def test_windows_of_all_keys_agree_with_float64(window: int):
    """Also where the sum of a position and the window has more than 32 bits."""
    of = Heads(options=f"causal=false, window={window}")
    compiled = coda_ir.compile(of.text, device="cpu")
    assert "o_of_tile(" in compiled.source
    tensors = of.inputs(33, 50)
    wanted = attend(of, *(x.double() for x in tensors))
    assert relative_error(compiled(*tensors), wanted) < 5e-3


@pytest.mark.parametrize("options", ["causal=true", "window=12, softcap=2.0"])
def test_sinks_agree_with_float64(options: str):
    of = Heads(options=options)
    text = Heads(options=f"{options}, sinks=s").text.replace(") {", ", s: bf16[4]) {", 1)
    compiled = coda_ir.compile(text, device="cpu")
    assert "o_of_tile(" in compiled.source
    tensors, sinks = of.inputs(45, 52), 3 * torch.randn(4).bfloat16()
    wanted = attend(of, *(x.double() for x in tensors), sinks=sinks.double())
    assert relative_error(compiled(*tensors, sinks), wanted) < 5e-3


def test_sinks_beside_a_mask_agree_with_float64():
    """Also of queries that see no key."""
    of = Heads(options="causal=false")
    text = Heads(options="causal=false, sinks=s, mask=m").text
    compiled = coda_ir.compile(
        text.replace(") {", ", s: bf16[4], m: bool[T, S]) {", 1), device="cpu"
    )
    assert "o_of_tile(" in compiled.source
    tensors, sinks = of.inputs(45, 52), torch.randn(4).bfloat16()
    mask = torch.rand(45, 52) < 0.5
    mask[:3] = False
    wanted = attend(of, *(x.double() for x in tensors), mask=mask, sinks=sinks.double())
    found = compiled(*tensors, sinks, mask)
    assert relative_error(found, wanted) < 5e-3 and not found[:, :3].any()


MASKS = {
    "ALiBi": "f32[4, 1, S]",
    "padding": "f32[B, 1, 1, S]",
    "of all": "f32[B, 4, T, S]",
    "of queries": "f32[T, 1]",
    "truth values": "bool[B, 1, T, S]",
}


@pytest.mark.slow
@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
@pytest.mark.parametrize("options", ["causal=false, softcap=2.0", "causal=true, softcap=1.5"])
def test_masks_agree_with_float64(mask: str, options: str):
    of = Heads(options=options)
    text = Heads(options=f"{options}, mask=m").text.replace(") {", f", m: {mask}) {{", 1)
    compiled = coda_ir.compile(text, device="cpu")
    assert "o_of_tile(" in compiled.source
    tensors = of.inputs(45, 52)
    element, dims = mask.removesuffix("]").split("[")
    shape = [{"B": 2, "T": 45, "S": 52}.get(n) or int(n) for n in dims.split(", ")]
    if element == "bool":
        given = torch.rand(shape) < 0.7
        given[..., 0, :] = False  # A query may see no key.
        wanted = attend(of, *(x.double() for x in tensors), mask=given)
    else:
        given = torch.randn(shape)
        wanted = added(of, tensors, given)
    assert relative_error(compiled(*tensors, given), wanted) < 5e-3


def added(of: Heads, tensors: list[torch.Tensor], bias: torch.Tensor) -> torch.Tensor:
    """Attention with a bias that one more column of queries and keys has for each pair."""
    q, k, v = (x.double().reshape(*x.shape[:2], -1, of.width).transpose(1, 2) for x in tensors)
    k, v = (x.repeat_interleave(of.heads // of.kv_heads, 1) for x in (k, v))
    cap = of.numbers["softcap"]
    scores = cap * torch.tanh(q @ k.mT * of.width**-0.5 / cap) + bias.double()
    if "causal" in of.numbers:
        shift = k.shape[2] - q.shape[2]
        seen = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool).tril(shift)
        scores = scores.masked_fill(~seen, -torch.inf)
    return (torch.softmax(scores, -1) @ v).transpose(1, 2).reshape(tensors[0].shape)


def test_the_lowest_numbers_hide_no_key_more_than_others():
    """As masks of padding have them: a query all of whose keys are hidden gives their mean."""
    of = Heads(options="causal=false, softcap=3.0, mask=m")
    compiled = coda_ir.compile(of.text.replace(") {", ", m: f32[T, S]) {", 1), device="cpu")
    q, k, v = of.inputs(20, 37)
    mask = torch.zeros(20, 37)
    mask[3] = torch.finfo(torch.float32).min
    mask[4, 9:] = torch.finfo(torch.float32).min
    found = compiled(q, k, v, mask)
    values = v.double().reshape(2, 37, 2, of.width).repeat_interleave(2, 2).reshape(2, 37, -1)
    assert relative_error(found[:, 3], values.sum(1) / 37) < 5e-3
    fewer = coda_ir.compile(of.text.replace(", mask=m", ""), device="cpu")
    assert relative_error(found[:, 4], fewer(q, k[:, :9], v[:, :9]).double()[:, 4]) < 5e-3


GATED = """
fn f(q: bf16[B, T, 64], k: bf16[B, S, 32], v: bf16[B, S, 32], gate: bf16[B, T, 64]) {
    y = attention(q, k, v, head_dim=16, causal=true, softcap=1.5)
    return y * sigmoid(gate)
}
"""


def test_what_follows_is_an_epilogue():
    """A gate of the result, which is not stored before it."""
    compiled = coda_ir.compile(GATED, device="cpu")
    assert len(compiled.kernels) == 1
    of = Heads(options="causal=true, softcap=1.5")
    tensors, gate = of.inputs(33, 40), torch.randn(2, 33, 64).bfloat16()
    wanted = attend(of, *(x.double() for x in tensors)) * gate.double().sigmoid()
    assert relative_error(compiled(*tensors, gate), wanted) < 5e-3


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_pass_keeps_what_a_function_means(name: str):
    of = PROGRAMS[name]
    before, after = parse_text(of.text), parse_text(of.text)
    ConvertAttentionToGemmPass().apply(make_context(), after)
    assert "gemm.attention" in str(after)
    tensors = of.inputs(19, 33)
    (one,), (other,) = (
        run_function(function_of(module, "f"), tensors) for module in (before, after)
    )
    assert relative_error(other, one) < 1e-12


@pytest.mark.slow
@pytest.mark.parametrize("target", ["sm_80", "sm_90", "gfx942"])
@pytest.mark.parametrize("width", [64, 80, 128, 256])
@pytest.mark.parametrize("mask", ["", "f32[4, 1, S]", "f32[B, 4, T, S]"], ids=["", "row", "dense"])
def test_compiles_ahead_of_time(target: str, width: int, mask: str):
    options = "causal=true, softcap=50.0" + (", mask=m" if mask else "")
    text = Heads(4, 2, width, options).text
    spilled = spills(text.replace(") {", f", m: {mask}) {{", 1) if mask else text, target)
    assert spilled <= (1200 if mask and width == 256 else 256)


@pytest.mark.slow
@pytest.mark.parametrize("cap", ["", ", softcap=50.0"], ids=["one loop", "three loops"])
@pytest.mark.parametrize("target", ["sm_80", "sm_90", "sm_100", "gfx942"])
def test_windows_compile_ahead_of_time(target: str, cap: str):
    assert spills(Heads(4, 2, 128, f"causal=true, window=1024{cap}").text, target) <= 256


def spills(text: str, target: str) -> int:
    """Return the bytes that the only kernel of a program spills."""
    chosen = ARCHITECTURES[target].schedule
    lowered = Lowering(parse_text(text), CompileOptions(chosen)).module("scheduled")
    (kernel,) = compile_kernels(emit_program(lowered, "f").kernels, target, level="ttgir")
    assert kernel.resources.fits
    return kernel.resources.spills
