"""The gradient of a mask that is added to the scores of attention, compared with float64."""

import pytest
import torch
from support.attention_heads import Heads, attend, gradients
from support.daily import daily

import coda_ir
from coda_ir.backends.triton import emit_program
from coda_ir.backends.triton.aot import compile_kernels
from coda_ir.context import make_context
from coda_ir.float64 import relative_error
from coda_ir.frontends.coda_text import parse_text
from coda_ir.lowering import Lowering
from coda_ir.options import CompileOptions
from coda_ir.passes.pipelines.differentiate import DifferentiatePass

MASKS = {
    "of all": "[T, S]",
    "of heads": "[4, T, S]",
    "of batches": "[B, 1, T, S]",
    "of scores": "[B, 4, T, S]",
    "of keys": "[B, 1, 1, S]",
    "of keys and heads": "[4, 1, S]",
}
SIZES = {"B": 2, "T": 45, "S": 52}


def with_mask(of: Heads, element: str, mask: str) -> str:
    return of.text.replace(") {", f", m: {element}{mask}) {{", 1)


def check(text: str, of: Heads, sizes: dict[str, int], mask: str, element: str = "bf16") -> str:
    """The gradients agree with float64; returns the emitted source. The first query sees few."""
    compiled = coda_ir.compile(text, device="cpu", training=True)
    assert "dmask_of_tile(" in compiled.source and "attention_grad(" not in compiled.source
    numbers = torch.randn([sizes.get(n) or int(n) for n in mask.strip("[]").split(", ")])
    numbers[..., :1, sizes["S"] // 2 :] = -torch.inf
    tensors = [*of.inputs(sizes["T"], sizes["S"], batch=sizes["B"]), numbers]
    tensors[-1] = numbers if element == "f32" else numbers.bfloat16()
    d_y = torch.randn_like(tensors[0])

    def exact(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, m: torch.Tensor) -> torch.Tensor:
        return attend(of, q, k, v, mask=m)

    wanted = gradients(exact, [x.double() for x in tensors], d_y.double())
    for one, other in zip(gradients(compiled, tensors, d_y), wanted, strict=True):
        assert relative_error(one, other) < 1e-2
    return compiled.source


@pytest.mark.slow
@daily(lambda mask, options: mask == ("of heads" if "causal" in options else "of keys"))
@pytest.mark.parametrize("options", ["causal=true", "window=30, softcap=1.5"])
@pytest.mark.parametrize("mask", MASKS)
def test_agrees_with_float64(mask: str, options: str):
    element = "f32" if mask == "of batches" else "bf16"
    text = with_mask(Heads(options=f"{options}, mask=m"), element, MASKS[mask])
    check(text, Heads(options=options), SIZES, MASKS[mask], element)


@pytest.mark.slow
def test_programs_share_batches_and_heads():
    """If the mask has few tiles, as with small windows, each program sums over some of them."""
    sizes = {"B": 5, "T": 20, "S": 13}
    text = with_mask(Heads(options="causal=true, mask=m"), "bf16", "[T, S]")
    for name, size in sizes.items():
        text = text.replace(f"{name},", f"{size},").replace(f"{name}]", f"{size}]")
    source = check(text, Heads(), sizes, "[T, S]")
    assert "SPLIT_K: tl.constexpr = 3" in source


@pytest.mark.slow
@daily(lambda target, width: (target, width) == ("sm_90", 64))
@pytest.mark.parametrize("target", ["sm_80", "sm_90", "gfx942"])
@pytest.mark.parametrize("width", [64, 80, 256])
def test_compiles_ahead_of_time(target: str, width: int):
    module = parse_text(with_mask(Heads(8, 4, width, "causal=true, mask=m"), "bf16", "[8, T, S]"))
    DifferentiatePass().apply(make_context(), module)
    main_loop = " mainloop=warp_specialized" if target == "sm_90" else ""
    lowered = Lowering(module, CompileOptions(f"target={target}{main_loop}")).module("scheduled")
    kernels = emit_program(lowered, "f_backward").kernels
    (of_mask,) = (kernel for kernel in kernels if kernel.name.startswith("attention_dmask"))
    (compiled,) = compile_kernels([of_mask], target, level="ttgir")
    assert compiled.resources.fits and compiled.resources.spills <= 256
