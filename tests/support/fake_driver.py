"""A driver that is not a real one, and a program for it: a plugin of the processes that run
`*_cases.py`, in which Triton is not in its interpreter.
"""

from collections.abc import Callable

import pytest
import torch

from support import fake_cuda

PROGRAM = """
fn layer(x: bf16[B, T, 64], weight first: bf16[64, 64], weight second: bf16[64, 64],
         cos: f32[T, 16], sin: f32[T, 16]) -> (bf16[B, T, 64], bf16[B, T, 64]) {
    y = linear(x, first)
    z = rope(linear(y, second), cos, sin, head_dim=32)
    return y, linear(z, first)
}
"""
LAUNCHES = 3
SCHEDULE = "target=sm_90 mainloop=tma tile=64x64x64 warps=4 stages=2"

Inputs = list[torch.Tensor]


@pytest.fixture(scope="session")
def fake(tmp_path_factory: pytest.TempPathFactory) -> fake_cuda.FakeCuda:
    return fake_cuda.installed() or fake_cuda.install(tmp_path_factory.mktemp("cuda"))


def inputs_of(time: int) -> Inputs:
    shapes = [(2, time, 64), (64, 64), (64, 64)]
    tables = [torch.zeros(time, 16) for _ in range(2)]
    return [*(torch.zeros(shape, dtype=torch.bfloat16) for shape in shapes), *tables]


def launches_of(fake: fake_cuda.FakeCuda, call: Callable[[], object]) -> list[fake_cuda.Launch]:
    """Return what a call passes to the driver."""
    fake.record()
    call()
    return fake.recorded()
