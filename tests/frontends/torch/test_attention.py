"""Kernels of attention that PyTorch has chosen, and calls with results that nobody uses."""

import pytest
import torch
from torch import nn
from xdsl.utils.exceptions import VerifyException

import coda_ir
from coda_ir.api import find_entry
from coda_ir.backends.reference import run_function
from coda_ir.dialects.torch import CallOp
from coda_ir.frontends.torch import ExportedModel, export


class Chosen(nn.Module):
    """Self-attention by the kernel that PyTorch chooses on a CPU; gives some of its results."""

    def __init__(self, *results: int, scale: float | None = None):
        super().__init__()
        self.qkv = nn.Linear(16, 48, bias=False)
        self.results, self.scale = results, scale

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        heads = [part.unflatten(-1, (2, 8)).transpose(1, 2) for part in self.qkv(x).chunk(3, -1)]
        kernel = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
        found = kernel(*heads, 0.0, self.scale is None, scale=self.scale)
        rows = [found[0].transpose(1, 2).flatten(2), found[1]]
        return tuple(rows[result] for result in self.results)


def calls(model: ExportedModel) -> list[CallOp]:
    return [op for op in model.module.walk() if isinstance(op, CallOp)]


@pytest.mark.parametrize("results", [(0,), (1,), (0, 1)])
def test_results_that_are_used(results: tuple[int, ...]):
    model, x = Chosen(*results), torch.randn(2, 5, 16)
    with torch.no_grad():
        expected = model(x)
    exported = export(model, (x,))
    named = {op.name for op in exported.module.walk()}
    if results == (0,):
        assert "coda.attention" in named and not calls(exported)
    else:
        assert "coda.attention" not in named
        assert [call.picks for call in calls(exported)] == [(1,) if len(results) == 1 else None]
    tensors = exported.arguments(x)
    for actual in (
        run_function(find_entry(exported.module), tensors, "stated"),
        coda_ir.compile(exported.module, target="triton", device="cpu").unchecked(*tensors),
    ):
        torch.testing.assert_close(tuple(actual), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("scale", [0.0, -0.5])
def test_unusual_scales(scale: float):
    model, x = Chosen(0, scale=scale), torch.randn(2, 5, 16)
    (found,) = export(model, (x,)).compile(device="cpu")(x)
    torch.testing.assert_close(found, model(x)[0].detach(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("positions", [[0], [1, 0], [-1, 1], [1, 1]])
def test_positions_are_verified(positions: list[int]):
    exported = export(Chosen(0, 1), (torch.randn(2, 5, 16),))
    (call,) = calls(exported)
    types = [result.type for result in call.outputs]
    wrong = CallOp(call.callee.data, call.inputs, call.arguments.data, types, positions=positions)
    with pytest.raises(VerifyException, match="expected 2 increasing numbers"):
        wrong.verify()
