"""CUDA graphs beside freed memory: replays write to none of it, and give the same bits whatever it
holds.

A graph may use the memory that it allocated while it was captured, and what its caller keeps. All
other memory that PyTorch's allocator has free is filled before a replay.
"""

import gc
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch
from support.inputs import signature_inputs
from support.small_llama import VOCABULARY, small_llama

import coda_ir
from coda_ir.launching.cuda_graphs import CudaGraphs, CudaRecorder

# torch.compile has no complete types.
torch_compile: Any = import_module("torch").compile
cuda: Any = torch.cuda

pytestmark = pytest.mark.gpu

LAYER = Path(__file__).parents[2] / "examples" / "llama_layer.coda"
SIZES = {"D": 512, "F": 1408, "HEAD": 64}

PATTERN = 0xFF
"""A byte that, repeated, is NaN in every floating-point type and -1 in every integer type."""

Tensors = Sequence[torch.Tensor]


@dataclass
class _Memory:
    """Memory at an address, without an owner."""

    __cuda_array_interface__: dict[str, Any]

    @staticmethod
    def at(address: int, size: int) -> torch.Tensor:
        data = {"shape": (size,), "typestr": "|u1", "data": (address, False), "version": 3}
        return torch.as_tensor(_Memory(data), device="cuda")


def free_memory(pool: object = None, stream: int | None = None) -> list[torch.Tensor]:
    """The memory that PyTorch's allocator may give to anybody, or to work on a stream, without that
    of a pool.
    """
    return [
        _Memory.at(block["address"], block["size"])
        for segment in cuda.memory_snapshot()
        if tuple(segment["segment_pool_id"]) != pool and stream in (None, segment["stream"])
        for block in segment["blocks"]
        if block["state"] == "inactive"
    ]


def scatter() -> list[torch.Tensor]:
    """Tensors of many sizes, every second of which is free again."""
    sizes = [1 << exponent for exponent in range(9, 25)] * 4
    tensors = [torch.empty(size, dtype=torch.uint8, device="cuda") for size in sizes]
    return tensors[::2]


def check_replays(graph: Any, results: Tensors, expected: Tensors) -> None:
    """Replay a graph after all free memory is filled; compare both with what there was."""
    gc.collect()
    cuda.synchronize()
    for _ in range(2):
        for result in results:
            # Of any rank and strides, which a view of bytes does not have.
            result.fill_(torch.nan if result.is_floating_point() else -1)
        free = free_memory(graph.pool())
        assert sum(map(len, free)) > 1 << 20
        for block in free:
            block.fill_(PATTERN)
        for _ in range(2):
            graph.replay()
        cuda.synchronize()
        changed = [len(block) for block in free if not bool((block.cpu() == PATTERN).all())]
        assert not changed, f"a replay wrote to free memory, to blocks of {changed} bytes"
        for result, wanted in zip(results, expected, strict=True):
            assert torch.equal(result.cpu(), wanted)


def on_cpu(tensors: Any) -> list[torch.Tensor]:
    cuda.synchronize()
    return [tensor.detach().cpu().clone() for tensor in tensors]


@pytest.fixture(autouse=True)
def freed() -> Iterator[None]:
    """Each test begins and ends without cached memory."""
    torch._dynamo.reset()  # pyright: ignore
    torch.default_generator.manual_seed(0)
    cuda.manual_seed(0)
    gc.collect()
    cuda.empty_cache()
    kept = scatter()
    yield
    del kept
    torch._dynamo.reset()  # pyright: ignore
    gc.collect()
    cuda.empty_cache()


@pytest.fixture
def captures(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, Tensors]]:
    """The graphs that are captured, and their results."""
    found: list[tuple[Any, Tensors]] = []
    record: Any = CudaRecorder.record

    def kept(self: CudaRecorder, run: Any) -> Any:
        replay, results = record(self, run)
        found.append((replay.__self__, results))
        return replay, results

    monkeypatch.setattr(CudaRecorder, "record", kept)
    return found


def captured(step: Callable[[], Tensors]) -> tuple[Any, Tensors]:
    """A graph of a step that has run before, and its results."""
    side = cuda.Stream()
    side.wait_stream(cuda.current_stream())
    with cuda.stream(side):
        for _ in range(3):
            step()
    cuda.current_stream().wait_stream(side)
    graph = cuda.CUDAGraph()
    with cuda.graph(graph):
        results = step()
    return graph, results


SCHEDULES = {
    "default": None,
    "split": "split_k=4",
    "overlapping": "target=sm_90 pdl=true absorb=true",
}


@pytest.mark.parametrize("schedule", SCHEDULES.values(), ids=SCHEDULES)
def test_a_graphed_function(schedule: str | None, captures: list[tuple[Any, Tensors]]):
    layer = coda_ir.compile(LAYER, constants=SIZES, device="cuda", schedule=schedule)
    graph = layer.graphed()
    for time in (1, 37, 300):
        inputs = signature_inputs(layer, {"B": 1, "T": time})
        expected = on_cpu(graph(*inputs))
        # The weights, which the caller keeps.
        kept = [x for x, s in zip(inputs, layer.signature.arguments, strict=True) if s.is_weight]
        del inputs
        check_replays(*captures[-1], expected)
        del kept
    assert len(captures) == 3


Captured = tuple[Any, Tensors, Tensors, object]
"""A graph, its results, what these are to be, and what its caller keeps."""


def of_function(schedule: str | None, *, fold: bool) -> Captured:
    layer = coda_ir.compile(
        LAYER, constants=SIZES, device="cuda", schedule=schedule, fold_weights=fold
    )
    inputs = signature_inputs(layer, {"B": 1, "T": 37})
    expected = on_cpu(layer(*inputs))
    return *captured(lambda: layer(*inputs)), expected, inputs


@pytest.mark.parametrize("fold", [False, True])
@pytest.mark.parametrize("schedule", SCHEDULES.values(), ids=SCHEDULES)
def test_a_capture_outlives_the_function(schedule: str | None, *, fold: bool):
    graph, results, expected, kept = of_function(schedule, fold=fold)
    check_replays(graph, results, expected)
    del kept


def of_training_step() -> Captured:
    layer: Any = coda_ir.compile(LAYER, constants=SIZES, device="cuda", training=True)
    inputs = signature_inputs(layer, {"B": 1, "T": 37})
    named = zip(layer.signature.arguments, inputs, strict=True)
    wanted = [x.requires_grad_() for spec, x in named if spec.name not in ("cos", "sin")]

    def step() -> Tensors:
        squares = [result.float().square().mean() for result in layer(*inputs)]
        found: Any = torch.autograd.grad(squares, wanted, allow_unused=True)
        return [x for x in found if x is not None]

    expected = on_cpu(step())
    return *captured(step), expected, inputs


def test_a_captured_training_step():
    graph, results, expected, kept = of_training_step()
    check_replays(graph, results, expected)
    del kept


def compiled(model: Any, **options: Any) -> Any:
    return torch_compile(model, backend="coda", options={"errors": "raise", **options})


def test_a_model(captures: list[tuple[Any, Tensors]]):
    model = small_llama()
    fast = compiled(model, cuda_graphs=True)
    with torch.no_grad():
        for _ in range(3):
            ids = torch.arange(80, device="cuda").view(2, 40) % VOCABULARY
            fast(ids, use_cache=False)
            del ids
    ((graph, results),) = captures
    graph.replay()
    check_replays(graph, results, on_cpu(results))


def of_model() -> Captured:
    model, ids = small_llama(), torch.arange(80, device="cuda").view(2, 40) % VOCABULARY
    fast = compiled(model)
    with torch.no_grad():
        expected = on_cpu([fast(ids, use_cache=False).logits])
        graph = captured(lambda: [fast(ids, use_cache=False).logits])
    return *graph, expected, (model, ids)


def of_step_of_model() -> Captured:
    model, ids = small_llama().train(), torch.arange(80, device="cuda").view(2, 40) % VOCABULARY
    fast = compiled(model)

    def step() -> Tensors:
        logits = fast(ids, use_cache=False).logits
        loss: Any = torch.nn.functional.cross_entropy(logits.flatten(0, 1).float(), ids.flatten())
        found: Any = torch.autograd.grad(loss, list(model.parameters()))
        return [loss.detach(), *found]

    expected = on_cpu(step())
    return *captured(step), expected, (model, ids)


@pytest.mark.parametrize("capture", [of_model, of_step_of_model])
def test_a_capture_outlives_the_compiled_model(capture: Callable[[], Captured]):
    graph, results, expected, kept = capture()
    torch._dynamo.reset()  # pyright: ignore
    graph.replay()
    replayed = on_cpu(results)
    for one, other in zip(replayed, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=5e-2, atol=5e-2)
    check_replays(graph, results, replayed)
    del kept


def test_graphs_of_one_pool_after_the_first_is_gone(captures: list[tuple[Any, Tensors]]):
    """An input that moves has its graph captured anew, in the memory of those before."""
    w, x = (torch.randn(512, 512, device="cuda") for _ in range(2))
    recorder = CudaRecorder(torch.device("cuda", 0))
    graphs = CudaGraphs(lambda xs: [xs[0] @ w, xs[1].add_(1.0)], recorder, updated=[1])

    def count() -> torch.Tensor:
        cache = torch.zeros(1 << 19, device="cuda")
        for step in range(4):
            y, counted = graphs([x, cache])
            assert torch.equal(y, x @ w)
            assert bool((counted == step + 1).all()) and bool((cache == step + 1).all())
        return cache

    kept = [count()]  # so that the next one is elsewhere
    first = weakref.ref(captures.pop()[0])
    kept.append(count())
    assert first() is None
    kept.append(count())
    ((graph, results),) = captures  # it copies what moves
    check_replays(graph, results[:1], on_cpu([x @ w]))
    del kept


def test_what_is_kept_of_weights_stays_while_a_stream_reads_it():
    layer = coda_ir.compile(LAYER, constants=SIZES, device="cuda", fold_weights=True)
    inputs = signature_inputs(layer, {"B": 1, "T": 37})
    expected = on_cpu(layer(*inputs))
    side = cuda.Stream()

    def replace_what_is_kept() -> None:
        for spec, tensor in zip(layer.signature.arguments, inputs, strict=True):
            if spec.is_weight:
                tensor.mul_(1.0)  # the same, but PyTorch counts a change
        layer(*inputs)
        for block in free_memory(stream=0):
            block.fill_(PATTERN)
        cuda.current_stream().synchronize()

    # CUDA loads a kernel when it is first launched, for which all streams wait: not later, then.
    replace_what_is_kept()
    with cuda.stream(side):
        layer(*inputs)
    cuda.synchronize()
    with cuda.stream(side):
        cuda._sleep(1 << 30)  # about half a second
        results = layer(*inputs)
    replace_what_is_kept()
    assert not side.query(), "the stream is to read what is kept after this"
    for result, wanted in zip(on_cpu(results), expected, strict=True):
        assert torch.equal(result, wanted)
