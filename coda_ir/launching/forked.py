"""Work in forks of a process, several at a time; each fork shares the imports of the process.

If a compiler crashes its process, only one request fails. This module imports little, so that a
process that serves requests starts quickly.
"""

import gc
import json
import os
import signal
import subprocess
import sys
import traceback
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock, Thread, Timer
from typing import Any, TypeAlias
from weakref import finalize

from coda_ir.progress import Progress

Request: TypeAlias = dict[str, Any]

WAIT = "wait"
"""Requests that the process reports its current work before it reads further requests."""


@dataclass(frozen=True)
class Answer:
    """The outcome of the request number `index`."""

    index: int
    code: int
    """The exit code of the process; not 0 where there is no value."""
    value: Any
    errors: str
    """The text that the process printed."""


class ForkingProcess:
    """A process that calls `serve`, which handles each request in a fork of itself.

    Triton compiles in this process even if it interprets kernels in the current one.
    """

    def __init__(self, command: Sequence[str], jobs: int):
        """Start the process. It works on at most `jobs` requests at a time."""
        environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
        # Where it cannot be removed, it is a temporary folder all the same.
        self._temporary = TemporaryDirectory(prefix="coda_forked_", ignore_cleanup_errors=True)
        self._folder = Path(self._temporary.name)
        self._errors = self._folder / "errors"
        self._submitted = 0
        self._left: set[int] = set()
        with self._errors.open("w") as errors:
            self._process = subprocess.Popen(
                [*command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env=environment,
                start_new_session=True,
            )
        self._owner = os.getpid()
        self._write(json.dumps({"jobs": jobs, "to": str(self._folder)}))

    def submit(self, request: Request) -> None:
        """Submit a request; requests are numbered in order."""
        index = self._submitted
        self._submitted += 1
        # The pipe stays short, so that no write waits for a process that is still starting.
        (self._folder / f"{index}.request").write_text(json.dumps(request), encoding="utf-8")
        self._left.add(index)
        self._write(str(index))

    def share(self, text: str) -> str:
        """Write a text that several requests use; return its path."""
        path = self._folder / f"{self._submitted}.shared"
        path.write_text(text, encoding="utf-8")
        return str(path)

    def answers(self, *, more: bool = False) -> Generator[Answer]:
        """Yield the answers as they become ready. With `more`, further requests may follow."""
        self._write(WAIT if more else "")
        assert self._process.stdout is not None
        while self._left:
            line = self._process.stdout.readline()
            if not line:
                break
            index, code = map(int, line.split())
            self._left.discard(index)
            yield _answer(index, code, self._folder)
        else:
            return
        failure = self._process.wait()
        # The process itself has failed, and said why, unless it was stopped.
        for index in sorted(self._left) if failure > 0 else ():
            yield Answer(index, failure, None, self._errors.read_text(errors="replace"))

    def stop(self) -> None:
        """End the process and its forks."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def close(self) -> None:
        """Stop the process, and remove its files."""
        if os.getpid() != self._owner:
            return  # a copy of the process that started it
        self.stop()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(BrokenPipeError):
                    pipe.close()
        self._temporary.cleanup()

    def _write(self, line: str) -> None:
        assert self._process.stdin is not None
        # A process that has failed takes nothing.
        with suppress(BrokenPipeError):
            self._process.stdin.write(f"{line}\n")
            self._process.stdin.flush()


def run_forked(
    command: Sequence[str], requests: Sequence[Request], jobs: int, seconds: float | None = None
) -> Generator[Answer]:
    """Yield the answers of a process that calls `serve`, in the order in which they are ready.

    Answers that are not ready after `seconds` are omitted.
    """
    process = ForkingProcess(command, jobs)
    timer = None if seconds is None else Timer(seconds, process.stop)
    if timer is not None:
        timer.start()
    try:
        for request in requests:
            process.submit(request)
        yield from process.answers()
    finally:
        if timer is not None:
            timer.cancel()
        process.close()


def _answer(index: int, code: int, folder: Path) -> Answer:
    files = folder / str(index)
    errors = files.with_suffix(".txt").read_text(encoding="utf-8", errors="replace")
    value = None if code else json.loads(files.with_suffix(".json").read_text(encoding="utf-8"))
    return Answer(index, code, value, errors)


def serve(
    work: Callable[[Request], Any], begin: Callable[[Request], None] = lambda request: None
) -> None:
    """Do the work of the requests on stdin, and report on stdout which are done.

    `begin` is called with each request before the process is copied to work on it.
    """
    given = json.loads(sys.stdin.readline())
    folder = Path(given["to"])
    output = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    running: dict[int, int] = {}

    def report() -> None:
        process, status = os.wait()
        output.write(f"{running.pop(process)} {os.waitstatus_to_exitcode(status)}\n")
        output.flush()

    for line in sys.stdin:
        if not line.strip():
            break
        if line.strip() == WAIT:
            while running:
                report()
            continue
        if len(running) == given["jobs"]:
            report()
        files = folder / line.strip()
        request = json.loads(files.with_suffix(".request").read_text(encoding="utf-8"))
        begin(request)
        running[_start(work, request, files)] = int(line)
    while running:
        report()


def _start(work: Callable[[Request], Any], request: Request, files: Path) -> int:
    """Fork a process that does the work; return its id."""
    process = os.fork()
    if process:
        return process
    errors = os.open(files.with_suffix(".txt"), os.O_WRONLY | os.O_CREAT)
    for stream in (sys.stdout, sys.stderr):
        os.dup2(errors, stream.fileno())
    code = 1
    try:
        files.with_suffix(".json").write_text(json.dumps(work(request)), encoding="utf-8")
        code = 0
    except BaseException:
        # The boundary of the process: whatever fails is the answer.
        traceback.print_exc()
    sys.stderr.flush()
    # Without taking down what only the first process has to.
    os._exit(code)


MIN_JOBS = 4
"""Below that, starting a process takes as much as it saves."""


class KernelCompiler:
    """A process that compiles kernels into Triton's cache, in forks of itself, while their program
    is lowered; threads would compete with lowering for Python's lock.

    It starts immediately. Kernels that it fails to compile are compiled by their launches, which
    report the error.
    """

    def __init__(self, target: tuple[Any, ...], jobs: int):
        """Start the compiler; `target` is Triton's (backend, architecture, warp size)."""
        command = [sys.executable, "-P", "-m", "coda_ir.launching.compile_worker"]
        self._process = ForkingProcess([*command, json.dumps(target)], jobs)
        self._sources: list[str] = []
        """The module of each request."""
        self._waiting: Counter[str] = Counter()
        """The requests of each module that are not answered."""
        self._answers: Iterator[Answer] | None = None
        """Answers to come, once no more requests are taken."""
        self._lock = Lock()
        self._close = finalize(self, self._process.close)

    def submit(self, source: str, name: str, groups: Sequence[Sequence[str]]) -> None:
        """Start compiling kernels of a module by their launches, unless submitted or ended."""
        with self._lock:
            if source in self._waiting or self._answers is not None:
                return
            self._sources += [source] * len(groups)
            self._waiting[source] = len(groups)
            path = self._process.share(source)
            for launches in groups:
                self._process.submit({"path": path, "name": name, "launches": launches})

    def wait(self, source: str) -> None:
        """Wait until the submitted kernels of a module are compiled. No others are taken then, and
        the process exits after the last.
        """
        with self._lock:
            if self._answers is None:
                self._answers = self._process.answers()
                # Lowering has left garbage, whose collection would delay the first call.
                if gc.isenabled():
                    gc.collect()
            try:
                self._wait(source, self._answers)
            except BaseException:
                self._waiting.clear()
                raise
            finally:
                if not self._waiting.total():
                    Thread(target=self._close, name="coda-close").start()

    def _wait(self, source: str, answers: Iterator[Answer]) -> None:
        with Progress({"compiling kernels": self._waiting[source]}) as progress:
            while self._waiting[source]:
                answer = next(answers, None)
                if answer is None:
                    self._waiting.clear()
                    return
                answered = self._sources[answer.index]
                self._waiting[answered] -= 1
                if answered == source:
                    progress.advance("compiling kernels")
