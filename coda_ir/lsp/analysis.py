"""Analyses: checks and compiles open files outside of the event loop; the latest text wins.

One thread checks programs (fast: types, errors), and one compiles them (kernels, remarks). If a
text is replaced, its analysis stops at the next pass.
"""

import asyncio
import logging
import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from threading import Event
from typing import TypeVar

from coda_ir.diagnostics import CodaError
from coda_ir.frontends.coda_text.program import Scope
from coda_ir.lsp.check import Check, check_program
from coda_ir.lsp.compilation import CancelledError, Compilation, compile_program
from coda_ir.lsp.positions import SourceText
from coda_ir.lsp.symbols import SymbolTable
from coda_ir.sources import read_source

logger = logging.getLogger(__name__)

DEBOUNCE_SECONDS = 0.15
LONGEST_FAILURE = 400

Result = TypeVar("Result")


@dataclass
class Outcome:
    """The results of the analysis of a text. A `failure` is the reason why something is unknown."""

    check: Check
    compilation: Compilation | None = None
    failure: str | None = None


@dataclass(eq=False)
class Document:
    """One version of an open file; `version` is the editor's number for it."""

    uri: str
    path: str
    source: SourceText
    version: int | None
    wanted: asyncio.Event = field(default_factory=asyncio.Event)
    checked: asyncio.Event = field(default_factory=asyncio.Event)
    compiled: asyncio.Event = field(default_factory=asyncio.Event)
    dropped: Event = field(default_factory=Event)
    outcome: Outcome | None = None


Publish = Callable[[Document, Outcome, bool], None]
"""Takes what is known about a text, and whether that is all: the kernels are found out last."""


class Analyses:
    """The open files and their analyses. `publish` is called for every result."""

    def __init__(self, publish: Publish, debounce: float = DEBOUNCE_SECONDS):
        self.schedule = ""
        self._publish = publish
        self._debounce = debounce
        self._documents: dict[str, Document] = {}
        self._paths: dict[str, str] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._checker = ThreadPoolExecutor(1, "coda-check")
        self._compiler = ThreadPoolExecutor(1, "coda-compile")

    # The open files.

    def update(self, uri: str, path: str, source: SourceText, version: int | None) -> None:
        """Handle an opened or changed file."""
        opened = uri not in self._documents
        self._paths[os.path.realpath(path)] = uri
        self._start(Document(uri, path, source, version), 0 if opened else self._debounce)
        self.invalidate([path])

    def close(self, uri: str) -> None:
        document = self._documents.pop(uri, None)
        if document is not None:
            _drop(document)
            self._paths.pop(os.path.realpath(document.path), None)
            self.invalidate([document.path])

    def invalidate(self, paths: Iterable[str]) -> None:
        """Analyse the open files that import one of `paths` again."""
        changed = {os.path.realpath(path) for path in paths}
        for document in list(self._documents.values()):
            outcome = document.outcome
            if outcome is not None and changed & outcome.check.inputs.keys():
                self._restart(document, self._debounce)

    def restart(self) -> None:
        """Analyse all open files again, after a change of the settings."""
        for document in list(self._documents.values()):
            self._restart(document, 0)

    def _restart(self, document: Document, delay: float) -> None:
        again = Document(document.uri, document.path, document.source, document.version)
        self._start(again, delay)

    def document(self, uri: str) -> Document | None:
        return self._documents.get(uri)

    def uri_of(self, path: str) -> str | None:
        """Return the URI by which the editor knows an open file."""
        return self._paths.get(os.path.realpath(path))

    def open_paths(self) -> list[str]:
        return [document.path for document in self._documents.values()]

    def read(self, path: str) -> str:
        """Return the text of a file in the editor, or else on disk. Raises CodaError."""
        document = self._documents.get(self.uri_of(path) or "")
        return read_source(path) if document is None else document.source.text

    # What is known about them.

    async def checked(self, uri: str) -> tuple[Document, Outcome] | None:
        """The latest text of an open file, checked."""
        return await self._finished(uri, lambda document: document.checked)

    async def compiled(self, uri: str) -> tuple[Document, Outcome] | None:
        """The latest text of an open file, compiled if it is right."""
        return await self._finished(uri, lambda document: document.compiled)

    async def _finished(
        self, uri: str, event: Callable[[Document], asyncio.Event]
    ) -> tuple[Document, Outcome] | None:
        while (document := self._documents.get(uri)) is not None:
            document.wanted.set()
            await event(document).wait()
            if document is self._documents.get(uri) and document.outcome is not None:
                return document, document.outcome
            if document is self._documents.get(uri):
                return None
        return None

    def check_of(self, path: str) -> Check | None:
        """Return the check of a file that need not be open, or None if it cannot be read."""
        document = self._documents.get(self.uri_of(path) or "")
        outcome = None if document is None else document.outcome
        if document is not None and outcome is not None and document.checked.is_set():
            return outcome.check
        try:
            return check_program(self.read(path), path, self.read)
        except CodaError:
            return None

    # How it is found out.

    def _start(self, document: Document, delay: float) -> None:
        previous = self._documents.get(document.uri)
        if previous is not None:
            _drop(previous)
        self._documents[document.uri] = document
        task = asyncio.get_running_loop().create_task(self._analyze(document, delay))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _analyze(self, document: Document, delay: float) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(document.wanted.wait(), delay)
        if not document.dropped.is_set():
            await self._check(document)
        document.checked.set()
        if not document.dropped.is_set():
            await self._compile(document)
        document.compiled.set()

    async def _check(self, document: Document) -> None:
        work = partial(check_program, document.source.text, document.path, self.read)
        check = await _in(self._checker, work)
        outcome = Outcome(check) if isinstance(check, Check) else _failed(document, check)
        document.outcome = outcome
        if not document.dropped.is_set():
            self._publish(document, outcome, False)

    async def _compile(self, document: Document) -> None:
        outcome = document.outcome
        assert outcome is not None, "it was checked before"
        module = outcome.check.module
        if module is not None:
            work = partial(compile_program, module, self.schedule, document.dropped)
            result = await _in(self._compiler, work)
            if isinstance(result, Compilation):
                outcome.compilation = result
            else:
                outcome.failure = result
        if not document.dropped.is_set():
            self._publish(document, outcome, True)

    def stop(self) -> None:
        """Cancel all work. A compilation ends with its next pass."""
        for document in self._documents.values():
            _drop(document)
        self._documents.clear()
        for pool in (self._checker, self._compiler):
            pool.shutdown(wait=False, cancel_futures=True)


async def _in(pool: ThreadPoolExecutor, work: Callable[[], Result]) -> Result | str | None:
    """Do work in the thread of `pool`; see `_attempt`."""
    return await asyncio.get_running_loop().run_in_executor(pool, _attempt, work)


def _attempt(work: Callable[[], Result]) -> Result | str | None:
    """Return the result, or the reason why there is none; None if the work was cancelled."""
    try:
        return work()
    except CancelledError:
        return None
    except CodaError as error:
        return str(error)
    except Exception as error:
        # The boundary of the server: a defect of the compiler must not end it.
        logger.exception("internal error")
        return f"internal error of the compiler: {type(error).__name__}: {error}"[:LONGEST_FAILURE]


def _drop(document: Document) -> None:
    """Cancel the work on a replaced text, and release those who wait for it."""
    document.dropped.set()
    for event in (document.wanted, document.checked, document.compiled):
        event.set()


def _failed(document: Document, failure: str | None) -> Outcome:
    """Return the outcome if the check itself found a defect of the compiler."""
    path, text = document.path, document.source.text
    check = Check(path, text, Scope(path), SymbolTable(), {}, (), None, {path: text}, {})
    return Outcome(check, failure=failure)
