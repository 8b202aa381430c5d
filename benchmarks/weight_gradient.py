"""The GEMMs of a Llama layer's backward, each by itself: gradients of weights and of inputs.

    python benchmarks/weight_gradient.py --sizes 2048 --json weight_gradient_2048.json

bf16, 16384 rows, random normal data, weights scaled by 1/sqrt(K). Each GEMM is timed under several
schedules beside one cuBLAS GEMM of the same work on packed operands, in turn and in one process,
and a sample of each result is compared with float64. `--aot sm_90` needs no GPU: it compiles the
kernels and prints registers and spills.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import torch
from harness import (
    Budget,
    Candidate,
    Timing,
    add_common_options,
    print_timings,
    publish,
    time_interleaved,
    timings_data,
    wanted_sizes,
)
from llama_layer import LayerShape
from rich.console import Console

import coda_ir
from coda_ir.backends.triton.aot import compile_kernels
from coda_ir.backends.triton.gemm_kernel import emit_gemm
from coda_ir.backends.triton.names import NameAllocator
from coda_ir.dialects.gemm import FusedOp
from coda_ir.float64 import relative_error

BASELINE = "cuBLAS"
SAMPLED = 64
"""Rows of a result that are compared with float64."""

SCHEDULES = (
    "default",
    "tma 128x256x64 warps=8 stages=3",
    "tma 128x256x64 warps=8 stages=4",
    "warp_specialized 128x256x64 warps=8 stages=4",
    "tma 256x128x64 warps=8 stages=4",
    "pointer 128x256x64 warps=8 stages=3",
)


@dataclass(frozen=True)
class Case:
    """One GEMM of the backward: `h` and the gradients `dz` of so many columns each.

    With `weights`, the gradient of h: the sum of dz · W. Without, those of the weights: dzᵀ · h.
    """

    name: str
    h: int
    dz: tuple[int, ...]
    is_input_gradient: bool = False

    @property
    def work(self) -> int:
        """Multiplications per row."""
        return self.h * sum(self.dz)

    def program(self) -> str:
        """The block level of the GEMM."""
        return self._input_gradient() if self.is_input_gradient else self._weight_gradients()

    def _input_gradient(self) -> str:
        result = f"tensor<?x{self.h}xbf16>"
        rows = [f"tensor<?x{n}xbf16>" for n in self.dz]
        weights = [f"tensor<{n}x{self.h}xbf16>" for n in self.dz]
        lines = [
            f"%p{i} = coda.matmul %dz{i}, %w{i} : ({row}, {weight}) -> {result}"
            for i, (row, weight) in enumerate(zip(rows, weights, strict=True))
        ]
        total = "%p0"
        for i in range(1, len(rows)):
            lines.append(f"%s{i} = coda.add {total}, %p{i} : ({result}, {result}) -> {result}")
            total = f"%s{i}"
        names = [*(f"dz{i}" for i in range(len(rows))), *(f"w{i}" for i in range(len(rows)))]
        return _function(names, [*rows, *weights], lines, [total], [result])

    def _weight_gradients(self) -> str:
        h, rows = f"tensor<?x{self.h}xbf16>", [f"tensor<?x{n}xbf16>" for n in self.dz]
        results = [f"tensor<{n}x{self.h}xbf16>" for n in self.dz]
        lines = [
            f"%dw{i} = coda.weight_gradient %dz{i}, %h : ({row}, {h}) -> {result}"
            for i, (row, result) in enumerate(zip(rows, results, strict=True))
        ]
        names = ["h", *(f"dz{i}" for i in range(len(rows)))]
        values = [f"%dw{i}" for i in range(len(rows))]
        return _function(names, [h, *rows], lines, values, results)


def _function(
    names: Sequence[str],
    types: Sequence[str],
    lines: Sequence[str],
    results: Sequence[str],
    result_types: Sequence[str],
) -> str:
    parameters: list[str] = []
    for name, type in zip(names, types, strict=True):
        rows, columns = type.removeprefix("tensor<").split("x")[:2]
        dims = f'["R", {columns}]' if rows == "?" else f"[{rows}, {columns}]"
        parameters.append(f'%{name}: {type} {{coda.name = "{name}", coda.dims = {dims}}}')
    body = "\n".join(f"  {line}" for line in lines)
    return (
        f"func.func @f({', '.join(parameters)}) -> ({', '.join(result_types)}) {{\n{body}\n"
        f"  func.return {', '.join(results)} : {', '.join(result_types)}\n}}\n"
    )


def cases(d: int) -> list[Case]:
    """The eight GEMMs of the backward at hidden size `d`."""
    f = LayerShape(d).f
    return [
        Case("dW out", d, (d,)),
        Case("dW q, k, v", d, (d, d, d)),
        Case("dW gate, up", d, (f, f)),
        Case("dW down", f, (d,)),
        Case("dX out", d, (d,), True),
        Case("dX q, k, v", d, (d, d, d), True),
        Case("dX gate, up", d, (f, f), True),
        Case("dX down", f, (d,), True),
    ]


@dataclass(frozen=True)
class Operands:
    """The operands of a case, also packed side by side for one GEMM of PyTorch."""

    case: Case
    h: torch.Tensor
    dz: torch.Tensor
    weights: torch.Tensor

    @staticmethod
    def draw(case: Case, rows: int, device: str) -> Operands:
        def normal(*shape: int) -> torch.Tensor:
            return torch.randn(*shape, device=device, dtype=torch.bfloat16)

        n = sum(case.dz)
        h, weights = normal(rows, case.h), normal(n, case.h) / math.sqrt(n)
        return Operands(case, h, normal(rows, n), weights)

    def library(self) -> torch.Tensor:
        """One GEMM of PyTorch."""
        if self.case.is_input_gradient:
            return torch.mm(self.dz, self.weights)
        return torch.mm(self.dz.T, self.h)

    def separate(self) -> list[torch.Tensor]:
        """The arguments of the program, each contiguous."""
        parts = [part.contiguous() for part in split(self.dz, self.case.dz, 1)]
        if not self.case.is_input_gradient:
            return [self.h, *parts]
        return [*parts, *split(self.weights, self.case.dz, 0)]

    def error(self, result: torch.Tensor) -> float:
        """The error against float64 of a sample of rows of the result."""
        rows = torch.randperm(result.shape[0], device=result.device)[:SAMPLED]
        if self.case.is_input_gradient:
            expected = self.dz[rows].double() @ self.weights.double()
        else:
            expected = self.dz[:, rows].double().T @ self.h.double()
        return relative_error(result[rows], expected)


def split(x: torch.Tensor, sizes: Sequence[int], dim: int) -> list[torch.Tensor]:
    """Views of `sizes` elements of a dimension, one after the other."""
    starts = [sum(sizes[:index]) for index in range(len(sizes))]
    return [x.narrow(dim, start, size) for start, size in zip(starts, sizes, strict=True)]


def schedule_options(text: str, target: str | None) -> str | None:
    """Options of the pass `schedule` for `tma 128x256x64 warps=8 ...`; None for `default`."""
    if text == "default":
        return None if target is None else f"target={target}"
    mainloop, tile, *options = text.split()
    target = target or ("portable" if mainloop == "pointer" else "sm_90")
    return " ".join((f"target={target}", f"mainloop={mainloop}", f'tile="{tile}"', *options))


def stacked(results: torch.Tensor | Sequence[torch.Tensor]) -> torch.Tensor:
    """The result of a call, or its results one below the other."""
    return results if isinstance(results, torch.Tensor) else torch.cat(list(results))


def measure(
    case: Case, rows: int, schedules: Sequence[str], device: str, rounds: int
) -> tuple[dict[str, Timing], dict[str, float]]:
    """Timings of a case by schedule, and errors of a sample against float64."""
    operands = Operands.draw(case, rows, device)
    arguments = operands.separate()
    candidates: dict[str, Candidate] = {BASELINE: operands.library}
    errors = {BASELINE: operands.error(operands.library())}
    for text in schedules:
        gemm = coda_ir.compile(case.program(), device=device, schedule=schedule_options(text, None))
        candidates[text] = partial(gemm, *arguments)
        errors[text] = operands.error(stacked(gemm(*arguments)))
    return time_interleaved(candidates, rounds=rounds), errors


def compile_only(case: Case, schedules: Sequence[str], arch: str, console: Console) -> None:
    """Print what the kernels of a case need on a GPU that is not here."""
    for text in schedules:
        options = schedule_options(text, arch)
        module = coda_ir.compile(
            case.program(), target="reference", device="cpu", schedule=options
        ).module("scheduled")
        gemms = [op for op in module.walk() if isinstance(op, FusedOp)]
        kernels = [emit_gemm(gemm, NameAllocator()) for gemm in gemms]
        for compiled in compile_kernels(kernels, arch):
            console.print(f"{case.name:12} {text:40} {compiled.resources}", soft_wrap=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", default="2048", help="hidden sizes, such as 2048,4096,8192")
    parser.add_argument("--rows", type=int, default=16384)
    parser.add_argument("--only", default="", help="part of the names of the GEMMs, such as dW")
    parser.add_argument("--schedule", action="append", help='such as "tma 128x256x64 stages=4"')
    parser.add_argument("--aot", metavar="ARCH", help="compile for ARCH without running")
    add_common_options(parser)
    arguments = parser.parse_args()
    schedules, console = arguments.schedule or SCHEDULES, Console()
    budget = Budget(arguments.budget)
    timings: dict[str, dict[str, Timing]] = {}
    errors: dict[str, dict[str, float]] = {}
    for d in wanted_sizes(arguments.sizes):
        for case in cases(d):
            if arguments.only not in case.name:
                continue
            if arguments.aot:
                compile_only(case, schedules, arguments.aot, console)
                continue
            section = f"D = {d}, {case.name}: {2e-12 * arguments.rows * case.work:.3f} TFLOP"
            if not budget.allows(section):
                return
            with budget.part():
                timings[section], errors[section] = measure(
                    case, arguments.rows, schedules, arguments.device, arguments.rounds
                )
            print_timings(section, timings[section], BASELINE)
            console.print({name: f"{error:.2e}" for name, error in errors[section].items()})
            facts = {"rows": arguments.rows, "errors": errors}
            publish(arguments, **facts, milliseconds=timings_data(timings))


if __name__ == "__main__":
    main()
