"""`torch.compile(model, backend="coda")` on a GPU: Llama forward, training, caches, CUDA graphs."""

from collections.abc import Iterator
from copy import deepcopy
from importlib import import_module
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from support.small_llama import VOCABULARY, small_llama, transformers
from support.torch_compile import spectrum
from torch import nn

from coda_ir.float64 import relative_error
from coda_ir.frontends.torch.graph_compiler import GraphCompiler
from coda_ir.launching.cuda_graphs import CudaRecorder

# torch.compile has no complete types.
torch_compile: Any = import_module("torch").compile
counters: Any = import_module("torch._dynamo.utils").counters

pytestmark = pytest.mark.gpu


@pytest.fixture(autouse=True)
def fresh_dynamo() -> Iterator[None]:
    torch._dynamo.reset()  # pyright: ignore
    counters.clear()
    torch.default_generator.manual_seed(0)
    torch.cuda.manual_seed(0)
    yield
    torch._dynamo.reset()  # pyright: ignore


@pytest.fixture
def fallbacks(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The graphs that were not compiled here."""
    graphs: list[object] = []
    fall_back: Any = GraphCompiler._fall_back  # pyright: ignore

    def counted(self: GraphCompiler, graph: Any, inputs: Any) -> Any:
        graphs.append(graph)
        return fall_back(self, graph, inputs)

    monkeypatch.setattr(GraphCompiler, "_fall_back", counted)
    return graphs


def tokens(*shape: int) -> torch.Tensor:
    return torch.randint(0, VOCABULARY, shape, device="cuda")


def compiled(model: Any, *, dynamic: bool | None = None, **options: Any) -> Any:
    given = {"errors": "raise", **options}
    return torch_compile(model, backend="coda", dynamic=dynamic, options=given)


def test_forward_is_as_exact_as_eager(fallbacks: list[object]):
    model, ids = small_llama(), tokens(2, 96)
    fast = compiled(model)
    with torch.no_grad():
        got, eager = (f(ids, use_cache=False).logits for f in (fast, model))
        exact = model.double()(ids, use_cache=False).logits
    assert relative_error(got, exact) <= 1.25 * relative_error(eager, exact) + 1e-3
    assert not fallbacks


def test_no_recompilation_per_length(fallbacks: list[object]):
    model = small_llama()
    fast = compiled(model, dynamic=True)
    with torch.no_grad():
        for length in (5, 16, 17, 33, 64, 100, 128, 200, 255, 256):
            ids = tokens(2, length)
            got, eager = (f(ids, use_cache=False).logits for f in (fast, model))
            torch.testing.assert_close(got, eager, rtol=5e-2, atol=5e-2)
    assert counters["stats"]["unique_graphs"] == 1
    assert not fallbacks


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_training(dtype: torch.dtype, fallbacks: list[object]):
    model = small_llama(dtype).train()
    fast = compiled(model)
    ids = tokens(2, 64)
    gradients: list[list[torch.Tensor]] = []
    for function in (fast, model):
        model.zero_grad()
        logits = function(ids, use_cache=False).logits
        loss: Any = F.cross_entropy(logits.flatten(0, 1).float(), ids.flatten())
        loss.backward()
        gradients.append([p.grad.clone() for p in model.parameters()])
    bound = 1e-4 if dtype == torch.float32 else 5e-2
    for got, wanted in zip(*gradients, strict=True):
        assert relative_error(got, wanted.double()) < bound
    assert not fallbacks


def test_optimizer_steps_are_followed():
    model = small_llama(torch.float32).train()
    twin = small_llama(torch.float32).train()
    twin.load_state_dict(model.state_dict())
    fast, ids = compiled(model), tokens(2, 32)
    losses: list[list[float]] = []
    for function, owner in ((fast, model), (twin, twin)):
        optimizer: Any = torch.optim.SGD(owner.parameters(), lr=0.1)
        losses.append([])
        for _ in range(4):
            optimizer.zero_grad()
            logits = function(ids, use_cache=False).logits
            loss: Any = F.cross_entropy(logits.flatten(0, 1), ids.flatten())
            loss.backward()
            optimizer.step()
            losses[-1].append(float(loss.detach()))
    assert losses[0] == pytest.approx(losses[1], rel=1e-3)
    assert losses[0][-1] < losses[0][0]


def test_autocast(fallbacks: list[object]):
    model, ids = small_llama(torch.float32), tokens(2, 48)
    fast = compiled(model)
    with torch.no_grad(), torch.autocast("cuda", dtype=torch.bfloat16):
        got, eager = (f(ids, use_cache=False).logits for f in (fast, model))
    assert got.dtype == eager.dtype
    torch.testing.assert_close(got, eager, rtol=5e-2, atol=5e-2)
    assert not fallbacks


def test_a_loss_under_autocast_is_float32(fallbacks: list[object]):
    layer = torch.nn.Linear(64, 64, device="cuda")

    def model(x: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(layer(x), ids)

    x, ids = torch.randn(48, 64, device="cuda"), torch.randint(0, 64, (48,), device="cuda")
    with torch.autocast("cuda", dtype=torch.bfloat16):
        got, eager = (f(x, ids) for f in (compiled(model), model))
    assert got.dtype == eager.dtype == torch.float32
    torch.testing.assert_close(got, eager, rtol=1e-2, atol=1e-2)
    assert not fallbacks


def decode(function: Any, cache: Any, prompt: torch.Tensor, steps: int) -> torch.Tensor:
    """Greedy tokens: a prefill, then one token at a time."""
    current, found = prompt, list[torch.Tensor]()
    for _ in range(steps):
        logits = function(input_ids=current, past_key_values=cache, use_cache=True).logits
        current = logits[:, -1].argmax(-1, keepdim=True)
        found.append(current.clone())
    return torch.cat(found, 1)


@pytest.mark.parametrize("cuda_graphs", [False, True])
@pytest.mark.parametrize("kind", ["DynamicCache", "StaticCache"])
def test_decoding_with_a_cache(kind: str, cuda_graphs: bool, fallbacks: list[object]):
    model = small_llama(torch.float32)
    sizes = {"max_cache_len": 64} if kind == "StaticCache" else {}

    def cache() -> Any:
        return getattr(transformers, kind)(config=model.config, **sizes)

    fast = compiled(model, cuda_graphs=cuda_graphs)
    with torch.no_grad():
        for length in (7, 12):
            prompt = tokens(2, length)
            got, wanted = (decode(f, cache(), prompt, 12) for f in (fast, model))
            assert torch.equal(got, wanted)
    assert counters["stats"]["unique_graphs"] <= 5
    assert not fallbacks


@pytest.fixture
def captures(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """One entry per capture."""
    found: list[object] = []
    record: Any = CudaRecorder.record

    def counted(self: CudaRecorder, run: Any) -> Any:
        found.append(run)
        return record(self, run)

    monkeypatch.setattr(CudaRecorder, "record", counted)
    return found


class TestReduceOverhead:
    def test_results_are_right_and_kept(self, captures: list[object]):
        model = small_llama()
        fast = torch_compile(model, backend="coda", mode="reduce-overhead")
        with torch.no_grad():
            inputs = [tokens(2, 40) for _ in range(6)]
            got = [fast(ids, use_cache=False).logits for ids in inputs]
            wanted = [model(ids, use_cache=False).logits for ids in inputs]
        for a, b in zip(got, wanted, strict=True):
            torch.testing.assert_close(a, b, rtol=5e-2, atol=5e-2)
        assert len(captures) == 1

    def test_each_size_has_its_graph(self, captures: list[object]):
        model = small_llama()
        fast = compiled(model, cuda_graphs=True, dynamic=True)
        with torch.no_grad():
            for _ in range(3):
                for length in (8, 24, 100):
                    ids = tokens(1, length)
                    got, wanted = (f(ids, use_cache=False).logits for f in (fast, model))
                    torch.testing.assert_close(got, wanted, rtol=5e-2, atol=5e-2)
        assert len(captures) == 3
        assert counters["stats"]["unique_graphs"] <= 2

    def test_updates_of_weights_are_followed(self, captures: list[object]):
        model, ids = small_llama(), tokens(2, 40)
        fast = compiled(model, cuda_graphs=True)

        def check() -> None:
            got, wanted = (f(ids, use_cache=False).logits for f in (fast, model))
            torch.testing.assert_close(got, wanted, rtol=5e-2, atol=5e-2)

        weight: nn.Parameter = model.model.layers[0].mlp.down_proj.weight
        with torch.no_grad():
            for _ in range(3):
                check()
            weight.mul_(-2)
            check()
            weight.data.copy_(torch.randn_like(weight) / 16)
            check()
            weight.data = torch.randn_like(weight) / 16
            for _ in range(3):
                check()
        assert len(captures) == 2

    def test_random_numbers_and_gradients_are_not_captured(self, captures: list[object]):
        model = nn.Sequential(nn.Linear(64, 64), nn.Dropout(0.5), nn.Linear(64, 64)).cuda()
        fast = compiled(model, cuda_graphs=True)
        x = torch.randn(16, 64, device="cuda")
        with torch.no_grad():
            results = [fast(x) for _ in range(4)]
        assert not torch.equal(results[2], results[3])
        fast(x).sum().backward()
        assert not captures

    def test_work_that_cannot_be_captured(self):
        def waits(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
            return F.linear(x[x[:, 0] > 0], w)

        fast = compiled(waits, cuda_graphs=True)
        w = torch.randn(32, 32, device="cuda")
        for _ in range(4):
            x = torch.randn(16, 32, device="cuda")
            torch.testing.assert_close(fast(x, w), waits(x, w), rtol=1e-3, atol=1e-3)


class Mixed(nn.Module):
    """A linear map between operators that the IR does not have."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(64, 64)
        self.second = nn.Linear(64, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.silu(self.first(x)).cumsum(-1).sin().cummax(-1).values
        return self.second(x) + spectrum(x)


@pytest.mark.parametrize("fallback", ["eager", "inductor"])
@pytest.mark.parametrize("dynamic", [False, True])
def test_what_the_backend_lacks(fallback: str, dynamic: bool):
    model = Mixed().cuda()
    fast = compiled(model, fallback=fallback, dynamic=dynamic)
    with torch.no_grad():
        for rows in (3, 3, 40):
            x = torch.randn(2, rows, 64, device="cuda")
            torch.testing.assert_close(fast(x), model(x), rtol=2e-3, atol=2e-3)


def test_weights_that_are_written_through_data():
    """LayerNorm, whose deferral may keep vectors of weights: nothing is kept unless asked for."""
    model = nn.Sequential(nn.Linear(64, 64), nn.LayerNorm(64), nn.Linear(64, 64))
    model = model.to("cuda", torch.bfloat16)
    fast, x = compiled(model), torch.randn(8, 64, device="cuda", dtype=torch.bfloat16)
    weight: Any = model[2].weight
    with torch.no_grad():
        for _ in range(3):
            got, eager, exact = fast(x), model(x), deepcopy(model).double()(x.double())
            assert relative_error(got, exact) <= 1.25 * relative_error(eager, exact) + 1e-3
            weight.data.copy_(torch.randn_like(weight))


def test_packed_weights_follow_what_pytorch_counts():
    model = nn.Sequential(nn.Linear(64, 64), nn.LayerNorm(64), nn.Linear(64, 64))
    model = model.to("cuda", torch.bfloat16)
    fast = compiled(model, pack_weights=True)
    x = torch.randn(8, 64, device="cuda", dtype=torch.bfloat16)
    with torch.no_grad():
        for _ in range(3):
            got, eager, exact = fast(x), model(x), deepcopy(model).double()(x.double())
            assert relative_error(got, exact) <= 1.25 * relative_error(eager, exact) + 1e-3
            model.load_state_dict({k: torch.randn_like(v) for k, v in model.state_dict().items()})


def test_numbers_and_constants_on_the_cpu():
    """Floats of the caller arrive as tensors on the CPU, and constants are made there."""
    linear = nn.Linear(64, 64).cuda()

    def scaled(x: torch.Tensor, factor: float) -> torch.Tensor:
        return linear(x) * factor + torch.tensor([1.0, 2.0], device="cuda").repeat(32)

    fast = compiled(scaled, dynamic=True)
    x = torch.randn(8, 64, device="cuda")
    with torch.no_grad():
        for factor in (0.5, 0.25, 3.0):
            torch.testing.assert_close(fast(x, factor), scaled(x, factor), rtol=1e-3, atol=1e-3)
