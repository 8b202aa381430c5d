"""One program (CTA) under way: its partitions, one of which runs at a time, in a random order.

The partitions are threads that pass a baton. They pass it at every operation that synchronizes, to
a partition that can go on, or to a TMA load that ends then. The order follows from a seed. Some
seeds make a partition far slower than the others.
"""

import inspect
import random
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, Protocol

from support.gluon_simulator.clocks import Clock, Epoch, join
from support.gluon_simulator.errors import DeadlockError, SimulationError, UnfinishedError

SOURCE_PREFIX = "<gluon "
"""The prefix of the names of files whose code is simulated."""

Condition = Callable[[], bool]


class Pending(Protocol):
    """An asynchronous operation that nobody waited for yet."""

    place: str

    def finish(self) -> None:
        """Let it take effect."""
        ...


class _CancelledError(Exception):
    """Another partition failed."""


@dataclass(eq=False)
class Partition:
    """A warp group of the program: its thread, its knowledge, what it has under way."""

    name: str
    clock: Clock
    warps: int
    speed: float
    baton: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    condition: Condition | None = None
    waits_for: str = ""
    place: str = ""
    is_over: bool = False
    stores: deque[Pending] = field(default_factory=deque[Pending])
    products: deque[Pending] = field(default_factory=deque[Pending])
    copies: list[Any] = field(default_factory=list[Any])
    """Begun since the threads last arrived at a barrier for what they copy."""

    def __post_init__(self) -> None:
        self.clock[self.name] = self.clock.get(self.name, 0) + 1

    @property
    def can_run(self) -> bool:
        return not self.is_over and (self.condition is None or self.condition())

    def epoch(self) -> Epoch:
        return Epoch(self.name, self.clock[self.name])

    def release(self) -> Clock:
        """Return what others learn by an arrival of this partition."""
        known = dict(self.clock)
        self.clock[self.name] += 1
        return known

    def check_finished(self) -> None:
        for kind, pending in (("TMA store", self.stores), ("warpgroup_mma", self.products)):
            if pending:
                raise UnfinishedError(
                    f"{self.name} ends before it has waited for the {kind} of {pending[0].place}"
                )
        if self.copies:
            raise UnfinishedError(f"{self.name} ends and tells no barrier of what it copied")


class Program:
    """The program number `index` of a grid."""

    def __init__(self, index: Sequence[int], grid: Sequence[int], warps: int, seed: int):
        self.index, self.grid = index, grid
        self.random = random.Random(f"{seed} {index}")
        self.running = Partition("the kernel", {}, warps, self._draw_speed())
        self.partitions = [self.running]
        self.loads: list[Pending] = []
        self.load_speed = self._draw_speed()
        self.allocations: list[Any] = []
        self.has_failed = False

    def _draw_speed(self) -> float:
        return self.random.choice((0.03, 1.0, 1.0, 30.0))

    # The schedule

    def pause(self) -> None:
        """Let others go on, perhaps, before an operation that synchronizes."""
        self._pass_baton()

    def wait(self, condition: Condition, waits_for: str) -> None:
        """Return when `condition` holds; until then the others run."""
        partition = self.running
        if not condition():
            partition.condition, partition.waits_for = condition, waits_for
            partition.place = here()
            self._pass_baton()
            partition.condition = None

    def _pass_baton(self) -> None:
        partition, successor = self.running, self._choose()
        if successor is partition:
            return
        self.running = successor
        successor.baton.release()
        partition.baton.acquire()
        if self.has_failed:
            raise _CancelledError

    def _choose(self) -> Partition:
        """The partition that goes on; TMA loads that are drawn before it end."""
        while True:
            able = [partition for partition in self.partitions if partition.can_run]
            if not able and not self.loads:
                raise DeadlockError(self._deadlock())
            weights = [partition.speed for partition in able]
            weights += [self.load_speed / len(self.loads) for _ in self.loads]
            chosen = self.random.choices([*able, *self.loads], weights)[0]
            if isinstance(chosen, Partition):
                return chosen
            self.loads.remove(chosen)
            chosen.finish()

    def _deadlock(self) -> str:
        lines = ["no partition can go on:"]
        for partition in self.partitions:
            state = "is over"
            if not partition.is_over:
                state = f"waits at {partition.place} for {partition.waits_for}"
            lines.append(f"  {partition.name} {state}")
        lines += [f"  {allocation.describe()}" for allocation in self.allocations]
        return "\n".join(line for line in lines if line.strip())

    # Partitions

    def specialize(
        self,
        functions: Sequence[tuple[Callable[..., Any], Sequence[Any]]],
        worker_warps: Sequence[int],
    ) -> Any:
        """Run the first function in this partition and each other one in one of its own."""
        main = self.running
        known = main.release()
        names = _partition_names([function for function, _ in functions])
        workers = [
            Partition(name, dict(known), warps, self._draw_speed())
            for name, warps in zip(names[1:], worker_warps, strict=True)
        ]
        with ThreadPoolExecutor(max(len(workers), 1)) as threads:
            futures = [
                threads.submit(self._run_worker, worker, function, arguments)
                for worker, (function, arguments) in zip(workers, functions[1:], strict=True)
            ]
            self.partitions += workers
            main.name, outer = names[0], main.name
            main.clock[main.name] = main.clock.get(main.name, 0) + 1
            result = None
            try:
                result = self._run_main(functions[0], workers)
            except _CancelledError:
                pass
            finally:
                self.partitions = [main]
        for future in futures:
            error = future.exception()
            if error is not None and not isinstance(error, _CancelledError):
                raise error
        for worker in workers:
            join(main.clock, worker.clock)
        main.name = outer
        return result

    def _run_main(
        self, function: tuple[Callable[..., Any], Sequence[Any]], workers: Sequence[Partition]
    ) -> Any:
        succeeded = False
        try:
            result = function[0](*function[1])
            self.wait(lambda: all(w.is_over for w in workers), "the other partitions to end")
            succeeded = True
            return result
        finally:
            if not succeeded:
                self._cancel()

    def _run_worker(
        self, worker: Partition, function: Callable[..., Any], arguments: Sequence[Any]
    ) -> None:
        worker.baton.acquire()
        succeeded = False
        try:
            if not self.has_failed:
                function(*arguments)
                worker.check_finished()
                worker.is_over = True
                self.running = self._choose()
                self.running.baton.release()
                succeeded = True
        finally:
            if not succeeded:
                self._cancel()

    def _cancel(self) -> None:
        self.has_failed = True
        for partition in self.partitions:
            partition.baton.release()

    def check_finished(self) -> None:
        """Raise UnfinishedError or BarrierError unless the program may end."""
        self.running.check_finished()
        if self.loads:
            raise UnfinishedError(
                f"the kernel ends while the TMA load of {self.loads[0].place} is under way"
            )
        for allocation in self.allocations:
            allocation.check_finished()


def _partition_names(functions: Sequence[Callable[..., Any]]) -> list[str]:
    names = [getattr(function, "__name__", "partition") for function in functions]
    return [
        f"{name} {names[:place].count(name)}" if names.count(name) > 1 else name
        for place, name in enumerate(names)
    ]


_current: list[Program] = []


def current() -> Program:
    """The program under way."""
    if not _current:
        raise SimulationError("a function of the device is called outside of a kernel")
    return _current[-1]


def is_running() -> bool:
    return bool(_current)


def run_program(program: Program, kernel: Callable[[], Any]) -> None:
    _current.append(program)
    try:
        kernel()
        program.check_finished()
    finally:
        _current.pop()


def frame_of_kernel() -> FrameType | None:
    """The innermost frame that executes code of a kernel."""
    frame = inspect.currentframe()
    while frame is not None and not frame.f_code.co_filename.startswith(SOURCE_PREFIX):
        frame = frame.f_back
    return frame


def here() -> str:
    """The line of the kernel that is being executed, for messages."""
    frame = frame_of_kernel()
    if frame is None:
        return "the host"
    partition = f" ({current().running.name})" if _current else ""
    return f"line {frame.f_lineno}{partition}"
