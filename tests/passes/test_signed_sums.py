"""Sums and differences of products keep their signs, whatever is subtracted from what."""

import pytest
from support.equivalence import run_checked
from support.programs import parse_mlir
from support.signed_sums import signed_sums

SUMS = dict(signed_sums())
TERMS = ("z", "su", "r", "q")


def sign_of(term: str, formula: str) -> int:
    """The formula where `term` is 1 and all others are 0."""
    return eval(formula, {"__builtins__": {}}, {each: int(each == term) for each in TERMS})


@pytest.mark.slow
@pytest.mark.parametrize("formula", SUMS)
def test_products_that_are_added_get_one_scale(formula: str):
    module = parse_mlir(SUMS[formula])
    run_checked(module, "align-scales,dce,merge-gemm-sums")
    is_aligned = "coda.mul %u" not in str(module)
    assert is_aligned == (sign_of("z", formula) == sign_of("su", formula) == 1)
