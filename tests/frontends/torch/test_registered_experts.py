"""`experts_implementation="coda"`: experts of transformers without torch.compile."""

from typing import Any, cast

import pytest
import torch

pytest.importorskip("transformers", reason="needs transformers: pip install -e .[dev]")

from transformers import MixtralConfig, MixtralForCausalLM, Qwen3MoeConfig, Qwen3MoeForCausalLM
from transformers.models.mixtral.modeling_mixtral import MixtralExperts

import coda_ir
from coda_ir.diagnostics import CodaError
from coda_ir.float64 import relative_error
from coda_ir.frontends.torch.experts import experts_forward

SIZES: dict[str, Any] = {
    "vocab_size": 64,
    "hidden_size": 64,
    "num_hidden_layers": 2,
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


@pytest.mark.parametrize("length", [1, 13])
@pytest.mark.parametrize("name", MODELS)
def test_forward_and_gradients(name: str, length: int):
    """The same as eager, whose experts run one by one; of one token, most experts have none."""
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


def test_without_gradients():
    coda_ir.register_experts()
    model, ids = MODELS["mixtral"]().bfloat16().eval(), torch.randint(0, 64, (2, 9))
    with torch.no_grad():
        expected = model(ids, use_cache=False).logits
        model.set_experts_implementation("coda")
        found = model(ids, use_cache=False).logits
    assert relative_error(found, expected.double()) < 2e-2


class Experts(torch.nn.Module):
    def __init__(self, **properties: object):
        super().__init__()
        self.config = MixtralConfig(**SIZES)
        self.has_gate, self.has_bias, self.is_transposed, self.is_concatenated = (
            *(True, False, False, True),
        )
        self.down_proj = torch.zeros(4, 64, 48)
        self.__dict__ |= properties


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({"has_bias": True}, "does not compute experts with biases"),
        ({}, "does not compute the gate of Experts"),
    ],
)
def test_refused(properties: dict[str, object], message: str):
    x, ids, gates = torch.zeros(3, 64), torch.zeros(3, 2, dtype=torch.int64), torch.zeros(3, 2)
    with pytest.raises(CodaError, match=message):
        experts_forward(Experts(**properties), x, ids, gates)


@pytest.mark.parametrize("is_transposed", [False, True])
@pytest.mark.parametrize("is_concatenated", [False, True])
def test_layouts_of_weights(is_transposed: bool, is_concatenated: bool):
    """Experts with all tokens and with none, against every expert for all tokens in float64."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(11, 64, generator=generator)
    up = torch.randn(4, 96, 64, generator=generator) / 8
    down = torch.randn(4, 64, 48, generator=generator) / 8
    ids, gates = torch.tensor([[2, 0]] * 11), torch.rand(11, 2, generator=generator)
    module = Gated(
        is_transposed=is_transposed,
        is_concatenated=is_concatenated,
        gate_up_proj=up.mT.contiguous() if is_transposed else up,
        down_proj=down.mT.contiguous() if is_transposed else down,
    )
    h = torch.einsum("md,eid->emi", x.double(), up.double())
    gate, value = h.chunk(2, -1) if is_concatenated else (h[..., ::2], h[..., 1::2])
    y = torch.einsum("emi,edi->emd", torch.nn.functional.silu(gate) * value, down.double())
    expected = gates[:, :1].double() * y[2] + gates[:, 1:].double() * y[0]
    assert relative_error(experts_forward(module, x, ids, gates), expected) < 1e-5


class Gated(Experts):
    """Experts whose gate is that of transformers."""

    _apply_gate: Any = cast(Any, MixtralExperts)._apply_gate
