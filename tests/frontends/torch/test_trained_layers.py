"""`coda_ir.quantize(training=True)` and `quantized_linear`: results and gradients of emitted
kernels against float64.
"""

import copy
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from support.device import DEVICE
from support.torch_compile import compiled
from torch import nn

import coda_ir
from coda_ir.float64 import relative_error
from coda_ir.frontends.torch.quantize import NotQuantizedWarning
from coda_ir.frontends.torch.scaled_layers import (
    ALL_BLOCKS,
    ALL_ROWWISE,
    BLOCKS,
    ROWWISE,
    QuantizedLinear,
    dequantized,
    quantized,
    quantized_weight,
)
from coda_ir.remarks import collect_remarks

SCHEMES = {
    "rowwise": ROWWISE,
    "blocks": BLOCKS,
    "all_rowwise": ALL_ROWWISE,
    "all_blocks": ALL_BLOCKS,
}
RECIPES = pytest.mark.parametrize("recipe", SCHEMES)
PRODUCT, OUTPUT, GRADIENT = (10 ** (-decibels / 20) for decibels in (25, 18, 17))
"""The bounds of torchao's tests, as relative errors."""


class Network(nn.Module):
    """A gated network after a norm."""

    def __init__(self, d: int = 128, f: int = 256):
        super().__init__()
        torch.default_generator.manual_seed(0)
        self.norm = nn.RMSNorm(d, eps=1e-5)
        self.gate, self.up, self.down = (
            nn.Linear(k, n, bias=n == f) for k, n in ((d, f), (d, f), (f, d))
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.norm(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


def gradients(
    model: nn.Module, call: Any, x: torch.Tensor, dy: torch.Tensor
) -> dict[str, torch.Tensor]:
    """The result, and the gradients of x and of the parameters."""
    x = x.detach().requires_grad_()
    parameters: dict[str, torch.Tensor] = dict(model.named_parameters())
    y = call(x)
    found = torch.autograd.grad(y, [x, *parameters.values()], dy.to(y.dtype))
    return {"y": y.detach(), **dict(zip(("x", *parameters), found, strict=True))}


@pytest.mark.slow
@pytest.mark.any_device
@RECIPES
@pytest.mark.parametrize("master", [torch.bfloat16, torch.float32], ids=["bf16", "f32"])
@pytest.mark.usefixtures("fresh_dynamo")
def test_network(recipe: str, master: torch.dtype) -> None:
    """The errors are those of rounding operands to float8, also with float32 weights under
    autocast.
    """
    plain = Network().to(DEVICE, master)
    generator = torch.Generator().manual_seed(1)
    x, dy = torch.randn(2, 2, 19, 128, generator=generator).bfloat16().to(DEVICE, master)
    wide = copy.deepcopy(plain).double()
    exact = gradients(wide, wide, x.double(), dy.double())
    model = coda_ir.quantize(plain, recipe, training=True)
    with torch.autocast(DEVICE, torch.bfloat16, enabled=master == torch.float32):
        eager = gradients(model, model, x, dy)
        found = gradients(model, compiled(model, target="auto"), x, dy)
    for name, value in found.items():
        error = relative_error(value, exact[name])
        assert value.dtype == eager[name].dtype == master
        assert error <= (OUTPUT if name == "y" else GRADIENT), name
        assert error <= 1.1 * relative_error(eager[name], exact[name]), name


def exactly(x: torch.Tensor, weight: torch.Tensor, recipe: str) -> torch.Tensor:
    """The product of what is quantized, in float64."""
    scheme, missing = SCHEMES[recipe], 0
    if scheme.depth is not None:
        missing = -x.shape[-1] % 128
    x, weight = F.pad(x, (0, missing)), F.pad(weight, (0, missing))
    depth = scheme.depth_of(x.shape[-1])
    operands = (
        dequantized(*quantized(x, depth), 1, depth),
        dequantized(*quantized_weight(weight, scheme), scheme.columns, depth),
    )
    return F.linear(*(operand.double() for operand in operands))


@pytest.mark.slow
@pytest.mark.any_device
@RECIPES
@pytest.mark.parametrize(("k", "n"), [(256, 384), (192, 200), (40, 72)])
def test_product(recipe: str, k: int, n: int) -> None:
    """Beside the product of what is quantized, the errors of y and dx are those of rounding to
    bfloat16, and that of dW is one of float32.
    """
    is_all, rows = SCHEMES[recipe].is_all, "B, T"
    if is_all:
        rows = "3, 9"
    program = f"""
    fn layer(x: bf16[{rows}, {k}], weight w: f32[{n}, {k}]) -> bf16[{rows}, {n}] {{
        return quantized_linear(x, w, recipe="{recipe}")
    }}
    """
    layer = coda_ir.compile(program, training=True, device=DEVICE)
    generator = torch.Generator().manual_seed(k)
    x = torch.randn(3, 9, k, generator=generator).bfloat16()
    dy = torch.randn(3, 9, n, generator=generator).bfloat16()
    w = torch.randn(n, k, generator=generator)
    leaves = [tensor.clone().to(DEVICE).requires_grad_() for tensor in (x, w)]
    y = layer(x=leaves[0], w=leaves[1])
    found = [y, *torch.autograd.grad(y, leaves, dy.to(DEVICE))]
    columns = dy.flatten(0, -2).t(), x.flatten(0, -2).t()
    wide = F.linear(columns[0].double(), columns[1].double())
    gradient = exactly(*columns, recipe) if is_all else wide
    products = (exactly(x, w, recipe), exactly(dy, w.t(), recipe))
    for value, product in zip(found[:2], products, strict=True):
        bound = 1.1 * relative_error(product.bfloat16(), product)
        assert relative_error(value.detach().cpu(), product) <= bound
    assert found[2].dtype == torch.float32
    assert relative_error(found[2].cpu(), gradient) <= 1e-6
    whole = (F.linear(x.double(), w.double()), dy.double() @ w.double(), wide)
    for value, product in zip(found, whole, strict=True):
        assert relative_error(value.detach().cpu(), product) <= PRODUCT


def test_parameters_stay() -> None:
    """An optimizer that was made before keeps its parameters, and checkpoints their names."""
    model = Network()
    before, names = list(model.parameters()), set(model.state_dict())
    assert coda_ir.quantize(model, "rowwise", training=True) is model
    assert all(a is b for a, b in zip(model.parameters(), before, strict=True))
    assert set(model.state_dict()) == names
    assert all(type(layer) is QuantizedLinear for layer in (model.gate, model.up, model.down))
    optimizer: Any = torch.optim.SGD(before, lr=0.1)
    weight = model.gate.weight.detach().clone()
    model(torch.randn(3, 128)).square().mean().backward()
    optimizer.step()
    assert not torch.equal(model.gate.weight, weight)


def test_frozen_weight() -> None:
    """Only the gradient that is wanted is computed."""
    layer = QuantizedLinear.of(nn.Linear(128, 64), ROWWISE).requires_grad_(False)
    x = torch.randn(5, 128, requires_grad=True)
    layer(x).sum().backward()
    assert x.grad is not None and layer.weight.grad is None


def test_unknown_rows() -> None:
    """Without a number of rows, the gradient of the weight stays a product of bfloat16."""
    program = """
    fn layer(x: bf16[M, 32], weight w: bf16[64, 32]) {
        return quantized_linear(x, w, recipe="all_rowwise")
    }
    """
    with collect_remarks() as remarks:
        function = coda_ir.compile(program, training=True, device="cpu", target="reference")
        backward = function.pair().backward.ir("gemm")
    assert "gemm.fused transposed" in backward
    (refusal,) = (each for each in remarks if each.pass_name == "derive-gradient")
    assert refusal.condition == "the number of rows of x is known"


def test_recipe_of_training() -> None:
    with pytest.raises(coda_ir.CodaError, match="'all_blocks' is a recipe for training"):
        coda_ir.quantize(Network(), "all_blocks")


def test_which_layers() -> None:
    with pytest.warns(NotQuantizedWarning, match=r"0 \(K = 96, N = 128\)"):
        model = coda_ir.quantize(nn.Sequential(nn.Linear(96, 128)), "blocks", training=True)
    assert type(model[0]) is nn.Linear


@pytest.mark.usefixtures("fresh_dynamo")
def test_no_call_of_pytorch() -> None:
    """Forward and backward are kernels: gradients of inputs multiply float8, others bfloat16."""
    program = """
    fn layer(x: bf16[M, 256], weight w: bf16[384, 256]) -> bf16[M, 384] {
        return silu(quantized_linear(x, w))
    }
    """
    function = coda_ir.compile(program, training=True, device="cpu", target="reference")
    function.prepare()
    forward, backward = function.ir("gemm").split("func.func")[1:]
    assert forward.count("gemm.fused") == 1 and "f8E4M3FN" in forward
    assert backward.count("gemm.fused") == 2 and "gemm.fused transposed" in backward
    assert "torch.call" not in forward + backward
