"""Execution of a pipeline: anchors, steps of pipeline passes, verification, instrumentation."""

from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TypeAlias

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import VerifyException

from coda_ir.dominance import misplaced_use
from coda_ir.pipeline.instrumentation import PassInstrumentation, PassRun, PipelinePass
from coda_ir.pipeline.spec import FUNCTION_ANCHOR, MODULE_ANCHOR, Pipeline

OperatorState: TypeAlias = tuple[object, ...]


class Verification:
    """Verifies consecutive states of a module.

    A state that is the one that was verified before is not verified again: to compare takes a
    small part of the time.
    """

    def __init__(self) -> None:
        self._verified: list[OperatorState] | None = None

    def verify(self, module: ModuleOp) -> None:
        """Raise VerifyException for an invalid module, or a use before its definition."""
        state = [_state(op) for op in module.walk()]
        if state == self._verified:
            return
        module.verify()
        misplaced = misplaced_use(module)
        if misplaced is not None:
            raise misplaced[1]
        self._verified = state


def _state(op: Operation) -> OperatorState:
    """Return everything that verification reads of an operator; the contents of its regions have
    separate states.

    It holds on to the objects, so that one which is new is never taken for one that is gone.
    """
    blocks = tuple((block, *block.arg_types) for region in op.regions for block in region.blocks)
    return (
        op,
        op.parent,
        tuple(op.operands),
        tuple(op.result_types),
        tuple(op.successors),
        dict(op.attributes),
        dict(op.properties),
        tuple(len(region.blocks) for region in op.regions),
        blocks,
    )


class InvalidAfterPassError(VerifyException):
    """A pass produced invalid IR: a defect of the pass."""


@dataclass(frozen=True)
class PassManager:
    """Runs `pipeline` pass by pass. `verify_each` verifies the module after each pass."""

    pipeline: Pipeline
    verify_each: bool = True

    def runs(self) -> tuple[PassRun, ...]:
        """Return the passes in running order, with pipeline passes replaced by their steps."""
        runs = _expand(self.pipeline.steps, self.pipeline.anchor, ())
        return tuple(replace(run, index=index) for index, run in enumerate(runs))

    def run(
        self,
        context: Context,
        module: ModuleOp,
        instrumentations: Sequence[PassInstrumentation] = (),
    ) -> None:
        """Run every pass on `module`, in place.

        Raises what a pass raises, and `InvalidAfterPassError` where a pass left an invalid module.
        """
        for watcher in instrumentations:
            watcher.before_pipeline(module)
        verification = Verification() if self.verify_each else None
        for run in self.runs():
            try:
                self._run_pass(run, context, module, instrumentations, verification)
            except Exception as error:
                try:
                    for watcher in reversed(instrumentations):
                        watcher.after_failure(run, module, error)
                finally:
                    # Even if an instrument fails, report the first error.
                    raise error
        for watcher in reversed(instrumentations):
            watcher.after_pipeline(module)

    def _run_pass(
        self,
        run: PassRun,
        context: Context,
        module: ModuleOp,
        instrumentations: Sequence[PassInstrumentation],
        verification: Verification | None,
    ) -> None:
        for watcher in instrumentations:
            watcher.before_pass(run, module)
        with _named_in_errors(run):
            if run.anchor == FUNCTION_ANCHOR:
                run_on_functions(run.pass_, context, module)
            else:
                run.pass_.apply(context, module)
        if verification is not None:
            for watcher in reversed(instrumentations):
                watcher.before_verify(run, module)
            with _named_in_errors(run):
                verification.verify(module)
        for watcher in reversed(instrumentations):
            watcher.after_pass(run, module)


def pipeline_of(runs: Iterable[PassRun]) -> Pipeline:
    """Return the pipeline of these runs, such as those that remain after a failure."""
    steps: list[ModulePass | Pipeline] = []
    for anchor, group in groupby(runs, key=lambda run: run.anchor):
        passes = tuple(run.pass_ for run in group)
        steps += passes if anchor == MODULE_ANCHOR else (Pipeline(passes, anchor),)
    return Pipeline(tuple(steps))


@contextmanager
def _named_in_errors(run: PassRun) -> Generator[None]:
    """Add the name of the pass to an error about invalid IR, keeping the notes of the verifier."""
    try:
        yield
    except VerifyException as error:
        invalid = InvalidAfterPassError(f"invalid IR after pass '{run}': {error}")
        for note in getattr(error, "__notes__", ()):
            invalid.add_note(note)
        raise invalid from error


def run_on_functions(pass_: ModulePass, context: Context, module: ModuleOp) -> None:
    """Run `pass_` on each function of `module` in a module that contains nothing else.

    What the pass makes at top level stays, at the place of the function; so do the attributes
    that it gives to the module.
    """
    for func in [op for op in module.ops if isinstance(op, FuncOp)]:
        following, parent = func.next_op, module.body.block
        func.detach()
        alone = ModuleOp([func], attributes=dict(module.attributes))
        try:
            pass_.apply(context, alone)
        finally:
            results = list(alone.ops)
            for op in results:
                op.detach()
            if following is None:
                parent.add_ops(results)
            else:
                parent.insert_ops_before(results, following)
            module.attributes = alone.attributes


def _expand(
    steps: Iterable[ModulePass | Pipeline], anchor: str, parents: tuple[str, ...]
) -> Iterator[PassRun]:
    for step in steps:
        if isinstance(step, Pipeline):
            yield from _expand(step.steps, step.anchor, parents)
        elif isinstance(step, PipelinePass):
            yield from _expand(step.steps(), anchor, (*parents, step.name))
        else:
            yield PassRun(step, 0, anchor, parents)
