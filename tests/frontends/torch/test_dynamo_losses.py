"""Losses through `torch.compile`: of any number of samples and tokens, and under autocast."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from support.torch_compile import compiled, gradients, torch_compile
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

from coda_ir.frontends.torch.graph_inputs import widen_losses

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


@pytest.mark.slow
def test_targets_that_are_a_slice_of_any_number_of_tokens():
    model = NextToken()
    fast = compiled(model, target="triton", dynamic=True)
    for shape in ((2, 7, 16), (3, 5, 16)):
        x = torch.randn(shape)
        found, wanted = (gradients(f, model, x) for f in (fast, model))
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)


def test_a_loss_is_wide_under_autocast_of_a_gpu():
    """Traced with tensors that have no data, which needs no GPU."""

    def model(x: torch.Tensor, ids: torch.Tensor, w: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(F.linear(x, w), ids, c.half())

    def widened(graph: Any, _: object) -> Any:
        widen_losses(graph)
        (loss,) = [node for node in graph.graph.nodes if node.target is F.cross_entropy]
        found.extend(node.meta["example_value"].dtype for node in (*loss.all_input_nodes, loss))
        return graph

    found: list[torch.dtype] = []
    with FakeTensorMode():
        x, w, c = (torch.empty(size, device="cuda") for size in ((6, 16), (16, 16), 16))
        ids = torch.empty(6, dtype=torch.int64, device="cuda")
    was = torch.is_autocast_enabled("cuda"), torch.get_autocast_dtype("cuda")
    torch.set_autocast_enabled("cuda", True)
    torch.set_autocast_dtype("cuda", torch.float16)
    try:
        torch_compile(model, backend=widened)(x, ids, w, c)
    finally:
        torch.set_autocast_enabled("cuda", was[0])
        torch.set_autocast_dtype("cuda", was[1])
    assert found == [torch.float32, torch.int64, torch.float32, torch.float32]
