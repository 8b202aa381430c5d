"""Mixtures of experts of transformers: GEMMs with epilogues, over rows in groups."""

from functools import cache
from typing import Any, cast

import pytest
import torch

pytest.importorskip("transformers", reason="needs transformers: pip install -e .[dev]")

from transformers import (
    MixtralConfig,
    MixtralForCausalLM,
    Qwen3MoeConfig,
    Qwen3MoeForCausalLM,
)

from coda_ir.api import find_entry
from coda_ir.backends.reference import run_function
from coda_ir.context import make_context
from coda_ir.dialects.gemm import FusedOp, PairingAttr, PortKind
from coda_ir.float64 import relative_error
from coda_ir.frontends.torch import ExportedModel, export
from coda_ir.passes.pipelines.coda_to_gemm import CodaToGemmPass

SIZES: dict[str, Any] = {
    "vocab_size": 64,
    "hidden_size": 64,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "num_experts_per_tok": 2,
    "experts_implementation": "grouped_mm",
}

MODELS: dict[str, Any] = {
    "qwen3_moe": lambda: Qwen3MoeForCausalLM(
        Qwen3MoeConfig(**SIZES, moe_intermediate_size=48, num_experts=4)
    ),
    "mixtral": lambda: MixtralForCausalLM(
        MixtralConfig(**SIZES, intermediate_size=48, num_local_experts=4)
    ),
}


class Logits(torch.nn.Module):
    def __init__(self, model: torch.nn.Module):
        super().__init__()
        self.model = model

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.model(ids, use_cache=False).logits


@cache
def exported(name: str) -> tuple[torch.nn.Module, ExportedModel]:
    model = Logits(MODELS[name]()).eval().bfloat16()
    ids = torch.randint(0, 64, (2, 9))
    return model, export(model, (ids,), dynamic_shapes=({1: torch.export.Dim("T")},))


def grouped_gemms(model: ExportedModel) -> list[FusedOp]:
    module = model.module.clone()
    CodaToGemmPass().apply(make_context(), module)
    return [op for op in module.walk() if isinstance(op, FusedOp) and op.groups is not None]


@pytest.mark.parametrize("name", MODELS)
def test_experts_are_gemms_with_epilogues(name: str):
    """Columns of gate and up are paired; the router's weights scale the rows of what comes down."""
    _, model = exported(name)
    (gated,), (down,) = (op.segments() for op in grouped_gemms(model))
    assert gated.pairing == PairingAttr.halves() and len(gated.weights) == 1
    assert [kind for kind, _ in down.ports].count(PortKind.COL) == 2
    assert down.pairing is None


def test_kernels_are_as_exact_as_eager():
    """Also of one token, whose experts have all rows of their groups."""
    model, found = exported("qwen3_moe")
    kernels = found.compile(device="cpu")
    for length in (1, 23):
        ids = torch.randint(0, 64, (2, length))
        tensors = found.arguments(ids)
        exact = run_function(find_entry(found.module), tensors, "float64")[0]
        result = cast(torch.Tensor, kernels(ids))
        with torch.no_grad():
            eager = model(ids)
        assert relative_error(result, exact) <= 1.25 * relative_error(eager, exact) + 1e-3
