"""Scans outside of compiled programs on a GPU, as in eager training."""

import pytest
import torch

from coda_ir.float64 import relative_error
from coda_ir.frontends.torch.state_spaces import DELTA_RULE, state_space

pytestmark = pytest.mark.gpu


def test_gradients_in_eager() -> None:
    """Autograd's thread of the GPU runs the backward operator, which calls autograd itself."""
    generator = torch.Generator().manual_seed(0)
    shapes = [(2, 70, 24), (2, 70, 24), (2, 70, 15), (2, 70, 3), (2, 70, 3)]
    q, k, v, beta, decay = (torch.randn(shape, generator=generator) for shape in shapes)
    operands = [q, k / 5, v, beta.sigmoid(), -decay.abs()]
    found, expected = (_gradients([x.to(device) for x in operands]) for device in ("cuda", "cpu"))
    for gradient, other in zip(found, expected, strict=True):
        assert relative_error(gradient.cpu(), other.double()) <= 1e-4


def _gradients(operands: list[torch.Tensor]) -> tuple[torch.Tensor, ...]:
    leaves = [operand.requires_grad_() for operand in operands]
    y, _ = state_space(DELTA_RULE, leaves, 8)
    return torch.autograd.grad(y.sin().sum(), leaves)
