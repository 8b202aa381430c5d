"""Runs measurements in processes of their own, so that a crash or a hang costs one line."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, Generic, Protocol, TypeVar

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


@dataclass
class _Job(Generic[R]):
    task: Task[R]
    architecture: Architecture
    process: Any
    results: Connection
    deadline: float


def run_all(
    architectures: Sequence[Architecture], task: Task[R], *, jobs: int = 1, timeout: float = 300
) -> Iterator[R]:
    """Measure each architecture in a forked process, `jobs` at a time, and give results as they
    come. What takes more than `timeout` seconds is ended and noted.
    """
    waiting, running = list(reversed(architectures)), list[_Job[R]]()
    while waiting or running:
        while waiting and len(running) < jobs:
            running.append(_start(waiting.pop(), task, timeout))
        for job in list(running):
            if (result := _poll(job)) is not None:
                running.remove(job)
                yield result
        time.sleep(0.02)


def _start(architecture: Architecture, task: Task[R], timeout: float) -> _Job[R]:
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_work, args=(architecture, task, sender), daemon=True)
    process.start()
    sender.close()
    return _Job(task, architecture, process, receiver, time.monotonic() + timeout)


def _work(architecture: Architecture, task: Task[Any], results: Connection) -> None:
    try:
        results.send(task.measure(architecture))
    except Exception as error:  # The boundary of the tool: the table names what went wrong.
        if os.environ.get("ZOO_DEBUG"):
            raise
        results.send(task.failed(architecture, describe(error)))


def _poll(job: _Job[R]) -> R | None:
    if job.results.poll():
        try:
            result: R = job.results.recv()
        except EOFError:
            result = _failed(job, "the process ended")
    elif time.monotonic() > job.deadline:
        job.process.kill()
        result = _failed(job, "took too long")
    elif not job.process.is_alive() and not job.results.poll():
        result = _failed(job, f"the process ended with {job.process.exitcode}")
    else:
        return None
    job.process.join()
    return result


def _failed(job: _Job[R], note: str) -> R:
    return job.task.failed(job.architecture, note)
