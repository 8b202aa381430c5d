"""Instrumentation of a pipeline: printing, timing, verification and translation validation.

class CountOperators(PassInstrumentation):
    def after_pass(self, run: PassRun, module: ModuleOp) -> None:
        print(run, sum(1 for _ in module.walk()))
"""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from coda_ir.pipeline.spec import MODULE_ANCHOR, format_pass


@runtime_checkable
class PipelinePass(Protocol):
    """A pass that consists of other passes in order, such as `coda-to-gemm`.

    A pipeline runs the steps one by one, so that whatever watches it sees each of them.
    """

    def steps(self) -> tuple[ModulePass, ...]:
        """Return the passes that this one consists of."""
        ...


@dataclass(frozen=True)
class PassRun:
    """One run of a pass, at its place in a pipeline."""

    pass_: ModulePass
    index: int
    """Position among all passes that run, from 0; the steps of a pipeline pass count."""
    anchor: str = MODULE_ANCHOR
    """Operator that the pass runs on: the whole module, or every `func.func`."""
    parents: tuple[str, ...] = ()
    """Names of the pipeline passes that this one is a step of, the outermost first."""

    def __str__(self) -> str:
        """Return the pass with its options, as in the text of a pipeline."""
        return format_pass(self.pass_)


class PassInstrumentation:
    """Hooks around the passes of a pipeline; each sees the whole module. The defaults do nothing.

    Several instrumentations are nested: the first one sees the beginning of a pass first and its
    end last. Raising from a hook ends the pipeline. The module may be read, not changed.
    """

    def before_pipeline(self, module: ModuleOp) -> None:
        """Run before the first pass."""

    def before_pass(self, run: PassRun, module: ModuleOp) -> None:
        """Run before each pass."""

    def before_verify(self, run: PassRun, module: ModuleOp) -> None:
        """Run after a pass that did not raise, before its module is verified."""

    def after_pass(self, run: PassRun, module: ModuleOp) -> None:
        """Run after each pass that did not raise and left a valid module."""

    def after_failure(self, run: PassRun, module: ModuleOp, error: BaseException) -> None:
        """Run after a pass, or a hook after it, raised `error`; `module` is as it left it."""

    def after_pipeline(self, module: ModuleOp) -> None:
        """Run after the last pass, if none raised."""
