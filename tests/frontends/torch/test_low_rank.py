"""Low-rank adaptation (LoRA): x·W + s·((x·A)·B) is one GEMM, and so is its gradient.

What is frozen has no gradient, and the results are as exact as PyTorch eager's.
"""

import copy
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from support.examples import mean_errors
from support.torch_compile import compiled
from torch import nn
from xdsl.dialects.builtin import ModuleOp

from coda_ir.api import Lowering, find_entry
from coda_ir.context import make_context
from coda_ir.dialects.gemm import FusedOp, PortKind
from coda_ir.frontends.torch import export
from coda_ir.passes.pipelines.differentiate import DifferentiatePass
from coda_ir.signatures import signature_of

pytestmark = pytest.mark.usefixtures("fresh_dynamo")

WIDTH, HIDDEN, HEADS, RANK = 32, 48, 4, 4


class Adapted(nn.Module):
    """A frozen linear map, and what is added to it."""

    def __init__(self, inputs: int, outputs: int):
        super().__init__()
        self.base = nn.Linear(inputs, outputs, bias=False).requires_grad_(False)
        self.a = nn.Linear(inputs, RANK, bias=False)
        self.b = nn.Linear(RANK, outputs, bias=False)
        self.scale = 6 / RANK

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.base(x) + self.b(self.a(x)) * self.scale


class Block(nn.Module):
    """Attention and a gated network whose projections, but for that of the keys, are adapted."""

    def __init__(self, norm: type[nn.Module]):
        super().__init__()
        self.norm1, self.norm2 = (norm(WIDTH).requires_grad_(False) for _ in range(2))
        self.q, self.v, self.o = (Adapted(WIDTH, WIDTH) for _ in range(3))
        self.k = nn.Linear(WIDTH, WIDTH).requires_grad_(False)
        self.gate, self.up = Adapted(WIDTH, HIDDEN), Adapted(WIDTH, HIDDEN)
        self.down = Adapted(HIDDEN, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.norm1(x)
        q, k, v = (_heads(linear(h)) for linear in (self.q, self.k, self.v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.o(y.transpose(1, 2).flatten(2))
        h = self.norm2(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


def _heads(x: torch.Tensor) -> torch.Tensor:
    batch, length, _ = x.shape
    return x.view(batch, length, HEADS, -1).transpose(1, 2)


def gemms(module: ModuleOp, function: str) -> list[FusedOp]:
    """The GEMMs of rows with weights, not those of the gradients of weights."""
    func = find_entry(module, function)
    return [op for op in func.walk() if isinstance(op, FusedOp) and not op.is_transposed]


def stored_products(module: ModuleOp, function: str) -> list[str]:
    """The names of what one GEMM stores for the epilogue of another one."""
    return [
        str(port.value.name_hint)
        for op in gemms(module, function)
        for segment in op.segments()
        for port in segment.ports
        if port.kind == PortKind.TILE and isinstance(port.value.owner, FusedOp)
    ]


@pytest.mark.slow
def test_no_product_is_stored_to_be_added():
    model = Block(nn.RMSNorm).bfloat16()
    exported = export(model, (torch.randn(2, 5, WIDTH).bfloat16(),), name="block")
    names = {weight.data_ptr(): name for name, weight in exported.weights.items()}
    adapters = [p for p in model.parameters() if p.requires_grad]
    wrt = ("x", *(names[p.data_ptr()] for p in adapters))
    DifferentiatePass(function="block", wrt=wrt).apply(make_context(), exported.module)
    module = Lowering(exported.module).module("gemm")
    # The residual x1, and silu(gate) where up is computed.
    assert stored_products(module, "block") == ["silu", "add"]
    forward, backward = gemms(module, "block_forward"), gemms(module, "block_backward")
    assert sorted(len(op.inputs) for op in forward) == [1] * 4 + [2] * 6
    # Those of down and o, then gate and up together, and q, k and v together.
    assert sorted(len(op.inputs) for op in backward) == [1] * 6 + [2] * 2 + [4, 5]
    # What is frozen has no gradient.
    results = signature_of(find_entry(module, "block_backward")).results
    assert [spec.name for spec in results] == [f"d_{name}" for name in wrt]


def gradients(function: Any, model: nn.Module, x: torch.Tensor) -> list[torch.Tensor]:
    """The result, and the gradients of x and of the adapters."""
    x = x.clone().requires_grad_()
    y = function(x)
    wanted = [x, *(p for p in model.parameters() if p.requires_grad)]
    return [y.detach(), *torch.autograd.grad(y.square().sum(), wanted)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("norm", "dtype"), [(nn.RMSNorm, torch.bfloat16), (nn.LayerNorm, torch.float32)]
)
def test_as_exact_as_eager(norm: type[nn.Module], dtype: torch.dtype):
    model = Block(norm).to(dtype)
    wide, fast = copy.deepcopy(model).double(), compiled(model)
    inputs = [torch.randn(2, 9, WIDTH, dtype=dtype) for _ in range(8)]
    exact = [gradients(wide, wide, x.double()) for x in inputs]
    eager = mean_errors([gradients(model, model, x) for x in inputs], exact)
    found = mean_errors([gradients(fast, model, x) for x in inputs], exact)
    assert all(error <= 1.25 * bound for error, bound in zip(found, eager, strict=True))
