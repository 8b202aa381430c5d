"""Whether two modules compute the same: the check behind every test of a pass."""

from collections.abc import Mapping, Sequence

import torch
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

from coda_ir.backends.reference import run_function
from support.inputs import random_inputs


def functions_of(module: ModuleOp) -> dict[str, FuncOp]:
    return {op.sym_name.data: op for op in module.ops if isinstance(op, FuncOp)}


def relative_error(actual: torch.Tensor, expected: torch.Tensor) -> float:
    """‖actual − expected‖ / ‖expected‖ in float64, over the finite elements of `expected`.

    Infinite where the two differ in shape, or in where they are NaN or infinite.
    """
    actual, expected = actual.double(), expected.double()
    if actual.shape != expected.shape:
        return float("inf")
    finite = expected.isfinite()
    special = torch.equal(actual[~finite].nan_to_num(2.0), expected[~finite].nan_to_num(2.0))
    if not special or not actual[finite].isfinite().all():
        return float("inf")
    difference = (actual[finite] - expected[finite]).square().sum().sqrt()
    norm = expected[finite].square().sum().sqrt()
    return float(difference / norm) if norm > 0 else float(difference)


def assert_results_close(
    actual: Sequence[torch.Tensor], expected: Sequence[torch.Tensor], rtol: float
) -> None:
    """Every result has a relative error of at most `rtol`."""
    assert len(actual) == len(expected), f"{len(actual)} results, expected {len(expected)}"
    for index, (got, wanted) in enumerate(zip(actual, expected, strict=True)):
        assert got.shape == wanted.shape, f"result {index}: {got.shape}, expected {wanted.shape}"
        error = relative_error(got, wanted)
        assert error <= rtol, f"result {index}: relative error {error:.2e}, expected <= {rtol:.0e}"


def assert_equivalent(
    before: ModuleOp,
    after: ModuleOp,
    *,
    dims: Mapping[str, int] | None = None,
    seed: int = 0,
    rtol: float = 1e-9,
) -> None:
    """Every function of `before` computes in float64 what its namesake in `after` does.

    The inputs are random (see `random_inputs`, with spread magnitudes), drawn from the metadata and
    the uses of `before`; `dims` gives the extents of symbols. `after` may be of any level.
    """
    after_functions = functions_of(after)
    for name, function in functions_of(before).items():
        inputs = random_inputs(function, dims, torch.float64, seed, spread=True)
        expected = run_function(function, inputs)
        actual = run_function(after_functions[name], inputs)
        assert_results_close(actual, expected, rtol)
