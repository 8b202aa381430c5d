"""Translation validation of a pipeline: what `coda-opt --check-equivalence` does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.dialects.builtin import ModuleOp

from coda_ir.diagnostics import CodaError
from coda_ir.equivalence.checker import Validator
from coda_ir.equivalence.counterexample import Counterexample
from coda_ir.equivalence.draws import DRAWS, Draw
from coda_ir.pipeline.instrumentation import PassInstrumentation, PassRun


class NotEquivalentError(CodaError):
    """A pass changed what a function computes: a defect of the pass."""

    run: PassRun
    counterexample: Counterexample

    def __init__(self, run: PassRun, counterexample: Counterexample, remedy: str | None = None):
        self.run = run
        self.counterexample = counterexample
        steps = "".join(f", a step of {parent}" for parent in reversed(run.parents))
        place = f"pass {run.index + 1} of the pipeline{steps}"
        super().__init__(f"{run} ({place}) changed the meaning of {counterexample}", remedy)


class EquivalenceCheck(PassInstrumentation):
    """Runs every function before and after each pass that changes it; see `check_equivalent`.

        PassManager(pipeline).run(context, module, [EquivalenceCheck()])

    Raises NotEquivalentError after the first pass that changed the meaning, and CodaError where
    the reference backend cannot run a function.
    """

    def __init__(
        self,
        *,
        sizes: Mapping[str, int] | None = None,
        draws: Sequence[Draw] = DRAWS,
        counterexample: str | None = None,
        minimize: bool = True,
    ):
        """`counterexample` is the path of a `.npz` file for the inputs that show a difference."""
        self.sizes = sizes or {}
        self.draws = draws
        self.path = counterexample
        self.minimize = minimize
        self.validator: Validator | None = None

    def before_pipeline(self, module: ModuleOp) -> None:
        self.validator = Validator(module, self.sizes, self.draws, self.minimize)

    def after_pass(self, run: PassRun, module: ModuleOp) -> None:
        assert self.validator is not None, "the pipeline has begun"
        found = self.validator.check(module)
        if found is None:
            return
        if self.path is None or found.arguments is None:
            raise NotEquivalentError(run, found)
        found.save(self.path)
        raise NotEquivalentError(
            run,
            found,
            f"the inputs are in {self.path}: coda-opt --run --entry {found.function} "
            f"--inputs {self.path}",
        )
