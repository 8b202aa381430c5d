"""Every kernel of every example, at real sizes, compiles ahead of time for every GPU."""

from collections import Counter

import pytest
from support.aot import TARGETS, compile_kernels
from support.examples import EXAMPLES
from support.models import MODELS

from coda_ir.api import Lowering, parse
from coda_ir.backends.triton import emit_program

SCHEDULES = {
    "sm_80": "target=sm_80",
    "sm_90": "target=sm_90 mainloop=tma",
    "gfx942": "target=gfx942",
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", MODELS)
def test_kernels_fit_and_do_not_spill(name: str, target: str):
    file, _, function = name.partition(".")
    lowering = Lowering(parse(EXAMPLES / f"{file}.coda"), SCHEDULES[target])
    program = emit_program(lowering.module("scheduled"), function or file)
    compiled = compile_kernels(program.source, program.kernels, [target])
    assert Counter(kernel.name for kernel in compiled) == Counter(
        kernel.name for kernel in program.kernels
    )
    for kernel in compiled:
        assert kernel.fits and not kernel.spills, kernel
