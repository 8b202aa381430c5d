"""Work in copies of one process, at most so many at a time: each has what that one has imported.

A compiler that ends its process fails one request. The module imports little, so that a process
that serves requests starts fast.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Timer
from typing import Any, TypeAlias

Request: TypeAlias = dict[str, Any]


@dataclass(frozen=True)
class Answer:
    """The outcome of the request number `index`."""

    index: int
    code: int
    """The exit code of the process; not 0 where there is no value."""
    value: Any
    errors: str
    """The text that the process printed."""


def run_forked(
    command: Sequence[str], requests: Sequence[Request], jobs: int, seconds: float | None = None
) -> Generator[Answer]:
    """The answers of a process that calls `serve`, in the order in which they are ready.

    Those that are not ready after `seconds` are left out. Triton compiles in the processes, also
    where it interprets in this one.
    """
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    with TemporaryDirectory(prefix="coda_forked_") as name:
        folder = Path(name)
        own = folder / "errors"
        with own.open("w") as errors:
            process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env=environment,
                start_new_session=True,
            )
        timer = None if seconds is None else Timer(seconds, _kill, [process])
        if timer is not None:
            timer.start()
        left = set(range(len(requests)))
        try:
            for index, code in _ended(process, {"requests": requests, "jobs": jobs, "to": name}):
                left.discard(index)
                yield _answer(index, code, folder)
            failure = process.wait()
        finally:
            if timer is not None:
                timer.cancel()
            _kill(process)
            process.wait()
        # The process itself has failed, and said why, unless it was stopped.
        for index in sorted(left) if failure > 0 else ():
            yield Answer(index, failure, None, own.read_text(errors="replace"))


def _ended(process: subprocess.Popen[str], given: Request) -> Generator[tuple[int, int]]:
    """The numbers of requests whose processes have ended, and the exit codes."""
    assert process.stdin is not None and process.stdout is not None
    # A process that has failed takes nothing.
    with suppress(BrokenPipeError), process.stdin:
        json.dump(given, process.stdin)
    with process.stdout:
        for line in process.stdout:
            index, code = map(int, line.split())
            yield index, code


def _answer(index: int, code: int, folder: Path) -> Answer:
    files = folder / str(index)
    errors = files.with_suffix(".txt").read_text(encoding="utf-8", errors="replace")
    value = None if code else json.loads(files.with_suffix(".json").read_text(encoding="utf-8"))
    return Answer(index, code, value, errors)


def _kill(process: subprocess.Popen[str]) -> None:
    """End a process and its copies."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def serve(work: Callable[[Request], Any]) -> None:
    """Do the work of the requests on stdin, and write to stdout which are done."""
    given = json.load(sys.stdin)
    output = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    running: dict[int, int] = {}

    def report() -> None:
        process, status = os.wait()
        output.write(f"{running.pop(process)} {os.waitstatus_to_exitcode(status)}\n")
        output.flush()

    for index, request in enumerate(given["requests"]):
        if len(running) == given["jobs"]:
            report()
        running[_start(work, request, Path(given["to"], str(index)))] = index
    while running:
        report()


def _start(work: Callable[[Request], Any], request: Request, files: Path) -> int:
    """The id of a process that does the work."""
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
