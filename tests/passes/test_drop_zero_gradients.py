"""`drop-zero-gradients` knows operands by their names, and computes what zeros would give."""

import torch
from support.joints import function_of

import coda_ir
from coda_ir.backends.reference import run_function
from coda_ir.context import make_context
from coda_ir.passes.gradient.drop_zero_gradients import FACTORS, DropZeroGradientsPass
from coda_ir.random_inputs import random_inputs
from coda_ir.signatures import signature_of

BACKWARD = """
fn f_backward(d_y: f32[M, 4], d_t: f32[M, 8], w: f32[4, 8], x: f32[M, 8])
    -> (f32[M, 8], f32[M, 8]) {
    a = (d_y * 2 / 3) @ w
    d_x = a - d_t * x
    d_u = silu(x) * d_t + a
    return d_x, d_u
}
"""


def test_operands_are_named_right():
    for op, names in FACTORS.items():
        defined = {name for name, _ in op.get_irdl_definition().operands}  # pyright: ignore
        assert set(names) <= defined, op.name


def test_results_are_those_of_zeros():
    module = coda_ir.parse(BACKWARD)
    func = function_of(module, "f_backward")
    values = random_inputs(func, {"M": 5})
    values["d_y"] = torch.zeros(5, 4)
    expected = run_function(func, list(values.values()), "float64")
    DropZeroGradientsPass("f_backward", ("d_y",)).apply(make_context(), module)
    module.verify()
    signature = signature_of(func)
    assert "w" not in [spec.name for spec in signature.arguments]
    actual = run_function(func, [values[spec.name] for spec in signature.arguments], "float64")
    torch.testing.assert_close(actual, expected)
