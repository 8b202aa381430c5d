"""Compilation and measurement of candidates on a GPU."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from importlib import import_module
from itertools import pairwise
from statistics import median
from typing import Any

import torch

from coda_ir.backends.triton import EmittedProgram
from coda_ir.backends.triton.aot import find_architecture
from coda_ir.cache import load_source
from coda_ir.calls.results import as_tuple
from coda_ir.devices import architecture_name
from coda_ir.diagnostics import CodaError, MachineError
from coda_ir.launching.compile_jobs import compile_jobs
from coda_ir.launching.executable import wait_for_triton
from coda_ir.launching.forked import Request, run_forked
from coda_ir.launching.kernels_ahead import load_launch
from coda_ir.tuning.measurer import Candidate, Deadline, MeasurementError
from coda_ir.tuning.problem import ENTRY, Problem, make_inputs

LOST = "the process that compiles it ended"


def compile_candidates(
    target: tuple[Any, ...], requests: Sequence[Request], jobs: int, deadline: Deadline
) -> Generator[tuple[int, str | None]]:
    """Compile modules for a Triton target; a request has the arguments of
    `compile_worker.compile_module`.

    Gives the number of each request that is ready in time, and why it failed, if it did.
    """
    command = [sys.executable, "-P", "-m", "coda_ir.launching.compile_worker", json.dumps(target)]
    for answer in run_forked(command, requests, jobs, seconds=deadline.left):
        yield answer.index, LOST if answer.code else answer.value


MEASURED_MS = 20.0
"""Milliseconds that the calls of one measurement take together."""

LOADERS = 4
"""Threads that load programs while others are compiled."""

FEWEST, MOST = 7, 300
"""Calls of one measurement."""

AHEAD_CYCLES = 2_000_000
"""Cycles for which the GPU sleeps, about a millisecond, while the host queues the calls."""

TOLERANCE = 2**-6
"""Share of the largest element by which two schedules may differ: some steps of bfloat16."""


class GpuMeasurer:
    """Measures on one GPU, with kernels compiled by separate processes."""

    def __init__(self, device: torch.device):
        self._device = device
        self._programs: dict[Candidate, Future[Callable[..., Any]]] = {}
        self._inputs: tuple[Problem, list[list[torch.Tensor]]] | None = None
        self._errors: tuple[type[BaseException], ...] = _launch_errors()

    @staticmethod
    def current() -> GpuMeasurer:
        """Make a measurer for the current GPU. Raises CodaError if there is none."""
        if not torch.cuda.is_available():
            raise MachineError(
                "tuning measures kernels, and there is no GPU",
                'pass tune="stored" to use stored results, or leave tune out',
            )
        wait_for_triton()
        return GpuMeasurer(torch.device("cuda", torch.cuda.current_device()))

    @property
    def device(self) -> str:
        return torch.cuda.get_device_name(self._device)

    @property
    def clock(self) -> Callable[[], float]:
        return time.monotonic

    def prepare(
        self,
        candidates: Sequence[Candidate],
        deadline: Deadline,
        done: Callable[[Candidate, str | None], None],
    ) -> None:
        """Emit candidates, have processes compile them into Triton's cache, and load them."""
        emitted: list[tuple[Candidate, EmittedProgram]] = []
        for candidate in candidates:
            try:
                program = candidate.problem.emit(candidate.schedule, candidate.form)
            except CodaError as error:
                done(candidate, error.message)
                continue
            emitted.append((candidate, program))
        target = find_architecture(architecture_name(self._device)).triton_target
        with ThreadPoolExecutor(LOADERS, thread_name_prefix="coda-load") as loaders:
            requests = [compile_request(program) for _, program in emitted]
            compiled = compile_candidates(target, requests, compile_jobs(), deadline)
            for index, failure in compiled:
                candidate, program = emitted[index]
                if failure is None:
                    self._programs[candidate] = loaders.submit(self._load, program)
                done(candidate, failure)

    def measure(self, candidate: Candidate) -> float:
        inputs = self._inputs_of(candidate.problem)
        try:
            return self.median_us(self._programs[candidate].result(), inputs)
        except self._errors as error:
            raise MeasurementError(_first_line(error)) from error

    def check(self, candidate: Candidate, expected: Candidate) -> None:
        """Check that results agree, including partials if their tiles are the same."""
        first, problem = self._inputs_of(candidate.problem)[0], candidate.problem
        is_same_form = candidate.form == expected.form
        try:
            runs = [self._programs[each].result() for each in (candidate, expected)]
            results = [as_tuple(run(*first)) for run in runs]
        except self._errors as error:
            raise MeasurementError(_first_line(error)) from error
        ports = [port for part in problem.op.segments() for port, _ in part.results]
        for index, (found, wanted, port) in enumerate(zip(*results, ports, strict=True)):
            is_comparable = found.shape == wanted.shape and (is_same_form or not port.is_partial)
            if is_comparable and not _agree(found, wanted):
                raise MeasurementError(f"its result {index} is not that of the model's choice")

    def _load(self, program: EmittedProgram) -> Callable[..., Any]:
        """Load a candidate. Launchers are made with a C compiler, which takes time."""
        module = load_source(program.source, ENTRY)
        if self._device.type != "cpu":
            for launch in program.stand_ins:
                load_launch(module, launch, self._device)
        return module.run

    def _inputs_of(self, problem: Problem) -> list[list[torch.Tensor]]:
        """Return copies of inputs that together exceed L2, of one problem at a time."""
        if self._inputs is None or self._inputs[0] is not problem:
            self._inputs = None
            self._inputs = (problem, make_inputs(problem, self._device))
        return self._inputs[1]

    def median_us(self, run: Callable[..., Any], inputs: Sequence[Sequence[torch.Tensor]]) -> float:
        """Return the median microseconds of calls with each of the inputs in turn."""
        run(*inputs[0])
        first = self._times_us(run, inputs, FEWEST)
        calls = min(MOST, max(FEWEST, int(1000 * MEASURED_MS / median(first))))
        return median(self._times_us(run, inputs, calls))

    def _times_us(
        self, run: Callable[..., Any], inputs: Sequence[Sequence[torch.Tensor]], calls: int
    ) -> list[float]:
        """Return the time of each call, queued while the GPU sleeps: the host is not measured."""
        events = [torch.cuda.Event(enable_timing=True) for _ in range(calls + 1)]
        torch.cuda.synchronize(self._device)
        # PyTorch documents nothing that keeps a GPU busy for a time. Without this function the host
        # is measured too, where it is slower than the GPU.
        sleep: Callable[[int], None] | None = getattr(torch.cuda, "_sleep", None)
        if sleep is not None:
            sleep(AHEAD_CYCLES * (1 + calls // 20))
        events[0].record()
        for index in range(calls):
            run(*inputs[index % len(inputs)])
            events[index + 1].record()
        torch.cuda.synchronize(self._device)
        return [1000 * a.elapsed_time(b) for a, b in pairwise(events)]


def compile_request(program: EmittedProgram) -> Request:
    """Return the arguments of `worker.compile_module`."""
    return {"source": program.source, "name": ENTRY, "launches": program.stand_ins}


def _agree(found: torch.Tensor, wanted: torch.Tensor) -> bool:
    if not wanted.numel():
        return True
    largest = wanted.float().abs().max()
    return bool((found.float() - wanted.float()).abs().max() <= TOLERANCE * largest)


def _first_line(error: BaseException) -> str:
    return f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"


def _launch_errors() -> tuple[type[BaseException], ...]:
    """Return the errors of launches: too few resources, kernels that do not compile or run."""
    errors: Any = import_module("triton.errors")
    return (RuntimeError, errors.TritonError)
