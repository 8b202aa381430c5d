"""Tuning the layer between two attentions: the model's ranking against the measured one, fused
kernels against cuBLAS and unfused ones, the time that it takes, and what it gains.

    python benchmarks/tune_layer.py --size 2048 --json tune_layer.json
    python benchmarks/tune_layer.py --size 2048 --training
    python benchmarks/tune_layer.py --size 4096 --tokens 16

bf16, batch 2 x 8192 tokens or `--tokens` of one sequence, random normal data. `--training` tunes
and times a forward and backward step instead. The caches, CODA IR's and Triton's, are empty at the
start unless `--keep-caches`. Both programs are compared with float64 in the same run (gradients
with those of the untuned program), and timed in turn beside the cuBLAS GEMMs. Needs a GPU.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Literal

import torch
from harness import Candidate, print_errors, print_timings, time_interleaved, timed, write_json
from layer_errors import check
from llama_layer import (
    PROGRAM,
    LayerShape,
    Tensors,
    backward_gemms,
    forward_gemms,
    leaves,
    make_inputs,
    pack,
)
from rich.console import Console
from rich.table import Table

import coda_ir
from coda_ir.cache.decision import Decision, Tried, table
from coda_ir.cache.folder import cached_files
from coda_ir.cache.tuned import TunedEntry, read
from coda_ir.float64 import relative_error
from coda_ir.tuning.context import BUDGET_S


def results() -> list[TunedEntry]:
    """Return what is stored, the oldest first."""
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

    def compile_and_call() -> coda_ir.CompiledFunction:
        function = coda_ir.compile(PROGRAM, constants=shape.constants, device="cuda", tune=tune)
        with torch.no_grad():
            function(**inputs)
        return function

    return timed(compile_and_call)


def measure(shape: LayerShape, budget: float, path: Path | None) -> None:
    d, inputs = shape.d, make_inputs(shape)
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


def measure_training(shape: LayerShape, budget: float, path: Path | None) -> None:
    """Steps of the untuned and of the tuned program beside the twelve GEMMs by cuBLAS."""
    inputs = leaves(make_inputs(shape))
    wanted = [tensor for tensor in inputs.values() if tensor.requires_grad]
    seconds: dict[str, float] = {}
    candidates: dict[str, Candidate] = {}
    found: dict[str, Sequence[torch.Tensor]] = {}
    options: dict[str, bool | float] = {"coda": False, "coda, tuned": budget}
    for name, tune in options.items():

        def first_step(tune: bool | float = tune) -> tuple[Candidate, Sequence[torch.Tensor]]:
            function = coda_ir.compile(
                PROGRAM, constants=shape.constants, device="cuda", training=True, tune=tune
            )
            step = training_step(function, inputs, wanted)
            return step, step()

        (candidates[name], found[name]), seconds[name] = timed(first_step)
        print(f"first step, {name}: {seconds[name]:.2f} s")
    entries = results()
    print_rankings(entries)
    worst = max(map(relative_error, found["coda, tuned"], (x.double() for x in found["coda"])))
    print(f"gradients of the tuned step differ from those of the untuned one by {worst:.1e}")
    packed = pack({name: tensor.detach() for name, tensor in inputs.items()})
    forward, backward = forward_gemms(packed, shape), backward_gemms(packed, shape)
    timings = time_interleaved({"12 cuBLAS GEMMs": lambda: (forward(), backward()), **candidates})
    title = f"layer forward + backward, D = {shape.d}, M = {shape.rows}"
    print_timings(title, timings, "12 cuBLAS GEMMs")
    if path is not None:
        decisions = [{"gemm": e.gemm, **e.decision.to_data()} for e in entries]
        write_json(path, {title: timings}, first_step_s=seconds, decisions=decisions)


def training_step(
    function: Callable[..., Sequence[torch.Tensor]], inputs: Tensors, wanted: Sequence[torch.Tensor]
) -> Callable[[], Sequence[torch.Tensor]]:
    """A forward and a backward, for upstream gradients that stay the same."""
    results = function(**inputs)
    generator = torch.Generator(results[0].device).manual_seed(0)
    upstream = [
        torch.randn(x.shape, dtype=x.dtype, device=x.device, generator=generator) for x in results
    ]
    return lambda: torch.autograd.grad(function(**inputs), wanted, upstream)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--size", type=int, default=2048, help="hidden size")
    parser.add_argument("--tokens", type=int, help="rows; by default two sequences of 8192")
    parser.add_argument("--training", action="store_true", help="a forward and backward step")
    parser.add_argument("--budget", type=float, default=BUDGET_S, help="seconds for tuning")
    parser.add_argument("--keep-caches", action="store_true", help="start from what is stored")
    parser.add_argument("--json", type=Path, help="write the results to this file")
    arguments = parser.parse_args()
    with ExitStack() as stack:
        if not arguments.keep_caches:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="coda_tune_")))
            os.environ["CODA_CACHE_DIR"] = str(folder / "coda")
            os.environ["TRITON_CACHE_DIR"] = str(folder / "triton")
        shape = LayerShape(arguments.size)
        if arguments.tokens is not None:
            shape = LayerShape(arguments.size, batch=1, time=arguments.tokens)
        run = measure_training if arguments.training else measure
        run(shape, arguments.budget, arguments.json)


if __name__ == "__main__":
    main()
