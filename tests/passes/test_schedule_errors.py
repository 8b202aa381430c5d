"""What the schedule cannot serve is refused with the place and a remedy."""

import pytest

import coda_ir
from coda_ir.diagnostics import CodaError


@pytest.mark.parametrize(
    ("shapes", "name"),
    [(("f32[M, K]", "f32[16, K]"), "K"), (("f32[M, 8]", "f32[N, 8]"), "N")],
)
def test_symbolic_extents_of_weights(shapes: tuple[str, str], name: str):
    x, w = shapes
    program = f"fn f(x: {x}, w: {w}) {{\n    return linear(x, w)\n}}"
    with pytest.raises(CodaError) as error:
        coda_ir.compile(program, device="cpu")
    assert str(error.value) == (
        f"<text>:2:12: schedule: {name} of gemm.fused is symbolic\n"
        "  help: give the extents of weights as numbers or consts; only rows may be symbols. "
        "PyTorch multiplies activations: give both a dimension in front, for x @ w"
    )


def test_options_that_leave_no_tile_are_named():
    program = "fn f(x: bf16[M, 64], w: bf16[32, 64]) {\n    return linear(x, w)\n}"
    with pytest.raises(CodaError) as error:
        options = "target=portable stages=99 warps=4"
        compiled = coda_ir.compile(program, device="cpu", schedule=options)
        compiled.prepare()
    assert "no tile of gemm.fused Mx32x64 fits portable" in str(error.value)
    assert error.value.remedy == "leave warps=4, stages=99 to the cost model"
