"""The backward of attention for Hopper in the simulator, against float64."""

from collections.abc import Sequence

import torch

from coda_ir.backends.reference import run_function
from coda_ir.backends.triton import emit_program
from coda_ir.backends.triton.module import EmittedProgram
from coda_ir.context import make_context
from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import element_type_of
from coda_ir.float64 import relative_error
from coda_ir.frontends.coda_text import parse_text
from coda_ir.lowering import Lowering
from coda_ir.options import CompileOptions
from coda_ir.passes.pipelines.differentiate import DifferentiatePass
from coda_ir.signatures import signature_of
from support.gluon_simulator import load_module, run
from support.joints import function_of


def check_simulated_backward(
    text: str, inputs: Sequence[torch.Tensor], seed: int, *, is_decomposed: bool = False
) -> EmittedProgram:
    """The gradients of a function agree with float64; returns its emitted backward. Those of
    attention that was decomposed do not depend on the digits of its result.
    """
    module = parse_text(text)
    for op in module.walk():
        if is_decomposed and isinstance(op, coda.AttentionOp):
            op.attributes[coda.DECOMPOSED] = element_type_of(op.q)
    DifferentiatePass().apply(make_context(), module)
    forward, backward = (function_of(module, f"f_{half}") for half in ("forward", "backward"))
    known = {spec.name: x for spec, x in zip(signature_of(forward).arguments, inputs, strict=True)}
    results = list(run_function(forward, inputs, precision="stated"))
    if is_decomposed:
        results[0] = results[0] + torch.randn_like(results[0])
    known |= {s.name: x for s, x in zip(signature_of(forward).results, results, strict=True)}
    known[signature_of(backward).arguments[-1].name] = torch.randn_like(results[0])
    arguments = [known[spec.name] for spec in signature_of(backward).arguments]
    wanted = run_function(backward, arguments, precision="float64")
    options = CompileOptions("target=sm_90 mainloop=warp_specialized")
    program = emit_program(Lowering(module, options).module("scheduled"), "f_backward")
    found = run(load_module(program.source), *arguments, seed=seed)
    for one, other in zip(found, wanted, strict=True):
        assert relative_error(one, other) < 1e-2
    return program
