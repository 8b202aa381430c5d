"""Mixtures of experts of transformers: GEMMs with epilogues, over rows in groups."""

from functools import cache
from typing import Any, cast

import pytest
import torch

pytest.importorskip("transformers", reason="needs transformers: pip install -e .[dev]")

from support.daily import daily
from transformers import (
    GptOssConfig,
    Llama4TextConfig,
    MixtralConfig,
    Qwen3MoeConfig,
    Qwen3MoeForCausalLM,
)
from transformers.models.gpt_oss.modeling_gpt_oss import GptOssMLP
from transformers.models.llama4.modeling_llama4 import Llama4TextMoe
from transformers.models.mixtral.modeling_mixtral import MixtralSparseMoeBlock
from transformers.models.qwen3_moe.modeling_qwen3_moe import Qwen3MoeSparseMoeBlock
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.utils.hints import isa

from coda_ir.api import find_entry
from coda_ir.backends.reference import run_function
from coda_ir.context import make_context
from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import AnyTensor, shape_of
from coda_ir.dialects.gemm import FusedOp, PairingAttr, PortKind, ResultKind
from coda_ir.dialects.torch import CallOp
from coda_ir.float64 import relative_error
from coda_ir.frontends.torch import ExportedModel, export
from coda_ir.passes.pipelines.coda_to_gemm import CodaToGemmPass
from coda_ir.passes.pipelines.differentiate import DifferentiatePass
from coda_ir.remarks import collect_remarks
from coda_ir.storage import is_view
from coda_ir.traffic import NOT_EXECUTED

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

BLOCKS: dict[str, Any] = {
    "qwen3_moe": lambda: Qwen3MoeSparseMoeBlock(
        Qwen3MoeConfig(**SIZES, moe_intermediate_size=48, num_experts=4)
    ),
    "mixtral": lambda: MixtralSparseMoeBlock(
        MixtralConfig(**SIZES, intermediate_size=48, num_local_experts=4)
    ),
}


class Residual(torch.nn.Module):
    def __init__(self, block: torch.nn.Module):
        super().__init__()
        self.block = block
        for parameter in self.parameters():
            torch.nn.init.normal_(parameter, std=0.2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.block(x)


class Logits(torch.nn.Module):
    """A whole model."""

    def __init__(self):
        super().__init__()
        config = Qwen3MoeConfig(**SIZES, moe_intermediate_size=48, num_experts=4)
        self.model = Qwen3MoeForCausalLM(config)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.model(ids, use_cache=False).logits


def sample(name: str, length: int) -> torch.Tensor:
    if name == "model":
        return torch.randint(0, 64, (2, length))
    return torch.randn(2, length, 64).bfloat16()


@cache
def exported(name: str) -> tuple[torch.nn.Module, ExportedModel]:
    model = Logits() if name == "model" else Residual(BLOCKS[name]())
    model = model.eval().bfloat16()
    shapes = ({1: torch.export.Dim("T")},)
    return model, export(model, (sample(name, 9),), dynamic_shapes=shapes)


def grouped_gemms(model: ExportedModel) -> list[FusedOp]:
    module = model.module.clone()
    CodaToGemmPass().apply(make_context(), module)
    return [op for op in module.walk() if isinstance(op, FusedOp) and op.groups is not None]


@pytest.mark.slow
@pytest.mark.parametrize("name", BLOCKS)
def test_experts_are_gemms_with_epilogues(name: str):
    """Columns of gate and up are paired; the router's weights scale the rows of what comes down.

    Tokens are read, and results stored, where they are.
    """
    _, model = exported(name)
    up, down = grouped_gemms(model)
    (gated,), (scaled,) = up.segments(), down.segments()
    assert gated.pairing == PairingAttr.halves() and len(gated.weights) == 1
    assert [kind for kind, _ in scaled.ports] == [PortKind.SCATTER_COL]
    assert scaled.pairing is None
    assert up.gather is not None and up.scatter is None
    assert down.gather is None and down.scatter is not None


def steps_of(module: ModuleOp) -> list[str]:
    """The kernels and the calls of PyTorch, in order."""
    ops = [op for op in module.walk() if isinstance(op.parent_op(), FuncOp)]
    return [
        op.callee.data if isinstance(op, CallOp) else op.name
        for op in ops
        if not isinstance(op, NOT_EXECUTED) and not is_view(op)
    ]


@pytest.mark.slow
@pytest.mark.parametrize("name", BLOCKS)
def test_steps_of_a_block(name: str):
    """The router with its softmax, the order of the tokens, two GEMMs, and one sum."""
    module = exported(name)[1].module.clone()
    CodaToGemmPass().apply(make_context(), module)
    router = ["gemm.fused", "coda.topk", "gemm.map"]
    order, experts = ["coda.group_order", "gemm.map"], ["gemm.fused", "gemm.fused", "gemm.map"]
    assert sorted(steps_of(module)) == sorted([*router, *order, *experts])


@pytest.mark.slow
@pytest.mark.parametrize("is_dynamic", [True, False])
def test_training_copies_no_rows(is_dynamic: bool):
    """GEMMs gather tokens and gradients of tokens; the gradient of a router weight is a sum of one.

    What is saved has at most the columns of gate and up, which are saved as they are stored.
    """
    block, found = exported("qwen3_moe")
    if not is_dynamic:
        found = export(block, (sample("qwen3_moe", 9),))
    module = found.module.clone()
    for step in (DifferentiatePass(), CodaToGemmPass()):
        step.apply(make_context(), module)
    _, forward, backward = (op for op in module.ops if isinstance(op, FuncOp))
    selected = [shape_of(op.results[0]) for op in module.walk() if isinstance(op, coda.IndexOp)]
    assert all(len(shape) == 1 or shape[-1] == 1 for shape in selected)
    gemms = [op for op in backward.walk() if isinstance(op, FusedOp) and op.groups is not None]
    moves = [
        (gemm.is_transposed, *map(bool, (gemm.gather, gemm.gather_weights, gemm.scatter)))
        for gemm in gemms
    ]
    gathered, scattered = (False, True, False, False), (False, False, False, True)
    weights = (True, True, False, False), (True, False, True, False)
    assert sorted(moves) == sorted([gathered, scattered, *weights])
    (epilogue,) = next(gemm for gemm in gemms if gemm.gather and not gemm.is_transposed).segments()
    kinds = [result.port.kind.data for result in epilogue.results]
    assert kinds.count(ResultKind.PARTIAL_ROW) == 1
    types = [type for type in forward.function_type.outputs if isa(type, AnyTensor)]
    assert all(type.get_shape()[-1] <= 96 for type in types[1:] if len(type.get_shape()) > 1)
    saved = [type.get_shape() for type in types[1:] if type.get_shape()[-1] >= 48]
    assert [shape[-1] for shape in saved] == [96]


class Biased(torch.nn.Module):
    """Experts of gpt-oss: with biases, and a gate in every other column."""

    def __init__(self) -> None:
        super().__init__()
        self.block = GptOssMLP(GptOssConfig(**SIZES, intermediate_size=48, num_local_experts=4))
        for parameter in self.block.parameters():
            torch.nn.init.normal_(parameter, std=0.2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.block(x)[0]


@cache
def exported_with_biases() -> tuple[torch.nn.Module, ExportedModel]:
    block = Biased().eval().bfloat16()
    x = torch.randn(2, 9, 64).bfloat16()
    return block, export(block, (x,), dynamic_shapes=({1: torch.export.Dim("T")},))


@pytest.mark.slow
def test_biases_are_read_by_group():
    """No row of a bias is selected, and the gate is in the epilogue of its projection."""
    _, found = exported_with_biases()
    up, down = grouped_gemms(found)
    (gated,), (scaled,) = up.segments(), down.segments()
    assert gated.pairing == PairingAttr.adjacent_columns()
    assert [kind for kind, _ in gated.ports] == [PortKind.GROUP_ROW]
    assert [kind for kind, _ in scaled.ports] == [PortKind.GROUP_ROW, PortKind.SCATTER_COL]
    assert [result.port.kind.data for result in gated.results] == [ResultKind.HALF]
    assert up.gather is not None and down.scatter is not None


def decided_tokens(router: Any, length: int) -> torch.Tensor:
    """Tokens (2 x length x 64) for which rounding does not change the experts that are chosen."""
    x = torch.randn(16 * length, 64).bfloat16()
    scores = torch.nn.functional.linear(x, router.weight, router.bias).sort(descending=True).values
    margins = scores[:, router.top_k - 1] - scores[:, router.top_k]
    return x[margins.topk(2 * length).indices].view(2, length, 64)


@pytest.mark.slow
def test_experts_with_biases_are_as_exact_as_eager():
    block, found = exported_with_biases()
    kernels = found.compile(device="cpu")
    for length in (1, 11):
        x = decided_tokens(block.get_submodule("block.router"), length)
        exact = run_function(find_entry(found.module), found.arguments(x), "float64")[0]
        result = cast(torch.Tensor, kernels(x))
        with torch.no_grad():
            eager = block(x)
        assert relative_error(result, exact) <= 1.25 * relative_error(eager, exact) + 1e-3


class AllExperts(torch.nn.Module):
    """Experts of Llama 4, which multiplies all tokens by all experts, and most of them by 0."""

    def __init__(self) -> None:
        super().__init__()
        sizes: dict[str, Any] = {**SIZES, "num_experts_per_tok": 1}
        config = Llama4TextConfig(**sizes, intermediate_size=48, num_local_experts=4)
        self.block = Llama4TextMoe(config)
        for parameter in self.parameters():
            torch.nn.init.normal_(parameter, std=0.2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.block(x)[0].view_as(x)


def test_rows_of_zeros_are_not_computed():
    """The experts that a token did not choose compute nothing for it; PyTorch runs no operator."""
    block, x = AllExperts().eval().bfloat16(), torch.randn(2, 9, 64).bfloat16()
    found = export(block, (x,))
    up, down = grouped_gemms(found)
    assert [kind for kind, _ in up.segments()[0].ports] == [PortKind.GATHER_COL]
    assert shape_of(up.outputs[0]) == (2 * 9, 48) and down.scatter is not None
    module = found.module.clone()
    CodaToGemmPass().apply(make_context(), module)
    assert not any(isinstance(op, CallOp) for op in module.walk())
    exact = run_function(find_entry(found.module), found.arguments(x), "float64")[0]
    kernels = found.compile(device="cpu")
    result = cast(torch.Tensor, kernels(x))
    assert torch.equal(result, cast(torch.Tensor, kernels(x)))
    with torch.no_grad():
        eager = block(x)
    assert relative_error(result, exact) <= 1.25 * relative_error(eager, exact) + 1e-3


@pytest.mark.slow
@daily(lambda name: name != "model")
@pytest.mark.parametrize("name", ["qwen3_moe", "model"])
def test_kernels_are_as_exact_as_eager(name: str):
    """Also of one token, whose experts have all rows of their groups."""
    model, found = exported(name)
    kernels = found.compile(device="cpu")
    for length in (1, 11):
        x = sample(name, length)
        exact = run_function(find_entry(found.module), found.arguments(x), "float64")[0]
        result = cast(torch.Tensor, kernels(x))
        with torch.no_grad():
            eager = model(x)
        assert relative_error(result, exact) <= 1.25 * relative_error(eager, exact) + 1e-3


class Layer(torch.nn.Module):
    """A layer from the projection after its attention."""

    def __init__(self):
        super().__init__()
        self.out = torch.nn.Linear(64, 64, bias=False)
        self.post_attention_layernorm = torch.nn.RMSNorm(64, eps=1e-5)
        self.mlp = BLOCKS["mixtral"]()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.out(x)
        return x + self.mlp(self.post_attention_layernorm(x))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_why_the_norm_before_experts_is_stored(dtype: torch.dtype):
    """Also in float32, in which transformers multiplies the rows of experts in its own operator."""
    model = Layer().eval().to(dtype)
    module = export(model, (torch.randn(2, 9, 64, dtype=dtype),)).module
    with collect_remarks() as remarks:
        CodaToGemmPass().apply(make_context(), module)
    reason = "a grouped GEMM (of experts) reads its rows"
    (norm,) = (r for r in remarks if r.kind == "missed" and reason in r.message)
    assert norm.module is not None and norm.module.endswith("post_attention_layernorm")
    assert norm.suggestion is not None and norm.suggestion.startswith("no action is needed: ")
