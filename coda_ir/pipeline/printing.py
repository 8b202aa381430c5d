"""IR dumps around the passes of a pipeline, to a stream or a folder."""

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import IO

from xdsl.dialects.builtin import ModuleOp
from xdsl.printer import Printer

from coda_ir.pipeline.instrumentation import PassInstrumentation, PassRun


@dataclass(frozen=True)
class PrintSelection:
    """The passes before and after which to print, by name, or None for all; the name of a pipeline
    pass means its first or its last step. `after_change` omits passes that change nothing.
    """

    before: Container[str] | None = ()
    after: Container[str] | None = ()
    after_change: bool = False
    after_failure: bool = False


@dataclass
class PrintIR(PassInstrumentation):
    """Prints the module around the passes of `runs` that `selection` names.

    A stream gets one dump after the other, each with a header like that of mlir-opt. A folder gets
    one file per dump: `03_defer-norms.mlir`, `03_defer-norms.before.mlir`.
    """

    selection: PrintSelection
    sink: IO[str] | Path
    print_module: Callable[[ModuleOp], str]
    runs: Sequence[PassRun]
    _before: str = field(default="", init=False)
    """The text of the module before the running pass, where changes matter."""

    def before_pass(self, run: PassRun, module: ModuleOp) -> None:
        if self.selection.after_change:
            self._before = self.print_module(module)
        for name in self._chosen(run, self.selection.before, run.index - 1):
            self._write(run, "Before", name, self.print_module(module))

    def after_pass(self, run: PassRun, module: ModuleOp) -> None:
        names = self._chosen(run, self.selection.after, run.index + 1)
        if not names:
            return
        text = self.print_module(module)
        if self.selection.after_change and text == self._before:
            return
        for name in names:
            self._write(run, "After", name, text)

    def after_failure(self, run: PassRun, module: ModuleOp, error: BaseException) -> None:
        if self.selection.after_failure:
            # The generic form, since what a pass left half done may have no other.
            self._write(run, "Failed", run.pass_.name, generic_text(module))

    def _write(self, run: PassRun, when: str, name: str, text: str) -> None:
        """Write a dump: `when` is `Before`, `After` or `Failed`. Raises OSError if that fails."""
        if isinstance(self.sink, Path):
            self.sink.mkdir(parents=True, exist_ok=True)
            suffix = "" if when == "After" else f".{when.lower()}"
            path = self.sink / f"{run.index:02}_{name}{suffix}.mlir"
            path.write_text(text, encoding="utf-8")
        else:
            title = f"After {name} Failed" if when == "Failed" else f"{when} {name}"
            print(f"// -----// IR Dump {title} //----- //\n{text.rstrip()}\n", file=self.sink)

    def _chosen(self, run: PassRun, selected: Container[str] | None, neighbour: int) -> list[str]:
        """Return the names of `selected` that a point matches: that of the pass, and those of
        pipeline passes that begin or end there, because the neighbour is not one of their steps.
        """
        if selected is None:
            return [run.pass_.name]
        shared = self.runs[neighbour].parents if 0 <= neighbour < len(self.runs) else ()
        names = [run.pass_.name, *(name for name in run.parents if name not in shared)]
        return [name for name in names if name in selected]


def generic_text(module: ModuleOp) -> str:
    """Return the module in the generic form, which does not require valid IR."""
    output = StringIO()
    Printer(output, print_generic_format=True).print_op(module)
    return output.getvalue() + "\n"
