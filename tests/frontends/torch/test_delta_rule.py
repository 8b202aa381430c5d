"""Models of transformers with the gated delta rule, which are traced without its loop."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from support.torch_compile import compiled, dynamo
from torch import Tensor

import coda_ir
from coda_ir.diagnostics import ArgumentError
from coda_ir.float64 import relative_error
from coda_ir.frontends.torch.state_spaces import DELTA_RULE, state_space
from coda_ir.training.gradient_pair import DoubleBackwardError

modeling: Any = pytest.importorskip("transformers.models.qwen3_next.modeling_qwen3_next")

STEPS = ("torch_chunk_gated_delta_rule", "torch_recurrent_gated_delta_rule")


def operands_of(length: int) -> list[Tensor]:
    """Operands of 2 samples and 3 heads, with keys of length 1, and states to begin with."""
    generator = torch.Generator().manual_seed(length)
    shapes = [(2, length, 3, 8), (2, length, 3, 8), (2, length, 3, 5), (2, length, 3)]
    q, k, v, times = (torch.randn(shape, generator=generator) for shape in shapes)
    states = torch.randn(2, 3, 8, 5, generator=generator)
    return [q, F.normalize(k, dim=-1), v, -times.abs(), times.sigmoid(), states]


def flat(operands: list[Tensor]) -> list[Tensor]:
    q, k, v, decay, beta, states = operands
    return [*(x.flatten(2) for x in (q, k, v)), beta, decay, states]


def test_autocast_changes_nothing() -> None:
    operands = flat(operands_of(5))
    with torch.autocast("cpu", torch.bfloat16):
        found = state_space(DELTA_RULE, operands, 8)
    for a, b in zip(found, state_space(DELTA_RULE, operands, 8), strict=True):
        assert torch.equal(a, b)


def test_wide_operands_are_refused() -> None:
    with pytest.raises(ArgumentError, match="q has type"):
        state_space(DELTA_RULE, [operand.double() for operand in flat(operands_of(5))], 8)


def test_second_derivatives_are_refused() -> None:
    operands = [operand.requires_grad_() for operand in flat(operands_of(5))]
    y, _ = state_space(DELTA_RULE, operands, 8)
    (gradient,) = torch.autograd.grad(y.sum(), operands[:1], create_graph=True)
    with pytest.raises(DoubleBackwardError, match="state_space is differentiated"):
        torch.autograd.grad(gradient.sum(), operands)


@pytest.mark.slow
@pytest.mark.usefixtures("fresh_dynamo")
@pytest.mark.parametrize("name", STEPS)
def test_traced_without_its_loop(name: str) -> None:
    """A graph of transformers' function has as many operators for many positions as for few."""
    coda_ir.keep_scans()
    counts: list[int] = []

    def rule(*operands: Tensor) -> Any:
        *given, states = operands
        options = {"initial_state": states, "output_final_state": True}
        return getattr(modeling, name)(*given, use_qk_l2norm_in_kernel=True, **options)

    for length in (70, 5):
        operands = operands_of(length)
        found = dynamo.export(rule)(*operands)
        counts.append(len(found.graph_module.graph.nodes))
        results = found.graph_module(*operands)
        for a, b in zip(results, rule(*operands), strict=True):
            assert relative_error(a, b.double()) <= 1e-5
    assert counts[0] == counts[1] < 40


def model_of() -> Any:
    transformers: Any = pytest.importorskip("transformers")
    torch.default_generator.manual_seed(0)
    heads = {"linear_num_key_heads": 2, "linear_num_value_heads": 4}
    columns = {"linear_key_head_dim": 8, "linear_value_head_dim": 16}
    sizes = {"hidden_size": 32, "num_hidden_layers": 1, "vocab_size": 64, "num_experts": 4}
    config = transformers.Qwen3NextConfig(
        **sizes,
        **heads,
        **columns,
        layer_types=["linear_attention"],
        num_experts_per_tok=2,
        moe_intermediate_size=16,
        shared_expert_intermediate_size=16,
    )
    return modeling.Qwen3NextGatedDeltaNet(config, 0).eval()


@pytest.mark.slow
@pytest.mark.usefixtures("fresh_dynamo")
@pytest.mark.parametrize("target", ["reference", "triton"])
def test_layer(target: str) -> None:
    """A layer of Qwen3-Next, and its gradients, in kernels for chunks of positions."""
    coda_ir.keep_scans()
    model, wide = model_of(), model_of().double()
    x = torch.randn(2, 70, 32, generator=torch.Generator().manual_seed(1))
    leaves = [x.requires_grad_(), x.detach().double().requires_grad_()]
    run = compiled(model, target=target, compare=False)
    found, expected = (each(leaf) for each, leaf in zip((run, wide), leaves, strict=True))
    assert relative_error(found, expected) <= 1e-5
    for y in (found, expected):
        y.sin().sum().backward()
    pairs = [(leaves[0].grad, leaves[1].grad)]
    pairs += [(a.grad, b.grad) for a, b in zip(model.parameters(), wide.parameters(), strict=True)]
    for a, b in pairs:
        assert a is not None and b is not None and relative_error(a, b) <= 1e-4
