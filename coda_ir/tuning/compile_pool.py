"""Candidates that processes compile into Triton's cache, at most one per core, until a deadline."""

from __future__ import annotations

import json
import sys
from collections.abc import Generator, Sequence
from typing import Any

from coda_ir.launching.forked import Request, run_forked
from coda_ir.tuning.measurer import Deadline

LOST = "the process that compiles it ended"


def compile_candidates(
    target: tuple[Any, ...], requests: Sequence[Request], jobs: int, deadline: Deadline
) -> Generator[tuple[int, str | None]]:
    """Compile modules for a Triton target; a request is what `compile_worker.compile_module` takes.

    Gives the number of each request that is ready in time, and why it failed, if it did.
    """
    command = [sys.executable, "-P", "-m", "coda_ir.launching.compile_worker", json.dumps(target)]
    for answer in run_forked(command, requests, jobs, seconds=deadline.left):
        yield answer.index, LOST if answer.code else answer.value
