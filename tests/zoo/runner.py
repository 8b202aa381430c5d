"""Runs measurements in processes of their own, so that a crash or a hang costs one line."""

import json
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from harness import Job

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


class Records(Generic[R]):
    """The results of a run by the names of the models.

    Until the run is finished they are in a file beside `path`, whose name ends in `.partial`.
    """

    def __init__(
        self, path: Path | None, facts: Mapping[str, Any], read: Callable[[dict[str, Any]], R]
    ):
        """`facts` are those of the run; `read` makes a result from a row of the file."""
        self._path, self._read = path, read
        self._facts: dict[str, Any] = json.loads(json.dumps(facts))
        self.results: dict[str, R] = {}
        if path is not None and (partial := _partial(path)).exists():
            earlier = json.loads(partial.read_text())
            del earlier["architectures"]
            if earlier == self._facts:
                self.results = self._rows(partial)

    def add(self, result: R) -> None:
        self.results[result.name] = result
        if self._path is not None:
            self._write(_partial(self._path), self.results.values())

    def finish(self, order: Iterable[str], *, update: bool) -> list[R]:
        """Write the results in `order`; with `update`, those of other models in the file stay."""
        if update and self._path is not None and self._path.exists():
            self.results = self._rows(self._path) | self.results
        ordered = [self.results[name] for name in order if name in self.results]
        if self._path is not None:
            self._write(self._path, ordered)
            _partial(self._path).unlink(missing_ok=True)
        return ordered

    def _rows(self, path: Path) -> dict[str, R]:
        rows = json.loads(path.read_text())["architectures"]
        return {row["name"]: self._read(row) for row in rows}

    def _write(self, path: Path, results: Iterable[R]) -> None:
        """All figures. Files of packages are named from their folder on."""
        rows = [vars(result) | {"ok": result.ok} for result in results]
        text = json.dumps({**self._facts, "architectures": rows}, indent=1, default=vars)
        text = re.sub(r"/[^\s\"]*/site-packages/", "", text)
        # Whole also where the run is stopped now.
        unfinished = path.with_name(path.name + ".new")
        unfinished.write_text(text + "\n")
        unfinished.replace(path)


def _partial(path: Path) -> Path:
    return path.with_name(path.name + ".partial")
