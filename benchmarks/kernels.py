"""The kernels of a Llama layer: each GEMM fused, bare and by cuBLAS, and the breakdown of the time.

    python benchmarks/kernels.py --sizes 2048,4096 --json kernels.json
    python benchmarks/kernels.py --parts forward,backward --sizes 2048 --profile
    python benchmarks/kernels.py --schedule "target=sm_90 mainloop=warp_specialized stages=4"

bf16, batch 2 x 8192 tokens, random normal data. The fused kernels are timed one by one as they run
in the layer, by the GPU's own clock (torch.profiler). The bare GEMM has the same main loop and
schedule with nothing behind it, and cuBLAS gets packed operands; both run one GEMM after the other,
as the layer does, on copies that exceed the L2 cache. All variants take turns in one process.

`--profile` adds what the time of a call is spent on: main loops beyond cuBLAS, epilogues, the other
kernels with the bytes that they move, and the gaps between kernels.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field

import torch
from harness import (
    Budget,
    add_common_options,
    add_layer_options,
    add_sizes,
    chosen,
    make_parser,
    publish,
    read_options,
    seed,
    table_of,
)
from launches import Gemm, Program, copy_rate, kernel_counts, label, queued_us, sequence_us
from llama_layer import PROGRAM, LayerShape, Tensors, affordable_shapes, make_inputs
from rich.console import Console

import coda_ir
from coda_ir import CompiledFunction
from coda_ir.dialects.gemm import FusedOp

FORWARD, BACKWARD = "forward", "backward"
DEFAULT = ""
"""The schedule that the device has by default."""


@dataclass(frozen=True)
class KernelTimes:
    """The median microseconds of the kernels of one GEMM."""

    cublas: float
    bare: float
    fused: float

    def data(self) -> dict[str, float]:
        return {"cuBLAS": self.cublas, "bare": self.bare, "fused": self.fused}


@dataclass(frozen=True)
class OtherTimes:
    """A kernel other than a GEMM: its microseconds, and the minimum of bytes that it moves."""

    name: str
    us: float
    moved: int


@dataclass(frozen=True)
class Found:
    """The measurements of one program under one schedule."""

    gemms: dict[str, KernelTimes]
    others: list[OtherTimes]
    call_us: float
    """Between two calls that are queued: kernels and gaps."""

    def spent(self) -> dict[str, float]:
        """Return the breakdown of the microseconds of a call, with the cuBLAS GEMMs first."""
        gemms = self.gemms.values()
        kernels = sum(t.fused for t in gemms) + sum(other.us for other in self.others)
        return {
            "GEMMs, as cuBLAS has them": sum(t.cublas for t in gemms),
            "main loops beyond cuBLAS": sum(t.bare - t.cublas for t in gemms),
            "epilogues": sum(t.fused - t.bare for t in gemms),
            "other kernels": sum(other.us for other in self.others),
            "between kernels": self.call_us - kernels,
        }


def forward_program(shape: LayerShape, inputs: Tensors, schedule: str | None) -> Program:
    function = coda_ir.compile(
        PROGRAM, constants=shape.constants, device=inputs["y"].device, schedule=schedule
    )
    operands = [inputs[spec.name] for spec in function.signature.arguments]
    return Program(function, operands, symbols(shape))


def backward_program(shape: LayerShape, inputs: Tensors, schedule: str | None) -> Program:
    """Return the backward program on what a forward saved."""
    layer = coda_ir.compile(
        PROGRAM,
        training=True,
        constants=shape.constants,
        device=inputs["y"].device,
        schedule=schedule,
    )
    trained = [name for name in inputs if name not in ("cos", "sin")]
    pair = layer.pair(trained, symbols(shape))
    values = inputs | _by_name(pair.forward, pair.forward(**inputs))
    results = [spec.name for spec in layer.signature.results]
    values |= {f"d_{name}": torch.randn_like(inputs["x0"]) for name in results}
    operands = [values[spec.name] for spec in pair.backward.signature.arguments]
    return Program(pair.backward, operands, symbols(shape))


PARTS = {FORWARD: forward_program, BACKWARD: backward_program}


def _by_name(function: CompiledFunction, results: Sequence[torch.Tensor]) -> Tensors:
    specs = function.signature.results
    return {spec.name: tensor for spec, tensor in zip(specs, results, strict=True)}


def symbols(shape: LayerShape) -> dict[str, int]:
    return {"B": shape.batch, "T": shape.time}


def measure(programs: Mapping[str, Program], rounds: int) -> dict[str, Found]:
    """Return the times of the kernels by schedule, measured in turn."""
    times = {text: Times.of(program) for text, program in programs.items()}
    for _ in range(rounds):
        for each in times.values():
            each.add_round()
    return {text: each.found() for text, each in times.items()}


@dataclass(frozen=True)
class Times:
    """The measured times of a program, one entry for each round."""

    program: Program
    gemms: dict[int, Gemm]
    """GEMMs by number of the launch."""
    library_counts: list[int]
    """Kernels of each GEMM of cuBLAS."""
    bare_counts: list[int]
    launches: list[list[float]] = field(default_factory=list[list[float]])
    bare: list[list[float]] = field(default_factory=list[list[float]])
    library: list[list[float]] = field(default_factory=list[list[float]])
    calls: list[float] = field(default_factory=list[float])

    @staticmethod
    def of(program: Program) -> Times:
        device = program.function.device
        gemms = {
            index: Gemm.of(op, program.sizes, device)
            for index, (op, _) in enumerate(program.launches)
            if isinstance(op, FusedOp)
        }
        library, bare = (
            kernel_counts([calls[0] for calls in kind], device)
            for kind in zip(*((gemm.library, gemm.bare) for gemm in gemms.values()), strict=True)
        )
        return Times(program, gemms, library, bare)

    def add_round(self) -> None:
        device = self.program.function.device
        self.launches.append(self.program.kernel_times())
        self.calls.append(queued_us(self.program.run, device))
        gemms = self.gemms.values()
        library, bare = [gemm.library for gemm in gemms], [gemm.bare for gemm in gemms]
        self.library.append(sequence_us(library, self.library_counts, device))
        self.bare.append(sequence_us(bare, self.bare_counts, device))

    def found(self) -> Found:
        launches, bare, library = map(_medians, (self.launches, self.bare, self.library))
        gemms: dict[str, KernelTimes] = {}
        others: list[OtherTimes] = []
        for index, (op, name) in enumerate(self.program.launches):
            if index in self.gemms:
                place = len(gemms)
                gemms[label(op)] = KernelTimes(library[place], bare[place], launches[index])
            else:
                others.append(OtherTimes(name, launches[index], self.program.bytes_of(op)))
        assert len(gemms) == len(self.gemms), "GEMMs have labels of their own"
        return Found(gemms, others, statistics.median(self.calls))


def _medians(rounds: Sequence[Sequence[float]]) -> list[float]:
    return [statistics.median(times) for times in zip(*rounds, strict=True)]


def print_kernels(title: str, found: Mapping[str, Found]) -> None:
    columns = ("schedule", "GEMM", "cuBLAS", "bare", "/ cuBLAS", "fused", "/ bare", "/ cuBLAS")
    table = table_of(f"kernels of the {title}, microseconds", *columns, texts=2)
    for text, program in found.items():
        for name, t in program.gemms.items():
            table.add_row(
                *(text or "default", name, f"{t.cublas:.1f}", f"{t.bare:.1f}"),
                *(f"{t.bare / t.cublas:.3f}", f"{t.fused:.1f}", f"{t.fused / t.bare:.3f}"),
                f"{t.fused / t.cublas:.3f}",
            )
        table.add_section()
    Console(width=130).print(table)


def print_profile(title: str, found: Mapping[str, Found], rate: float) -> None:
    """Print the breakdown of the time of a call, and the kernels other than GEMMs."""
    for text, program in found.items():
        unit = next(iter(program.spent().values()))
        what = f"{title}, {text or 'default'}: what a call is spent on"
        table = table_of(what, "", "us", "/ GEMMs of cuBLAS", "share of a copy's rate")
        for what, us in program.spent().items():
            table.add_row(what, f"{us:.1f}", f"{us / unit:.3f}")
        table.add_row("together", f"{program.call_us:.1f}", f"{program.call_us / unit:.3f}")
        table.add_section()
        for other in program.others:
            share = other.moved / other.us / rate
            table.add_row(other.name, f"{other.us:.1f}", f"{other.us / unit:.3f}", f"{share:.2f}")
        Console(width=110).print(table)


def facts(found: Mapping[str, Mapping[str, Found]]) -> dict[str, object]:
    """Return the facts for the JSON file."""
    programs = {
        f"{section}, {text}" if text else section: program
        for section, programs in found.items()
        for text, program in programs.items()
    }
    return {
        "microseconds": {
            name: {gemm: times.data() for gemm, times in program.gemms.items()}
            for name, program in programs.items()
        },
        "spent_us": {
            name: program.spent() | {"together": program.call_us}
            for name, program in programs.items()
        },
        "other_kernels": {
            name: [asdict(other) for other in program.others] for name, program in programs.items()
        },
    }


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = make_parser(__doc__)
    add_sizes(parser)
    parser.add_argument("--parts", default=FORWARD, help="forward, backward or both, with a comma")
    parser.add_argument("--schedule", action="append", help="options of the pass schedule")
    parser.add_argument("--profile", action="store_true", help="say what the time is spent on")
    add_layer_options(parser)
    add_common_options(parser)
    return read_options(parser, arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse(arguments)
    seed()
    budget = Budget(options.budget)
    found: dict[str, dict[str, Found]] = {}
    rate = copy_rate(torch.device(options.device)) if options.profile else 1.0
    for shape in affordable_shapes(options, budget):
        inputs = make_inputs(shape, options.device)
        for part in chosen(options.parts, tuple(PARTS)):
            section = f"{part}, D = {shape.d}"
            if not budget.allows(section):
                break
            with budget.part():
                programs = {
                    text: PARTS[part](shape, inputs, text or None)
                    for text in options.schedule or (DEFAULT,)
                }
                found[section] = measure(programs, options.rounds)
            print_kernels(section, found[section])
            if options.profile:
                print_profile(section, found[section], rate)
            publish(options, **facts(found))


if __name__ == "__main__":
    main()
