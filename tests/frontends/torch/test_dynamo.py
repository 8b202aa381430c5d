"""`torch.compile(model, backend="coda")`: the same numbers, few graphs, weights as they are."""

import gc
import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from support.torch_compile import (
    Block,
    compiled,
    dynamo,
    gradients,
    graphs,
    torch_compile,
)
from torch import nn
from torch.multiprocessing.reductions import StorageWeakRef

from coda_ir.diagnostics import CodaError
from coda_ir.frontends.torch.compile_options import MODES, Options
from coda_ir.frontends.torch.dynamo import coda
from coda_ir.frontends.torch.graph_compiler import GraphCompiler

pytestmark = pytest.mark.usefixtures("fresh_dynamo")


@pytest.fixture
def fallbacks(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The graphs that were not compiled here."""
    found: list[object] = []
    fall_back: Callable[..., Any] = GraphCompiler._fall_back  # pyright: ignore

    def counted(self: GraphCompiler, graph: Any) -> Any:
        found.append(graph)
        return fall_back(self, graph)

    monkeypatch.setattr(GraphCompiler, "_fall_back", counted)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("target", ["reference", "triton"])
def test_inference(target: str, fallbacks: list[object]):
    model = Block()
    fast = compiled(model, target=target)
    with torch.no_grad():
        for rows in (3, 5, 6, 1):
            x = torch.randn(2, rows, 16)
            torch.testing.assert_close(fast(x), model(x), rtol=1e-4, atol=1e-5)
    assert not fallbacks


@pytest.mark.slow
def test_no_recompilation_per_length(fallbacks: list[object]):
    model = Block()
    fast = compiled(model, dynamic=True)
    with torch.no_grad():
        for rows in (2, 3, 5, 8, 13, 21, 34, 55, 89, 144):
            x = torch.randn(4, rows, 16)
            torch.testing.assert_close(fast(x), model(x), rtol=1e-4, atol=1e-5)
    assert graphs() == 1
    assert not fallbacks


@pytest.mark.slow
def test_batch_and_length_become_dynamic_by_themselves(fallbacks: list[object]):
    fast = compiled(Block())
    with torch.no_grad():
        for batch, rows in ((2, 3), (4, 5), (3, 9), (7, 4)):
            fast(torch.randn(batch, rows, 16))
    assert graphs() == 2
    assert not fallbacks


@pytest.mark.slow
@pytest.mark.parametrize("dynamic", [False, True])
def test_gradients(dynamic: bool, fallbacks: list[object]):
    model = Block()
    fast, x = compiled(model, dynamic=dynamic), torch.randn(2, 3, 16, requires_grad=True)
    got, wanted = (gradients(function, model, x) for function in (fast, model))
    torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-6)
    assert not fallbacks


class Normed(nn.Sequential):
    """LayerNorm between linear maps, whose deferral may keep vectors of weights."""

    def __init__(self):
        super().__init__(nn.Linear(16, 16), nn.LayerNorm(16), nn.Linear(16, 16))
        self.to(torch.bfloat16)


def test_weights_may_change_in_every_way():
    model, x = Normed(), torch.randn(3, 16).bfloat16()
    fast = compiled(model, target="triton")

    def check() -> None:
        torch.testing.assert_close(fast(x), model(x), rtol=3e-2, atol=3e-2)

    weight: Any = model[2].weight
    with torch.no_grad():
        check()
        weight.mul_(3)
        check()
        weight.data.copy_(torch.randn(16, 16))
        check()
        weight.data = torch.randn(16, 16).bfloat16()
        check()
        model.load_state_dict({k: torch.randn_like(v) for k, v in model.state_dict().items()})
        check()
        model.float()
        torch.testing.assert_close(fast(x.float()), model(x.float()), rtol=1e-4, atol=1e-4)


def test_packed_weights_follow_updates_and_are_released():
    model, x = Normed(), torch.randn(3, 16).bfloat16()
    fast = compiled(model, target="triton", pack_weights=True)
    with torch.no_grad():
        for _ in range(2):
            torch.testing.assert_close(fast(x), model(x), rtol=3e-2, atol=3e-2)
            model.load_state_dict({k: torch.randn_like(v) for k, v in model.state_dict().items()})
        last: Any = model[2]
        storage = StorageWeakRef(last.weight.untyped_storage())
        model[2].weight = nn.Parameter(torch.randn(16, 16).bfloat16())
        gc.collect()
        assert storage.expired()
        torch.testing.assert_close(fast(x), model(x), rtol=3e-2, atol=3e-2)


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


def test_remarks_are_logged(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture):
    monkeypatch.setenv("CODA_REMARKS", "missed")
    with torch.no_grad():
        compiled(Block())(torch.randn(3, 16))
    messages = [r.getMessage() for r in caplog.records if r.name == "coda_ir.remarks"]
    verdict, *_ = messages
    place, _, what = verdict.partition(" has ")
    assert place.startswith("the graph of torch_compile.py:")
    assert what == (
        "2 GEMMs with epilogues, 0 in the library, and 1 other operator in kernels and PyTorch"
    )
    assert any("remark[missed] defer-norms" in message for message in messages)
    assert not any("remark[passed]" in message for message in messages)


@pytest.fixture
def own_loggers() -> Iterator[None]:
    """A state of all loggers that ends with the test: `set_logs` leaves levels and handlers."""
    known = logging.Logger.manager.loggerDict.values()
    loggers = [logger for logger in known if isinstance(logger, logging.Logger)]
    states = [(logger.level, logger.handlers[:], logger.propagate) for logger in loggers]
    yield
    for logger, (level, handlers, propagate) in zip(loggers, states, strict=True):
        logger.setLevel(level)
        logger.handlers = handlers
        logger.propagate = propagate


@pytest.mark.usefixtures("own_loggers")
def test_remarks_are_switched_on_by_torch_logs(capsys: pytest.CaptureFixture[str]):
    """The same as TORCH_LOGS="coda_ir.remarks"."""
    set_logs: Any = torch._logging.set_logs  # pyright: ignore
    set_logs(modules={"coda_ir.remarks": logging.INFO})
    try:
        with torch.no_grad():
            compiled(nn.Sequential(nn.Linear(8, 8), nn.SiLU()))(torch.ones(2, 8))
    finally:
        set_logs()
    shown = capsys.readouterr().err
    assert "remark[passed] fuse-pointwise: coda.silu" in shown
    assert "remark[analysis]" not in shown


@pytest.mark.parametrize(
    ("mode", "options", "message"),
    [
        ("fastest", {}, "unknown mode 'fastest'"),
        (
            None,
            {"targets": "triton"},
            "unknown option 'targets' of the backend coda\n  help: did you mean 'target'?",
        ),
        (None, {"max_autotune": True}, "of the backend coda\n  help: use one of fallback, compare"),
        (None, {"target": "gpu"}, "option target is 'gpu'"),
        (None, {"fallback": "none"}, "option fallback is 'none'"),
        (None, {"errors": "ignore"}, "option errors is 'ignore'"),
        (None, {"numerics": "exact"}, "option numerics is 'exact'"),
        (None, {"backward": "none"}, "option backward is 'none'"),
        (None, {"memory_budget": "1 GB"}, "option memory_budget is '1 GB'"),
        (None, {"memory_budget": -1}, "option memory_budget is -1"),
        (None, {"stream_logits": 0}, "option stream_logits is 0"),
        (None, {"remarks": "missed,most"}, "option remarks is 'most'"),
        (None, {"remarks": True}, "option remarks is True"),
        (None, {"cuda_graphs": "yes"}, "option cuda_graphs is 'yes'"),
        (None, {"pack_weights": 1}, "option pack_weights is 1"),
        (None, {"fold_weights": "yes"}, "option fold_weights is 'yes'"),
        (None, {"fold_weights": True}, "option fold_weights keeps copies of weights"),
        (
            "reduce-overhead",
            {"fold_weights": True, "pack_weights": True},
            "fold_weights is not for cuda_graphs",
        ),
        (None, {"schedule": 8}, "option schedule is 8"),
        (None, {"schedule": "warp=8"}, "option schedule = 'warp=8': .* has no option 'warp'"),
        (None, {"schedule": "tile=3"}, "option schedule: tile is '3'"),
        (None, {"tune": "always"}, "option tune is 'always'"),
        (None, {"tune": 0}, "option tune is 0"),
    ],
)
def test_wrong_options(mode: str | None, options: dict[str, Any], message: str):
    with pytest.raises(CodaError, match=message) as caught:
        Options.of(mode, options)
    assert caught.value.remedy


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_modes(mode: str):
    model, x = nn.Linear(8, 8), torch.randn(3, 8)
    with torch.no_grad():
        fast = torch_compile(model, backend="coda", mode=mode)
        torch.testing.assert_close(fast(x), model(x))
    chosen = Options.of(mode, None)
    assert chosen.cuda_graphs == (mode in ("reduce-overhead", "max-autotune"))
    assert chosen.tune == mode.startswith("max-autotune")


def test_the_backend_is_an_entry_point():
    assert "coda" in dynamo.list_backends()
    assert dynamo.lookup_backend("coda") is coda
