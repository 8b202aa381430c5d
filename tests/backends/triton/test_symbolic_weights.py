"""Products with weights whose extents are symbols: PyTorch multiplies, kernels do the rest."""

import re

import pytest
import torch
from support.elements import DTYPES
from support.emitted import relative_error
from torch import Tensor

import coda_ir
from coda_ir.diagnostics import CodaError

SIZES = {"M": 7, "N": 13, "K": 24, "B": 2, "T": 5}

PROGRAMS = {
    "activation": """
fn f(u: bf16[M, 64], v: bf16[N, 64], b: bf16[N]) { return relu(linear(u, v, b)) * 0.5 }""",
    "attention without heads": """
fn f(u: bf16[M, 64], v: bf16[N, 64]) { return softmax(u @ transpose(v) * 0.1) @ v }""",
    "norms": """
fn f(u: bf16[M, 64], v: bf16[N, 64], g: bf16[64], b: bf16[64]) {
    return silu(layer_norm(u, g, b) @ transpose(v)) @ v, rms_norm(u, g) @ transpose(v)
}""",
    "gates": """
fn f(u: bf16[M, 64], v: bf16[N, 64], w: bf16[N, 64]) {
    return silu(linear(u, v)) * linear(u, w)
}""",
    "one of two weights": """
fn f(u: bf16[M, 64], v: bf16[N, 64], w: bf16[32, 64]) {
    return linear(u, v), silu(linear(u, w))
}""",
    "reductions": """
fn f(u: bf16[M, 64], v: bf16[N, 64]) {
    y = linear(u, v)
    return y, sum(y), max(y), logsumexp(y), sum(y, dim=0)
}""",
    "transposed": """
fn f(u: bf16[M, 64], v: bf16[N, 64]) { return transpose(relu(linear(u, v))) @ u }""",
    "depth": """
fn f(u: bf16[M, K], v: bf16[32, K], g: bf16[32]) { return rms_norm(linear(u, v), g) }""",
    "rows of samples": """
fn f(u: bf16[B, T, 64], v: bf16[N, 64]) { return exp(linear(u, v)) }""",
    "one row": """
fn f(u: bf16[64], v: bf16[N, 64]) { return relu(linear(u, v)) }""",
    "contrast": """
fn f(u: f32[M, 64], v: f32[N, 64], scale: f32[1]) {
    scores = exp(scale) * linear(u * rsqrt(sum(u * u)), v * rsqrt(sum(v * v)))
    return logsumexp(scores), logsumexp(scores, dim=0)
}""",
}


def arguments(text: str) -> list[Tensor]:
    return [
        torch.randn([SIZES.get(dim) or int(dim) for dim in dims.split(", ")]).to(DTYPES[element])
        for element, dims in re.findall(r"\w+: (\w+)\[([^]]*)\]", text.split(") {")[0])
    ]


def results(values: object) -> tuple[Tensor, ...]:
    return values if isinstance(values, tuple) else (values,)  # pyright: ignore


@pytest.mark.parametrize("name", PROGRAMS)
def test_results_and_gradients(name: str):
    """As close to float64 as the same program in PyTorch, whose operators round one by one."""
    text = PROGRAMS[name]
    leaves = [value.requires_grad_() for value in arguments(text)]
    exact = [value.detach().double().requires_grad_() for value in leaves]
    wide = re.sub(r"\b(bf16|f32)\b", "f64", text)
    found = results(coda_ir.compile(text, device="cpu", training=True)(*leaves))
    right = results(coda_ir.compile(wide, target="reference", training=True)(*exact))
    inference = results(coda_ir.compile(text, device="cpu")(*[x.detach() for x in leaves]))
    gradients = [torch.randn_like(value) for value in found]
    got = torch.autograd.grad(found, leaves, gradients)
    wanted = torch.autograd.grad(right, exact, [value.double() for value in gradients])
    limit = 1e-5 if "f32" in text else 0.02
    for value, other in zip((*found, *inference, *got), (*right, *right, *wanted), strict=True):
        assert relative_error(value.detach(), other.detach()) < limit


def test_a_remark_reports_the_call():
    compiled = coda_ir.compile(PROGRAMS["activation"], device="cpu")
    (remark,) = (each for each in compiled.remarks if each.pass_name == "unfuse-gemms")
    assert remark.kind == "missed" and "N is symbolic" in remark.message


def test_reductions_in_a_stated_order_are_refused():
    with pytest.raises(CodaError, match=r"N of gemm\.fused is symbolic"):
        coda_ir.compile(PROGRAMS["activation"], device="cpu", numerics="deterministic")
