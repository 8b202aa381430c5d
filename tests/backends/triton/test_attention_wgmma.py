"""The backward of attention with asynchronous products: in the simulator against float64, and
compiled ahead of time.
"""

from collections.abc import Sequence

import pytest
import torch
from support.attention_heads import Heads, rotated_inputs, rotated_text
from support.gluon_simulator import load_module, run
from support.joints import function_of
from xdsl.dialects.builtin import ModuleOp

from coda_ir.backends.reference import run_function
from coda_ir.backends.triton import emit_program
from coda_ir.backends.triton.module import EmittedProgram
from coda_ir.context import make_context
from coda_ir.float64 import relative_error
from coda_ir.frontends.coda_text import parse_text
from coda_ir.lowering import Lowering
from coda_ir.options import CompileOptions
from coda_ir.passes.pipelines.differentiate import DifferentiatePass
from coda_ir.signatures import signature_of

pytestmark = pytest.mark.any_device

HOPPER = "target=sm_90 mainloop=warp_specialized"

PROGRAMS = {
    "causal": Heads(2, 2, 64),
    "all keys": Heads(2, 1, 64, "causal=false", "f16"),
    "shared heads": Heads(4, 1, 64),
    "window": Heads(2, 2, 64, "causal=true, window=40"),
    "window on both sides": Heads(2, 1, 64, "causal=false, window=30"),
    "narrow window": Heads(2, 2, 64, "causal=true, window=1"),
    "capped": Heads(2, 2, 64, "causal=true, softcap=1.5"),
    "wide heads": Heads(1, 1, 128, "causal=true, scale=0.1"),
    "widest heads": Heads(1, 1, 256, "causal=false"),
    "heads of 80": Heads(2, 1, 80),
}


def differentiated(text: str) -> ModuleOp:
    module = parse_text(text)
    DifferentiatePass().apply(make_context(), module)
    return module


def emitted(module: ModuleOp, options: str = HOPPER) -> EmittedProgram:
    lowered = Lowering(module, CompileOptions(options)).module("scheduled")
    return emit_program(lowered, "f_backward")


def check(text: str, inputs: Sequence[torch.Tensor], seed: int) -> EmittedProgram:
    """The gradients agree with float64; returns the emitted backward."""
    module = differentiated(text)
    forward, backward = (function_of(module, f"f_{half}") for half in ("forward", "backward"))
    known = {spec.name: x for spec, x in zip(signature_of(forward).arguments, inputs, strict=True)}
    results = run_function(forward, inputs, precision="stated")
    known |= {s.name: x for s, x in zip(signature_of(forward).results, results, strict=True)}
    known[signature_of(backward).arguments[-1].name] = torch.randn_like(results[0])
    arguments = [known[spec.name] for spec in signature_of(backward).arguments]
    wanted = run_function(backward, arguments, precision="float64")
    program = emitted(module)
    found = run(load_module(program.source), *arguments, seed=seed)
    for one, other in zip(found, wanted, strict=True):
        assert relative_error(one, other) < 1e-2
    return program


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize(("queries", "keys"), [(150, 150), (70, 130), (130, 50), (128, 64)])
def test_agrees_with_float64(name: str, queries: int, keys: int):
    of = PROGRAMS[name]
    program = check(of.text, of.inputs(queries, keys, batch=1), queries)
    of_queries, of_keys = (kernel.language for kernel in program.kernels)
    assert of_queries == ("triton" if of.width == 256 else "gluon") and of_keys == "gluon"


@pytest.mark.slow
@pytest.mark.parametrize("of", [Heads(2, 1, 64), Heads(2, 2, 128, "causal=true, window=40")])
def test_epilogues_agree_with_float64(of: Heads):
    program = check(rotated_text(of, 64), rotated_inputs(of, 64, 2, 70), 1)
    of_attention = [x for x in program.kernels if x.name.startswith("attention_d")]
    assert all("_rope_sum" in x.name and x.language == "gluon" for x in of_attention)


@pytest.mark.slow
def test_programs_share_the_heads_of_queries():
    of = Heads(6, 1, 64)
    text = of.text.replace("B, T", "1, 70").replace("B, S", "1, 100")
    program = check(text, of.inputs(70, 100, batch=1), 2)
    assert program.kernels[1].shared_tiles is not None


@pytest.mark.slow
def test_keys_past_the_end_have_no_weight():
    """Scores of about -200 in all heads: a key of zeros would have an infinite weight."""
    of = Heads(1, 1, 64, "causal=false")
    q, k, v = of.inputs(33, 41, batch=1)
    q[..., ::64], k[..., ::64] = 200, -8
    check(of.text, [q, k, v], 3)
