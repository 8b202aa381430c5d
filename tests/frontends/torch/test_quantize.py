"""`coda_ir.quantize`: models in float8, exported and compiled, against float64."""

import copy
import warnings
from functools import cache
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from support.device import DEVICE
from support.torch_compile import compiled
from torch import nn

import coda_ir
from coda_ir.backends.reference import run_function
from coda_ir.dialects import coda
from coda_ir.dialects.torch import CallOp
from coda_ir.float64 import relative_error
from coda_ir.frontends.torch.low_bit_layers import LowBitLinear, WeightScheme
from coda_ir.frontends.torch.quantize import NotQuantizedWarning
from coda_ir.frontends.torch.scaled_layers import (
    BLOCKS,
    FLOAT8,
    ROWWISE,
    ScaledLinear,
    Scheme,
    dequantized,
    quantized,
    quantized_weight,
)
from coda_ir.functions import find_entry
from coda_ir.lowering import Lowering

SCHEMES = {"rowwise": ROWWISE, "blocks": BLOCKS}
RECIPES = pytest.mark.parametrize("recipe", SCHEMES)
pytestmark = pytest.mark.usefixtures("no_gradients")


class Layer(nn.Module):
    """A Llama layer from one attention to the next."""

    def __init__(self, d: int = 128, f: int = 256, head: int = 64):
        super().__init__()
        torch.default_generator.manual_seed(0)
        self.d, self.pairs = d, head // 2
        self.o, self.gate, self.up, self.down, self.q = (
            nn.Linear(k, n, bias=k == n, dtype=torch.bfloat16)
            for k, n in ((d, d), (d, f), (d, f), (f, d), (d, d))
        )
        self.norms = nn.Buffer(1 + torch.randn(2, d).bfloat16() / 10)

    def rope(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        heads = x.reshape(*x.shape[:-1], -1, 2 * self.pairs)
        a, b = heads[..., : self.pairs], heads[..., self.pairs :]
        cos, sin = cos[:, None], sin[:, None]
        return torch.cat((a * cos - b * sin, b * cos + a * sin), -1).flatten(-2)

    def forward(
        self, y: torch.Tensor, x0: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        x1 = x0 + self.o(y)
        h = F.rms_norm(x1, (self.d,), self.norms[0], 1e-5)
        x2 = x1 + self.down(F.silu(self.gate(h)) * self.up(h))
        h = F.rms_norm(x2, (self.d,), self.norms[1], 1e-5)
        return x2, self.rope(self.q(h), cos, sin)


def inputs(layer: Layer, time: int = 19) -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(1)
    y, x0 = torch.randn(2, 2, time, layer.d, generator=generator).bfloat16()
    angles = torch.rand(time, layer.pairs, generator=generator) * 6
    return y, x0, angles.cos().bfloat16(), angles.sin().bfloat16()


def exact(layer: Layer, tensors: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
    wide = copy.deepcopy(layer).double()
    return wide(*(tensor.double() for tensor in tensors))


@pytest.mark.slow
@pytest.mark.any_device
@RECIPES
def test_layer(recipe: str) -> None:
    """The emitted kernels of a layer, whose errors are those of rounding operands to float8."""
    layer = Layer()
    tensors = inputs(layer)
    expected = exact(layer, tensors)
    model = coda_ir.quantize(layer, recipe)
    time = torch.export.Dim("T")
    shapes: Any = ({1: time}, {1: time}, {0: time}, {0: time})
    exported = coda_ir.export(model, tensors, dynamic_shapes=shapes)
    assert not [op for op in exported.module.walk() if isinstance(op, CallOp)]
    eager = model(*tensors)
    results = exported.to(DEVICE).compile()(*(tensor.to(DEVICE) for tensor in tensors))
    for result, plain, reference in zip(results, eager, expected, strict=True):
        # 25 dB, the bound of torchao's tests for a product.
        assert relative_error(result.cpu(), reference) <= 10 ** (-25 / 20)
        assert relative_error(result.cpu(), reference) <= 1.1 * relative_error(plain, reference)


@cache
def exported_layer(recipe: str, d: int = 128) -> tuple[Layer, coda_ir.ExportedModel]:
    layer = coda_ir.quantize(Layer(d), recipe)
    return layer, coda_ir.export(layer, inputs(layer))


KERNELS = {
    ("rowwise", 128): (2, "map fused map fused"),
    ("rowwise", 256): (4, "map map map map"),
    ("blocks", 128): (1, "map fused fused fused"),
    ("blocks", 256): (3, "map map fused map"),
}
"""The number of pointwise kernels, and what stores float8, by recipe and columns."""


@pytest.mark.slow
@pytest.mark.parametrize(("recipe", "d"), KERNELS)
def test_kernels(recipe: str, d: int) -> None:
    """Epilogues store float8 where a tile has whole rows, of 128 columns; with scales of blocks
    that of the gated network does, too. No kernel reads rows twice.
    """
    func = find_entry(Lowering(exported_layer(recipe, d)[1].module).module("gemm"))
    names = [op.name for op in func.body.block.ops]
    storing = [
        op.name.removeprefix("gemm.")
        for op in func.body.block.ops
        if any("f8E4M3FN" in str(t) for t in op.result_types)
    ]
    assert names.count("gemm.fused") == 4
    assert (names.count("gemm.map"), " ".join(storing)) == KERNELS[recipe, d]


@pytest.mark.slow
@RECIPES
@pytest.mark.usefixtures("fresh_dynamo")
def test_compiled(recipe: str) -> None:
    layer, exported = exported_layer(recipe)
    tensors = inputs(layer)
    func = find_entry(exported.module)
    expected = run_function(func, exported.arguments(*tensors), "stated")
    for result, reference in zip(compiled(layer)(*tensors), expected, strict=True):
        assert relative_error(result, reference) <= 0.02


@pytest.mark.slow
@pytest.mark.any_device
@pytest.mark.parametrize(
    ("k", "scheme"),
    [(256, BLOCKS), (256, ROWWISE), (192, Scheme(64, 32)), (128, Scheme(None, 40))],
    ids=["blocks", "rowwise", "small blocks", "whole weight"],
)
def test_product(k: int, scheme: Scheme) -> None:
    """Beside the exact product of what is quantized, the error is that of rounding to bfloat16."""
    generator = torch.Generator().manual_seed(2)
    weight, bias = torch.randn(40, k, generator=generator), torch.randn(40, generator=generator)
    x = torch.randn(3, 9, k, generator=generator).bfloat16()
    elements, scales = quantized_weight(weight, scheme)
    layer = ScaledLinear(elements, scales, bias.bfloat16(), scheme)
    exported = coda_ir.export(layer, (x,))
    assert not [op for op in exported.module.walk() if isinstance(op, CallOp)]
    result = exported.to(DEVICE).compile()(x.to(DEVICE))
    depth = scheme.depth_of(k)
    q, x_scales = quantized(x, depth)
    operands = (
        dequantized(q, x_scales, 1, depth),
        dequantized(elements, scales, scheme.columns, depth),
    )
    wide = F.linear(operands[0].double(), operands[1].double()) + bias.bfloat16().double()
    bound = 1.1 * relative_error(wide.bfloat16(), wide)
    assert relative_error(result.cpu(), wide) <= bound
    assert relative_error(layer(x), wide) <= bound


@pytest.mark.parametrize("recipe", ["int4", "rowwise", "all_blocks"])
def test_autocast_does_not_round_operands(recipe: str) -> None:
    model = nn.Sequential(nn.Linear(256, 40, bias=False))
    layer = coda_ir.quantize(model, recipe, training=recipe.startswith("all"))
    x = torch.randn(3, 256).bfloat16()
    with torch.autocast("cpu", torch.bfloat16):
        found = layer(x)
    assert torch.equal(found, layer(x))


def test_zeros_and_nan() -> None:
    """A block of zeros has a scale, and NaN stays in its row."""
    x = torch.zeros(3, 256)
    x[1, 5] = torch.nan
    q, scales = quantized(x, 128)
    assert torch.equal(q[0].float(), torch.zeros(256)) and (scales[0] > 0).all()
    layer = ScaledLinear.of(nn.Linear(256, 16, bias=False), BLOCKS)
    y = coda_ir.export(layer, (x,)).compile(target="reference", device="cpu")(x)
    assert torch.equal(y.isnan(), torch.tensor([[False], [True], [False]]).expand(3, 16))


def test_weight_of_any_size() -> None:
    """The last rows of a weight are a smaller block."""
    weight = torch.randn(200, 256, generator=torch.Generator().manual_seed(3))
    elements, scales = quantized_weight(weight, BLOCKS)
    assert elements.shape == weight.shape and elements.dtype == FLOAT8
    assert scales.shape == (2, 2)
    assert relative_error(dequantized(elements, scales, 128, 128), weight.double()) <= 0.04


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.narrow = nn.Embedding(24, 128), nn.Linear(128, 96)
        self.wide, self.lm_head = nn.Linear(96, 128), nn.Linear(128, 24, bias=False)
        self.head = nn.Linear(128, 24, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        h = self.wide(self.narrow(self.embed(ids)))
        return self.head(h) + self.lm_head(h)


def test_which_layers() -> None:
    """Those with whole blocks and a weight of their own, without those to skip: `lm_head`."""
    with pytest.warns(NotQuantizedWarning) as found:
        model = coda_ir.quantize(Tied(), "blocks")
    left = "wide (K = 96, N = 128), head (its weight is shared)"
    message = f"recipe 'blocks': layers that are left unchanged: {left}"
    assert [str(each.message) for each in found] == [message]
    kinds = {name: type(each) for name, each in model.named_children()}
    assert kinds["narrow"] is ScaledLinear
    assert {kinds[name] for name in ("wide", "head", "lm_head")} == {nn.Linear}
    assert model.head.weight is model.embed.weight
    assert set(model.narrow.state_dict()) == {"weight", "weight_scale_inv", "bias"}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        linear = nn.ModuleDict({"lm_head": nn.Linear(96, 8)})
        assert coda_ir.quantize(linear, "rowwise", skip=())["lm_head"].weight.dtype == FLOAT8


@pytest.mark.parametrize(
    ("model", "recipe", "message"),
    [
        (nn.Sequential(), "int3", "unknown recipe 'int3'"),
        (nn.Linear(128, 128), "blocks", "the model is a single linear layer"),
        (nn.Linear, "blocks", "the model is"),
    ],
)
def test_mistakes(model: Any, recipe: str, message: str) -> None:
    with pytest.raises(coda_ir.CodaError, match=message):
        coda_ir.quantize(model, recipe)


def test_blocks_without_an_operator() -> None:
    """Scales of 96 elements are no blocks of the IR: PyTorch multiplies."""
    scheme, weight = Scheme(96, 32), torch.randn(32, 192)
    layer = ScaledLinear(*quantized_weight(weight, scheme), None, scheme)
    x = torch.randn(5, 192)
    exported = coda_ir.export(layer, (x,))
    (call,) = [op for op in exported.module.walk() if isinstance(op, CallOp)]
    assert call.callee.data == "coda_ir.scaled_linear.default"
    assert not [op for op in exported.module.walk() if isinstance(op, coda.ScaledLinearOp)]
    y = exported.compile(target="reference", device="cpu")(x)
    torch.testing.assert_close(y, layer(x))


WEIGHT_RECIPES: dict[str, dict[str, Any]] = {
    "int4": {},
    "int4 without zero points": {"zero_points": False, "group": 64},
    "int8": {},
    "int8 in groups": {"group": 32, "zero_points": True},
    "float8": {},
    "float8 in groups": {"group": 128},
}


def of_weights(layer: Layer, name: str) -> Layer:
    return coda_ir.quantize(layer, name.split()[0], **WEIGHT_RECIPES[name])


def with_exact_weights(layer: Layer) -> Layer:
    """The layer in float64, with the weights that quantized ones stand for."""
    wide = Layer().double()
    for name, module in layer.named_children():
        assert isinstance(module, LowBitLinear)
        linear: Any = wide.get_submodule(name)
        linear.weight = nn.Parameter(exact_weight(module))
        linear.bias = None if module.bias is None else nn.Parameter(module.bias.double())
    return wide


def exact_weight(module: LowBitLinear) -> torch.Tensor:
    return module.dequantized().double()


@pytest.mark.slow
@pytest.mark.any_device
@pytest.mark.parametrize("name", WEIGHT_RECIPES)
def test_layer_with_weights_of_few_bits(name: str) -> None:
    """Beside the exact layer of what is quantized, the error is that of rounding to bfloat16."""
    layer = of_weights(Layer(), name)
    tensors = inputs(layer)
    exported = coda_ir.export(layer, tensors)
    assert not [op for op in exported.module.walk() if isinstance(op, CallOp)]
    results = exported.to(DEVICE).compile()(*(tensor.to(DEVICE) for tensor in tensors))
    expected = with_exact_weights(layer)(*(tensor.double() for tensor in tensors))
    for result, plain, reference in zip(results, layer(*tensors), expected, strict=True):
        assert relative_error(result.cpu(), reference) <= 6e-3
        assert relative_error(plain, reference) <= 8e-3


@pytest.mark.slow
@pytest.mark.parametrize("name", ["int4", "int8", "int8 in groups"])
@pytest.mark.usefixtures("fresh_dynamo")
def test_compiled_with_weights_of_few_bits(name: str) -> None:
    layer = of_weights(Layer(), name)
    tensors = inputs(layer)
    for result, reference in zip(compiled(layer)(*tensors), layer(*tensors), strict=True):
        assert relative_error(result, reference) <= 8e-3


@pytest.mark.parametrize(("bits", "bound"), [(4, 1 / 15), (8, 1 / 255)])
@pytest.mark.parametrize("has_zeros", [True, False])
def test_rounding_to_few_bits(bits: int, bound: float, has_zeros: bool) -> None:
    """An element differs by half of the step of its group, which spans the group's range."""
    scheme = WeightScheme("int4" if bits == 4 else "int8", 32, has_zeros)
    linear = nn.Linear(72, 40, bias=False)
    layer = LowBitLinear.of(linear, scheme)
    wide, found = linear.weight.detach().double(), exact_weight(layer)
    groups = F.pad(wide, (0, 24)).view(40, 3, 32)
    spans = groups.amax(-1).clamp(min=0) - groups.amin(-1).clamp(max=0)
    spans = spans if has_zeros else 2 * groups.abs().amax(-1) * 15 / 14
    limits = spans.repeat_interleave(32, 1)[:, :72] * bound * (0.51 if has_zeros else 0.52)
    # A zero point is rounded, so that the ends of the range move by half a step.
    assert ((wide - found).abs() <= 2 * limits).all()
    assert ((wide - found).abs() <= limits).double().mean() > 0.95


def test_gradients_are_refused() -> None:
    """A weight in words has no product along N."""
    layer = of_weights(Layer(), "int4").gate
    x = torch.randn(3, 128, dtype=torch.bfloat16, requires_grad=True)
    with torch.enable_grad(), pytest.raises((coda_ir.CodaError, RuntimeError)):
        layer(x).sum().backward()


@pytest.mark.parametrize(
    ("recipe", "options", "message"),
    [
        ("blocks", {"group": 64}, "the recipe 'blocks' has no option group"),
        ("int4", {"group": 48}, "group is 48"),
        ("float8", {"zero_points": True}, "the recipe 'float8' has no option zero_points"),
    ],
)
def test_options_that_a_recipe_has_not(recipe: str, options: Any, message: str) -> None:
    with pytest.raises(coda_ir.CodaError, match=message):
        coda_ir.quantize(Layer(), recipe, **options)
