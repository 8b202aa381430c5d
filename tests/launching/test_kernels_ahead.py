"""Compiling the kernels of a program before its first call, several at a time.

That it is just what launches ask for: backends/triton/kernels_ahead_cases.py.
"""

import os
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from support.fake_measurer import FakeMeasurer

import coda_ir
from coda_ir.compiled import CompiledFunction
from coda_ir.diagnostics import CodaError
from coda_ir.launching import executable, kernels_ahead
from coda_ir.launching.compile_jobs import compile_jobs, use_jobs
from coda_ir.launching.kernels_ahead import compile_ahead
from coda_ir.lowering import Lowering
from coda_ir.options import CompileOptions, TuningOptions
from coda_ir.tuning.context import use_measurer
from coda_ir.tuning.measurer import Candidate, Deadline

ROOT = Path(__file__).parents[2]
CPU = torch.device("cpu")


def test_strides_are_not_guessed():
    """The kernel that packs a weight is compiled for the strides that a call has."""
    program = coda_ir.parse(ROOT / "examples" / "gpt2_block.coda")
    artifact = Lowering(program, CompileOptions("target=sm_80")).artifact()
    ahead = {launch.partition("[")[0] for launch in artifact.launches}
    assert set(artifact.kernels) - ahead == {"pack_weight"} and len(ahead) > 4


class Loaded:
    """Counts how many compiled kernels are loaded at a time."""

    running = most = 0

    @property
    def run(self) -> None:
        Loaded.running += 1
        Loaded.most = max(Loaded.most, Loaded.running)
        time.sleep(0.002)
        Loaded.running -= 1


class Kernel:
    """Counts how many kernels are compiled, and how many at a time."""

    running = most = 0
    lock = threading.Lock()

    cache_key = "key"

    def __init__(self, failure: Exception | None = None, meeting: threading.Barrier | None = None):
        self.failure, self.meeting = failure, meeting
        self.asked: list[Sequence[Any]] = []

    def warmup(self, *arguments: object, **options: object) -> Any:
        with Kernel.lock:
            Kernel.running += 1
            Kernel.most = max(Kernel.most, Kernel.running)
        self.asked.append(arguments)
        if self.meeting is not None:
            self.meeting.wait(timeout=30)
        if self.failure is not None:
            raise self.failure
        time.sleep(0.005)
        with Kernel.lock:
            Kernel.running -= 1
        return Loaded()


def module_of(*kernels: Kernel) -> tuple[Any, list[str]]:
    """A module of kernels, and a launch of each."""
    module = ModuleType("kernels")
    named = {f"kernel{index}": kernel for index, kernel in enumerate(kernels)}
    vars(module).update(named, KERNELS=tuple(named))
    return module, [f'{name}[(1,)](tensor("bf16"), 16, num_warps=4)' for name in named]


def test_kernels_are_compiled_at_the_same_time():
    meeting = threading.Barrier(3)
    kernels = [Kernel(meeting=meeting) for _ in range(3)]
    compile_ahead([module_of(*kernels)], CPU, 3)
    assert not meeting.broken
    for kernel in kernels:
        ((tensor, number),) = kernel.asked
        assert str(tensor.dtype) == "bf16" and tensor.dtype.itemsize == 2
        assert tensor.data_ptr() % 16 == 0 and number == 16


def test_kernels_of_several_programs_are_compiled_at_the_same_time():
    meeting = threading.Barrier(2)
    kernels = [Kernel(meeting=meeting) for _ in range(2)]
    compile_ahead([module_of(kernel) for kernel in kernels], CPU, 2)
    assert not meeting.broken


def test_no_more_at_a_time_than_asked_for():
    Kernel.running = Kernel.most = 0
    kernels = [Kernel() for _ in range(8)]
    compile_ahead([module_of(*kernels)], CPU, 2)
    assert all(len(kernel.asked) == 1 for kernel in kernels)
    assert 1 <= Kernel.most <= 2


def test_launches_of_one_kernel_follow_one_another():
    Kernel.running = Kernel.most = 0
    kernel, other = Kernel(), Kernel()
    module, (launch, another) = module_of(kernel, other)
    launches = [launch.replace(", 16,", f", {number},") for number in range(4)]
    compile_ahead([(module, [*launches, another])], CPU, 8)
    assert [number for _, number in kernel.asked] == [0, 1, 2, 3] and len(other.asked) == 1
    assert Kernel.most <= 2


def test_launchers_are_loaded_one_at_a_time():
    """Threads that load at a time get the launchers of each other."""
    Loaded.most = 0
    compile_ahead([module_of(*(Kernel() for _ in range(4)))], CPU, 4)
    assert Loaded.most == 1


@pytest.mark.parametrize(("count", "jobs"), [(0, 4), (1, 4), (4, 1)])
def test_one_at_a_time_is_left_to_launches(count: int, jobs: int):
    kernels = [Kernel() for _ in range(count)]
    compile_ahead([module_of(*kernels)], CPU, jobs)
    assert not any(kernel.asked for kernel in kernels)


def test_what_fails_is_left_to_its_launch():
    kernels = [Kernel(RuntimeError("spills")), Kernel(), Kernel(AssertionError()), Kernel()]
    compile_ahead([module_of(*kernels)], CPU, 2)
    assert all(len(kernel.asked) == 1 for kernel in kernels)


class TestJobs:
    def test_what_comes_first(self, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.delenv("CODA_COMPILE_JOBS", raising=False)
        assert compile_jobs() == len(os.sched_getaffinity(0))
        monkeypatch.setenv("CODA_COMPILE_JOBS", "3")
        assert compile_jobs() == 3
        with use_jobs(5):
            assert compile_jobs() == 5 and compile_jobs(2) == 2
        with use_jobs(None):
            assert compile_jobs() == 3

    @pytest.mark.parametrize("value", ["0", "-1", "many"])
    def test_a_setting_that_is_wrong(self, monkeypatch: pytest.MonkeyPatch, value: str):
        monkeypatch.setenv("CODA_COMPILE_JOBS", value)
        with pytest.raises(CodaError, match=f"CODA_COMPILE_JOBS is '{value}'"):
            coda_ir.compile("fn f(x: f32[M]) {\n    return relu(x)\n}", device="cpu")

    @pytest.mark.parametrize("jobs", [0, "2"])
    def test_an_option_that_is_wrong(self, jobs: Any):
        with pytest.raises(CodaError, match=f"jobs is {jobs!r}"):
            coda_ir.compile("fn f(x: f32[M]) {\n    return relu(x)\n}", device="cpu", jobs=jobs)


def test_triton_starts_beside_the_lowering(monkeypatch: pytest.MonkeyPatch):
    """That there is no driver is not said here."""
    lowered, threads = threading.Event(), list[threading.Thread]()

    def find_key() -> None:
        assert lowered.wait(timeout=30)
        threads.append(threading.current_thread())

    monkeypatch.setattr("triton.runtime.cache.triton_key", find_key)
    executable.start_triton.cache_clear()
    try:
        assert not executable.start_triton().done()
        lowered.set()
        executable.wait_for_triton()
        executable.wait_for_triton()
    finally:
        executable.start_triton.cache_clear()
    assert len(threads) == 1 and threads[0] is not threading.current_thread()


PROGRAM = """
fn f(x: bf16[M, 64], w: bf16[64, 64]) {
    return linear(silu(linear(x, w)), w)
}
"""


class JobsMeasurer(FakeMeasurer):
    """Remembers how many candidates were to be compiled at a time."""

    jobs = 0

    def prepare(
        self,
        candidates: Sequence[Candidate],
        deadline: Deadline,
        done: Callable[[Candidate, str | None], None],
    ) -> None:
        self.jobs = compile_jobs()
        super().prepare(candidates, deadline, done)


def test_candidates_are_compiled_by_as_many_processes():
    measurer = JobsMeasurer(lambda _: 1.0, device="GPU with three jobs")
    tuning = TuningOptions("measure", 10.0, "M=64")
    with use_measurer(measurer):
        Lowering(coda_ir.parse(PROGRAM), CompileOptions(tuning=tuning, jobs=3)).module("scheduled")
    assert measurer.jobs == 3 and measurer.measured


@pytest.mark.parametrize("is_capturing", [False, True])
def test_the_first_call_of_a_program(monkeypatch: pytest.MonkeyPatch, is_capturing: bool):
    """Kernels are compiled once, before it, and not while a CUDA graph is captured."""
    compiled: list[Any] = []

    def note(*arguments: object) -> None:
        compiled.append(arguments)

    def capturing() -> bool:
        return is_capturing

    def run(*tensors: torch.Tensor) -> torch.Tensor:
        assert is_capturing or len(compiled) == 1
        return tensors[0]

    monkeypatch.setattr(kernels_ahead, "compile_ahead", note)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", capturing)
    gpu = torch.device("cuda", 0)
    lowering = Lowering(coda_ir.parse(PROGRAM), CompileOptions(None, architecture="sm_90", jobs=7))
    function = CompiledFunction(lowering, None, "triton", gpu)
    module = SimpleNamespace(run=run, INTERPRET=SimpleNamespace(value=False))
    vars(function.executable)["module"] = module
    for _ in range(3):
        assert function.unchecked(torch.zeros(1), torch.zeros(1))
    launches = lowering.artifact().launches
    assert len(launches) == 2
    assert compiled == ([] if is_capturing else [([(module, launches)], gpu, 7)])
