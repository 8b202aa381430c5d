"""The places where operators between GEMMs run, as `python -m zoo --ends` counts them."""

from zoo.ends import Ends, count_ends

from coda_ir.frontends.coda_text import parse_text

PROGRAM = """
fn f(x: bf16[M, 64], weight w: bf16[96, 64], weight v: bf16[64, 96], weight n: bf16[64]) {
    h = silu(linear(rms_norm(x, n), w))
    y = x + linear(h, v)
    z = torch("aten.atan.default({0})", exp(y) * sin(x), dtype=bf16, shape=[M, 64])
    return reshape(cumsum(z), [M, 8, 8])
}
"""


def test_ends_of_a_program():
    ends = Ends("f")
    count_ends(parse_text(PROGRAM, "a.coda"), ends)
    assert {end: dict(counts) for end, counts in ends.counts.items()} == {
        "epilogue": {"coda.silu": 1, "coda.add": 1, "coda.exp": 1, "coda.sin": 1, "coda.mul": 1},
        "kernel": {"coda.rms_norm": 1},
        "library": {"coda.cumsum": 1},
        "call": {"aten.atan.default": 1},
    }
    assert (ends.gemms, ends.launches, ends.operators) == (2, 5, 8)
