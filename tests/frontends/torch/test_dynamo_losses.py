"""Losses of any number of samples and tokens through `torch.compile`, by kernels."""

import pytest
import torch
import torch.nn.functional as F
from support.torch_compile import compiled, gradients
from torch import nn

pytestmark = pytest.mark.usefixtures("fresh_dynamo")


class NextToken(nn.Module):
    """The loss of a language model: a token is the target of the one before it."""

    def __init__(self):
        super().__init__()
        self.head = nn.Linear(16, 20, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        ids = x[..., 0].abs().mul(7).long().clamp(max=19)
        logits = self.head(x)[..., :-1, :].reshape(-1, 20)
        return F.cross_entropy(logits, ids[..., 1:].reshape(-1))


def test_targets_that_are_a_slice_of_any_number_of_tokens():
    model = NextToken()
    fast = compiled(model, target="triton", dynamic=True)
    for shape in ((2, 7, 16), (3, 5, 16)):
        x = torch.randn(shape)
        found, wanted = (gradients(f, model, x) for f in (fast, model))
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)
