"""Each GEMM of a Llama layer's forward: the fused kernel, its bare GEMM, and cuBLAS.

    python benchmarks/kernels.py --sizes 2048,4096 --json kernels.json

bf16, batch 2 x 8192 tokens, random normal data. The fused kernels are timed one by one as they run
in the layer, by the GPU's own clock (torch.profiler); the bare GEMM is the same main loop with
nothing behind it, on the same operands. All variants take turns in one process, and the results of
every schedule are compared with float64. Needs a GPU.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from harness import write_facts
from layer_errors import check
from llama_layer import PROGRAM, LayerShape, Tensors, forward_operands, make_inputs, pack
from rich.console import Console
from rich.table import Table
from torch.profiler import ProfilerActivity, profile

import coda_ir
from coda_ir.backends.triton.module import emit_program
from coda_ir.dialects.gemm import FusedOp

SCHEDULES = (
    "target=sm_90 mainloop=tma",
    "target=sm_90 mainloop=warp_specialized",
    "target=sm_90 mainloop=warp_specialized stages=4",
)
GEMMS = ("out", "gate, up", "down", "q, k, v")
BARE = """
fn bare({parameters}) -> ({results}) {{
    return {values}
}}
"""


@dataclass(frozen=True)
class KernelTimes:
    """Microseconds of the kernels of one GEMM: medians."""

    cublas: float
    bare: float
    fused: float


def bare_program(k: int, columns: Sequence[int]) -> str:
    """The text of one GEMM with weights of so many `columns`, side by side."""
    weights = [f"weight w{i}: bf16[{n}, {k}]" for i, n in enumerate(columns)]
    return BARE.format(
        parameters=", ".join([f"x: bf16[M, {k}]", *weights]),
        results=", ".join(f"bf16[M, {n}]" for n in columns),
        values=", ".join(f"linear(x, w{i})" for i in range(len(columns))),
    )


def kernel_times(call: Callable[[], object], calls: int = 10) -> list[float]:
    """Microseconds of each kernel that a call launches, in their order: medians over the calls."""
    call()
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA]) as profiled:
        for _ in range(calls):
            call()
        torch.cuda.synchronize()
    # PyTorch has no types for its events.
    recorded: list[Any] = list(profiled.events() or ())
    events = [event for event in recorded if _is_kernel(event)]
    events.sort(key=lambda event: event.time_range.start)
    per_call, rest = divmod(len(events), calls)
    assert not rest, f"{len(events)} kernels in {calls} calls"
    return [
        statistics.median(event.device_time for event in events[place::per_call])
        for place in range(per_call)
    ]


def _is_kernel(event: Any) -> bool:
    return event.device_type.name == "CUDA" and not event.name.startswith(("Memcpy", "Memset"))


@dataclass(frozen=True)
class Variant:
    """The layer under one schedule, and its GEMMs alone."""

    fused: Callable[[], tuple[torch.Tensor, ...]]
    gemms: tuple[int, ...]
    """Which launches of the layer are GEMMs."""
    bare: Callable[[], object]

    @staticmethod
    def compile(shape: LayerShape, inputs: Tensors, schedule: str) -> Variant:
        layer = coda_ir.compile(
            PROGRAM, constants=shape.constants, device="cuda", schedule=schedule
        )
        launches = emit_program(layer.module("scheduled")).launches
        gemms = tuple(i for i, (op, _) in enumerate(launches) if isinstance(op, FusedOp))
        operands = forward_operands(pack(inputs), shape)
        calls: list[Callable[[], object]] = []
        for (x, _), names in zip(operands, WEIGHTS, strict=True):
            weights = [inputs[name] for name in names]
            text = bare_program(x.shape[1], [weight.shape[0] for weight in weights])
            bare = coda_ir.compile(text, device="cuda", schedule=schedule)
            calls.append(partial(bare, x, *weights))
        return Variant(partial(layer, **inputs), gemms, lambda: [call() for call in calls])


WEIGHTS = (("wo",), ("w_gate", "w_up"), ("w_down",), ("wq", "wk", "wv"))
"""The weights of each GEMM by their names in the program."""


def measure(
    d: int, schedules: Sequence[str], rounds: int
) -> tuple[dict[str, dict[str, KernelTimes]], dict[str, dict[str, float]]]:
    """Times by schedule and GEMM, and errors of the layer by schedule."""
    shape = LayerShape(d)
    inputs = make_inputs(shape)
    operands = forward_operands(pack(inputs), shape)
    variants = {text: Variant.compile(shape, inputs, text) for text in schedules}
    errors = check({text: variant.fused() for text, variant in variants.items()}, inputs)
    times: dict[str, list[tuple[list[float], ...]]] = {text: [] for text in schedules}
    for _ in range(rounds):
        cublas = kernel_times(lambda: [x @ w.T for x, w in operands])
        for text, variant in variants.items():
            fused = kernel_times(variant.fused)
            times[text].append(
                (cublas, kernel_times(variant.bare), [fused[i] for i in variant.gemms])
            )
    found = {
        text: {
            name: KernelTimes(*(statistics.median(r[kind][i] for r in rows) for kind in range(3)))
            for i, name in enumerate(GEMMS)
        }
        for text, rows in times.items()
    }
    return found, errors


def print_times(d: int, found: dict[str, dict[str, KernelTimes]]) -> None:
    table = Table(title=f"kernels of the layer forward, D = {d}, microseconds")
    columns = ("schedule", "GEMM", "cuBLAS", "bare", "/ cuBLAS", "fused", "/ bare", "/ cuBLAS")
    for index, name in enumerate(columns):
        table.add_column(name, justify="left" if index < 2 else "right")
    for text, rows in found.items():
        for name, t in rows.items():
            table.add_row(
                *(text, name, f"{t.cublas:.1f}", f"{t.bare:.1f}", f"{t.bare / t.cublas:.3f}"),
                *(f"{t.fused:.1f}", f"{t.fused / t.bare:.3f}", f"{t.fused / t.cublas:.3f}"),
            )
        table.add_section()
    Console(width=130).print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", default="2048,4096", help="hidden sizes, separated by commas")
    parser.add_argument("--schedule", action="append", help="options of the pass schedule")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path, help="write the results to this file")
    arguments = parser.parse_args()
    times: dict[str, object] = {}
    errors: dict[str, object] = {}
    for d in map(int, arguments.sizes.split(",")):
        found, wrong = measure(d, arguments.schedule or SCHEDULES, arguments.rounds)
        print_times(d, found)
        for text, values in wrong.items():
            print(
                f"error against float64, {text}: " + ", ".join(f"{e:.2e}" for e in values.values())
            )
        times[f"D = {d}"] = {
            text: {name: asdict(row) for name, row in rows.items()} for text, rows in found.items()
        }
        errors[f"D = {d}"] = wrong
    if arguments.json is not None:
        write_facts(arguments.json, microseconds=times, errors=errors)


if __name__ == "__main__":
    main()
