"""PyTorch's scaled products of float8, exported and compiled, against float64."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from support.torch_compile import compiled
from torch import nn

import coda_ir
from coda_ir.backends.reference import run_function
from coda_ir.dialects import coda
from coda_ir.dialects.torch import CallOp
from coda_ir.frontends.torch import export
from coda_ir.functions import find_entry
from coda_ir.lowering import Lowering

E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2

M, K, N = 37, 64, 48

ATEN: Any = torch.ops.aten


class Scaled(nn.Module):
    """silu(x · wᵀ scaled + bias) + residual, with the weight as torchao stores it: N x K."""

    def __init__(self, *, rowwise: bool, bias: bool, by: str = "_scaled_mm"):
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        shape = (1, N) if rowwise else ()
        self.weight = nn.Buffer(torch.randn(N, K, generator=generator).to(E4M3))
        self.scale = nn.Buffer(torch.rand(shape, generator=generator) + 0.5)
        self.bias = nn.Buffer(torch.randn(N, generator=generator).bfloat16()) if bias else None
        self.by = by

    def product(self, x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        weight, dtype = self.weight.t(), torch.bfloat16
        if self.by == "_scaled_mm":
            return ATEN._scaled_mm(x, weight, scale, self.scale, self.bias, out_dtype=dtype)
        recipe = [int(self.scale.ndim > 0)]
        return ATEN._scaled_mm_v2.default(
            *(x, weight, [scale], recipe, [0], [self.scale], recipe, [0], self.bias, dtype)
        )

    def forward(self, x: torch.Tensor, scale: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        return F.silu(self.product(x, scale)) + residual

    def exact(self, x: torch.Tensor, scale: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        product = x.double() @ self.weight.double().T * scale.double() * self.scale.double()
        if self.bias is not None:
            product += self.bias.double()
        return F.silu(product) + residual.double()


def arguments(model: Scaled, rows: int = M) -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(1)
    shape = (rows, 1) if model.scale.ndim else ()
    x = torch.randn(rows, K, generator=generator).to(E4M3)
    scale = torch.rand(shape, generator=generator) + 0.5
    return x, scale, torch.randn(rows, N, generator=generator).bfloat16()


def exported_model(model: nn.Module, inputs: tuple[torch.Tensor, ...]) -> coda_ir.ExportedModel:
    dim = torch.export.Dim("M")
    shapes: Any = tuple({0: dim} if tensor.ndim else None for tensor in inputs)
    return export(model, inputs, dynamic_shapes=shapes)


@pytest.mark.parametrize("by", ["_scaled_mm", "_scaled_mm_v2"])
@pytest.mark.parametrize("bias", [False, True], ids=["plain", "bias"])
@pytest.mark.parametrize("rowwise", [False, True], ids=["tensorwise", "rowwise"])
def test_scaled_mm(rowwise: bool, bias: bool, by: str):
    model = Scaled(rowwise=rowwise, bias=bias, by=by)
    inputs = arguments(model)
    exported = exported_model(model, inputs)
    lowering = Lowering(exported.module)
    ops = list(exported.module.walk())
    assert not [op for op in ops if isinstance(op, CallOp)]
    assert [op for op in ops if isinstance(op, coda.LinearOp)]
    func = find_entry(lowering.module("gemm"))
    names = [op.name for op in func.body.block.ops]
    assert [name for name in names if name != "coda.reshape"] == ["gemm.fused", "func.return"]
    (result,) = run_function(func, exported.arguments(*inputs), "stated")
    expected = model.exact(*inputs)
    torch.testing.assert_close(result.double(), expected, rtol=2**-7, atol=2**-6)


@pytest.mark.parametrize("rowwise", [False, True], ids=["tensorwise", "rowwise"])
@pytest.mark.usefixtures("fresh_dynamo", "no_gradients")
def test_compiled(rowwise: bool):
    """A compiled product with its epilogue is as exact as PyTorch's."""
    model = Scaled(rowwise=rowwise, bias=True)
    inputs = arguments(model)
    eager, result = model(*inputs), compiled(model, target="triton")(*inputs)
    exact = model.exact(*inputs)
    assert result.dtype == eager.dtype
    assert (result.double() - exact).norm() <= 1.05 * (eager.double() - exact).norm()


class Quantized(nn.Module):
    """torchao's rowwise training: abs, amax, div, clamp, float8, product; for two layers."""

    def __init__(self):
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.up = nn.Buffer(torch.randn(N, K, generator=generator).to(E4M3))
        self.down = nn.Buffer(torch.randn(K, N, generator=generator).to(E5M2))
        self.up_scale = nn.Buffer(torch.rand(1, N, generator=generator) / K)
        self.down_scale = nn.Buffer(torch.rand(1, K, generator=generator) / N)

    def layer(self, x: torch.Tensor, w: torch.Tensor, w_scale: torch.Tensor) -> torch.Tensor:
        scale = (x.abs().amax(-1, keepdim=True).float() / 448).clamp(min=1e-12)
        q = (x.float() / scale).clamp(-448, 448).to(E4M3)
        return ATEN._scaled_mm(
            q, w.t(), scale, w_scale, out_dtype=torch.bfloat16, use_fast_accum=True
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = F.gelu(self.layer(x, self.up, self.up_scale))
        return x + self.layer(hidden, self.down, self.down_scale)


@pytest.mark.slow
def test_quantized_layers():
    """Quantization fuses around the products: no call of PyTorch is left."""
    model = Quantized()
    x = torch.randn(M, K, generator=torch.Generator().manual_seed(2)).bfloat16()
    exported = exported_model(model, (x,))
    lowering = Lowering(exported.module)
    names = [op.name for op in find_entry(lowering.module("gemm")).body.block.ops]
    assert names.count("gemm.fused") == 2 and "torch.call" not in names
    program = exported.compile(device="cpu")
    with torch.no_grad():
        eager = model(x)
    torch.testing.assert_close(program(x), eager, rtol=0.05, atol=0.05)


class Blocks(nn.Module):
    def forward(self, x: torch.Tensor, w: torch.Tensor, s: torch.Tensor) -> torch.Tensor:
        return ATEN._scaled_mm(x, w.t(), s, s, scale_result=s, out_dtype=torch.bfloat16)


def test_other_scales_are_left_to_pytorch():
    x, w, s = torch.randn(16, 32).to(E4M3), torch.randn(16, 32).to(E4M3), torch.tensor(0.5)
    exported = export(Blocks(), (x, w, s))
    assert [op for op in exported.module.walk() if isinstance(op, CallOp)]


class ScaledBlocks(nn.Module):
    """Blocks of 1 x 128 and of 128 x 128, whose scales are padded to fours as cuBLAS wants."""

    def __init__(self, k: int):
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.k = k
        self.weight = nn.Buffer(torch.randn(256, k, generator=generator).to(E4M3))
        self.scale = nn.Buffer(torch.rand(2, -(-k // 512) * 4, generator=generator) + 0.5)
        self.bias = nn.Buffer(torch.randn(256, generator=generator).bfloat16())

    def forward(self, x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        operands = (x, self.weight.t(), [scale], [4], [0], [self.scale.t()], [5], [0])
        return F.silu(ATEN._scaled_mm_v2.default(*operands, self.bias, torch.bfloat16))

    def exact(self, x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        rows = self.scale.repeat_interleave(128, 0)
        of_x, of_weight = (
            tensor.double() * scales.double().repeat_interleave(128, 1)[:, : self.k]
            for tensor, scales in ((x, scale), (self.weight, rows))
        )
        return F.silu(of_x @ of_weight.T + self.bias.double())


@pytest.mark.parametrize("k", [512, 640])
def test_scales_of_blocks(k: int):
    model = ScaledBlocks(k)
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(M, k, generator=generator).to(E4M3)
    # The scales of a column lie next to each other.
    scale = (torch.rand(k // 128, M, generator=generator) + 0.5).t()
    exported = exported_model(model, (x, scale))
    ops = list(exported.module.walk())
    assert not [op for op in ops if isinstance(op, CallOp)]
    assert [op for op in ops if isinstance(op, coda.ScaledLinearOp)]
    func = find_entry(Lowering(exported.module).module("gemm"))
    (gemm,) = [op for op in func.body.block.ops if op.name == "gemm.fused"]
    assert "blocks" in gemm.properties
    (result,) = run_function(func, exported.arguments(x, scale), "stated")
    torch.testing.assert_close(result.double(), model.exact(x, scale), rtol=2**-7, atol=2**-6)
