"""The check that two modules compute the same results, function by function, after every pass."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import CallOp, FuncOp
from xdsl.ir import IRNode, SSAValue

from coda_ir.diagnostics import CheckError
from coda_ir.equivalence.counterexample import Counterexample, describe_failure, find_origin
from coda_ir.equivalence.draws import DRAWS, Draw
from coda_ir.equivalence.samples import Baseline, Mismatch, Sample, compare, run_after
from coda_ir.functions import is_private
from coda_ir.pipeline.instrumentation import PassInstrumentation, PassRun
from coda_ir.random_inputs.draw import expect_symbols


def check_equivalent(
    before: ModuleOp,
    after: ModuleOp,
    *,
    sizes: Mapping[str, int] | None = None,
    draws: Sequence[Draw] = DRAWS,
) -> Counterexample | None:
    """Return inputs on which a function of `after` differs from its namesake in `before`.

    None where none was found: every function (of any level) gives the same results in float64 on
    random inputs of several kinds and sizes. Private functions of `before` may be missing in
    `after`. `sizes` fixes symbols; those that a function lacks are ignored.
    Raises CodaError for a function of `before` that the reference backend cannot run.
    """
    return Validator(before, sizes or {}, draws).check(after)


@dataclass
class Validator:
    """A comparison of consecutive states of a module; each state runs once.

    Functions that did not change, and call none that did, are not run at all.
    """

    module: ModuleOp
    sizes: Mapping[str, int] = field(default_factory=dict[str, int])
    draws: Sequence[Draw] = DRAWS
    checked: int = 0
    """The number of pairs of functions that were run and compared."""

    def __post_init__(self) -> None:
        self._take(self.module)
        self._baselines: dict[str, Baseline] = {}

    def check(self, after: ModuleOp) -> Counterexample | None:
        """Compare `after` with the last state; if they agree, `after` takes its place."""
        functions = functions_of(after)
        changed = self._changed(functions)
        results: dict[str, list[Sample]] = {}
        for name in changed:
            self.checked += 1
            func = functions.get(name)
            found = self._check_function(name, func)
            if isinstance(found, Counterexample):
                return found
            results[name] = found
        if changed or functions.keys() != self._functions.keys():
            self._take(after)
            self._advance(results)
        return None

    def _changed(self, functions: Mapping[str, FuncOp]) -> list[str]:
        """Return the functions of the last state that `functions` no longer contains unchanged."""
        changed: list[str] = []
        for name, before in self._functions.items():
            after = functions.get(name)
            same = after is not None and is_same(before, after)
            if not same or (changed and not set(changed).isdisjoint(_callees(before))):
                changed.append(name)
        return changed

    def _take(self, module: ModuleOp) -> None:
        # Passes work in place.
        self.module = module.clone()
        self._functions = functions_of(self.module)

    def _advance(self, results: Mapping[str, list[Sample]]) -> None:
        for name, samples in results.items():
            if name in self._functions:
                self._baselines[name] = Baseline(self._functions[name], samples)
        for name in self._baselines.keys() - results.keys():
            if name in self._functions:
                self._baselines[name].func = self._functions[name]

    def _check_function(self, name: str, after: FuncOp | None) -> list[Sample] | Counterexample:
        """Return the samples with the results of `after`, or a counterexample."""
        before = self._functions[name]
        if after is None:
            missing = Mismatch(None, "the function no longer exists")
            return [] if is_private(before) else Counterexample(name, missing)
        if before.function_type != after.function_type:
            types = f"{after.function_type}, expected {before.function_type}"
            return Counterexample(name, Mismatch(None, f"its type is {types}"))
        samples: list[Sample] = []
        for sample in self._baseline(name).samples:
            actual = run_after(after, sample.arguments)
            mismatch = (
                actual
                if isinstance(actual, Mismatch)
                else compare(before, sample.arguments, sample.results, actual)
            )
            if mismatch is not None:
                return self._counterexample(before, after, sample, mismatch)
            assert not isinstance(actual, Mismatch)
            samples.append(Sample(sample.draw, sample.sizes, sample.arguments, actual))
        return samples

    def _baseline(self, name: str) -> Baseline:
        if name not in self._baselines:
            func = self._functions[name]
            self._baselines[name] = Baseline.of(func, self.draws, self.sizes)
        return self._baselines[name]

    def _counterexample(
        self, before: FuncOp, after: FuncOp, sample: Sample, mismatch: Mismatch
    ) -> Counterexample:
        origin = find_origin(before, after, sample.arguments)
        return describe_failure(before, mismatch, sample.sizes, sample.arguments, origin)


def functions_of(module: ModuleOp) -> dict[str, FuncOp]:
    """Return the functions of `module` with a body, by name; callees come first."""
    functions = {
        op.sym_name.data: op for op in module.ops if isinstance(op, FuncOp) and op.body.blocks
    }
    called = {
        name: [callee for callee in _callees(func) if callee in functions]
        for name, func in functions.items()
    }
    try:
        return {name: functions[name] for name in TopologicalSorter(called).static_order()}
    except CycleError:
        # The reference backend says that it cannot run them.
        return functions


def is_same(before: FuncOp, after: FuncOp) -> bool:
    """Return whether two functions are equal except for locations and names of values."""
    blocks: dict[IRNode | SSAValue, IRNode | SSAValue] = {}
    if before.parent is not None and after.parent is not None:
        blocks[before.parent] = after.parent
    # What is structurally equivalent may still have other types of results.
    return before.is_structurally_equivalent(after, blocks) and all(
        one.result_types == other.result_types
        for one, other in zip(before.walk(), after.walk(), strict=True)
    )


def _callees(func: FuncOp) -> list[str]:
    return [op.callee.string_value() for op in func.walk() if isinstance(op, CallOp)]


class NotEquivalentError(CheckError):
    """A pass changed the results of a function: a defect of the pass."""

    run: PassRun
    counterexample: Counterexample

    def __init__(self, run: PassRun, counterexample: Counterexample, remedy: str | None = None):
        self.run = run
        self.counterexample = counterexample
        steps = "".join(f", a step of {parent}" for parent in reversed(run.parents))
        place = f"pass {run.index + 1} of the pipeline{steps}"
        super().__init__(f"{run} ({place}) changed the meaning of {counterexample}", remedy)


class EquivalenceCheck(PassInstrumentation):
    """The option `--check-equivalence`: runs every function before and after each pass that changes
    it; see `check_equivalent`.

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
    ):
        """Set up the check; `counterexample` names a `.safetensors` file for inputs of one."""
        self.sizes = sizes or {}
        self.draws = draws
        self.path = counterexample
        self.validator: Validator | None = None

    def before_pipeline(self, module: ModuleOp) -> None:
        expect_symbols(module, self.sizes)
        self.validator = Validator(module, self.sizes, self.draws)

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
