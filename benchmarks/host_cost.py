"""What a call of the Llama layer costs on the host: microseconds a call, by part and by launch.

    python benchmarks/host_cost.py --json host_cost.json

`direct` is what calls on NVIDIA GPUs do, `triton` what they do with CODA_DIRECT_LAUNCH=0. On a GPU,
calls are enqueued without waiting for them, so few at a time that the queue does not fill, in turn
with those of eager PyTorch and of torch.compile, as it is and with CUDA graphs; the kernels of a
call are counted by the profiler. `CUDA graph` is `CompiledFunction.graphed`. The results of all
kinds of launch are compared with float64 and have to be the same bits. Without a GPU, kernels are
compiled for an H100 and launched through a driver that does nothing (`fake_cuda.py`): what is left
is the work of Python and of the launchers. Then `direct` has to pass the same parameters to the
driver as `triton`.

The parts are the check of the arguments, the allocations (`run` without its launches), and the
launches, which descriptors are part of. `new addresses` is a call whose tensors are where none were
before, but for the weights.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from importlib import import_module
from pathlib import Path
from typing import Any

import fake_cuda
import torch
from launches import record_on_gpu
from llama_layer import PROGRAM, ROWS, LayerShape, Tensors, make_inputs, pack, torch_layer
from rich.console import Console
from rich.table import Table

import coda_ir
from coda_ir.api import CompiledFunction
from coda_ir.cache import load_source
from coda_ir.float64 import relative_error
from coda_ir.lowering import Lowering
from coda_ir.options import CompileOptions

KINDS = {"triton": "0", "direct": "1"}
"""Kinds of launches by the value of CODA_DIRECT_LAUNCH."""

BATCH = 16
"""Calls that are enqueued before the GPU is waited for: some hundred launches."""

Call = Callable[[], object]


def microseconds(call: Call, batches: int) -> float:
    """The median time on the host of a call, which a GPU runs in the background."""
    return microseconds_of({"": call}, batches)[""]


def microseconds_of(calls: Mapping[str, Call], batches: int) -> dict[str, float]:
    """The same of several calls, whose batches take turns."""
    times: dict[str, list[int]] = {name: [] for name in calls}
    for _ in range(batches):
        for name, call in calls.items():
            times[name] += _batch(call)
    return {name: statistics.median(taken) / 1000 for name, taken in times.items()}


def _batch(call: Call) -> list[int]:
    """Nanoseconds of each call of a batch."""
    times: list[int] = []
    for _ in range(BATCH):
        start = time.perf_counter_ns()
        call()
        times.append(time.perf_counter_ns() - start)
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return times


@contextmanager
def replaced(module: Any, replacements: Mapping[str, object]):
    """Global names of a module that stand for something else meanwhile."""
    names: dict[str, Any] = module.__dict__
    before = {name: names[name] for name in replacements}
    names.update(replacements)
    try:
        yield
    finally:
        names.update(before)


class NoKernel:
    """A kernel whose launch does nothing."""

    def __getitem__(self, grid: object) -> Callable[..., None]:
        return nothing


def nothing(*arguments: object, **options: object) -> None:
    """A function that does nothing."""


@dataclass
class Layer:
    """The layer with one kind of launches, and its inputs."""

    kind: str
    inputs: Tensors
    function: CompiledFunction

    @cached_property
    def generated(self) -> Any:
        return load_source(self.function.source, self.function.name)

    @cached_property
    def operands(self) -> list[torch.Tensor]:
        return [self.inputs[spec.name] for spec in self.function.signature.arguments]

    def call(self) -> Sequence[torch.Tensor]:
        return self.function(**self.inputs)

    def run(self) -> Sequence[torch.Tensor]:
        return self.generated.run(*self.operands)

    def parts(self, batches: int) -> dict[str, float]:
        """Microseconds of a call and of its parts."""
        call, run = (microseconds(part, batches) for part in (self.call, self.run))
        with replaced(self.generated, self._without_launches()):
            allocations = microseconds(self.run, batches)
        return {
            "call": call,
            "check": call - run,
            "allocations": allocations,
            "launches": run - allocations,
            "new addresses": self._with_new_addresses(batches),
        }

    def _with_new_addresses(self, batches: int) -> float:
        """Microseconds of a call; the inputs of two calls are never at the same place."""
        tensors = {name: self.inputs[name] for name in ROWS}
        copies: list[Tensors] = []
        for _ in range(batches * BATCH):
            copies.append(self.inputs | {name: tensor.clone() for name, tensor in tensors.items()})
        return microseconds(lambda: self.function(**copies.pop()), batches)

    def _without_launches(self) -> dict[str, object]:
        """Return what makes `run` launch nothing, without descriptors."""
        module: dict[str, Any] = self.generated.__dict__
        if self.kind == "direct":
            return {name: nothing for name in module if name.startswith("launch_")}
        kernels: dict[str, object] = {name: NoKernel() for name in self.function.kernels}
        for name in ("TensorDescriptor", "TileDescriptor"):
            if name in module:
                kernels[name] = nothing
        return kernels


def make_layer(
    kind: str, shape: LayerShape, inputs: Tensors, schedule: str, *, is_fake: bool
) -> Layer:
    """The layer compiled for the GPU, or for an H100 that is not there."""
    os.environ["CODA_DIRECT_LAUNCH"] = KINDS[kind]
    constants = shape.constants
    if is_fake:
        lowering = Lowering(coda_ir.parse(PROGRAM, constants=constants), CompileOptions(schedule))
        function = CompiledFunction(lowering, None, "triton", torch.device("cpu"))
    else:
        function = coda_ir.compile(PROGRAM, constants=constants, device="cuda", schedule=schedule)
    layer = Layer(kind, inputs, function)
    if is_fake:  # for tensors of the CPU it would ask for Triton's interpreter
        vars(function.executable).update(module=layer.generated, _run=layer.generated.run)
    return layer


def check_results(layers: Sequence[Layer], inputs: Tensors) -> dict[str, list[float]]:
    """Errors against float64; exits unless all kinds of launches give the same bits."""
    expected = torch_layer(pack({name: tensor.double() for name, tensor in inputs.items()}))
    results = {layer.kind: layer.call() for layer in layers}
    first = results[layers[0].kind]
    for kind, tensors in results.items():
        if not all(map(torch.equal, tensors, first)):
            raise SystemExit(f"the results of {kind} differ from those of {layers[0].kind}")
    return {
        kind: [relative_error(a, e) for a, e in zip(tensors, expected, strict=True)]
        for kind, tensors in results.items()
    }


class TorchLayer(torch.nn.Module):
    """The same layer in PyTorch, with parameters of packed weights."""

    def __init__(self, packed: Tensors):
        super().__init__()
        for name, tensor in packed.items():
            if name not in ROWS:
                parameter = torch.nn.Parameter(tensor, requires_grad=False)
                self.register_parameter(name, parameter)

    def forward(self, rows: Tensors) -> tuple[torch.Tensor, ...]:
        return torch_layer(dict(self.named_parameters()) | rows)


def peers(inputs: Tensors) -> dict[str, Call]:
    """The layer in PyTorch: eager and compiled."""
    packed = pack(inputs)
    model, rows = TorchLayer(packed), {name: packed[name] for name in ROWS}
    # The types of torch.compile are partly unknown to a strict checker.
    compile: Callable[..., Callable[[Tensors], object]] = import_module("torch").compile
    functions: dict[str, Callable[[Tensors], object]] = {
        "eager": lambda rows: torch_layer(packed | rows),
        "torch.compile": compile(model),
        "torch.compile with CUDA graphs": compile(TorchLayer(packed), mode="reduce-overhead"),
    }
    return {name: partial(function, rows) for name, function in functions.items()}


def measure(
    shape: LayerShape, schedule: str, batches: int, folder: Path, *, with_peers: bool
) -> dict[str, Any]:
    """Microseconds by kind of launches and part, of the peers, and the errors of the results."""
    fake = None if torch.cuda.is_available() else fake_cuda.install(folder)
    inputs = make_inputs(shape, "cpu" if fake else "cuda")
    layers = [make_layer(kind, shape, inputs, schedule, is_fake=bool(fake)) for kind in KINDS]
    report: dict[str, Any] = {"schedule": schedule, "kernels": len(layers[0].function.kernels)}
    calls: dict[str, Call] = {layer.kind: layer.call for layer in layers}
    with torch.no_grad():
        if not fake:
            calls["CUDA graph"] = partial(layers[-1].function.graphed(), **inputs)
        if with_peers and not fake:
            calls |= peers(inputs)
        for call in calls.values():
            for _ in range(5):  # torch.compile records its graphs in the second call
                call()
        if fake:
            direct = layers[-1]
            report["launches"] = fake_cuda.compare_launches(direct.generated, direct.run, fake)
        else:
            report["errors"] = check_results(layers, inputs)
            report["calls"] = compare_calls(calls, batches)
        report["microseconds"] = {layer.kind: layer.parts(batches) for layer in layers}
    return report


def compare_calls(calls: Mapping[str, Call], batches: int) -> dict[str, dict[str, float | None]]:
    """Microseconds of each call in turn, and what that is for each of its kernels."""
    times = microseconds_of(calls, batches)
    counts = {name: len(record_on_gpu(call)) or None for name, call in calls.items()}
    return {
        name: {"call": taken, "kernels": count, "kernel": None if count is None else taken / count}
        for name, taken, count in zip(calls, times.values(), counts.values(), strict=True)
    }


def print_calls(calls: Mapping[str, Mapping[str, float | None]]) -> None:
    table = Table(title="host time of a call on the GPU, in turn, microseconds")
    for column in ("", "call", "kernels", "for each kernel"):
        table.add_column(column, justify="right" if column else "left")
    for name, facts in calls.items():
        call, kernels, kernel = (facts[key] for key in ("call", "kernels", "kernel"))
        counted = ("-", "-") if kernels is None else (f"{kernels:.0f}", f"{kernel:.1f}")
        table.add_row(name, f"{call:.1f}", *counted)
    Console().print(table)


def print_report(report: Mapping[str, Any]) -> None:
    table = Table(title="host time of a call, microseconds")
    table.add_column("")
    for kind in report["microseconds"]:
        table.add_column(kind, justify="right")
    for part in next(iter(report["microseconds"].values())):
        figures = [f"{parts[part]:.1f}" for parts in report["microseconds"].values()]
        table.add_row(part, *figures)
    Console().print(table)
    if "calls" in report:
        print_calls(report["calls"])
    for kind, errors in report.get("errors", {}).items():
        print(f"error against float64, {kind}: " + ", ".join(f"{e:.2e}" for e in errors))
    if "launches" in report:
        print(f"{report['launches']} launches pass the same parameters, launched either way")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=2048, help="hidden size")
    parser.add_argument("--rows", type=int, default=64, help="rows of each of two sequences")
    parser.add_argument(
        "--schedule", default="target=sm_90 mainloop=tma", help="options of the pass schedule"
    )
    parser.add_argument("--batches", type=int, default=50, help=f"of {BATCH} calls")
    parser.add_argument("--no-peers", action="store_true", help="leave PyTorch out")
    parser.add_argument("--json", type=Path, help="write the results to this file")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        shape = LayerShape(arguments.size, time=arguments.rows)
        schedule, batches, with_peers = (
            arguments.schedule,
            arguments.batches,
            not arguments.no_peers,
        )
        report = measure(shape, schedule, batches, Path(folder), with_peers=with_peers)
    print_report(report)
    if arguments.json is not None:
        device = torch.cuda.get_device_name() if torch.cuda.is_available() else "no GPU"
        arguments.json.write_text(json.dumps({"device": device, **report}, indent=2) + "\n")


if __name__ == "__main__":
    main()
