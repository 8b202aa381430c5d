"""Compiling candidates for a GPU that is not there, into Triton's cache."""

import time
from pathlib import Path

import pytest

import coda_ir
from coda_ir.cost_model.rows import RowCounts
from coda_ir.dialects.gemm import FusedOp, ScheduleAttr
from coda_ir.launching.forked import Request
from coda_ir.lowering import Lowering
from coda_ir.tuning.gpu import LOST, compile_candidates, compile_request
from coda_ir.tuning.measurer import Deadline
from coda_ir.tuning.problem import Problem

SM_90 = ("cuda", 90, 32)
PROGRAM = "fn f(x: bf16[M, 64], w: bf16[128, 64]) {\n    return silu(linear(x, w))\n}"


def problem() -> Problem:
    module = Lowering(coda_ir.parse(PROGRAM)).module("gemm")
    op = next(op for op in module.walk() if isinstance(op, FusedOp))
    found = Problem.of(op, RowCounts({"M": 512}))
    assert found is not None
    return found


def kernels(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*.cubin"))


@pytest.mark.slow
def test_candidates_are_compiled_into_tritons_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "triton"))
    monkeypatch.setenv("CODA_CACHE_DIR", str(tmp_path / "coda"))
    gemm = problem()
    schedules = [
        ScheduleAttr.get("tma", (64, 64, 64), warps=4, stages=2),
        ScheduleAttr.get("warp_specialized", (128, 128, 64), warps=8, stages=3),
    ]
    requests = [compile_request(gemm.emit(schedule)) for schedule in schedules]
    # Of the library's form, the epilogue is compiled.
    requests.append(compile_request(gemm.emit(None, "library")))
    broken = requests[0] | {"source": requests[0]["source"].replace("BLOCK_K: tl", "BLOCK_J: tl")}
    deadly: Request = {"source": "import os\nos._exit(1)\n", "name": "gemm", "launches": []}
    deadline = Deadline(time.monotonic() + 300)
    answers = dict(compile_candidates(SM_90, [deadly, broken, *requests], 1, deadline))
    # A process that dies fails its candidate only.
    assert answers[0] == LOST
    assert "BLOCK_K is not defined" in (answers[1] or "")
    assert [answers[index] for index in (2, 3, 4)] == [None] * 3
    assert len(kernels(tmp_path / "triton")) == 3


def test_what_is_not_ready_at_the_deadline_is_given_up():
    gemm = problem()
    schedule = ScheduleAttr.get("pointer", (64, 64, 64), warps=4, stages=2)
    request = compile_request(gemm.emit(schedule))
    start = time.monotonic()
    assert not list(compile_candidates(SM_90, [request], 1, Deadline(start + 0.1)))
