"""The time of the first call of a process: cold, with a warm cache, with an imported one.

    python benchmarks/first_call.py --json first_call.json
    python benchmarks/first_call.py --tune
    CODA_COMPILE_JOBS=1 python benchmarks/first_call.py     # one kernel after the other

The program is examples/llama_layer.coda. The imports of torch and triton, the first use of the GPU
and making the tensors are not counted. Seconds on the processor are those of the process and of
those that it starts (Triton's assembler, the C compiler).

The cold process has empty caches, CODA IR's and Triton's; the warm one has what that left. Both
have to give the same bits. `--tune` adds a process with empty caches that tunes, and one that finds
what that stored, which have other schedules. Without a GPU, kernels run in Triton's
interpreter on few rows: then only `compile` counts.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from time import perf_counter
from typing import Any

PARTS = ("import coda_ir", "compile", "Triton's key", "first call")
ROOT = Path(__file__).parents[1]

Seconds = dict[str, tuple[float, float]]
"""Seconds by the clock and on the processor, of each part."""


def processor_seconds() -> float:
    return sum(os.times()[:4])


class Parts:
    """The times of the parts of a first call."""

    def __init__(self) -> None:
        self.seconds: Seconds = {}

    @contextmanager
    def part(self, name: str):
        start, processor = perf_counter(), processor_seconds()
        yield
        self.seconds[name] = (perf_counter() - start, processor_seconds() - processor)


def measure(*, tune: bool) -> dict[str, Any]:
    """Return the times of the first call of this process, and a hash of its results."""
    import torch

    import_module("triton")
    parts = Parts()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    run, prepare = call_layer(device, tune)
    with parts.part("import coda_ir"):
        compile = import_module("coda_ir").compile
    with parts.part("compile"):
        function = prepare(compile)
    with parts.part("Triton's key"):
        if device == "cuda":
            import_module("triton.runtime.cache").triton_key()
    with parts.part("first call"):
        digest = run(function)
    source = str(import_module("coda_ir").__file__)
    kernels = len(function.kernels)
    return {"seconds": parts.seconds, "digest": digest, "kernels": kernels, "source": source}


Run = Callable[[Any], float]
Prepare = Callable[[Callable[..., Any]], Any]


def call_layer(device: str, tune: bool) -> tuple[Run, Prepare]:
    from llama_layer import PROGRAM, LayerShape, make_inputs

    seed: Callable[[int], object] = import_module("torch").manual_seed
    seed(0)
    on_gpu = device == "cuda"
    shape = LayerShape(4096) if on_gpu else LayerShape(64, head_dim=16, batch=1, time=8)
    inputs = make_inputs(shape, device)

    def run(function: Any) -> float:
        results = function(**inputs)
        if on_gpu:
            import_module("torch").cuda.synchronize()
        return sum(float(result.double().sum()) for result in results)

    options = {"constants": shape.constants, "device": device, "tune": tune}
    return run, lambda compile: compile(PROGRAM, **options)


MEASURE = """
import json, sys
from first_call import measure
print(json.dumps(measure(tune="--tune" in sys.argv)))
"""
"""The program that a new process runs; it has imported nothing else."""


def in_new_process(folder: Path, *options: str) -> dict[str, Any]:
    """Run `measure` in a new process, with its caches below `folder`."""
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, *options],
        cwd=Path(__file__).parent,
        # This checkout, whichever is installed.
        env=os.environ | caches(folder) | {"PYTHONPATH": path},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


def caches(folder: Path) -> Mapping[str, str]:
    return {
        "CODA_CACHE_DIR": str(folder / "coda"),
        "TRITON_CACHE_DIR": str(folder / "triton"),
        "CODA_CACHE_LIMIT": "1GiB",
    }


def compare(folder: Path, *, tune: bool) -> dict[str, dict[str, Any]]:
    """Return the measurements for each state of the caches."""
    results = {state: in_new_process(folder / "plain") for state in ("cold", "warm")}
    digests = {result["digest"] for result in results.values()}
    if len(digests) != 1:
        raise SystemExit(f"a cached program computes something else: {digests}")
    for state in ("tuned", "tuned before") if tune else ():
        results[state] = in_new_process(folder / "tuned", "--tune")
    return results


def print_table(results: Mapping[str, Mapping[str, Any]]) -> None:
    from harness import table_of
    from rich.console import Console

    (source,) = {result["source"] for result in results.values()}
    title = f"First call of the layer, by {source}: seconds by the clock (on the processor)"
    table = table_of(title, "state", *PARTS, "together")
    for state, result in results.items():
        seconds: list[tuple[float, float]] = [tuple(result["seconds"][part]) for part in PARTS]
        together = (sum(clock for clock, _ in seconds), sum(cpu for _, cpu in seconds))
        table.add_row(state, *(f"{clock:.3f} ({cpu:.3f})" for clock, cpu in [*seconds, together]))
    Console(width=120).print(table)


def main() -> None:
    from harness import make_parser, publish, read_options

    parser = make_parser(__doc__)
    parser.add_argument("--tune", action="store_true", help="also tune; needs a GPU")
    parser.add_argument("--json", type=Path, help="write the figures to a file")
    options = read_options(parser, None)
    with tempfile.TemporaryDirectory(prefix="coda_first_call_") as folder:
        figures = compare(Path(folder), tune=options.tune and options.device == "cuda")
    print_table(figures)
    publish(options, layer=figures)


if __name__ == "__main__":
    main()
