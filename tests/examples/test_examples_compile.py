"""Every kernel of every example, at real sizes, compiles ahead of time for every GPU."""

from collections import Counter

import pytest
from support.daily import daily
from support.examples import EXAMPLES
from support.machine_code import ambiguous_places
from support.models import MODELS

from coda_ir.api import Lowering, parse
from coda_ir.backends.triton import emit_program
from coda_ir.backends.triton.aot import compile_kernels
from coda_ir.backends.triton.architectures import ARCHITECTURES
from coda_ir.options import CompileOptions

TARGETS = ("sm_80", "sm_90", "gfx942")


WHOLE = ("llama_layer", "gpt2_block", "lm_head_cross_entropy")
"""Together, these have every kind of kernel of the others."""


@pytest.mark.slow
@daily(lambda name, target: name in WHOLE and (target == "sm_90" or name == WHOLE[0]))
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", MODELS)
def test_kernels_fit_and_do_not_spill(name: str, target: str):
    file, _, function = name.partition(".")
    lowering = Lowering(
        parse(EXAMPLES / f"{file}.coda"), CompileOptions(ARCHITECTURES[target].schedule)
    )
    program = emit_program(lowering.module("scheduled"), function or file)
    compiled = compile_kernels(program.kernels, target, None if "gfx" in target else "ptx")
    assert Counter(kernel.name for kernel in compiled) == Counter(
        kernel.name for kernel in program.kernels
    )
    for kernel in compiled:
        assert kernel.resources.fits and not kernel.resources.spills, kernel
        assert not ambiguous_places(kernel.text), kernel.name
