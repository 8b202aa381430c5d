"""The layer between two attentions in float8: quantized modules, and cuBLAS GEMMs."""

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from harness import torch_compile
from llama_layer import (
    EPS,
    PROGRAM,
    Layer,
    LayerShape,
    Tensors,
    forward_operands,
    pack,
    rotated,
    torch_layer,
)
from torch import nn

import coda_ir
from coda_ir.frontends.torch.scaled_layers import (
    BLOCKS,
    ROWWISE,
    Scheme,
    quantized,
    quantized_weight,
)

RECIPES: dict[str, Scheme] = {"rowwise": ROWWISE, "blocks": BLOCKS}
TRAINED_RECIPES = (*RECIPES, "all_rowwise", "all_blocks")

_ATEN: Any = torch.ops.aten  # has no complete types
_OF_X, _OF_WEIGHT = [4], [5]
"""The numbers in `_scaled_mm_v2` of scales of 1 x 128 elements, and of 128 x 128."""


WEIGHTS = ("wo", "w_gate", "w_up", "w_down", "wq", "wk", "wv")


def _linear(weight: torch.Tensor) -> nn.Linear:
    linear = nn.Linear(*weight.shape[::-1], bias=False, device="meta")
    linear.weight = nn.Parameter(weight)
    return linear


class LlamaLayer(nn.Module):
    """The layer as a module of linear layers, which `coda_ir.quantize` finds."""

    def __init__(self, inputs: Tensors):
        super().__init__()
        self.wo, self.w_gate, self.w_up, self.w_down, self.wq, self.wk, self.wv = (
            _linear(inputs[name]) for name in WEIGHTS
        )
        self.norm1, self.norm2 = nn.Buffer(inputs["norm1"]), nn.Buffer(inputs["norm2"])
        self.d = inputs["x0"].shape[-1]

    def forward(
        self, y: torch.Tensor, x0: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        x1 = x0 + self.wo(y)
        h = F.rms_norm(x1, (self.d,), self.norm1, EPS)
        x2 = x1 + self.w_down(F.silu(self.w_gate(h)) * self.w_up(h))
        h = F.rms_norm(x2, (self.d,), self.norm2, EPS)
        q, k = (rotated(each(h), cos, sin) for each in (self.wq, self.wk))
        return x2, q, k, self.wv(h)


def float8_layer(inputs: Tensors, recipe: str) -> Callable[[], Sequence[torch.Tensor]]:
    """Return the layer, quantized, exported and compiled by coda."""
    tables = {name: inputs[name].to(inputs["y"].dtype) for name in ("cos", "sin")}
    arguments = (inputs["y"], inputs["x0"], tables["cos"], tables["sin"])
    model = coda_ir.quantize(LlamaLayer(inputs), recipe)
    compiled = coda_ir.export(model, arguments).compile(device=inputs["y"].device)
    return lambda: compiled(*arguments)


class _Scaled(nn.Module):
    """A linear layer by `torch._scaled_mm`, quantized by rows like torchao's recipe `rowwise`."""

    def __init__(self, weight: torch.Tensor, *, fast: bool):
        super().__init__()
        elements, scales = quantized_weight(weight, ROWWISE)
        self.weight, self.scales, self.fast = nn.Buffer(elements), nn.Buffer(scales.t()), fast

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, scales = quantized(x.flatten(0, -2), x.shape[-1])
        product = _ATEN._scaled_mm(
            *(q, self.weight.t(), scales, self.scales), out_dtype=x.dtype, use_fast_accum=self.fast
        )
        return product.unflatten(0, x.shape[:-1])


def inductor_layer(inputs: Tensors, *, fast: bool) -> Callable[[], Sequence[torch.Tensor]]:
    """Return the layer with packed weights and `torch._scaled_mm`, compiled by torch.compile."""
    packed = pack(inputs)
    scaled: dict[str, Any] = {
        name: _Scaled(w, fast=fast) for name, w in packed.items() if name.startswith("w")
    }

    def layer(t: Tensors) -> tuple[torch.Tensor, ...]:
        return torch_layer(t | scaled, linear=_called)

    compiled = torch_compile(layer, dynamic=False)

    def forward() -> Sequence[torch.Tensor]:
        with torch.no_grad():
            return compiled(packed)

    return forward


def _called(x: torch.Tensor, layer: Any) -> torch.Tensor:
    return layer(x)


class _Trained(torch.autograd.Function):
    """A product by `torch._scaled_mm`, forward and for the gradient of x, like torchao's recipe
    `rowwise`; the weight gradient is computed in bf16, like in `rowwise_with_gw_hp`, unless it is
    a product of float8, too.
    """

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weight: torch.Tensor, is_all: bool) -> torch.Tensor:
        ctx.save_for_backward(x, weight)
        ctx.is_all = is_all
        return _by_rows(x, weight)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        (dy,), (x, weight) = gradients, ctx.saved_tensors
        columns = dy.flatten(0, -2).t(), x.flatten(0, -2).t()
        dw = _by_rows(*columns) if ctx.is_all else columns[0] @ columns[1].t()
        return _by_rows(dy, weight.t()), dw, None


def _by_rows(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    q, of_x = quantized(x.flatten(0, -2), x.shape[-1])
    elements, of_weight = quantized(weight, weight.shape[-1])
    scales = (of_x, of_weight.t())
    columns = elements.contiguous().t()
    product = _ATEN._scaled_mm(
        q.contiguous(), columns, *scales, out_dtype=x.dtype, use_fast_accum=False
    )
    return product.unflatten(0, x.shape[:-1])


def trained_layer(*, is_all: bool) -> Layer:
    """Return the trainable layer on packed weights, compiled, with `torch._scaled_mm` products."""
    function: Any = _Trained  # has no complete types

    def linear(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return function.apply(x, weight, is_all)

    return torch_compile(partial(torch_layer, linear=linear), dynamic=False)


def float8_program(recipe: str, shape: LayerShape) -> str:
    """Return the program of the layer, whose linear layers quantize their operands.

    Gradients of weights need a known number of rows, which the program states for all recipes.
    """
    quantized = rf'quantized_linear(\1, recipe="{recipe}")'
    text = re.sub(r"\blinear\(([^()]*)\)", quantized, PROGRAM.read_text())
    text = text.replace("[B, T,", f"[{shape.batch}, {shape.time},")
    return text.replace("[T,", f"[{shape.time},")


def float8_gemms(packed: Tensors, shape: LayerShape, recipe: str) -> Callable[[], object]:
    """Return cuBLAS's four GEMMs of the forward in float8 with scales and promoted sums."""
    calls = [_product(a, w, recipe) for a, w in forward_operands(packed, shape)]
    return lambda: [call() for call in calls]


def _product(a: torch.Tensor, w: torch.Tensor, recipe: str) -> Callable[[], object]:
    scheme = RECIPES[recipe]
    x, of_x = quantized(a, scheme.depth_of(a.shape[-1]))
    weight, of_weight = quantized_weight(w, scheme)
    if recipe == "rowwise":
        scales = (of_x, of_weight.t())
        return lambda: _ATEN._scaled_mm(x, weight.t(), *scales, out_dtype=a.dtype)
    # cuBLAS wants the scales of a column of x side by side, and those of a weight in fours.
    of_x = of_x.t().contiguous().t()
    of_weight = F.pad(of_weight, (0, -of_weight.shape[1] % 4)).t()
    return lambda: _ATEN._scaled_mm_v2.default(
        *(x, weight.t(), [of_x], _OF_X, [0], [of_weight], _OF_WEIGHT, [0], None, a.dtype)
    )
