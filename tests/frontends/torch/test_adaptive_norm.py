"""Norms whose scale and shift come from a projection of each sample, as in DiT."""

import pytest
import torch
import torch.nn.functional as F
from support.torch_compile import compiled, gradients
from torch import Tensor, nn

import coda_ir

pytestmark = pytest.mark.usefixtures("fresh_dynamo")


class AdaptiveNorm(nn.Module):
    """adaLN as DiT has it: shift, scale and gate are ranges of one projection for each sample."""

    def __init__(self, width: int = 32):
        super().__init__()
        self.norm = nn.LayerNorm(width, elementwise_affine=False)
        self.modulation = nn.Linear(16, 3 * width)
        self.projection = nn.Linear(width, width)

    def forward(self, x: Tensor, c: Tensor) -> Tensor:
        shift, scale, gate = self.modulation(F.silu(c))[:, None].chunk(3, -1)
        return x + gate * self.projection(self.norm(x) * (1 + scale) + shift)


class Several(nn.Module):
    """One norm of several inputs: an export takes much the same time for one and for all."""

    def __init__(self):
        super().__init__()
        self.model = AdaptiveNorm()

    def forward(self, *inputs: tuple[Tensor, Tensor]) -> list[Tensor]:
        return [self.model(x, c) for x, c in inputs]


@pytest.mark.slow
def test_exported_adaptive_norms():
    model = Several()
    inputs = [(torch.randn(b, t, 32), torch.randn(b, 16)) for b, t in ((1, 5), (3, 7), (2, 1))]
    program = coda_ir.export(model, tuple(inputs)).compile(target="triton")
    with torch.no_grad():
        for found, expected in zip(program(*inputs), model(*inputs), strict=True):
            torch.testing.assert_close(found, expected)


@pytest.mark.slow
def test_trained_adaptive_norm():
    model, exact = AdaptiveNorm(), AdaptiveNorm().double()
    exact.load_state_dict(model.state_dict())
    fast = compiled(model, target="triton")
    inputs = [torch.randn(3, 7, 32, requires_grad=True), torch.randn(3, 16, requires_grad=True)]
    found = gradients(fast, model, *inputs)
    wanted = gradients(exact, exact, *(x.detach().double().requires_grad_() for x in inputs))
    for got, expected in zip(found, wanted, strict=True):
        assert got is not None and expected is not None
        torch.testing.assert_close(got.double(), expected, rtol=1e-4, atol=1e-6)
