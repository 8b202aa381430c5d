"""FP8 models of transformers, whose layers have `weight_scale_inv`: exported and compiled."""

from functools import cache
from importlib import import_module
from typing import Any

import pytest
import torch
from support.torch_compile import compiled
from torch import nn
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.utils.quantization_config import FineGrainedFP8Config

import coda_ir
from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import element_type_of, is_float8
from coda_ir.dialects.torch import CallOp
from coda_ir.float64 import relative_error
from coda_ir.frontends.torch.scaled_layers import (
    BLOCKS,
    FLOAT8,
    ScaledLinear,
    dequantized,
    quantized_weight,
)

finegrained_fp8: Any = import_module("transformers.integrations.finegrained_fp8")

pytestmark = pytest.mark.usefixtures("no_gradients")

SIZES: dict[str, Any] = {
    "hidden_size": 128,
    "intermediate_size": 256,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "vocab_size": 32,
    "use_cache": False,
}


def llama() -> Any:
    torch.default_generator.manual_seed(0)
    return LlamaForCausalLM(LlamaConfig(**SIZES)).bfloat16().eval()


def checkpoint() -> Any:
    """The model as transformers loads it from a checkpoint in float8."""
    plain = llama()
    config = FineGrainedFP8Config()
    model = finegrained_fp8.replace_with_fp8_linear(
        llama(), modules_to_not_convert=["lm_head"], quantization_config=config
    )
    for name, linear in plain.named_modules():
        if type(linear) is nn.Linear and name != "lm_head":
            layer: Any = model.get_submodule(name)
            weight, scales = quantized_weight(linear.weight.detach(), BLOCKS)
            layer.load_state_dict({"weight": weight, "weight_scale_inv": scales}, assign=True)
    return model.requires_grad_(requires_grad=False)


def ids() -> torch.Tensor:
    return torch.randint(0, 32, (1, 12), generator=torch.Generator().manual_seed(1))


def first(result: Any) -> torch.Tensor:
    return result.logits if hasattr(result, "logits") else result[0]


@cache
def exported_checkpoint() -> tuple[coda_ir.ExportedModel, torch.Tensor]:
    """The checkpoint, exported, and its logits."""
    exported = coda_ir.export(checkpoint(), (ids(),))
    return exported, first(exported.compile(target="reference", device="cpu")(ids()))


@pytest.mark.slow
def test_exported() -> None:
    """Seven products of float8, those of one block without scales along K, and what layers of
    `quantize` give, bit by bit; transformers has its own function again.
    """
    own = finegrained_fp8.fp8_linear
    exported, result = exported_checkpoint()
    assert finegrained_fp8.fp8_linear is own
    linear = [op for op in exported.module.walk() if isinstance(op, coda.LinearOp)]
    blocks = [op for op in exported.module.walk() if isinstance(op, coda.ScaledLinearOp)]
    narrow = [op for op in (*linear, *blocks) if is_float8(element_type_of(op.weight))]
    assert len(narrow) == 7 and len(blocks) == 3
    assert not [op for op in exported.module.walk() if isinstance(op, CallOp)]
    assert type(checkpoint().model.layers[0].mlp.up_proj) is finegrained_fp8.FP8Linear
    quantized = coda_ir.export(coda_ir.quantize(llama(), "blocks"), (ids(),))
    of_quantized = first(quantized.compile(target="reference", device="cpu")(ids()))
    assert torch.equal(result, of_quantized)
    expected = llama().double()(ids()).logits
    # 20 dB, the bound of torchao's tests for logits.
    assert relative_error(result, expected) <= 0.1


@pytest.mark.slow
@pytest.mark.usefixtures("fresh_dynamo")
def test_compiled() -> None:
    coda_ir.keep_float8_layers()
    coda_ir.keep_float8_layers()
    result = compiled(checkpoint(), fullgraph=True)(ids()).logits
    torch.testing.assert_close(result, exported_checkpoint()[1], rtol=0, atol=0)


@pytest.mark.parametrize("scheme", ["static", "whole weight"])
def test_other_scales(scheme: str) -> None:
    """A static scale of the input, or one scale of the weight and of each row of the input."""
    generator = torch.Generator().manual_seed(2)
    weight = torch.randn(128, 256, generator=generator)
    x = torch.randn(7, 256, generator=generator).bfloat16()
    is_static = scheme == "static"
    layer = finegrained_fp8.FP8Linear(
        256,
        128,
        block_size=(128, 128) if is_static else None,
        activation_scheme="static" if is_static else "dynamic",
    )
    scales = quantized_weight(weight, BLOCKS)[1] if is_static else weight.abs().max() / 448
    wide = scales.repeat_interleave(128, 1) if is_static else scales
    elements = (weight / wide).to(FLOAT8)
    state = {"weight": elements, "weight_scale_inv": scales}
    if is_static:
        state["activation_scale"] = torch.tensor(0.01)
    layer.load_state_dict(state, assign=True)
    layer.requires_grad_(requires_grad=False)
    exported = coda_ir.export(layer, (x,))
    calls = [op.callee.data for op in exported.module.walk() if isinstance(op, CallOp)]
    assert calls == (["aten.expand.default"] if is_static else [])
    y = exported.compile(device="cpu")(x)
    exact = x.double() @ (elements.double() * wide.double()).T
    assert relative_error(y, exact) <= 0.04


def test_checkpoint_loads_into_own_layer() -> None:
    """Parameters have the names and shapes of the checkpoint."""
    given = checkpoint().model.layers[0].mlp.up_proj
    layer = ScaledLinear.of(nn.Linear(128, 256, bias=False), BLOCKS)
    layer.load_state_dict(given.state_dict())
    wide = dequantized(layer.weight, layer.weight_scale_inv, 128, 128)
    plain = llama().model.layers[0].mlp.up_proj.weight.double()
    assert relative_error(wide, plain) <= 0.04
