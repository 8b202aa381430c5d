"""Gradients of DistributedDataParallel, ours beside PyTorch's."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

import torch
from torch import nn

import coda_ir

PROGRAM = """
fn mlp(x: f32[M, 24], up: f32[40, 24], down: f32[24, 40]) -> f32[M, 24] {
    return linear(silu(linear(x, up)), down)
}
"""

Function = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]


class Network(nn.Module):
    def __init__(self, function: Function):
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.up = nn.Parameter(torch.randn(40, 24, generator=generator))
        self.down = nn.Parameter(torch.randn(24, 40, generator=generator))
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(x, self.up, self.down)


def pytorch(x: torch.Tensor, up: torch.Tensor, down: torch.Tensor) -> torch.Tensor:
    return nn.functional.silu(x @ up.T) @ down.T


def compare_gradients(store: str) -> None:
    """With micro-batches; for a process of its own (`own_process`). `store` is a new file."""
    distributed: Any = import_module("torch.distributed")
    wrap: Any = import_module("torch.nn.parallel").DistributedDataParallel
    compiled: Any = coda_ir.compile(PROGRAM, training=True, device="cpu", target="reference")
    ours, theirs = Network(lambda x, up, down: compiled(x, up, down)), Network(pytorch)
    distributed.init_process_group("gloo", init_method=f"file://{store}", rank=0, world_size=1)
    parallel = wrap(ours)
    first, second = torch.randn(2, 7, 24)
    with parallel.no_sync():
        parallel(first).square().mean().backward()
    parallel(second).square().mean().backward()
    for x in (first, second):
        theirs(x).square().mean().backward()
    for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, other.grad, rtol=1e-5, atol=1e-5)
