"""Runs measurements in processes of their own, so that a crash or a hang costs one line."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from zoo.architecture import Architecture
from zoo.measure import Measurement

Measure = Callable[[Architecture], Measurement]


@dataclass
class _Job:
    architecture: Architecture
    process: Any
    results: Connection
    deadline: float


def run_all(
    architectures: Sequence[Architecture], measure: Measure, *, jobs: int = 1, timeout: float = 300
) -> Iterator[Measurement]:
    """Measure each architecture in a forked process, `jobs` at a time, and give results as they
    come. What takes more than `timeout` seconds is ended and noted.
    """
    waiting, running = list(reversed(architectures)), list[_Job]()
    while waiting or running:
        while waiting and len(running) < jobs:
            running.append(_start(waiting.pop(), measure, timeout))
        for job in list(running):
            if (result := _poll(job)) is not None:
                running.remove(job)
                yield result
        time.sleep(0.02)


def _start(architecture: Architecture, measure: Measure, timeout: float) -> _Job:
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_work, args=(architecture, measure, sender), daemon=True)
    process.start()
    sender.close()
    return _Job(architecture, process, receiver, time.monotonic() + timeout)


def _work(architecture: Architecture, measure: Measure, results: Connection) -> None:
    try:
        results.send(measure(architecture))
    except Exception as error:  # The boundary of the tool: the table names what went wrong.
        if os.environ.get("ZOO_DEBUG"):
            raise
        text = " ".join(str(error).split())[:300]
        note = f"{type(error).__name__}: {text}"
        results.send(Measurement(architecture.name, architecture.family, note=note))


def _poll(job: _Job) -> Measurement | None:
    if job.results.poll():
        try:
            result: Measurement = job.results.recv()
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


def _failed(job: _Job, note: str) -> Measurement:
    return Measurement(job.architecture.name, job.architecture.family, note=note)
