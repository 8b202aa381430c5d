"""`torch.compile(model, backend="coda")`: the same numbers, few graphs, nothing ever breaks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from coda_ir.diagnostics import CodaError
from coda_ir.frontends.torch.dynamo import GraphCompiler, Options, coda

torch_compile: Any = getattr(torch, "compile")  # noqa: B009 (partly without types)
counters: Any = torch._dynamo.utils.counters  # pyright: ignore


@pytest.fixture(autouse=True)
def fresh_dynamo() -> Iterator[None]:
    torch._dynamo.reset()  # pyright: ignore
    counters.clear()
    yield


@pytest.fixture
def fallbacks(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The graphs that were not compiled here."""
    graphs: list[object] = []
    fall_back: Callable[..., Any] = GraphCompiler._fall_back  # pyright: ignore

    def counted(self: GraphCompiler, graph: Any, inputs: Any) -> Any:
        graphs.append(graph)
        return fall_back(self, graph, inputs)

    monkeypatch.setattr(GraphCompiler, "_fall_back", counted)
    return graphs


class Block(nn.Module):
    """A norm, a gated network and a residual."""

    def __init__(self, width: int = 16, hidden: int = 24):
        super().__init__()
        self.norm = nn.RMSNorm(width, eps=1e-5)
        self.gate = nn.Linear(width, hidden, bias=False)
        self.up = nn.Linear(width, hidden)
        self.down = nn.Linear(hidden, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.norm(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


def compiled(model: nn.Module, target: str = "reference", **options: Any) -> Any:
    return torch_compile(model, backend="coda", options={"target": target, **options})


@pytest.mark.parametrize("target", ["reference", "triton"])
def test_inference(target: str, fallbacks: list[object]):
    model = Block()
    fast = compiled(model, target)
    with torch.no_grad():
        for rows in (3, 5, 6, 1):
            x = torch.randn(2, rows, 16)
            torch.testing.assert_close(fast(x), model(x), rtol=1e-4, atol=1e-5)
    assert not fallbacks


def test_no_recompilation_per_length(fallbacks: list[object]):
    fast = torch_compile(Block(), backend="coda", dynamic=True, options={"target": "reference"})
    with torch.no_grad():
        for rows in (2, 3, 5, 8, 13, 21, 34, 55, 89, 144):
            fast(torch.randn(4, rows, 16))
    assert counters["stats"]["unique_graphs"] == 1
    assert not fallbacks


@pytest.mark.parametrize("dynamic", [False, True])
def test_gradients(dynamic: bool, fallbacks: list[object]):
    model = Block()
    fast = torch_compile(model, backend="coda", dynamic=dynamic, options={"target": "reference"})
    gradients: list[list[torch.Tensor]] = []
    start = torch.randn(2, 3, 16)
    for function in (fast, model):
        model.zero_grad()
        x = start.clone().requires_grad_()
        function(x).square().mean().backward()
        gradients.append([x.grad, *(parameter.grad for parameter in model.parameters())])  # pyright: ignore
    for got, wanted in zip(*gradients, strict=True):
        torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-6)
    assert not fallbacks


def test_weights_may_change_between_calls():
    model = Block()
    fast, x = compiled(model), torch.randn(3, 16)
    with torch.no_grad():
        first = fast(x)
        model.down.weight.mul_(3)
        second = fast(x)
        torch.testing.assert_close(second, model(x))
    assert not torch.allclose(first, second)


def test_buffers_that_change_in_place():
    class Counting(nn.Module):
        calls: torch.Tensor

        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(8, 8)
            self.register_buffer("calls", torch.zeros(()))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.calls += 1
            return self.linear(x) * self.calls

    model, twin = Counting(), Counting()
    twin.load_state_dict(model.state_dict())
    fast, x = compiled(model), torch.randn(3, 8)
    with torch.no_grad():
        for _ in range(3):
            torch.testing.assert_close(fast(x), twin(x))
    assert model.calls == 3


def test_graph_breaks_and_fullgraph():
    class Broken(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(8, 8)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.linear(x)
            return self.linear(x) if x.sum() > 0 else x

    model = Broken()
    fast = compiled(model)
    with torch.no_grad():
        for _ in range(4):
            x = torch.randn(3, 8)
            torch.testing.assert_close(fast(x), model(x))
        whole = torch_compile(model, backend="coda", fullgraph=True)
        with pytest.raises(torch._dynamo.exc.Unsupported):  # pyright: ignore
            whole(torch.randn(3, 8))


def test_autocast(fallbacks: list[object]):
    model, x = Block(), torch.randn(4, 16)
    fast = compiled(model)
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        torch.testing.assert_close(fast(x), model(x), rtol=2e-2, atol=2e-2)
    assert not fallbacks


@pytest.mark.parametrize("fallback", ["eager"])
def test_what_is_not_for_this_backend(fallback: str, fallbacks: list[object]):
    def pointwise(x: torch.Tensor) -> torch.Tensor:
        return x.sin() + 1

    fast = torch_compile(
        pointwise, backend="coda", options={"target": "reference", "fallback": fallback}
    )
    x = torch.randn(5)
    torch.testing.assert_close(fast(x), pointwise(x))
    assert len(fallbacks) == 1


def test_complex_numbers_and_integer_products(fallbacks: list[object]):
    def both(x: torch.Tensor, i: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.view_as_real(torch.polar(x, x)), i @ i

    x, i = torch.randn(4, 4), torch.randint(0, 5, (4, 4))
    fast = torch_compile(both, backend="coda", options={"target": "reference"})
    for got, wanted in zip(fast(x, i), both(x, i), strict=True):
        torch.testing.assert_close(got, wanted)
    assert len(fallbacks) == 1


def test_remarks_are_logged(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture):
    monkeypatch.setenv("CODA_REMARKS", "missed")
    with torch.no_grad():
        compiled(Block())(torch.randn(3, 16))
    assert any("remark[missed] defer-rms-norm" in record.message for record in caplog.records)
    assert not any("remark[passed]" in record.message for record in caplog.records)


@pytest.mark.parametrize(
    ("mode", "options", "message"),
    [
        ("fastest", {}, "unknown mode 'fastest'"),
        (None, {"targets": "triton"}, "unknown option 'targets' of the backend coda"),
        (None, {"target": "gpu"}, "unknown target 'gpu'"),
        (None, {"fallback": "none"}, "unknown fallback 'none'"),
    ],
)
def test_wrong_options(mode: str | None, options: dict[str, Any], message: str):
    with pytest.raises(CodaError, match=message) as caught:
        Options.of(mode, options)
    assert caught.value.remedy


def test_the_backend_is_an_entry_point():
    assert "coda" in torch._dynamo.list_backends()  # pyright: ignore
    assert torch._dynamo.lookup_backend("coda") is coda  # pyright: ignore
