"""Processes that compile candidates into Triton's cache, at most one per core, until a deadline."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Protocol

from coda_ir.tuning.measurer import Deadline

Request = dict[str, Any]

LOST = "the process that compiles it ended"

POLL_S = 0.2
"""Seconds between looks at the deadline."""


class Done(Protocol):
    def __call__(self, index: int, failure: str | None, /) -> None: ...


class CompilePool:
    """Compiles modules for a Triton target; a request is what `worker.compile_module` takes."""

    def __init__(self, target: tuple[Any, ...], jobs: int):
        self._command = [sys.executable, "-P", "-m", "coda_ir.tuning.worker", json.dumps(target)]
        self._jobs = jobs
        self._lock = threading.Lock()

    def run(self, requests: Sequence[Request], deadline: Deadline, done: Done) -> None:
        """Calls `done`, one at a time, for each request that is ready in time."""
        waiting = deque(enumerate(requests))
        workers = [
            _Worker(self._command, waiting, self._locked(done))
            for _ in range(min(self._jobs, len(requests)))
        ]
        for worker in workers:
            worker.thread.start()
        try:
            for worker in workers:
                while worker.thread.is_alive() and not deadline.is_over:
                    worker.thread.join(min(POLL_S, deadline.left))
        finally:
            for worker in workers:
                worker.stop()
            for worker in workers:
                worker.thread.join()

    def _locked(self, done: Done) -> Callable[[int, str | None], None]:
        def call(index: int, failure: str | None) -> None:
            with self._lock:
                done(index, failure)

        return call


class _Worker:
    """A process and the thread that feeds it; a process that dies is replaced."""

    def __init__(
        self,
        command: Sequence[str],
        waiting: deque[tuple[int, Request]],
        done: Callable[[int, str | None], None],
    ):
        self._command, self._waiting, self._done = command, waiting, done
        self._process: subprocess.Popen[str] | None = None
        self._stopped = threading.Event()
        self.thread = threading.Thread(target=self._serve, daemon=True)

    def stop(self) -> None:
        """Give up what is being compiled."""
        self._stopped.set()
        if self._process is not None:
            self._process.kill()

    def _serve(self) -> None:
        while not self._stopped.is_set():
            try:
                index, request = self._waiting.popleft()
            except IndexError:
                break
            answered, failure = self._ask(request)
            if not self._stopped.is_set() or answered:
                self._done(index, failure)
        self._end()

    def _ask(self, request: Request) -> tuple[bool, str | None]:
        """Whether there is an answer, and why it failed."""
        process = self._started()
        assert process.stdin is not None and process.stdout is not None
        try:
            process.stdin.write(json.dumps(request) + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
        except (BrokenPipeError, ValueError):
            line = ""
        if not line:
            self._end()
            return False, LOST
        return True, json.loads(line)

    def _started(self) -> subprocess.Popen[str]:
        if self._process is None:
            environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                env=environment,
            )
        return self._process

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                with suppress(BrokenPipeError):
                    stream.close()
        process.wait()
