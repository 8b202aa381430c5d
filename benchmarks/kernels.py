"""The GEMMs of a Llama layer: each with its epilogue, bare, and by cuBLAS.

    python benchmarks/kernels.py --sizes 2048 4096 --json kernels.json
    python benchmarks/kernels.py --parts forward backward --sizes 2048
    python benchmarks/kernels.py --schedule "target=sm_90 mainloop=warp_specialized stages=4"

bf16, batch 2 x 8192 tokens, random normal data. Each GEMM runs alone, and is timed as tuning times
it: on copies of its operands that exceed the L2 cache, without the host. The bare GEMM has the same
main loop and schedule without an epilogue, and cuBLAS gets packed operands.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any

import torch
from harness import make_parser, publish, read_options, seed, table_of, timed
from llama_layer import PROGRAM, LayerShape
from rich.console import Console
from xdsl.ir import SSAValue

import coda_ir
from coda_ir import CompiledFunction
from coda_ir.cache import load_source
from coda_ir.cost_model.rows import RowCounts
from coda_ir.dialects.gemm import FusedOp, Layout
from coda_ir.functions import find_entry
from coda_ir.training.gradient_pair import GradientPair
from coda_ir.tuning.gpu import GpuMeasurer
from coda_ir.tuning.problem import ENTRY, Problem, make_inputs

Run = Callable[..., object]

FORWARD, BACKWARD = "forward", "backward"
PARTS = (FORWARD, BACKWARD)
DEFAULT = ""
"""The schedule that the device has by default."""


@dataclass(frozen=True)
class KernelTimes:
    """The median microseconds of the kernels of one GEMM."""

    cublas: float
    bare: float
    fused: float


@dataclass(frozen=True)
class Gemm:
    """A GEMM of a program, with and without its epilogue, on sets of random operands."""

    fused: Run
    operands: Sequence[Sequence[torch.Tensor]]
    bare: Run
    bare_operands: Sequence[Sequence[torch.Tensor]]
    library: Run
    packed: Sequence[Sequence[torch.Tensor]]
    """The operands of one GEMM of PyTorch."""

    @staticmethod
    def of(op: FusedOp, sizes: Mapping[str, int], device: torch.device) -> Gemm:
        problem = Problem.of(op, RowCounts(sizes))
        assert problem is not None and op.schedule is not None, "sizes and schedule are known"
        unfused = problem.in_form("unfused")
        bare = next(each for each in unfused.walk() if isinstance(each, FusedOp))
        alone = Problem.of(bare, RowCounts(problem.sizes))
        assert alone is not None, "its sizes are those of the problem"
        fused_run, bare_run = (
            load_source(each.emit(op.schedule).source, ENTRY).run for each in (problem, alone)
        )
        sets = make_inputs(alone, device)
        packed = [_packed(alone.op, operands) for operands in sets]
        return Gemm(fused_run, make_inputs(problem, device), bare_run, sets, torch.mm, packed)

    def times(self, device: torch.device) -> KernelTimes:
        def median_us(run: Run, sets: Sequence[Sequence[torch.Tensor]]) -> float:
            if device.type == "cpu":
                return 1e6 * timed(lambda: run(*sets[0]))[1]
            return GpuMeasurer(device).median_us(run, sets)

        return KernelTimes(
            median_us(self.library, self.packed),
            median_us(self.bare, self.bare_operands),
            median_us(self.fused, self.operands),
        )


def _packed(op: FusedOp, operands: Sequence[torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the factors of the same product, packed for PyTorch."""
    block = op.parent_block()
    assert block is not None, "operators stand in the function"
    values: dict[SSAValue, torch.Tensor] = dict(zip(block.args, operands, strict=True))
    inputs = [values[each].flatten(0, -2) for each in op.inputs]
    terms = [
        torch.cat([_columns(values[w], s.layout) for s in op.segments() for w in s.terms[term]], 1)
        for term in range(len(inputs))
    ]
    weight = torch.cat(terms)
    if op.is_transposed:
        return torch.cat(inputs).T, weight
    # As PyTorch's layers have it: N x K, unless the program has K x N.
    is_nk = op.segments()[0].layout is Layout.NK
    return torch.cat(inputs, 1), weight.T.contiguous().T if is_nk else weight


def _columns(weight: torch.Tensor, layout: Layout) -> torch.Tensor:
    """Return a weight as K x N."""
    return weight.T if layout is Layout.NK else weight.flatten(0, -2)


def label(op: FusedOp) -> str:
    """Return the weights of a GEMM, or of the gradients that it computes."""
    if op.is_transposed:
        names = [_name(value) for segment in op.segments() for value in segment.outputs[:1]]
        return "dW " + ", ".join(names)
    kind = "dX " if any(segment.layout is Layout.KN for segment in op.segments()) else ""
    return kind + ", ".join(map(_name, op.weights))


def _name(value: Any) -> str:
    return (value.name_hint or "?").removeprefix("d_")


def gemms_of(function: CompiledFunction) -> Iterator[FusedOp]:
    """Yield the scheduled GEMMs of a program."""
    func = find_entry(function.module("scheduled"), function.name)
    return (op for op in func.walk() if isinstance(op, FusedOp))


def compiled(part: str, shape: LayerShape, device: str, schedule: str | None) -> CompiledFunction:
    """Return the program of the layer, or of its backward."""
    sizes = shape.constants
    if part == FORWARD:
        return coda_ir.compile(PROGRAM, constants=sizes, device=device, schedule=schedule)
    layer = coda_ir.compile(
        PROGRAM, training=True, constants=sizes, device=device, schedule=schedule
    )
    names = [spec.name for spec in layer.signature.arguments]
    trained = [name for name in names if name not in ("cos", "sin")]
    pair: GradientPair = layer.pair(trained, _symbols(shape))
    return pair.backward


def _symbols(shape: LayerShape) -> dict[str, int]:
    return {"B": shape.batch, "T": shape.time}


def measure(function: CompiledFunction, shape: LayerShape) -> dict[str, KernelTimes]:
    """Return the times of each GEMM, by its label."""
    device = function.device
    return {
        label(op): Gemm.of(op, _symbols(shape), device).times(device) for op in gemms_of(function)
    }


def print_kernels(title: str, found: Mapping[str, Mapping[str, KernelTimes]]) -> None:
    columns = ("schedule", "GEMM", "cuBLAS", "bare", "/ cuBLAS", "fused", "/ bare", "/ cuBLAS")
    table = table_of(f"kernels of the {title}, microseconds", *columns, texts=2)
    for text, gemms in found.items():
        for name, t in gemms.items():
            table.add_row(
                *(text or "default", name, f"{t.cublas:.1f}", f"{t.bare:.1f}"),
                *(f"{t.bare / t.cublas:.3f}", f"{t.fused:.1f}", f"{t.fused / t.bare:.3f}"),
                f"{t.fused / t.cublas:.3f}",
            )
        table.add_section()
    Console(width=130).print(table)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = make_parser(__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=[2048], help="hidden sizes")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=[FORWARD])
    parser.add_argument("--schedule", action="append", help="options of the pass schedule")
    parser.add_argument("--batch", type=int, default=2)
    parser.add_argument("--time", type=int, default=8192, help="tokens of a sequence")
    parser.add_argument("--head-dim", type=int, default=128)
    parser.add_argument("--json", type=Path, help="write the results so far to this file")
    return read_options(parser, arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse(arguments)
    seed()
    facts: dict[str, dict[str, dict[str, float]]] = {}
    for d, part in product(options.sizes, options.parts):
        section = f"{part}, D = {d}"
        shape = LayerShape(d, options.head_dim, options.batch, options.time)
        found = {
            text: measure(compiled(part, shape, options.device, text or None), shape)
            for text in options.schedule or (DEFAULT,)
        }
        print_kernels(section, found)
        for text, gemms in found.items():
            name = f"{section}, {text}" if text else section
            facts[name] = {gemm: asdict(times) for gemm, times in gemms.items()}
        publish(options, microseconds=facts)


if __name__ == "__main__":
    main()
