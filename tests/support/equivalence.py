"""The comparison of two modules: the check after every test of a pass."""

from collections.abc import Mapping, Sequence

import torch
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import VerifyException

from coda_ir.context import make_context
from coda_ir.equivalence import EquivalenceCheck, NotEquivalentError, check_equivalent
from coda_ir.equivalence.checker import functions_of
from coda_ir.equivalence.draws import DRAWS, Draw
from coda_ir.float64 import relative_error
from coda_ir.pipeline import PassManager, Pipeline, parse_pipeline
from coda_ir.pipeline.instrumentation import PassRun
from coda_ir.pipeline.manager import Verification
from coda_ir.registry import get_all_passes
from coda_ir.universe import get_multiverse


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
    draws: Sequence[Draw] = DRAWS,
) -> EquivalenceCheck:
    """Run a pipeline on `module`, comparing what it computes before and after every pass.

    What comes out reads back from its own text. Raises NotEquivalentError.
    """
    check = EquivalenceCheck(sizes=dims, draws=draws)
    _run(module, pipeline, check)
    return check


def run_checked_at_ends(
    module: ModuleOp, pipeline: str | Sequence[ModulePass], draws: Sequence[Draw] = DRAWS
) -> None:
    """Like `run_checked`, but compare each function as it is first with what comes out alone, which
    is verified.

    Where they differ, all passes are checked for the one that it was.
    """
    before = module.clone()
    try:
        _run(module, pipeline, _CheckAtEnds(draws=draws), verify_each=False)
    except (NotEquivalentError, VerifyException):
        run_checked(before, pipeline, draws=draws)
        raise


class _CheckAtEnds(EquivalenceCheck):
    def before_pipeline(self, module: ModuleOp) -> None:
        super().before_pipeline(module)
        self._functions = functions_of(module).keys()

    def after_pass(self, run: PassRun, module: ModuleOp) -> None:
        self._last = run
        functions = functions_of(module).keys()
        if functions != self._functions:
            self._functions = functions
            super().after_pass(run, module)

    def after_pipeline(self, module: ModuleOp) -> None:
        Verification().verify(module)
        super().after_pass(self._last, module)


def _run(
    module: ModuleOp,
    pipeline: str | Sequence[ModulePass],
    check: EquivalenceCheck,
    *,
    verify_each: bool = True,
) -> None:
    parsed = (
        parse_pipeline(pipeline, get_multiverse().all_passes | get_all_passes())
        if isinstance(pipeline, str)
        else Pipeline(tuple(pipeline))
    )
    PassManager(parsed, verify_each).run(make_context(), module, [check])
    # What is read back is what was verified.
    Parser(make_context(), str(module)).parse_module()
