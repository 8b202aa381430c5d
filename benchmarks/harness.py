"""Interleaved timing of alternatives in one process, under the same clocks and temperature."""

import argparse
import gc
import json
import multiprocessing
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Generic, Literal, TypeVar

import torch
from rich.console import Console
from rich.table import Table

from coda_ir.devices import default_device, interpret_without_gpu
from coda_ir.diagnostics import CodaError

Candidate = Callable[[], object]
ResultT = TypeVar("ResultT")

WITHOUT_GPU = """\
Without a GPU, this runs at tiny sizes in Triton's interpreter or the reference backend, and leaves
torch.compile out, to check that it works. The times mean nothing."""

TOY_SIZES: Mapping[str, int] = {
    "sizes": 64,
    "tokens": 33,
    "batch": 1,
    "time": 8,
    "head_dim": 16,
    "layers": 1,
    "rounds": 1,
}
"""Without a GPU, no option is larger than this, by its name."""


@dataclass(frozen=True)
class Queued:
    """A function whose calls wait in a separate queue, not in that of PyTorch's stream.

    Several are queued at a time, and only the last one is waited for, so that the time it takes to
    queue them is hidden, as it is for calls on the stream.
    """

    call: Candidate
    wait: Callable[[Any], object]
    count: int = 4

    def __call__(self) -> None:
        synchronize()  # or they would begin while the stream clears the cache
        result = None
        for _ in range(self.count):
            result = self.call()
        self.wait(result)


def do_bench(candidate: Candidate, warmup: int, rep: int) -> float:
    """Return the milliseconds of a call: Triton's median on a GPU, one call on a CPU."""
    if isinstance(candidate, Queued):
        return _do_bench(candidate, warmup, rep) / candidate.count
    return _do_bench(candidate, warmup, rep)


def _do_bench(candidate: Candidate, warmup: int, rep: int) -> float:
    if torch.cuda.is_available():
        triton_bench: Callable[..., float] = import_module("triton.testing").do_bench
        return triton_bench(candidate, warmup=warmup, rep=rep, return_mode="median")
    return 1000 * timed(candidate)[1]


@dataclass(frozen=True)
class Timing:
    """Milliseconds of one candidate: the median over all rounds, and the fastest round."""

    median: float
    fastest_round: float


def time_interleaved(candidates: Mapping[str, Candidate], *, rounds: int = 5) -> dict[str, Timing]:
    """Time every candidate in turn, `rounds` times, for 80 milliseconds each.

    The first round warms up for 100. Every other round goes backwards: a GPU that grows
    hot lowers its clock, which would slow those that come last. On a GPU, the cache is cleared
    between calls.
    """
    medians: dict[str, list[float]] = {name: [] for name in candidates}
    for index in range(rounds):
        order = list(candidates.items())
        for name, candidate in order if index % 2 == 0 else reversed(order):
            medians[name].append(do_bench(candidate, 100 if index == 0 else 20, 80))
    return {name: Timing(statistics.median(times), min(times)) for name, times in medians.items()}


def host_microseconds(candidates: Mapping[str, Candidate], *, rounds: int = 50) -> dict[str, float]:
    """Return the median host time of a call that the GPU runs in the background.

    Candidates take turns, so few calls of each at a time that the queue of launches does not fill.
    """
    times: dict[str, list[int]] = {name: [] for name in candidates}
    for _ in range(rounds):
        for name, candidate in candidates.items():
            for _ in range(16 if torch.cuda.is_available() else 1):
                start = time.perf_counter_ns()
                candidate()
                times[name].append(time.perf_counter_ns() - start)
            synchronize()
    return {name: statistics.median(taken) / 1000 for name, taken in times.items()}


def synchronize() -> None:
    """Wait for the GPU, if there is one."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def timed(call: Callable[[], ResultT]) -> tuple[ResultT, float]:
    """Return the result of a call, and the seconds until the GPU has computed it."""
    start = time.perf_counter()
    result = call()
    synchronize()
    return result, time.perf_counter() - start


def peak_memory(candidate: Candidate) -> float | None:
    """Return the GiB that a call needs at its peak beyond those before; None without a GPU."""
    if not torch.cuda.is_available():
        return None
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    candidate()
    torch.cuda.synchronize()
    return (torch.cuda.max_memory_allocated() - before) / 2**30


def millijoules(candidate: Candidate, milliseconds: float) -> float | None:
    """Return the energy of a call, by the counter of the GPU; None without `pynvml` or a GPU.

    Calls run for a second: the counter is updated about every 100 milliseconds.
    """
    if not torch.cuda.is_available() or find_spec("pynvml") is None:
        return None
    nvml: Any = import_module("pynvml")
    nvml.nvmlInit()
    cuda: Any = torch.cuda  # its properties have no types
    uuid = cuda.get_device_properties(cuda.current_device()).uuid
    handle = nvml.nvmlDeviceGetHandleByUUID(f"GPU-{uuid}")
    count = max(1, round(1000 / milliseconds))
    synchronize()
    before = nvml.nvmlDeviceGetTotalEnergyConsumption(handle)
    for _ in range(count):
        candidate()
    synchronize()
    return (nvml.nvmlDeviceGetTotalEnergyConsumption(handle) - before) / count


def print_kernels(title: str, candidate: Candidate, count: int) -> None:
    """Print the kernels that take longest in a call, with their calls and shares."""
    profiler: Any = import_module("torch.profiler")
    with profiler.profile(activities=[profiler.ProfilerActivity.CUDA]) as profile:
        candidate()
        synchronize()
    found: list[Any] = [e for e in profile.key_averages() if e.self_device_time_total > 0]
    whole = sum(event.self_device_time_total for event in found)
    table = table_of(f"{title}: {whole / 1000:.3f} ms of kernels", "kernel", "calls", "ms", "%")
    for event in sorted(found, key=lambda e: -e.self_device_time_total)[:count]:
        us = event.self_device_time_total
        row = (event.key[:80], str(event.count), f"{us / 1000:.3f}", f"{100 * us / whole:.1f}")
        table.add_row(*row)
    Console(width=130).print(table)


def captured(call: Callable[[], ResultT]) -> Callable[[], ResultT]:
    """Capture a call as one CUDA graph, which reads tensors at their addresses.

    Raises RuntimeError without a GPU.
    """
    if not torch.cuda.is_available():
        raise RuntimeError("CUDA graphs need a GPU")
    stream: Any = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        call()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        results = call()

    def replay() -> ResultT:
        graph.replay()
        return results

    return replay


def torch_compile(function: Any, **options: Any) -> Any:
    """Call `torch.compile`. Raises CodaError without a GPU: compiling C++ takes long."""
    if not torch.cuda.is_available():
        raise CodaError("this benchmark needs a GPU")
    compile: Any = import_module("torch").compile  # has no complete types
    return compile(function, **options)


def seed() -> None:
    """Seed the random numbers, so that every run draws the same ones."""
    torch.default_generator.manual_seed(0)
    torch.cuda.manual_seed_all(0)


def reset_compilers() -> None:
    """Reset all compilers: torch.compile runs a function of many graphs eagerly."""
    dynamo: Any = import_module("torch._dynamo")
    dynamo.reset()
    release_memory()


def release_memory() -> None:
    """Release the free memory that PyTorch caches, so that other allocators see it."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def make_parser(doc: str | None) -> argparse.ArgumentParser:
    """Make a parser that describes a command by the first line of its module's docstring."""
    return argparse.ArgumentParser(description=(doc or "").partition("\n")[0])


def read_options(
    parser: argparse.ArgumentParser, arguments: Sequence[str] | None
) -> argparse.Namespace:
    """Parse a command line, and add the `device`. Without a GPU, sizes become `TOY_SIZES`."""
    options = parser.parse_args(arguments)
    options.device = default_device().type
    if options.device == "cpu":
        interpret_without_gpu()
        print(WITHOUT_GPU)
        for name, most in TOY_SIZES.items():
            if hasattr(options, name):
                setattr(options, name, _at_most(most, getattr(options, name)))
    return options


def _at_most(most: int, value: Sequence[Any] | int | None) -> Any:
    """Limit a number, or each number of a list or tuple; a list keeps equal numbers once."""
    if not isinstance(value, Sequence):
        return most if value is None else min(value, most)
    numbers = [_at_most(most, each) for each in value]
    return tuple(numbers) if isinstance(value, tuple) else list(dict.fromkeys(numbers))


def table_of(title: str, *columns: str, texts: int = 1) -> Table:
    """Make an empty table whose first columns are `texts` and whose others are numbers."""
    table = Table(title=title)
    for index, name in enumerate(columns):
        table.add_column(name, justify="left" if index < texts else "right")
    return table


def publish(options: argparse.Namespace, **facts: object) -> None:
    """Write the results so far, with the device and versions, to the file named by `--json`."""
    if options.json is not None:
        device = torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu"
        triton: Any = import_module("triton")
        machine = {"device": device, "torch": torch.__version__, "triton": triton.__version__}
        options.json.write_text(json.dumps({**machine, **facts}, indent=2) + "\n")


TOOK_TOO_LONG = "took too long"
"""The note of a job that was ended by the clock."""


class Job(Generic[ResultT]):
    """A call `work(*arguments, results)`, which sends what it finds through `results`."""

    def __init__(
        self,
        method: Literal["fork", "spawn"],
        work: Callable[..., None],
        arguments: tuple[Any, ...],
        failed: Callable[[str], ResultT],
    ):
        context: Any = multiprocessing.get_context(method)
        self._results, sender = context.Pipe(duplex=False)
        self._failed = failed
        self._process = context.Process(target=work, args=(*arguments, sender), daemon=True)
        self._process.start()
        sender.close()

    def poll(self, until: float) -> ResultT | None:
        """Return the result once there is one; end the process at the time `until`."""
        if self._results.poll():
            try:
                result: ResultT = self._results.recv()
            except EOFError:
                result = self._ended()
        elif time.monotonic() > until:
            self._process.kill()
            result = self._failed(TOOK_TOO_LONG)
        elif not self._process.is_alive() and not self._results.poll():
            result = self._ended()
        else:
            return None
        self._process.join()
        return result

    def _ended(self) -> ResultT:
        self._process.join()
        return self._failed(f"the process ended with {self._process.exitcode}")
