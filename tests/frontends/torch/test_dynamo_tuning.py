"""`torch.compile` with tuned schedules, whose times are made up."""

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from support.compile_cache import use_cache
from support.fake_measurer import FakeMeasurer
from support.torch_compile import Block, compiled, gradients, reset

from coda_ir.cache import tuned as store
from coda_ir.tuning.context import use_measurer
from coda_ir.tuning.measurer import Candidate


class RealTensors(FakeMeasurer):
    """Checks that a measurement makes tensors with data, and not those that a trace has."""

    def measure(self, candidate: Candidate) -> float:
        assert type(torch.zeros(1)) is torch.Tensor
        return super().measure(candidate)


@pytest.fixture(autouse=True)
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    reset()
    use_cache(monkeypatch, tmp_path)
    vars(store)["_kept"].clear()
    torch.default_generator.manual_seed(0)
    yield
    vars(store)["_kept"].clear()


def measurer() -> FakeMeasurer:
    return RealTensors(lambda c: 50.0 if c.group_m == 16 else 100.0, compile_s=0.01)


def test_a_graph_is_tuned_when_it_is_compiled(caplog: pytest.LogCaptureFixture):
    model, x, fake = Block(), torch.randn(2, 5, 16), measurer()
    with use_measurer(fake), torch.no_grad(), caplog.at_level(logging.INFO):
        fast = compiled(model, target="triton", tune=True, remarks="all")
        torch.testing.assert_close(fast(x), model(x), rtol=1e-4, atol=1e-5)
        count = len(fake.measured)
        fast(x)
    assert count == len(fake.measured) > 0
    assert "2.00 x as fast as the model's choice" in caplog.text


@pytest.mark.slow
def test_sizes_of_a_new_order_are_tuned_when_they_are_met():
    model, fake = Block(), measurer()
    counts: list[int] = []
    with use_measurer(fake), torch.no_grad():
        fast = compiled(model, target="triton", tune=True, dynamic=True)
        for rows in (9, 12, 11, 40):
            x = torch.randn(2, rows, 16)
            torch.testing.assert_close(fast(x), model(x), rtol=1e-4, atol=1e-5)
            counts.append(len(fake.measured))
    assert 0 < counts[0] == counts[1] == counts[2] < counts[3]


def test_training_is_tuned():
    model, x, fake = Block(), torch.randn(2, 5, 16), measurer()
    expected = gradients(model, model, x)
    with use_measurer(fake):
        fast: Any = compiled(model, target="triton", tune=True)
        found = gradients(fast, model, x)
    for value, wanted in zip(found, expected, strict=True):
        torch.testing.assert_close(value, wanted, rtol=1e-3, atol=1e-5)
    assert fake.measured


def test_without_a_gpu_a_graph_is_not_tuned(caplog: pytest.LogCaptureFixture):
    model, x = Block(), torch.randn(2, 5, 16)
    with torch.no_grad(), caplog.at_level(logging.INFO):
        fast = compiled(model, target="triton", tune=True)
        torch.testing.assert_close(fast(x), model(x), rtol=1e-4, atol=1e-5)
    assert "there is no GPU to measure on" in caplog.text
