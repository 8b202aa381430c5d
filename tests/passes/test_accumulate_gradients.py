"""`accumulate-gradients` adds what a backward program computes to what it is given."""

import pytest
import torch
from support.goldens import GOLDENS
from support.joints import function_of

import coda_ir
from coda_ir.backends.reference import run_function
from coda_ir.context import make_context
from coda_ir.diagnostics import CodaError
from coda_ir.passes.gradient.accumulate_gradients import AccumulateGradientsPass
from coda_ir.passes.pipelines.coda_to_gemm import CodaToGemmPass
from coda_ir.random_inputs import random_inputs

PROGRAM = GOLDENS / "passes" / "accumulate_gradients.mlir"


@pytest.mark.parametrize("fused", [False, True])
def test_results_are_sums(fused: bool):
    module = coda_ir.parse(PROGRAM)
    func = function_of(module, "f_backward")
    given = list(random_inputs(func, {"M": 5}).values())
    existing = [torch.randn(16, 8).bfloat16(), torch.randn(4, 8)]
    plain = run_function(func, given, "float64")
    AccumulateGradientsPass("f_backward", ("w", "v")).apply(make_context(), module)
    if fused:
        CodaToGemmPass().apply(make_context(), module)
    module.verify()
    found = run_function(function_of(module, "f_backward"), [*given, *existing], "float64")
    wanted = [new + old for new, old in zip(plain, existing, strict=True)]
    torch.testing.assert_close(list(found), wanted, rtol=1e-12, atol=1e-12)


def test_a_gradient_that_there_is_not():
    module = coda_ir.parse(PROGRAM)
    accumulate = AccumulateGradientsPass("f_backward", ("w", "b"))
    with pytest.raises(CodaError, match=r"no gradient of 'b'\n  help: its gradients are .* w, v"):
        accumulate.apply(make_context(), module)
