"""Tuning the layer between two attentions: the model's ranking against the measured one, the time
that it takes, and what it gains.

    python benchmarks/tune_layer.py --size 2048 --json tune_layer.json

bf16, batch 2 x 8192 tokens, random normal data. The caches, CODA IR's and Triton's, are empty at
the start unless `--keep-caches`. Both programs are compared with float64 in the same run, and timed
in turn beside the four cuBLAS GEMMs. Needs a GPU.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from time import perf_counter
from typing import Literal

import torch
from harness import Candidate, print_errors, print_timings, time_interleaved, write_json
from layer_errors import check
from llama_layer import PROGRAM, LayerShape, Tensors, forward_gemms, make_inputs, pack
from rich.console import Console
from rich.table import Table

import coda_ir
from coda_ir.cache.decision import Decision, Tried, table
from coda_ir.cache.folder import cached_files
from coda_ir.cache.tuned import TunedEntry, read


def results() -> list[TunedEntry]:
    """What is stored, the oldest first."""
    entries = [read(file.path) for file in cached_files() if file.is_tuning]
    return sorted(entries, key=lambda entry: entry.created)


def rank_of_fastest(decision: Decision) -> int:
    """Which place the model gave to the candidate that was measured fastest, from 1."""
    measured = [
        (tried.ratio, rank)
        for rank, tried in enumerate(by_model(decision), 1)
        if tried.ratio is not None
    ]
    return min(measured)[1]


def by_model(decision: Decision) -> list[Tried]:
    """The candidates, the fastest by the model first."""
    return sorted(decision.tried, key=lambda tried: tried.predicted_us)


def agreement(decision: Decision) -> float:
    """Share of the pairs of candidates that the model orders as the measurement does; ties of the
    model count half.
    """
    tried = [each for each in decision.tried if each.ratio is not None]
    pairs = [(a, b) for i, a in enumerate(tried) for b in tried[i + 1 :]]
    score = 0.0
    for a, b in pairs:
        predicted = a.predicted_us - b.predicted_us
        measured = (a.ratio or 0) - (b.ratio or 0)
        score += 0.5 if predicted == 0 else float(predicted * measured > 0)
    return score / len(pairs) if pairs else 1.0


def print_rankings(entries: Sequence[TunedEntry]) -> None:
    for entry in entries:
        found = entry.decision
        title = (
            f"{entry.gemm}: {found.measured_us:.1f} us, {found.gain:.3f} x as fast as the model's "
            f"choice; the model orders {agreement(found):.0%} of the pairs as measured, and puts "
            f"the fastest at place {rank_of_fastest(found)} of {len(found.tried)}"
        )
        shown = Table(title=title)
        for column in ("", "schedule", "predicted us", "measured, x the model's choice"):
            shown.add_column(column)
        for row in table(found):
            shown.add_row(*row)
        Console(width=120).print(shown)


def first_call(
    shape: LayerShape, inputs: Tensors, tune: bool | float | Literal["stored"]
) -> tuple[coda_ir.CompiledFunction, float]:
    """The layer, and the seconds that compiling and calling it took."""
    start = perf_counter()
    function = coda_ir.compile(PROGRAM, constants=shape.constants, device="cuda", tune=tune)
    with torch.no_grad():
        function(**inputs)
    torch.cuda.synchronize()
    return function, perf_counter() - start


def measure(d: int, budget: float, path: Path | None) -> None:
    shape = LayerShape(d)
    inputs = make_inputs(shape)
    cold, first_cold = first_call(shape, inputs, False)
    tuned, first_tuned = first_call(shape, inputs, budget)
    _, first_again = first_call(shape, inputs, "stored")
    entries = results()
    print_rankings(entries)
    seconds = {"untuned": first_cold, "tuned": first_tuned, "stored results": first_again}
    for name, value in seconds.items():
        print(f"first call, {name}: {value:.2f} s")
    candidates: dict[str, Candidate] = {
        "4 cuBLAS GEMMs": forward_gemms(pack(inputs), shape),
        "coda": lambda: cold(**inputs),
        "coda, tuned": lambda: tuned(**inputs),
    }
    with torch.no_grad():
        errors = check({"coda": cold(**inputs), "coda, tuned": tuned(**inputs)}, inputs)
        timings = time_interleaved(candidates)
    print_timings(f"layer forward, D = {d}, M = {shape.rows}", timings, "4 cuBLAS GEMMs")
    print(f"gain: {timings['coda'].median / timings['coda, tuned'].median:.3f} x")
    print_errors(errors, "coda", f"D = {d}")
    if path is not None:
        decisions = [{"gemm": e.gemm, **e.decision.to_data()} for e in entries]
        section = {f"D = {d}": timings}
        write_json(path, section, errors=errors, first_call_s=seconds, decisions=decisions)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--size", type=int, default=2048, help="hidden size")
    parser.add_argument("--budget", type=float, default=60.0, help="seconds for tuning")
    parser.add_argument("--keep-caches", action="store_true", help="start from what is stored")
    parser.add_argument("--json", type=Path, help="write the results to this file")
    arguments = parser.parse_args()
    with ExitStack() as stack:
        if not arguments.keep_caches:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="coda_tune_")))
            os.environ["CODA_CACHE_DIR"] = str(folder / "coda")
            os.environ["TRITON_CACHE_DIR"] = str(folder / "triton")
        measure(arguments.size, arguments.budget, arguments.json)


if __name__ == "__main__":
    main()
