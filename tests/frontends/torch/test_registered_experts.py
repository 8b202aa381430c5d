"""`experts_implementation="coda"`: experts of transformers without torch.compile."""

from typing import Any

import pytest
import torch

pytest.importorskip("transformers", reason="needs transformers: pip install -e .[dev]")

from transformers import (
    GptOssConfig,
    GptOssForCausalLM,
    MixtralConfig,
    MixtralForCausalLM,
    Qwen3MoeConfig,
    Qwen3MoeForCausalLM,
)

import coda_ir
from coda_ir.float64 import relative_error
from coda_ir.frontends.torch.experts import experts_forward

SIZES: dict[str, Any] = {
    "vocab_size": 64,
    "hidden_size": 64,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "num_experts_per_tok": 2,
}

MODELS: dict[str, Any] = {
    "qwen3_moe": lambda: Qwen3MoeForCausalLM(
        Qwen3MoeConfig(**SIZES, moe_intermediate_size=48, num_experts=4)
    ),
    "mixtral": lambda: MixtralForCausalLM(
        MixtralConfig(**SIZES, intermediate_size=48, num_local_experts=4)
    ),
    "gpt_oss": lambda: GptOssForCausalLM(
        GptOssConfig(**SIZES, intermediate_size=48, num_local_experts=4)
    ),
}


def results(
    model: torch.nn.Module, implementation: str, ids: torch.Tensor
) -> dict[str, torch.Tensor]:
    """The logits, and the gradients of all parameters."""
    model.set_experts_implementation(implementation)  # pyright: ignore[reportCallIssue]
    model.zero_grad()
    logits = model(ids, use_cache=False).logits
    logits.float().square().mean().backward()
    gradients = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    return {"logits": logits.detach(), **gradients}


@pytest.mark.slow
@pytest.mark.parametrize("length", [1, 13])
@pytest.mark.parametrize("name", MODELS)
def test_forward_and_gradients(name: str, length: int):
    """The same as eager, whose experts run one by one; of one token, most experts have none. Those
    of gpt-oss have biases, and a gate of their own.
    """
    coda_ir.register_experts()
    generator = torch.Generator().manual_seed(length)
    model, ids = MODELS[name](), torch.randint(0, 64, (1, length), generator=generator)
    for parameter in model.parameters():
        parameter.data.normal_(0, 0.2, generator=generator)
    expected, found = results(model, "eager", ids), results(model, "coda", ids)
    assert found.keys() == expected.keys()
    for key, value in expected.items():
        # Of one token, gradients of queries and keys are rounding errors.
        scale = value.abs().max().item()
        torch.testing.assert_close(found[key], value, rtol=1e-4, atol=1e-4 * scale + 1e-7)


@pytest.mark.slow
def test_without_gradients():
    coda_ir.register_experts()
    model, ids = MODELS["mixtral"]().bfloat16().eval(), torch.randint(0, 64, (2, 9))
    with torch.no_grad():
        expected = model(ids, use_cache=False).logits
        model.set_experts_implementation("coda")
        found = model(ids, use_cache=False).logits
    assert relative_error(found, expected.double()) < 2e-2


class Experts(torch.nn.Module):
    """Experts as transformers has them, with a gate that reads halves of rows or neighbours."""

    def __init__(self, *, is_transposed: bool, is_concatenated: bool, **weights: torch.Tensor):
        super().__init__()
        self.has_gate, self.has_bias, self.num_experts = True, False, 4
        self.is_transposed, self.is_concatenated = is_transposed, is_concatenated
        self.act_fn = torch.nn.SiLU()
        for name, weight in weights.items():
            self.register_parameter(name, torch.nn.Parameter(weight))

    def _apply_gate(self, rows: torch.Tensor) -> torch.Tensor:
        gate, up = halves(rows) if self.is_concatenated else neighbours(rows)
        return self.act_fn(gate) * up


def halves(rows: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return rows.chunk(2, -1)


def neighbours(rows: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return rows[..., ::2], rows[..., 1::2]


@pytest.mark.slow
@pytest.mark.parametrize("is_transposed", [False, True])
@pytest.mark.parametrize("is_concatenated", [False, True])
def test_layouts_of_weights(is_transposed: bool, is_concatenated: bool):
    """Experts with all tokens and with none, against every expert for all tokens in float64."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(11, 64, generator=generator)
    up = torch.randn(4, 96, 64, generator=generator) / 8
    down = torch.randn(4, 64, 48, generator=generator) / 8
    ids, gates = torch.tensor([[2, 0]] * 11), torch.rand(11, 2, generator=generator)
    module = Experts(
        is_transposed=is_transposed,
        is_concatenated=is_concatenated,
        gate_up_proj=up.mT.contiguous() if is_transposed else up,
        down_proj=down.mT.contiguous() if is_transposed else down,
    )
    h = torch.einsum("md,eid->emi", x.double(), up.double())
    gate, value = halves(h) if is_concatenated else neighbours(h)
    y = torch.einsum("emi,edi->emd", torch.nn.functional.silu(gate) * value, down.double())
    expected = gates[:, :1].double() * y[2] + gates[:, 1:].double() * y[0]
    assert relative_error(experts_forward(module, x, ids, gates).detach(), expected) < 1e-5
