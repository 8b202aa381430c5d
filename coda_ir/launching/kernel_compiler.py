"""Compiles the kernels of a program in other processes, which start while it is lowered.

Threads of this process would share Python's lock with each other, and with what goes on meanwhile.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from threading import Lock
from typing import Any
from weakref import finalize

from coda_ir.launching.forked import ForkingProcess
from coda_ir.progress import Progress

MIN_JOBS = 4
"""Below that, starting a process takes as much as it saves."""


class KernelCompiler:
    """A process that compiles kernels into Triton's cache, in copies of itself.

    It starts at once. What it cannot compile is left to the launches, which say why.
    """

    def __init__(self, target: tuple[Any, ...], jobs: int):
        """`target` is Triton's (backend, architecture, warp size)."""
        command = [sys.executable, "-P", "-m", "coda_ir.launching.compile_worker"]
        self._process = ForkingProcess([*command, json.dumps(target)], jobs)
        self._submitted: set[str] = set()
        self._kernels = 0
        self._lock = Lock()
        self._close = finalize(self, self._process.close)

    def submit(self, source: str, name: str, groups: Sequence[Sequence[str]]) -> None:
        """Begin to compile kernels of an emitted module, each by its launches, unless it has been
        submitted before, or the process is done.
        """
        with self._lock:
            if source in self._submitted or not self._close.alive:
                return
            self._submitted.add(source)
            self._kernels += len(groups)
            for launches in groups:
                request = {"source": source, "name": name, "launches": launches, "is_shared": True}
                self._process.submit(request)

    def wait(self) -> None:
        """Return when all that was submitted is done. The process ends."""
        with self._lock:
            if self._close.alive:
                try:
                    with Progress({"compiling kernels": self._kernels}) as progress:
                        for _ in self._process.answers():
                            progress.advance("compiling kernels")
                finally:
                    self._close()
