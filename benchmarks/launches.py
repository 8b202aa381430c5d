"""The launches of a program, kernel by kernel: times, and the bare GEMM beside each fused one."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import cycle
from time import perf_counter
from typing import Any

import torch
from harness import timed
from torch.profiler import ProfilerActivity, profile
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from coda_ir import CompiledFunction
from coda_ir.backends.triton import emit_program
from coda_ir.cache import load_source
from coda_ir.cost_model.rows import RowCounts
from coda_ir.dialects.gemm import FusedOp, Layout
from coda_ir.symbolic_shapes import SymbolicShapes, SymbolicSize
from coda_ir.tuning.problem import ENTRY, Problem, make_inputs

Call = Callable[[], object]

COPIED_BYTES = 1 << 29
QUEUED_CALLS = 20

AHEAD_CYCLES = 20_000_000
"""Cycles for which the GPU sleeps, some milliseconds, while the host queues calls."""


@dataclass(frozen=True)
class Recorded:
    """A kernel that ran, and its time in microseconds."""

    name: str
    start: float
    duration: float


def record_on_gpu(call: Call) -> list[Recorded]:
    """Return the kernels of a call in the order in which they ran, timed by the GPU's clock."""
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA]) as profiled:
        call()
        torch.cuda.synchronize()
    # PyTorch has no types for its events.
    every: list[Any] = list(profiled.events() or ())
    events = sorted(filter(_is_kernel, every), key=lambda event: event.time_range.start)
    return [Recorded(e.name, e.time_range.start, e.device_time) for e in events]


def _is_kernel(event: Any) -> bool:
    return event.device_type.name == "CUDA" and not event.name.startswith(("Memcpy", "Memset"))


class _Watched:
    """A kernel in Triton's interpreter, whose launches are recorded."""

    def __init__(self, name: str, kernel: Any, recorded: list[Recorded]):
        self._name, self._kernel, self._recorded = name, kernel, recorded

    def __getitem__(self, grid: object) -> Callable[..., None]:
        def launch(*arguments: object, **options: object) -> None:
            start = perf_counter()
            self._kernel[grid](*arguments, **options)
            took = perf_counter() - start
            self._recorded.append(Recorded(self._name, 1e6 * start, 1e6 * took))

        return launch


@contextmanager
def _watched(module: Any, kernels: Sequence[str]) -> Generator[list[Recorded]]:
    recorded: list[Recorded] = []
    names: dict[str, Any] = module.__dict__
    before = {name: names[name] for name in kernels}
    names.update({name: _Watched(name, kernel, recorded) for name, kernel in before.items()})
    try:
        yield recorded
    finally:
        names.update(before)


def kernel_counts(calls: Sequence[Call], device: torch.device) -> list[int]:
    """Return the number of kernels that each call launches; on a CPU, every call counts as one."""
    for call in calls:
        call()
    if device.type != "cuda":
        return [1] * len(calls)
    return [len(record_on_gpu(call)) for call in calls]


def sequence_us(
    sequences: Sequence[Sequence[Call]],
    counts: Sequence[int],
    device: torch.device,
    repeats: int = 10,
) -> list[float]:
    """Return the microseconds of the kernels of each call: medians over `repeats` of calling all
    one after the other, as a layer does. Each round takes the next call of each sequence. `counts`
    are those of `kernel_counts`.
    """
    rotated = [cycle(calls) for calls in sequences]
    if device.type != "cuda":
        return [1e6 * timed(next(calls))[1] for calls in rotated]
    recorded = iter(
        record_on_gpu(lambda: [next(calls)() for _ in range(repeats) for calls in rotated])
    )
    times: list[list[float]] = [
        [sum(next(recorded).duration for _ in range(count)) for count in counts]
        for _ in range(repeats)
    ]
    assert next(recorded, None) is None, "each call launches as many kernels every time"
    return [statistics.median(column) for column in zip(*times, strict=True)]


def queued_us(call: Call, device: torch.device) -> float:
    """Return the microseconds between queued calls: kernels and the gaps between them."""
    call()
    if device.type != "cuda":
        return 1e6 * timed(call)[1]
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    cuda: Any = torch.cuda
    cuda._sleep(AHEAD_CYCLES)
    start.record()
    for _ in range(QUEUED_CALLS):
        call()
    end.record()
    torch.cuda.synchronize()
    return 1000 * start.elapsed_time(end) / QUEUED_CALLS


def copy_rate(device: torch.device) -> float:
    """Return the bytes per microsecond that a copy reads and writes."""
    size = COPIED_BYTES if device.type == "cuda" else 1 << 20
    source = torch.randint(255, (size,), dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    return 2 * size / queued_us(lambda: target.copy_(source), device)


@dataclass(frozen=True)
class Program:
    """A compiled function with operands, and its launches."""

    function: CompiledFunction
    operands: Sequence[torch.Tensor]
    sizes: Mapping[str, int]
    """The sizes of the symbols of the function."""

    @cached_property
    def launches(self) -> tuple[tuple[Operation, str], ...]:
        """The operators that are kernels, with their names, in the order of their launches."""
        return emit_program(self.function.module("scheduled"), self.function.name).launches

    @cached_property
    def _generated(self) -> Any:
        return load_source(self.function.source, self.function.name)

    def run(self) -> object:
        return self._generated.run(*self.operands)

    def kernel_times(self, count: int = 10) -> list[float]:
        """Return the microseconds of each launch of the program: medians over `count` calls."""
        self.run()
        if self.function.device.type == "cuda":
            recorded = record_on_gpu(lambda: [self.run() for _ in range(count)])
        else:
            count = 1
            with _watched(self._generated, self.function.kernels) as recorded:
                self.run()
        names = [name for _, name in self.launches]
        own = [kernel for kernel in recorded if kernel.name in set(names)]
        assert [kernel.name for kernel in own] == names * count, "not the kernels of the program"
        return [
            statistics.median(kernel.duration for kernel in own[place :: len(names)])
            for place in range(len(names))
        ]

    def bytes_of(self, op: Operation) -> int:
        """Return the minimum of bytes that an operator moves, with partial sums of known number."""
        func = op.parent_op()
        assert isinstance(func, FuncOp), "operators stand in the function"
        traffic = SymbolicShapes(func).traffic(op)
        known = [term for term in traffic.terms if set(term[0]) <= self.sizes.keys()]
        return SymbolicSize(tuple(known)).evaluate(self.sizes)


def label(op: Operation) -> str:
    """Return a label: the weights of a GEMM or of the gradients that it computes, or a name."""
    if not isinstance(op, FusedOp):
        return op.name
    if op.is_transposed:
        names = [name_of(value) for segment in op.segments() for value in segment.outputs[:1]]
        return "dW " + ", ".join(names)
    kind = "dX " if any(segment.layout is Layout.KN for segment in op.segments()) else ""
    return kind + ", ".join(name_of(weight) for weight in op.weights)


def name_of(value: Any) -> str:
    return (value.name_hint or "?").removeprefix("d_")


@dataclass(frozen=True)
class Gemm:
    """A GEMM of a program, run alone on random operands that together exceed the L2 cache."""

    bare: Sequence[Call]
    """The same main loop and schedule with nothing behind it, on each set of operands."""
    library: Sequence[Call]
    """One GEMM of PyTorch on packed operands."""

    @staticmethod
    def of(op: FusedOp, sizes: Mapping[str, int], device: torch.device) -> Gemm:
        problem = Problem.of(op, RowCounts(sizes))
        assert problem is not None and op.schedule is not None, "sizes and schedule are known"
        unfused = problem.in_form("unfused")
        bare = next(each for each in unfused.walk() if isinstance(each, FusedOp))
        alone = Problem.of(bare, RowCounts(problem.sizes))
        assert alone is not None, "its sizes are those of the problem"
        source = alone.emit(op.schedule).source
        run: Callable[..., object] = load_source(source, ENTRY).run
        sets = make_inputs(alone, device)
        library = [_library_call(alone.op, operands) for operands in sets]
        return Gemm([partial(run, *operands) for operands in sets], library)


def _library_call(op: FusedOp, operands: Sequence[torch.Tensor]) -> Call:
    """Return the same product by PyTorch, on operands that were packed beforehand."""
    block = op.parent_block()
    assert block is not None, "operators stand in the function"
    values: dict[SSAValue, torch.Tensor] = dict(zip(block.args, operands, strict=True))
    inputs = [values[each].flatten(0, -2) for each in op.inputs]
    terms = [
        torch.cat([_columns(values[w], s.layout) for s in op.segments() for w in s.terms[term]], 1)
        for term in range(len(inputs))
    ]
    if op.is_transposed:
        x, weight = torch.cat(inputs), torch.cat(terms)
        return lambda: torch.mm(x.T, weight)
    x, layout = torch.cat(inputs, 1), op.segments()[0].layout
    # As PyTorch's layers have it: N x K, unless the program has K x N.
    weight = torch.cat(terms)
    packed = weight.T.contiguous().T if layout is Layout.NK else weight
    return lambda: torch.mm(x, packed)


def _columns(weight: torch.Tensor, layout: Layout) -> torch.Tensor:
    """Return a weight as K x N."""
    return weight.T if layout is Layout.NK else weight.flatten(0, -2)
