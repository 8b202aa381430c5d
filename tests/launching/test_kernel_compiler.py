"""Compiling kernels in processes that start while a program is lowered."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any

import pytest
import torch

import coda_ir
from coda_ir.backends.triton.prelude import MODULE_HEADER
from coda_ir.cache.origin import Origin
from coda_ir.executables import load
from coda_ir.launching import executable, forked
from coda_ir.launching.forked import MIN_JOBS, KernelCompiler
from coda_ir.lowering import Lowering
from coda_ir.options import CompileOptions, TuningOptions
from coda_ir.tuned import TunedLowerings

SM_90 = ("cuda", 90, 32)
CPU = torch.device("cpu")
PROGRAM = "fn f(x: bf16[M, 64], w: bf16[128, 64]) {\n    return silu(linear(x, w))\n}"

MODULE = """
@triton.jit
def add(x_ptr, M):
    tl.store(x_ptr, tl.load(x_ptr) + M)


@triton.jit
def wrong(x_ptr, M):
    tl.store(x_ptr, undefined)


@triton.jit
def double(x_ptr, M):
    tl.store(x_ptr + M, 2 * tl.load(x_ptr))


KERNELS = ("add", "wrong", "double")
"""


def groups(*names: str) -> list[list[str]]:
    return [[f'{name}[(1,)](tensor("fp32"), 16, num_warps=1)'] for name in names]


def cubins(folder: Path) -> set[str]:
    return {path.stem for path in folder.rglob("*.cubin")}


@pytest.mark.slow
def test_kernels_are_compiled_into_tritons_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """One that does not compile leaves the others alone."""
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "triton"))
    monkeypatch.setenv("CODA_CACHE_DIR", str(tmp_path / "coda"))
    compiler = KernelCompiler(SM_90, 2)
    source = MODULE_HEADER + MODULE
    compiler.submit(source, "some", groups("add", "wrong"))
    compiler.submit(source, "some", groups("double"))  # known already
    compiler.submit(source + "# another\n", "others", groups("double"))
    compiler.wait(source)
    assert "add" in cubins(tmp_path / "triton")
    compiler.wait(source + "# another\n")
    assert cubins(tmp_path / "triton") == {"add", "double"}
    # It is done, and asking again is no error.
    compiler.submit(source + "# a third\n", "third", groups("add"))
    compiler.wait(source + "# a third\n")
    compiler.wait(source)


class Answering:
    """A process that has an answer for each request, and is asked for them one by one."""

    asked: int
    closed: Event

    def __init__(self, command: Sequence[str], jobs: int):
        self.requests = 0
        Answering.asked, Answering.closed = 0, Event()

    def share(self, text: str) -> str:
        return text

    def submit(self, request: forked.Request) -> None:
        self.requests += 1

    def answers(self) -> Generator[forked.Answer]:
        for index in range(self.requests):
            Answering.asked += 1
            yield forked.Answer(index, 0, None, "")

    def close(self) -> None:
        Answering.closed.set()


def test_a_module_waits_for_no_kernels_of_later_ones(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(forked, "ForkingProcess", Answering)
    compiler = KernelCompiler(SM_90, 2)
    compiler.submit("forward", "f", groups("add", "double"))
    compiler.submit("backward", "b", groups("add", "wrong", "double"))
    compiler.wait("forward")
    assert Answering.asked == 2 and not Answering.closed.is_set()
    compiler.wait("backward")
    assert Answering.asked == 5 and Answering.closed.wait(10)


def test_a_process_that_cannot_start_compiles_nothing(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("sys.executable", "/bin/false")
    compiler = KernelCompiler(SM_90, 2)
    compiler.submit(MODULE_HEADER + MODULE, "some", groups("add"))
    compiler.wait(MODULE_HEADER + MODULE)


class Noted:
    """A compiler that compiles nothing."""

    made: list[Noted]

    def __init__(self, target: Sequence[Any], jobs: int):
        assert tuple(target) == SM_90 and jobs == MIN_JOBS
        self.submitted: list[str] = []
        self.waits: list[str] = []
        Noted.made.append(self)

    def submit(self, source: str, name: str, groups: Sequence[Sequence[str]]) -> None:
        assert groups and all(groups)
        self.submitted.append(name)

    def wait(self, source: str) -> None:
        self.waits.append(source)


@pytest.fixture(autouse=True)
def noted(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    Noted.made = []
    if "Noted" in (request.function.__doc__ or ""):
        monkeypatch.setattr(forked, "KernelCompiler", Noted)


GPU = CompileOptions(architecture="sm_90", jobs=MIN_JOBS, is_for_gpu=True)


def origin() -> Origin:
    return Origin({"text": PROGRAM}, lambda _: coda_ir.parse(PROGRAM))


def test_what_is_lowered_has_a_compiler():
    """Noted: both functions of a program have the same one, which begins as they are emitted."""
    text = PROGRAM + PROGRAM.replace("fn f", "fn g")
    lowering = Lowering(coda_ir.parse(text), GPU)
    programs: list[Any] = [load(lowering, name, "triton", CPU) for name in ("f", "g")]
    (compiler,) = Noted.made
    assert compiler.submitted == ["f", "g"] and not compiler.waits
    for program in programs:
        assert isinstance(program, executable.TritonExecutable)
        program.finish_compiling()
    assert compiler.waits == [program.info.source for program in programs]


@pytest.mark.parametrize(
    "chosen",
    [
        replace(GPU, is_for_gpu=False),
        replace(GPU, jobs=MIN_JOBS - 1),
        replace(GPU, architecture="sm_1", schedule="target=portable"),
    ],
)
def test_what_has_no_compiler(chosen: CompileOptions):
    """Noted: programs that are not run here, few cores, and GPUs that are not known."""
    Lowering(coda_ir.parse(PROGRAM), chosen).artifact()
    assert not Noted.made


def test_a_program_of_the_cache_has_no_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Noted: its kernels are in Triton's cache."""
    monkeypatch.setenv("CODA_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("CODA_CACHE_LIMIT", raising=False)
    lowerings = [Lowering(origin(), GPU) for _ in range(2)]
    for lowering in lowerings:
        lowering.artifact()
    assert [lowering.compiler for lowering in lowerings] == [*Noted.made, None]


def test_a_tuned_program_has_no_compiler():
    """Noted: tuning compiles what it measures."""
    tuning = TuningOptions.of("stored")
    assert tuning is not None
    lowerings = TunedLowerings(origin(), GPU, tuning)
    lowerings.untuned.artifact()
    assert not Noted.made
