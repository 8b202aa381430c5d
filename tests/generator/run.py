"""The nightly run: programs in parallel processes, failures in files, a summary in tables."""

import math
import os
import re
import resource
import time
import warnings
from collections.abc import Generator, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, field
from itertools import islice
from multiprocessing import get_context
from pathlib import Path

import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from support.interpreter import speed_up as speed_up_interpreter

from generator.check import Failure, Tally, check_range, shrink_failure

CHUNK = 20
"""Programs per task; a multiple of the round of kinds."""

TASKS_PER_PROCESS = 25
"""After about so many tasks processes are replaced, so that no leak grows. The option of the pool
for this waits for ever at times (github.com/python/cpython/issues/115634).
"""

MEMORY = 4 * 2**30
"""Bytes of data that a process may have."""


@dataclass(frozen=True)
class RunOptions:
    programs: int
    seed: int
    jobs: int
    start: int = 0
    """Number of the first program."""
    folder: Path = Path("random_failures")
    shrink_seconds: float = 90.0
    only: str | None = None
    """The only property to check."""
    seconds: float = math.inf
    """The seconds after which no further program begins."""


@dataclass
class Report:
    """Everything that a run found; failures with one cause are counted once."""

    tally: Tally = field(default_factory=Tally)
    distinct: dict[str, Failure] = field(default_factory=dict[str, Failure])
    counts: dict[str, int] = field(default_factory=dict[str, int])

    def add(self, tally: Tally) -> list[Failure]:
        """Returns the failures that are new."""
        self.tally.add(tally)
        new: list[Failure] = []
        for failure in tally.failures:
            self.counts[failure.signature] = self.counts.get(failure.signature, 0) + 1
            if failure.signature not in self.distinct:
                self.distinct[failure.signature] = failure
                new.append(failure)
        return new


def _start_process() -> None:
    torch.set_num_threads(1)
    # The interpreter computes with NumPy, which warns of infinities that kernels are to handle.
    warnings.simplefilter("ignore", RuntimeWarning)
    speed_up_interpreter()
    if os.environ.get("TRITON_INTERPRET") == "1":
        # The driver of a GPU reserves more than it uses.
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))


def _chunks(options: RunOptions) -> Iterator[tuple[int, int]]:
    end, deadline = options.start + options.programs, time.monotonic() + options.seconds
    for start in range(options.start, end, CHUNK):
        if time.monotonic() > deadline:
            return
        yield start, min(start + CHUNK, end)


def run(options: RunOptions, console: Console) -> Report:
    """Check all programs; the same programs and results for the same options."""
    report = Report()
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console) as progress:
        bar = progress.add_task("random programs", total=options.programs)
        chunks = _chunks(options)
        while batch := list(islice(chunks, TASKS_PER_PROCESS * options.jobs)):
            with _processes(options.jobs) as pool:
                for tally in _results(pool, options, batch):
                    _add(tally, report, pool, options, console)
                    progress.update(bar, advance=sum(tally.programs.values()))
                    progress.update(bar, description=f"{len(report.distinct)} distinct failures")
                    _print_progress(report, options, console)
    return report


def _add(
    tally: Tally, report: Report, pool: ProcessPoolExecutor, options: RunOptions, console: Console
) -> None:
    """Count the results of a chunk; new failures are made small, shown and written."""
    for failure in report.add(tally):
        console.print(f"program {failure.number}: {failure.message}", markup=False)
        small = pool.submit(shrink_failure, failure, options.shrink_seconds).result()
        report.distinct[failure.signature] = small
        console.print(f"  {write_failure(options.folder, small)}", markup=False)


def _print_progress(report: Report, options: RunOptions, console: Console) -> None:
    """A line for logs now and then; a terminal has the bar."""
    done = sum(report.tally.programs.values())
    if not console.is_terminal and done % (CHUNK * 25) == 0:
        failures = len(report.distinct)
        console.print(f"{done} of {options.programs} programs, {failures} distinct failures")


def _processes(jobs: int) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(
        jobs,
        mp_context=get_context("spawn"),
        initializer=_start_process,
    )


def _results(
    pool: ProcessPoolExecutor, options: RunOptions, batch: Iterable[tuple[int, int]]
) -> Generator[Tally]:
    """The tallies of the chunks as they finish; few are waiting at a time."""
    chunks = iter(batch)
    pending: set[Future[Tally]] = set()
    while True:
        for start, stop in chunks:
            pending.add(pool.submit(check_range, options.seed, start, stop, options.only))
            if len(pending) > 2 * options.jobs:
                break
        if not pending:
            return
        done, pending = wait(pending, return_when=FIRST_COMPLETED)
        for future in done:
            yield future.result()


def write_failure(folder: Path, failure: Failure) -> Path:
    """The program as a file that says at its top what is wrong and how to see it again."""
    folder.mkdir(parents=True, exist_ok=True)
    slug = re.sub(r"[^a-z0-9]+", "-", failure.name.lower()).strip("-")
    is_text = failure.kind == "coda"
    path = folder / f"{slug}-{failure.seed}{'.coda' if is_text else '.mlir'}"
    comment = "#" if is_text else "//"
    lines = [
        *failure.message.splitlines(),
        f"property: {failure.name}; program {failure.number}, seed {failure.seed}",
        f"hazards: {', '.join(failure.hazards) or 'none'}",
        f"again: python -m generator replay {path.name}",
        f"record: {failure.kind} {failure.seed} {' '.join(map(str, failure.record))}",
    ]
    header = "\n".join(f"{comment} {line}" for line in lines)
    path.write_text(f"{header}\n\n{failure.module}\n")
    return path
