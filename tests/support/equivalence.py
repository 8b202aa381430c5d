"""The comparison of two modules: the check behind every test of a pass."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache

import torch
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.universe import Universe

from coda_ir.context import make_context
from coda_ir.equivalence import EquivalenceCheck, check_equivalent
from coda_ir.float64 import relative_error
from coda_ir.pipeline import PassManager, Pipeline, parse_pipeline
from coda_ir.registry import get_all_passes
from support.programs import parse_mlir


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
    before: ModuleOp, after: ModuleOp, *, dims: Mapping[str, int] | None = None
) -> None:
    """Every function of `before` computes in float64 what its namesake in `after` does.

    The inputs are random, of several sizes and kinds; `dims` gives the extents of symbols. `after`
    may be of any level.
    """
    counterexample = check_equivalent(before, after, sizes=dims)
    assert counterexample is None, f"{counterexample}\n{after}"


def run_checked(
    module: ModuleOp,
    pipeline: str | Sequence[ModulePass],
    dims: Mapping[str, int] | None = None,
    *,
    minimize: bool = True,
) -> EquivalenceCheck:
    """Run a pipeline on `module`, comparing what it computes before and after every pass.

    What comes out reads back from its own text. Raises NotEquivalentError.
    """
    check = EquivalenceCheck(sizes=dims, minimize=minimize)
    parsed = (
        parse_pipeline(pipeline, _known_passes())
        if isinstance(pipeline, str)
        else Pipeline(tuple(pipeline))
    )
    PassManager(parsed).run(make_context(), module, [check])
    parse_mlir(str(module))
    return check


@cache
def _known_passes() -> Mapping[str, Callable[[], type[ModulePass]]]:
    """Also those of xDSL. To look for installed ones takes longer than to run a small pipeline."""
    return Universe.get_multiverse().all_passes | get_all_passes()
