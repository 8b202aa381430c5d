"""The gated delta rule as an operator of PyTorch, and a model of transformers with it."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from support.torch_compile import dynamo
from torch import Tensor

import coda_ir
from coda_ir.float64 import relative_error
from coda_ir.frontends.torch.delta_rule import CHUNK, gated_delta_rule
from coda_ir.training.gradient_pair import DoubleBackwardError

modeling: Any = pytest.importorskip("transformers.models.qwen3_next.modeling_qwen3_next")


def operands_of(length: int) -> list[Tensor]:
    """Operands of 2 samples and 3 heads, with keys of length 1, and states to begin with."""
    generator = torch.Generator().manual_seed(length)
    shapes = [(2, length, 3, 8), (2, length, 3, 8), (2, length, 3, 5), (2, length, 3)]
    q, k, v, times = (torch.randn(shape, generator=generator) for shape in shapes)
    states = torch.randn(2, 3, 8, 5, generator=generator)
    return [q, F.normalize(k, dim=-1), v, -times.abs(), times.sigmoid(), states]


def exact(operands: list[Tensor]) -> list[Tensor]:
    """The rule step by step, in float64."""
    q, k, v, g, beta, state = (operand.double() for operand in operands)
    rows: list[Tensor] = []
    for t in range(q.shape[1]):
        state = state * g[:, t, :, None, None].exp()
        known = (state * k[:, t, :, :, None]).sum(-2)
        change = (v[:, t] - known) * beta[:, t, :, None]
        state = state + k[:, t, :, :, None] * change[:, :, None]
        rows.append((state * q[:, t, :, :, None]).sum(-2))
    return [torch.stack(rows, 1) if rows else v, state]


@pytest.mark.parametrize("length", [0, 1, 5, CHUNK, 2 * CHUNK + 3])
def test_lengths(length: int) -> None:
    operands = operands_of(length)
    for a, b in zip(gated_delta_rule(operands), exact(operands), strict=True):
        assert relative_error(a, b) <= 2e-6


def test_no_states_to_begin_with() -> None:
    operands = operands_of(5)
    operands[5].zero_()
    for a, b in zip(gated_delta_rule(operands[:5]), exact(operands), strict=True):
        assert relative_error(a, b) <= 2e-6


def test_gradients() -> None:
    operands = [operand.requires_grad_() for operand in operands_of(CHUNK + 3)]
    results = gated_delta_rule(operands)
    adjoints = [torch.rand_like(result) for result in results]
    found = torch.autograd.grad(results, operands, adjoints)
    wide = [operand.detach().double().requires_grad_() for operand in operands]
    expected = torch.autograd.grad(exact(wide), wide, [each.double() for each in adjoints])
    for a, b in zip(found, expected, strict=True):
        assert relative_error(a, b) <= 1e-5


def test_autocast_changes_nothing() -> None:
    operands = operands_of(CHUNK + 3)
    with torch.autocast("cpu", torch.bfloat16):
        found = gated_delta_rule(operands)
    for a, b in zip(found, gated_delta_rule(operands), strict=True):
        assert torch.equal(a, b)


def test_second_derivatives_are_refused() -> None:
    operands = [operand.requires_grad_() for operand in operands_of(5)]
    y, _ = gated_delta_rule(operands)
    (gradient,) = torch.autograd.grad(y.sum(), operands[:1], create_graph=True)
    with pytest.raises(DoubleBackwardError, match="gated_delta_rule is differentiated"):
        torch.autograd.grad(gradient.sum(), operands)


@pytest.mark.slow
def test_registration() -> None:
    """Types of results without data, gradients, and strides, as PyTorch checks them."""
    library: Any = torch.library  # without complete types
    operands = [operand.requires_grad_() for operand in operands_of(5)]
    library.opcheck(torch.ops.coda_ir.gated_delta_rule.default, (operands,))


@pytest.mark.slow
@pytest.mark.usefixtures("fresh_dynamo")
def test_traced_without_its_loop() -> None:
    """A graph of transformers' function has as many operators for many chunks as for one."""
    coda_ir.keep_scans()
    q, k, v, g, beta, _ = operands_of(6 * CHUNK)
    counts: list[int] = []

    def rule(*operands: Tensor) -> Any:
        return modeling.torch_chunk_gated_delta_rule(*operands, use_qk_l2norm_in_kernel=True)[0]

    for length in (6 * CHUNK, 5):
        operands = [operand[:, :length] for operand in (q, k, v, g, beta)]
        found = dynamo.export(rule)(*operands)
        counts.append(len(found.graph_module.graph.nodes))
        assert relative_error(found.graph_module(*operands), rule(*operands).double()) <= 1e-5
    assert counts[0] == counts[1] < 30
