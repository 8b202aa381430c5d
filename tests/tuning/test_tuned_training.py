"""Programs that are trained, tuned with made-up times: forward and backward together."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from support.compile_cache import use_cache
from support.fake_measurer import FakeMeasurer

import coda_ir
from coda_ir.cache import tuned as store
from coda_ir.cache.decision import Configured
from coda_ir.dialects.gemm import TUNED_ATTRIBUTE, FusedOp, LibraryOp
from coda_ir.float64 import relative_error
from coda_ir.training.functions import TrainableFunction
from coda_ir.tuning.context import use_measurer

PROGRAM = """
fn mlp(x: f32[B, T, 32], up: f32[48, 32], down: f32[32, 48]) {
    return x + linear(silu(linear(x, up)), down)
}
"""


@pytest.fixture(autouse=True)
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    use_cache(monkeypatch, tmp_path)
    vars(store)["_kept"].clear()
    yield
    vars(store)["_kept"].clear()


def inputs(batch: int, time: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    shapes = ((batch, time, 32), (48, 32), (32, 48))
    return [torch.randn(s, generator=generator).requires_grad_() for s in shapes]


def step(function: TrainableFunction, tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    """The result and the gradients."""
    result = function(*tensors)
    gradients = torch.autograd.grad(result.square().sum(), tensors)
    return [result.detach(), *gradients]


def expected(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    """The same in float64 by PyTorch."""
    wide = [tensor.detach().double().requires_grad_() for tensor in tensors]
    result = forward(*wide)
    return [result.detach(), *torch.autograd.grad(result.square().sum(), wide)]


def forward(x: torch.Tensor, up: torch.Tensor, down: torch.Tensor) -> torch.Tensor:
    return x + torch.nn.functional.silu(x @ up.T) @ down.T


def assert_right(found: list[torch.Tensor], tensors: list[torch.Tensor]) -> None:
    for value, wanted in zip(found, expected(tensors), strict=True):
        assert relative_error(value, wanted) < 1e-5


def library_is_fast(configured: Configured) -> float:
    """Made-up times: the library is fast, and of our schedules the one with larger groups."""
    return 30.0 if configured.form == "library" else 60.0 if configured.group_m == 16 else 100.0


def test_forward_and_backward_are_tuned_together_and_right():
    fake = FakeMeasurer(lambda c: 50.0 if c.group_m == 16 else 100.0, compile_s=0.1)
    with use_measurer(fake):
        function = coda_ir.compile(PROGRAM, device="cpu", training=True, tune=True)
        tensors = inputs(2, 9)
        function.prepare(["x", "up", "down"], {"B": 2, "T": 9})
        count = len(fake.measured)
        assert_right(step(function, tensors), tensors)
        assert count == len(fake.measured) > 0  # a step measures nothing more
        gemms = [op for op in function.module("scheduled").walk() if isinstance(op, FusedOp)]
    assert len(gemms) == 6  # two of the forward, four of the backward
    assert all(TUNED_ATTRIBUTE in op.attributes for op in gemms)
    assert {op.schedule.group_m.data for op in gemms if op.schedule} == {16}


def test_gradients_by_the_library_are_right():
    with use_measurer(FakeMeasurer(library_is_fast, compile_s=0.1)):
        function = coda_ir.compile(PROGRAM, device="cpu", training=True, tune=True)
        tensors = inputs(2, 9)
        assert_right(step(function, tensors), tensors)
        gemms = [op for op in function.module("scheduled").walk() if isinstance(op, LibraryOp)]
        assert len(gemms) == 6 and function.operators["gemm.library"] == 6
        assert any("PyTorch's library is 3.33 x as fast" in str(r) for r in function.remarks)


@pytest.mark.slow
def test_a_new_length_of_the_same_bucket_tunes_nothing():
    fake = FakeMeasurer(lambda _: 100.0, compile_s=0.1)
    with use_measurer(fake):
        function = coda_ir.compile(PROGRAM, device="cpu", training=True, tune=True)
        step(function, inputs(2, 9))
        count = len(fake.measured)
        for time in (10, 12):
            tensors = inputs(2, time)
            assert_right(step(function, tensors), tensors)
        assert len(fake.measured) == count
        step(function, inputs(4, 20))
        assert len(fake.measured) > count


def test_without_gradients_the_plain_program_is_tuned():
    fake = FakeMeasurer(lambda _: 100.0, compile_s=0.1)
    with use_measurer(fake):
        function = coda_ir.compile(PROGRAM, device="cpu", training=True, tune=True)
        tensors = inputs(2, 9)
        with torch.no_grad():
            result = function(*tensors)
        assert relative_error(result, expected(tensors)[0]) < 1e-6
    assert fake.measured and function.plain.operators["gemm.fused"] == 2
