"""Analysis of texts: the latest wins, defects are survived."""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from lsprotocol.types import DiagnosticSeverity, Position, Range
from xdsl.dialects.builtin import ModuleOp

from coda_ir.diagnostics import Diagnostic, SourceRange, emit_diagnostic
from coda_ir.lsp import analysis, check
from coda_ir.lsp.analysis import Analyses, Document, Outcome
from coda_ir.lsp.compilation import CancelledError, Compilation, compile_program
from coda_ir.lsp.diagnostics import diagnostics
from coda_ir.lsp.positions import SourceText

TEXT = "fn f(x: bf16[M, 64]) {\n    return silu(x)\n}\n"
OTHER = TEXT.replace("silu", "gelu")

Work = Callable[[Analyses], Coroutine[None, None, None]]


class Published(list[tuple[str, bool]]):
    """The texts whose news were published, and whether these were all."""

    def __call__(self, document: Document, outcome: Outcome, is_all: bool) -> None:
        self.append((document.source.text, is_all))


def analyze(work: Work) -> Published:
    published = Published()

    async def run() -> None:
        analyses = Analyses(published, debounce=0)
        await asyncio.wait_for(work(analyses), 60)
        analyses.stop()

    asyncio.run(run())
    return published


def put(analyses: Analyses, text: str, path: Path = Path("/nowhere/a.coda")) -> str:
    analyses.update(path.as_uri(), str(path), SourceText(text), 1)
    return path.as_uri()


def test_a_text_that_is_replaced_is_dropped(monkeypatch: pytest.MonkeyPatch):
    started = Event()

    def compile_slowly(module: ModuleOp, schedule: str, cancelled: Event) -> Compilation:
        if "coda.silu" in str(module):
            started.set()
            assert cancelled.wait(60), "the text is dropped when it is replaced"
            raise CancelledError
        return compile_program(module, schedule, cancelled)

    monkeypatch.setattr(analysis, "compile_program", compile_slowly)

    async def work(analyses: Analyses) -> None:
        uri = put(analyses, TEXT)
        waiting = asyncio.create_task(analyses.compiled(uri))
        await asyncio.to_thread(started.wait, 60)
        put(analyses, OTHER)
        found = await waiting
        assert found is not None and found[0].source.text == OTHER
        assert found[1].compilation is not None

    assert analyze(work) == [(TEXT, False), (OTHER, False), (OTHER, True)]


@pytest.mark.parametrize("stage", ["check_program", "compile_program"])
def test_a_defect_of_the_compiler_is_told(stage: str, monkeypatch: pytest.MonkeyPatch):
    def fail(*_arguments: object) -> None:
        raise KeyError("defect")

    monkeypatch.setattr(analysis, stage, fail)

    async def work(analyses: Analyses) -> None:
        found = await analyses.compiled(put(analyses, TEXT))
        assert found is not None
        assert found[1].failure == "internal error of the compiler: KeyError: 'defect'"

    assert analyze(work)[-1] == (TEXT, True)


def test_warnings_of_the_file_itself_are_shown(monkeypatch: pytest.MonkeyPatch):
    lower = check.lower_program

    def lower_and_warn(*arguments: Any) -> ModuleOp:
        for file in ("/nowhere/a.coda", "/nowhere/b.coda"):
            emit_diagnostic(Diagnostic("warning", SourceRange(file, 2, 5, 11), "odd", "change it"))
        return lower(*arguments)

    monkeypatch.setattr(check, "lower_program", lower_and_warn)

    async def work(analyses: Analyses) -> None:
        found = await analyses.compiled(put(analyses, TEXT))
        assert found is not None and found[1].compilation is not None
        (shown,) = diagnostics(*found, "none", str)
        assert shown.severity == DiagnosticSeverity.Warning
        assert shown.message == "odd\nhelp: change it"
        assert shown.range == Range(Position(1, 4), Position(1, 10))

    analyze(work)


def test_closing_ends_the_wait():
    async def work(analyses: Analyses) -> None:
        uri = put(analyses, TEXT)
        waiting = asyncio.create_task(analyses.compiled(uri))
        await asyncio.sleep(0)
        analyses.close(uri)
        assert await waiting is None

    analyze(work)
