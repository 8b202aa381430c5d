"""What each pass of a pipeline did, in numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import IO

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from coda_ir.pipeline.instrumentation import PassInstrumentation, PassRun
from coda_ir.pipeline.timing import heading
from coda_ir.remarks import Remark


class CountOperators(PassInstrumentation):
    """Writes a report to `stream`: for each pass the number of operators before and after it, those
    that it made and removed, and the rewrites that it reported in `remarks`.

    An operator that was replaced by one of the same name counts as removed and as made.
    """

    def __init__(self, remarks: Sequence[Remark], stream: IO[str]):
        self._remarks = remarks
        self._stream = stream
        self._lines = heading("Pass statistics report")
        self._before: list[Operation] = []
        self._remarks_before = 0
        self._parents: tuple[str, ...] = ()

    def before_pass(self, run: PassRun, module: ModuleOp) -> None:
        # The operators themselves, so that a new one never has the identity of an old one.
        self._before, self._remarks_before = list(module.walk()), len(self._remarks)

    def after_pass(self, run: PassRun, module: ModuleOp) -> None:
        for depth, parent in enumerate(run.parents):
            if run.parents[: depth + 1] != self._parents[: depth + 1]:
                self._lines.append(f"{'  ' * depth}{parent}")
        self._parents = run.parents
        indent, after = "  " * len(run.parents), list(module.walk())
        self._lines.append(f"{indent}{run}: {self._summary(after)}")
        for verb, these, those in (("made", after, self._before), ("removed", self._before, after)):
            changed = Counter(op.name for op in set(these) - set(those))
            if changed:
                self._lines.append(f"{indent}  {verb}: {_format_counts(changed)}")

    def after_failure(self, run: PassRun, module: ModuleOp, error: BaseException) -> None:
        self._lines += [f"{run}: failed"]
        self._finish()

    def after_pipeline(self, module: ModuleOp) -> None:
        self._finish()

    def _finish(self) -> None:
        self._stream.write("\n".join(self._lines) + "\n")

    def _summary(self, after: Sequence[Operation]) -> str:
        changed = len(self._before) != len(after)
        text = f"{len(self._before)} -> {len(after)}" if changed else str(len(after))
        kinds = Counter(remark.kind for remark in self._remarks[self._remarks_before :])
        rewrites = [f"{kinds[kind]} {kind}" for kind in ("passed", "missed") if kinds[kind]]
        return "; ".join([f"{text} operators", *rewrites])


def _format_counts(counts: Counter[str]) -> str:
    by_name: Iterable[tuple[str, int]] = sorted(counts.items())
    return ", ".join(f"{name} {count}" for name, count in by_name)
