"""How long compiling a whole model takes, stage by stage: no GPU, nothing is executed.

    python benchmarks/compile_time.py --layers 32 --profile 15

The model is a Llama of 7B shape with a weight of its own for every use, from `.coda` text to the
emitted Triton module: token embedding, `--layers` layers, last norm, head and loss.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import pstats
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from time import perf_counter, process_time
from typing import TypeVar

from rich.console import Console
from rich.table import Table
from xdsl.dialects.builtin import ModuleOp

from coda_ir.api import parse
from coda_ir.backends.triton import emit_module
from coda_ir.context import make_context
from coda_ir.passes.layout.plan_buffers import PlanBuffersPass
from coda_ir.passes.layout.schedule import SchedulePass
from coda_ir.passes.pipelines.coda_to_gemm import CodaToGemmPass
from coda_ir.remarks import collect_remarks

T = TypeVar("T")

LAYER = """
fn layer(
    x: bf16[B, T, 4096],
    cos: f32[T, 64],
    sin: f32[T, 64],
    weight norm1: bf16[4096],
    weight wq: bf16[4096, 4096],
    weight wk: bf16[4096, 4096],
    weight wv: bf16[4096, 4096],
    weight wo: bf16[4096, 4096],
    weight norm2: bf16[4096],
    weight w_gate: bf16[11008, 4096],
    weight w_up: bf16[11008, 4096],
    weight w_down: bf16[4096, 11008],
) -> bf16[B, T, 4096] {
    h1 = rms_norm(x, norm1, eps=1e-5)
    q = rope(linear(h1, wq), cos, sin, head_dim=128)
    k = rope(linear(h1, wk), cos, sin, head_dim=128)
    y = attention(q, k, linear(h1, wv), head_dim=128, causal=true)
    x1 = x + linear(y, wo)
    h2 = rms_norm(x1, norm2, eps=1e-5)
    a = silu(linear(h2, w_gate)) * linear(h2, w_up)
    return x1 + linear(a, w_down)
}
"""

WEIGHTS = {
    "norm1": "4096",
    "wq": "4096, 4096",
    "wk": "4096, 4096",
    "wv": "4096, 4096",
    "wo": "4096, 4096",
    "norm2": "4096",
    "w_gate": "11008, 4096",
    "w_up": "11008, 4096",
    "w_down": "4096, 11008",
}


def llama_text(layers: int) -> str:
    """The program of a Llama model with `layers` layers."""
    parameters = [
        "tokens: i64[B, T]",
        "targets: i64[B, T]",
        "cos: f32[T, 64]",
        "sin: f32[T, 64]",
        "weight table: bf16[32000, 4096]",
        *(f"weight {n}_{i}: bf16[{dims}]" for i in range(layers) for n, dims in WEIGHTS.items()),
        "weight norm: bf16[4096]",
        "weight head: bf16[32000, 4096]",
    ]
    calls = [
        f"    x{i + 1} = layer(x{i}, cos, sin, {', '.join(f'{name}_{i}' for name in WEIGHTS)})"
        for i in range(layers)
    ]
    return "\n".join(
        [
            LAYER,
            f"fn llama({', '.join(parameters)}) -> f32[] {{",
            "    x0 = embedding(tokens, table)",
            *calls,
            f"    logits = linear(rms_norm(x{layers}, norm, eps=1e-5), head)",
            "    return cross_entropy(logits, targets)",
            "}",
        ]
    )


@dataclass
class Stages:
    """Seconds and the number of operators after each stage, regions included.

    Seconds on the processor are those of this process: others on the machine do not count.
    """

    seconds: dict[str, float] = field(default_factory=dict[str, float])
    processor_seconds: dict[str, float] = field(default_factory=dict[str, float])
    operators: dict[str, int] = field(default_factory=dict[str, int])

    def run(self, name: str, stage: Callable[[], T], module: ModuleOp | None = None) -> T:
        start, processor_start = perf_counter(), process_time()
        result = stage()
        self.seconds[name] = perf_counter() - start
        self.processor_seconds[name] = process_time() - processor_start
        counted = result if isinstance(result, ModuleOp) else module
        if counted is not None:
            self.operators[name] = sum(1 for _ in counted.walk())
        return result

    def print(self, title: str) -> None:
        table = Table(title=title)
        table.add_column("stage")
        table.add_column("seconds", justify="right")
        table.add_column("on the processor", justify="right")
        table.add_column("operators after it", justify="right")
        for name, seconds in self.seconds.items():
            processor, operators = self.processor_seconds[name], self.operators.get(name, "")
            table.add_row(name, f"{seconds:.2f}", f"{processor:.2f}", str(operators))
        sums = (sum(each.values()) for each in (self.seconds, self.processor_seconds))
        table.add_row("all", *(f"{seconds:.2f}" for seconds in sums), "")
        Console(width=100).print(table)


def compile_stages(text: str) -> Stages:
    """Compile the program from its text to the emitted module."""
    stages, context = Stages(), make_context()
    with collect_remarks():
        module = stages.run("parse", lambda: parse(text, syntax="coda"))
        for step in (CodaToGemmPass(), SchedulePass(target="sm_90"), PlanBuffersPass()):
            stages.run(step.name, lambda step=step: step.apply(context, module), module)
        stages.run("verify", module.verify)
        stages.run("print", lambda: str(module))
        stages.run("emit", lambda: emit_module(module, "llama"))
    return stages


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    arguments.add_argument("--layers", type=int, default=32)
    arguments.add_argument(
        "--profile", type=int, metavar="N", help="show the N costliest functions"
    )
    arguments.add_argument("--json", type=Path, help="write the figures to a file")
    options = arguments.parse_args()
    text = llama_text(options.layers)
    compile_stages(llama_text(1))  # Imports are not part of the figure.
    profiler = cProfile.Profile()
    if options.profile:
        profiler.enable()
    stages = compile_stages(text)
    profiler.disable()
    stages.print(f"Compiling a Llama of {options.layers} layers")
    if options.profile:
        pstats.Stats(profiler).sort_stats("tottime").print_stats(options.profile)
    if options.json:
        data = {"layers": options.layers, **asdict(stages)}
        options.json.write_text(json.dumps(data, indent=2) + "\n")


if __name__ == "__main__":
    main()
