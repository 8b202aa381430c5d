"""Rotary embedding of some rows: those of patches behind registers, or of a video behind text."""

import copy
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from support.kernel_steps import kernel_steps
from support.torch_compile import compiled, gradients
from torch import nn

from coda_ir.float64 import relative_error
from coda_ir.frontends.torch import export

REGISTERS, PATCHES, HEADS, WIDTH = 3, 6, 2, 8


def rotated(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    a, b = x.chunk(2, -1)
    return x * cos + torch.cat([-b, a], -1) * sin


class Attention(nn.Module):
    """Attention of registers and patches, of which the patches alone have positions."""

    def __init__(self, *, registers_first: bool):
        super().__init__()
        self.first = registers_first
        self.qkv, self.out = (nn.Linear(HEADS * WIDTH, n * HEADS * WIDTH) for n in (3, 1))

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(x).unflatten(-1, (3, HEADS, WIDTH)).permute(2, 0, 3, 1, 4)
        q, k = (self._rotated_patches(y, cos, sin) for y in (q, k))
        return self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))

    def _rotated_patches(
        self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor
    ) -> torch.Tensor:
        if self.first:
            parts = [x[:, :, :REGISTERS], rotated(x[:, :, REGISTERS:], cos, sin)]
        else:
            parts = [rotated(x[:, :, :PATCHES], cos, sin), x[:, :, PATCHES:]]
        return torch.cat(parts, 2)


def inputs() -> list[torch.Tensor]:
    angles = torch.rand(PATCHES, WIDTH // 2).repeat(1, 2)
    x = torch.randn(2, REGISTERS + PATCHES, HEADS * WIDTH, requires_grad=True)
    return [x, angles.cos(), angles.sin()]


@pytest.mark.slow
@pytest.mark.parametrize("registers_first", [True, False])
def test_results_and_gradients(*, registers_first: bool) -> None:
    model, given = Attention(registers_first=registers_first), inputs()
    wide: Any = copy.deepcopy(model).double()
    exact = gradients(
        wide, wide, *(x.detach().double().requires_grad_(x.requires_grad) for x in given)
    )
    for target in ("reference", "triton"):
        fast = compiled(model, target=target)
        with torch.no_grad():
            expected = wide(*(x.double() for x in given))
            assert relative_error(fast(*given), expected) < 1e-5
        found = gradients(fast, model, *given)
        for actual, gradient in zip(found, exact, strict=True):
            assert actual is not None and gradient is not None
            assert relative_error(actual, gradient) < 1e-5


def test_the_projection_rotates_its_rows() -> None:
    """No kernel splits or joins rows; only the tables are padded."""
    model = export(Attention(registers_first=True), tuple(x.detach() for x in inputs()))
    (steps,) = kernel_steps(model.module).values()
    assert steps == "pad pad fused attention fused"
