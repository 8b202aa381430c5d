"""Captures and replays of CUDA graphs, with a recorder that needs no GPU."""

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, nullcontext
from time import sleep
from typing import Any

import pytest
import torch
from support.threads import in_threads

from coda_ir.launching import cuda_graphs
from coda_ir.launching.cuda_graphs import CudaGraphs, CudaRecorder


class Recorder:
    """Repeats the same work on the same inputs, into the same results."""

    def __init__(self, state: Sequence[torch.Tensor] = ()):
        """`state` is what the work changes; a capture leaves it as it is."""
        self.captures = 0
        self.replays = 0
        self._state = state

    def record(
        self, run: Callable[[], Sequence[torch.Tensor]]
    ) -> tuple[Callable[[], None], Sequence[torch.Tensor]]:
        self.captures += 1
        before = [each.clone() for each in self._state]
        results = [torch.full_like(result, torch.nan) for result in run()]
        for each, saved in zip(self._state, before, strict=True):
            each.copy_(saved)

        def replay() -> None:
            self.replays += 1
            for place, result in zip(results, run(), strict=True):
                place.copy_(result)

        return replay, results


@pytest.fixture(autouse=True)
def nothing_is_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda_graphs, "SMALL", 64)


WEIGHT = 1  # the position of the weight among the inputs


def product(inputs: list[torch.Tensor]) -> list[torch.Tensor]:
    x, w = inputs
    return [x @ w, x + 1]


def make() -> tuple[CudaGraphs, Recorder]:
    recorder = Recorder()
    return CudaGraphs(product, recorder, [WEIGHT]), recorder


def check(graphs: CudaGraphs, x: torch.Tensor, w: torch.Tensor) -> None:
    got, wanted = graphs([x, w]), product([x, w])
    torch.testing.assert_close(list(got), wanted)


def test_captured_the_second_time_and_replayed_from_then_on():
    graphs, recorder = make()
    x, w = torch.randn(8, 8), torch.randn(8, 8)
    for _ in range(4):
        check(graphs, x.normal_(), w)
    assert (recorder.captures, recorder.replays) == (1, 2)


def test_results_are_not_changed_by_the_next_call():
    graphs, _ = make()
    w = torch.randn(8, 8)
    inputs = [torch.randn(8, 8) for _ in range(5)]
    results = [graphs([x, w])[0] for x in inputs]
    torch.testing.assert_close(results, [x @ w for x in inputs])


def test_threads_take_turns(monkeypatch: pytest.MonkeyPatch):
    """No thread replays a graph between another thread's copies of its inputs and its results."""
    graphs, _ = make()
    w = torch.randn(8, 8)
    for _ in range(2):
        graphs([torch.randn(8, 8), w])
    run_at: Callable[..., Any] = cuda_graphs._run_at  # pyright: ignore[reportPrivateUsage]

    def slow(*arguments: Any) -> None:
        run_at(*arguments)
        sleep(0.01)

    monkeypatch.setattr(cuda_graphs, "_run_at", slow)
    in_threads(lambda _: check(graphs, torch.randn(8, 8), w))


def test_inputs_that_move_are_copied():
    graphs, recorder = make()
    w, kept = torch.randn(8, 8), [torch.randn(8, 8) for _ in range(6)]
    for x in kept:
        check(graphs, x, w)
    assert recorder.captures == 1
    check(graphs, torch.randn(1, 8).expand(8, 8), w)  # other strides, another graph


def test_an_input_that_moves_later_is_copied_from_then_on():
    graphs, recorder = make()
    x, w = torch.randn(8, 8), torch.randn(8, 8)
    for _ in range(3):
        check(graphs, x, w)
    kept = [torch.randn(8, 8) for _ in range(5)]
    for moved in kept:
        check(graphs, moved, w)
    assert recorder.captures == 2


def test_small_inputs_are_copied_at_once():
    graphs, recorder = make()
    x, w = torch.randn(1, 8), torch.randn(8, 8)
    for _ in range(3):
        check(graphs, x, w)
    check(graphs, torch.randn(1, 8), w)
    assert recorder.captures == 1


def test_weights_are_never_copied():
    graphs, recorder = make()
    x, w = torch.randn(8, 8), torch.randn(8, 8)
    for _ in range(3):
        check(graphs, x, w)
    w.mul_(2)
    check(graphs, x, w)
    assert recorder.captures == 1
    moved = torch.randn(8, 8)
    for _ in range(2):
        check(graphs, x, moved)
    assert recorder.captures == 2


CACHE, COUNT = 1, 2  # what a step changes, among its inputs


def step(inputs: list[torch.Tensor]) -> list[torch.Tensor]:
    x, cache, count = inputs
    cache += x
    count += 1
    return [cache * count]


def test_every_call_updates_once():
    cache, count = torch.zeros(8, 8), torch.zeros((), dtype=torch.int64)
    recorder = Recorder([cache, count])
    graphs = CudaGraphs(step, recorder, updated=[CACHE, COUNT])
    draws = [torch.randn(8, 8) for _ in range(5)]
    for number, x in enumerate(draws, 1):
        (got,) = graphs([x, cache, count])
        torch.testing.assert_close(got, number * torch.stack(draws[:number]).sum(0))
    assert count == len(draws)
    # The small count, too, is updated where it is: a copy could not be found out about.
    assert (recorder.captures, recorder.replays) == (1, 3)


def test_updated_inputs_that_move_are_copied_there_and_back():
    caches = [torch.zeros(8, 8) for _ in range(6)]
    count = torch.zeros((), dtype=torch.int64)
    graphs = CudaGraphs(step, Recorder([count]), updated=[CACHE, COUNT])
    draws = [torch.randn(8, 8) for _ in caches]
    for number, (x, cache) in enumerate(zip(draws, caches, strict=True), 1):
        (got,) = graphs([x, cache, count])
        torch.testing.assert_close(cache, x)
        torch.testing.assert_close(got, number * x)
    assert count == len(draws)


def test_the_number_of_graphs_is_bounded(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(cuda_graphs, "MAX_GRAPHS", 2)
    graphs, recorder = make()
    w, kept = torch.randn(8, 8), [torch.randn(rows, 8) for rows in (8, 9, 10)]
    for _ in range(2):
        for x in kept:
            check(graphs, x, w)
    assert len(graphs._recorded) == 2  # pyright: ignore[reportPrivateUsage]
    check(graphs, kept[2], w)
    assert recorder.captures == 3
    check(graphs, kept[0], w)  # the first went
    assert recorder.captures == 4


def test_sizes_that_never_come_back_are_not_captured():
    graphs, recorder = make()
    w = torch.randn(8, 8)
    for rows in range(8, 40):
        check(graphs, torch.randn(rows, 8), w)
    assert not recorder.captures


def test_capturing_too_often_ends(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setattr(cuda_graphs, "MAX_CAPTURES", 3)
    graphs, recorder = make()
    x, kept = torch.randn(8, 8), [torch.randn(8, 8) for _ in range(8)]
    for w in kept:
        check(graphs, x, w)
    assert not recorder.captures  # no weight came back
    for w in kept:
        check(graphs, x, w)
    assert recorder.captures == 3
    assert "now runs without CUDA graphs: it was captured too many times" in caplog.text


def test_work_that_cannot_be_captured(caplog: pytest.LogCaptureFixture):
    class Refusing(Recorder):
        def record(self, run: Callable[[], Sequence[torch.Tensor]]):
            raise RuntimeError("operation not permitted when stream is capturing\nand more")

    graphs = CudaGraphs(product, Refusing(), [WEIGHT])
    x, w = torch.randn(8, 8), torch.randn(8, 8)
    for _ in range(4):
        check(graphs, x, w)
    assert caplog.text.count("operation not permitted when stream is capturing") == 1


class Graph:
    """A graph of CUDA, in as far as a recorder uses it."""

    memory: object

    def pool(self) -> object:
        return self.memory

    def replay(self) -> None:
        pass


def test_graphs_share_the_memory_of_those_that_there_are(monkeypatch: pytest.MonkeyPatch):
    """CUDA ends a pool with its last graph: the next graph has another one."""

    @contextmanager
    def captured(graph: Graph, pool: object = None) -> Generator[None]:
        graph.memory = object() if pool is None else pool
        yield

    monkeypatch.setattr(torch.cuda, "CUDAGraph", Graph)
    monkeypatch.setattr(torch.cuda, "device", nullcontext)
    monkeypatch.setattr(cuda_graphs, "captured", captured)
    recorder = CudaRecorder(torch.device("cuda", 0))

    def record() -> Graph:
        replay: Any = recorder.record(list)[0]
        return replay.__self__

    first, second = record(), record()
    memory = first.memory
    assert second.memory is memory
    del first
    third = record()
    assert third.memory is memory
    del second, third
    assert record().memory is not memory
