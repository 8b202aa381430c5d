"""The simulator of Gluon kernels: numbers, every planted mistake, the arithmetic of Triton."""

from types import ModuleType
from typing import Any

import pytest
import torch
from support.gluon_simulator import (
    load_module,
    run,
)
from support.gluon_simulator.example import RESIDUAL_GEMM

N, K = 512, 256


def changed(source: str, *changes: tuple[str, str]) -> str:
    for old, new in changes:
        assert old in source, old
        source = source.replace(old, new)
    return source


def tensors(rows: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(rows)

    def random(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator).bfloat16()

    return [random(rows, K), random(N, K) / 16, random(rows, N), random(N)]


def run_changed(*changes: tuple[str, str], rows: int = 136, seed: int = 0) -> Any:
    """Run the example, changed, in one program, which has all the tiles."""
    module = load_module(changed(RESIDUAL_GEMM, *changes))
    module.SETTINGS.multiprocessors = 1
    return run(module, *tensors(rows), seed=seed)


@pytest.fixture(scope="module")
def example() -> ModuleType:
    return load_module(RESIDUAL_GEMM)


@pytest.mark.parametrize(("rows", "programs"), [(200, 1), (128, 3), (1, 2), (300, 2)])
def test_example_is_right_in_every_schedule(example: ModuleType, rows: int, programs: int) -> None:
    a, w, x, scale = tensors(rows)
    exact = a.double() @ w.double().T + x.double()
    example.SETTINGS.multiprocessors = programs
    for seed in range(3):
        y, h, sums = run(example, a, w, x, scale, seed=seed)
        torch.testing.assert_close(y.double(), exact, rtol=2**-8, atol=1e-5)
        torch.testing.assert_close(h.double(), exact * scale.double(), rtol=2**-8, atol=1e-5)
        expected = exact.square().view(rows, N // 64, 64).sum(2)
        torch.testing.assert_close(sums.double(), expected, rtol=1e-5, atol=1e-5)
