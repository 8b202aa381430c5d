"""GEMMs of a Llama layer for few rows: decoding, which mostly reads weights.

    python benchmarks/decode.py --sizes 4096 --rows 1,16,64 --json decode.json
    python benchmarks/decode.py --sizes 2048,4096 --rows 1,8,32,128,256 --more 4

bf16, one token of each of so many sequences, random normal data on copies that exceed the L2 cache
together. Of each GEMM the kernels are timed by the GPU's own clock, in turn:

    cuBLAS      one GEMM of PyTorch on packed weights, without the epilogue
    model       fused, under the schedule that the cost model takes for so many rows
    one         the best by the model with one program for each tile
    split       the best by the model with several programs for each tile
    pointer     the best by the model without TMA
    many rows   the schedule for 16384 rows
    next 1...   with --more: what the model puts next

The layer with the model's schedules is compared with float64, and with itself: two calls give the
same bits. `memory` is what reading and writing everything once takes at the rate of a copy.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from time import monotonic
from typing import Any

import harness
import torch
from launches import Call, Gemm, Program, copy_rate, kernel_counts, label, sequence_us
from llama_layer import PROGRAM, LayerShape, check, make_inputs, pack, torch_layer
from rich.console import Console
from rich.table import Table

import coda_ir
from coda_ir.backends.triton.aot import default_schedule
from coda_ir.cache import load_source
from coda_ir.cost_model import Ranked, rank
from coda_ir.cost_model.configurations import SPLITS
from coda_ir.cost_model.rows import RowCounts
from coda_ir.devices import architecture_name
from coda_ir.dialects.gemm import FusedOp, ScheduleAttr
from coda_ir.passes.layout.schedule import SchedulePass
from coda_ir.pipeline import parse_pipeline
from coda_ir.pipeline.spec import format_pass
from coda_ir.registry import get_all_passes
from coda_ir.symbolic_size import format_sizes
from coda_ir.tuning.gpu import GpuMeasurer
from coda_ir.tuning.measurer import Candidate, Deadline, configured
from coda_ir.tuning.problem import ENTRY, Problem, make_inputs as make_operands

Times = dict[str, float]

SUMMED = ("model", "cuBLAS")

COMPILE_S = 120.0
"""Seconds for compiling ahead; what is left is compiled when it is called."""
LIBRARY = "cuBLAS"


def schedule_pass(device: torch.device) -> SchedulePass:
    """Return the pass `schedule` with the options that `coda_ir.compile` uses for a device."""
    options = default_schedule(architecture_name(device))
    (found,) = parse_pipeline(f"schedule{{{options}}}", get_all_passes()).steps
    assert isinstance(found, SchedulePass), "the pass of that name"
    return found


def schedules(problem: Problem, options: SchedulePass, more: int) -> dict[str, Ranked]:
    """Return the schedules that the cost model chooses under several conditions, by name, without
    duplicates.
    """

    def best(rows: int | None = problem.rows, **space: Any) -> list[Ranked]:
        return rank(problem.op, replace(options.space(), **space), options.device, rows)[:1]

    ranking = rank(problem.op, options.space(), options.device, problem.rows)
    named = [
        ("model", ranking[:1]),
        ("one", best(split_k=(1,))),
        ("split", best(split_k=SPLITS)),
        ("pointer", best(main_loops=("pointer",))),
        ("many rows", best(rows=None)),
        *((f"next {place}", [each]) for place, each in enumerate(ranking[1 : 1 + more], 1)),
    ]
    found: dict[ScheduleAttr, tuple[str, Ranked]] = {}
    for name, ranked in named:
        for each in ranked:
            found.setdefault(each.schedule, (name, each))
    return dict(found.values())


def compile_ahead(problem: Problem, found: Mapping[str, Ranked], device: torch.device) -> None:
    """Compile into Triton's cache with one process per core."""
    if device.type == "cuda":
        candidates = [Candidate(problem, each.schedule, each.us) for each in found.values()]

        def tell(candidate: Candidate, failure: str | None) -> None:
            if failure is not None:
                print(f"{candidate.configured} does not compile: {failure}")

        GpuMeasurer(device).prepare(candidates, Deadline(monotonic() + COMPILE_S), tell)


@dataclass(frozen=True)
class Variants:
    """Ways to compute one GEMM, each on sets of operands that together exceed the L2 cache."""

    calls: Mapping[str, Sequence[Call]]
    ranked: Mapping[str, Ranked]
    """Of all but the library."""
    moved: int
    """Bytes that a call moves at least."""

    @staticmethod
    def of(op: FusedOp, program: Program, options: SchedulePass, more: int) -> Variants:
        device = program.function.device
        problem = Problem.of(op, RowCounts(program.sizes))
        assert problem is not None, "all sizes are known"
        ranked = schedules(problem, options, more)
        compile_ahead(problem, ranked, device)
        sets = make_operands(problem, device)
        calls: dict[str, Sequence[Call]] = {LIBRARY: Gemm.of(op, program.sizes, device).library}
        for name, each in ranked.items():
            run: Callable[..., object] = load_source(problem.emit(each.schedule).source, ENTRY).run
            calls[name] = [partial(run, *operands) for operands in sets]
        return Variants(calls, ranked, program.bytes_of(op))

    def times(self, rounds: int, device: torch.device) -> dict[str, float]:
        """Return the microseconds of the kernels of each variant: medians over alternating
        rounds.
        """
        counts = {
            name: kernel_counts([each[0]] * 2, device)[1] for name, each in self.calls.items()
        }
        taken: dict[str, list[float]] = {name: [] for name in self.calls}
        for _ in range(rounds):
            for name, each in self.calls.items():
                # By itself: the operands of the call before are not those of the next one.
                taken[name] += sequence_us([each], [counts[name]], device)
        return {name: statistics.median(times) for name, times in taken.items()}


def layer_program(
    shape: LayerShape, device: str, options: SchedulePass
) -> tuple[Program, dict[str, dict[str, float]]]:
    """Return the layer under the model's schedules for a number of rows, and its errors beside
    PyTorch's.
    """
    inputs = make_inputs(shape, device)
    sizes = {"B": shape.batch, "T": shape.time}
    scheduled = replace(options, sizes=format_sizes(sizes))
    text = format_pass(scheduled).removeprefix("schedule{").removesuffix("}")
    layer = coda_ir.compile(PROGRAM, constants=shape.constants, device=device, schedule=text)
    results, again = layer(**inputs), layer(**inputs)
    assert all(map(torch.equal, results, again)), "two calls do not give the same bits"
    operands = [inputs[spec.name] for spec in layer.signature.arguments]
    variants = {"eager": torch_layer(pack(inputs)), "coda": results}
    return Program(layer, operands, sizes), check(variants, inputs)


def print_variants(title: str, found: Mapping[str, tuple[Variants, Times]], rate: float) -> None:
    table = Table(title=f"{title}: microseconds")
    columns = ("GEMM", "variant", "us", "/ cuBLAS", "/ memory", "predicted", "schedule")
    for index, name in enumerate(columns):
        table.add_column(name, justify="left" if index in (0, 1, 6) else "right")
    for name, (variants, times) in found.items():
        memory = variants.moved / rate
        for variant, us in times.items():
            ranked = variants.ranked.get(variant)
            schedule = "" if ranked is None else str(configured(ranked.schedule))
            predicted = "" if ranked is None else f"{ranked.us:.1f}"
            ratios = f"{us / times[LIBRARY]:.3f}", f"{us / memory:.2f}"
            table.add_row(name, variant, f"{us:.1f}", *ratios, predicted, schedule)
        table.add_section()
    together = {name: sum(t.get(name, t["model"]) for _, t in found.values()) for name in SUMMED}
    ratio = together["model"] / together[LIBRARY]
    table.caption = f"model, all GEMMs: {together['model']:.1f} us, {ratio:.3f} x {LIBRARY}"
    Console(width=150).print(table)


def facts(found: Mapping[str, Mapping[str, tuple[Variants, Times]]]) -> dict[str, object]:
    """Return the facts that the JSON file has beside the errors."""
    return {
        "microseconds": {
            section: {name: times for name, (_, times) in gemms.items()}
            for section, gemms in found.items()
        },
        "schedules": {
            section: {
                name: {
                    variant: {"schedule": str(r.schedule), "predicted_us": r.us}
                    for variant, r in variants.ranked.items()
                }
                for name, (variants, _) in gemms.items()
            }
            for section, gemms in found.items()
        },
    }


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = harness.make_parser(__doc__)
    harness.add_sizes(parser, "4096")
    parser.add_argument(
        "--rows",
        dest="row_counts",
        type=harness.wanted_sizes,
        default="1,16,64",
        help="numbers of tokens at a time",
    )
    parser.add_argument("--more", type=int, default=0, help="schedules that the model puts next")
    parser.add_argument("--head-dim", type=int, default=128)
    harness.add_common_options(parser)
    return harness.read_options(parser, arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse(arguments)
    device, budget = torch.device(options.device), harness.Budget(options.budget)
    chosen, rate = schedule_pass(device), copy_rate(device)
    found: dict[str, dict[str, tuple[Variants, Times]]] = {}
    errors: dict[str, dict[str, dict[str, float]]] = {}
    for d, rows in product(options.sizes, options.row_counts):
        section = f"D = {d}, M = {rows}"
        if not budget.allows(section):
            break
        with budget.part():
            # Each row is a token of a sequence of its own, as when many are decoded at a time.
            shape = LayerShape(d, options.head_dim, rows, 1)
            program, errors[section] = layer_program(shape, options.device, chosen)
            found[section] = {}
            for op, _ in program.launches:
                if isinstance(op, FusedOp):
                    variants = Variants.of(op, program, chosen, options.more)
                    found[section][label(op)] = variants, variants.times(options.rounds, device)
        print_variants(section, found[section], rate)
        harness.print_errors(errors[section], "eager", section)
        harness.publish(options, **facts(found), errors=errors)


if __name__ == "__main__":
    main()
