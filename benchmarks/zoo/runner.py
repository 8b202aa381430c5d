"""Runs measurements in processes of their own, so that a crash or a hang costs one line."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from typing import Any, Generic, Protocol, TypeVar

from processes import Job

from zoo.architecture import Architecture
from zoo.emitted import describe


class Result(Protocol):
    """Figures of one architecture."""

    name: str
    note: str
    """The failure, or the reason why shapes are not dynamic."""
    seconds: float

    @property
    def ok(self) -> bool: ...


R = TypeVar("R", bound=Result)


@dataclass
class Task(Generic[R]):
    """The work for each architecture."""

    measure: Callable[[Architecture], R]
    failed: Callable[[Architecture, str], R]
    """The result where that ended without one, and why."""


def run_all(
    architectures: Sequence[Architecture], task: Task[R], *, jobs: int = 1, timeout: float = 300
) -> Iterator[R]:
    """Measure each architecture in a forked process, `jobs` at a time, and give results as they
    come. What takes more than `timeout` seconds is ended and noted.
    """
    waiting, running = list(reversed(architectures)), list[tuple[Job[R], float]]()
    while waiting or running:
        while waiting and len(running) < jobs:
            running.append((_start(waiting.pop(), task), time.monotonic() + timeout))
        for entry in list(running):
            job, deadline = entry
            if (result := job.poll(deadline)) is not None:
                running.remove(entry)
                yield result
        time.sleep(0.02)


def _start(architecture: Architecture, task: Task[R]) -> Job[R]:
    return Job("fork", _work, (architecture, task), partial(task.failed, architecture))


def _work(architecture: Architecture, task: Task[Any], results: Connection) -> None:
    try:
        results.send(task.measure(architecture))
    except Exception as error:  # The boundary of the tool: the table names what went wrong.
        if os.environ.get("ZOO_DEBUG"):
            raise
        results.send(task.failed(architecture, describe(error)))
