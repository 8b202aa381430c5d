"""The measurer of GPUs where there is none: kernels run in the interpreter, events have a clock."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

import pytest
import torch

import coda_ir
from coda_ir.backends.triton import EmittedProgram
from coda_ir.backends.triton.aot import find_architecture
from coda_ir.backends.triton.architectures import Architecture
from coda_ir.cache.decision import Form
from coda_ir.cost_model.rows import RowCounts
from coda_ir.dialects.gemm import FusedOp, ScheduleAttr
from coda_ir.launching.forked import Request
from coda_ir.lowering import Lowering
from coda_ir.tuning import gpu
from coda_ir.tuning.gpu import GpuMeasurer
from coda_ir.tuning.measurer import Candidate, Deadline, MeasurementError
from coda_ir.tuning.problem import Problem

PROGRAM = "fn f(x: f32[M, 16], w: f32[32, 16]) {\n    return relu(linear(x, w))\n}"


@dataclass
class ClockEvent:
    """An event that happens when it is recorded."""

    enable_timing: bool
    at: float = 0.0

    def record(self) -> None:
        self.at = time.perf_counter()

    def elapsed_time(self, later: ClockEvent) -> float:
        return 1000 * (later.at - self.at)


def compile_instantly(
    target: tuple[Any, ...], requests: list[Request], jobs: int, _: Deadline
) -> Iterator[tuple[int, str | None]]:
    """Compile nothing: one request fails."""
    assert target == ("cuda", 90, 32) and jobs > 0
    for index, request in enumerate(requests):
        yield index, "spills" if "BLOCK_M: tl.constexpr = 64" in request["source"] else None


@pytest.fixture
def measurer(monkeypatch: pytest.MonkeyPatch) -> GpuMeasurer:
    def ignore(*_: object) -> None:
        return None

    def sm_90(_: str) -> Architecture:
        return find_architecture("sm_90")

    monkeypatch.setattr(torch.cuda, "Event", ClockEvent)
    monkeypatch.setattr(torch.cuda, "synchronize", ignore)
    monkeypatch.setattr(torch.cuda, "_sleep", ignore, raising=False)
    monkeypatch.setattr(gpu, "find_architecture", sm_90)
    monkeypatch.setattr(gpu, "compile_candidates", compile_instantly)
    monkeypatch.setattr(gpu, "MEASURED_MS", 1.0)
    return GpuMeasurer(torch.device("cpu"))


def candidates(*tiles: tuple[int, int, int], program: str = PROGRAM) -> list[Candidate]:
    module = Lowering(coda_ir.parse(program)).module("gemm")
    op = next(op for op in module.walk() if isinstance(op, FusedOp))
    problem = Problem.of(op, RowCounts({"M": 40}))
    assert problem is not None
    schedules = [ScheduleAttr.get("pointer", tile, warps=4, stages=1) for tile in tiles]
    return [Candidate(problem, schedule, 1.0) for schedule in schedules]


def prepared(measurer: GpuMeasurer, found: list[Candidate]) -> dict[Candidate, str | None]:
    answers: dict[Candidate, str | None] = {}
    measurer.prepare(found, Deadline(time.monotonic() + 100), answers.__setitem__)
    return answers


def test_candidates_are_measured_and_compared(measurer: GpuMeasurer):
    first, second, broken = candidates((16, 16, 16), (32, 32, 16), (64, 32, 16))
    assert prepared(measurer, [first, second, broken]) == {
        first: None,
        second: None,
        broken: "spills",
    }
    assert measurer.measure(first) > 0
    measurer.check(second, first)


def test_what_computes_something_else_is_noticed(
    measurer: GpuMeasurer, monkeypatch: pytest.MonkeyPatch
):
    first, second = candidates((16, 16, 16), (32, 32, 16))
    (other,) = candidates((32, 32, 16), program=PROGRAM.replace("relu", "silu"))
    emit = Problem.emit

    def wrong(problem: Problem, schedule: ScheduleAttr, form: Form) -> EmittedProgram:
        return emit(other.problem if schedule == other.schedule else problem, schedule, form)

    monkeypatch.setattr(Problem, "emit", wrong)
    prepared(measurer, [first, second])
    with pytest.raises(MeasurementError, match="result 0 is not that"):
        measurer.check(second, first)


def test_launches_that_fail_are_measurement_errors(
    measurer: GpuMeasurer, monkeypatch: pytest.MonkeyPatch
):
    (only,) = candidates((16, 16, 16))
    prepared(measurer, [only])

    def fail(*_: torch.Tensor) -> None:
        raise RuntimeError("CUDA error: out of resources\nand more lines")

    loaded: Future[Any] = Future()
    loaded.set_result(fail)
    vars(measurer)["_programs"][only] = loaded
    with pytest.raises(MeasurementError, match=r"RuntimeError: CUDA error: out of resources$"):
        measurer.measure(only)


def test_programs_that_cannot_be_loaded_are_measurement_errors(
    measurer: GpuMeasurer, monkeypatch: pytest.MonkeyPatch
):
    def fail(*_: str) -> None:
        raise RuntimeError("no kernel image")

    monkeypatch.setattr(gpu, "load_source", fail)
    (only,) = candidates((16, 16, 16))
    assert prepared(measurer, [only]) == {only: None}
    with pytest.raises(MeasurementError, match="RuntimeError: no kernel image"):
        measurer.measure(only)
    with pytest.raises(MeasurementError, match="RuntimeError: no kernel image"):
        measurer.check(only, only)
