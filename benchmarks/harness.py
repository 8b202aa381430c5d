"""Timing of alternatives in one process: interleaved, so that clocks and heat are shared."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table

Candidate = Callable[[], object]


def do_bench(candidate: Candidate, warmup: int, rep: int) -> float:
    """The median time of a call in milliseconds, by Triton on a GPU, by the clock on the CPU."""
    if torch.cuda.is_available():
        triton_bench: Callable[..., float] = import_module("triton.testing").do_bench
        return triton_bench(candidate, warmup=warmup, rep=rep, return_mode="median")
    times: list[float] = []
    while sum(times) < rep:
        start = time.perf_counter()
        candidate()
        times.append(1000 * (time.perf_counter() - start))
    return statistics.median(times)


@dataclass(frozen=True)
class Timing:
    """Milliseconds of one candidate: the median over all rounds, and the spread of the rounds."""

    median: float
    fastest_round: float
    slowest_round: float


def time_interleaved(
    candidates: Mapping[str, Candidate], *, rounds: int = 5, warmup_ms: int = 100, rep_ms: int = 80
) -> dict[str, Timing]:
    """Time every candidate `rounds` times in turn, `rep_ms` milliseconds each.

    The first round warms up for `warmup_ms`. On a GPU, the cache is cleared between calls.
    """
    medians: dict[str, list[float]] = {name: [] for name in candidates}
    for index in range(rounds):
        for name, candidate in candidates.items():
            warmup = warmup_ms if index == 0 else 20
            medians[name].append(do_bench(candidate, warmup, rep_ms))
    return {
        name: Timing(statistics.median(times), min(times), max(times))
        for name, times in medians.items()
    }


def peak_memory(candidate: Candidate) -> float | None:
    """GiB that a call needs at its peak beside what was there before; None without a GPU."""
    if not torch.cuda.is_available():
        return None
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    candidate()
    torch.cuda.synchronize()
    return (torch.cuda.max_memory_allocated() - before) / 2**30


def print_timings(title: str, timings: Mapping[str, Timing], baseline: str) -> None:
    """A table of the medians and their ratios to `baseline`."""
    table = Table(title=title)
    table.add_column("variant")
    for column in ("ms (median)", "rounds (ms)", f"x {baseline}"):
        table.add_column(column, justify="right")
    for name, timing in timings.items():
        table.add_row(
            name,
            f"{timing.median:.3f}",
            f"{timing.fastest_round:.3f} to {timing.slowest_round:.3f}",
            f"{timing.median / timings[baseline].median:.3f}",
        )
    Console(width=110).print(table)


def write_json(path: Path, results: Mapping[str, Mapping[str, Timing]], **facts: object) -> None:
    """Write all timings by section, with `facts` about the machine and the accuracy."""
    milliseconds = {
        section: {name: asdict(timing) for name, timing in timings.items()}
        for section, timings in results.items()
    }
    write_facts(path, **facts, milliseconds=milliseconds)


def write_facts(path: Path, **facts: object) -> None:
    """Write `facts` beside the device and the version of PyTorch."""
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu"
    data = {"device": device, "torch": torch.__version__, **facts}
    path.write_text(json.dumps(data, indent=2) + "\n")
