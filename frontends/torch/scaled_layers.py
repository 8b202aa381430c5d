"""Linear layers in float8 with scales of rows or blocks, and their product as one operator."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

FLOAT8 = torch.float8_e4m3fn
LARGEST = torch.finfo(FLOAT8).max
LEAST_SCALE = 1e-12
"""The scale of a block or row of zeros."""


@dataclass(frozen=True)
class Scheme:
    """The elements that share a scale: `depth` along K, and for the weight also `columns` rows.

    A `depth` of None is all of K, so that a row of x (a token) has one scale. With `is_all`,
    training also computes gradients of weights in float8.
    """

    depth: int | None
    columns: int
    is_all: bool = False

    def depth_of(self, k: int) -> int:
        return k if self.depth is None else self.depth

    def fits(self, weight: torch.Tensor) -> bool:
        """Return whether K of a weight (N x K) consists of whole blocks."""
        return weight.shape[1] % self.depth_of(weight.shape[1]) == 0


ROWWISE = Scheme(None, 1)
BLOCKS = Scheme(128, 128)
"""Those of DeepSeek-V3 (arXiv 2412.19437)."""
ALL_ROWWISE, ALL_BLOCKS = replace(ROWWISE, is_all=True), replace(BLOCKS, is_all=True)


@torch.library.custom_op("coda_ir::scaled_linear", mutates_args=())
def _scaled_linear(
    x: torch.Tensor,
    weight: torch.Tensor,
    x_scales: torch.Tensor,
    weight_scales: torch.Tensor,
    bias: torch.Tensor | None,
    depth: int,
    columns: int,
    dtype: torch.dtype,
) -> torch.Tensor:
    """Compute x · weightᵀ of float8 elements with their scales, plus the bias, in `dtype`.

    x is (... x K) with a scale for `depth` neighbours of a row, the weight N x K with one for
    `columns` of its rows by `depth`. Without a compiler the product is one of float32.
    """
    wide = dequantized(x, x_scales, 1, depth)
    product = wide_linear(wide, dequantized(weight, weight_scales, columns, depth))
    return (product if bias is None else product + bias.float()).to(dtype)


def _fake(x: Any, weight: Any, *rest: Any) -> torch.Tensor:
    return x.new_empty((*x.shape[:-1], weight.shape[0]), dtype=rest[-1])


_operator: Any = _scaled_linear  # has no complete types
_operator.register_fake(_fake)


SCALED_LINEAR: Any = torch.ops.coda_ir.scaled_linear.default


def dequantized(x: torch.Tensor, scales: torch.Tensor, columns: int, depth: int) -> torch.Tensor:
    """Multiply elements (... x K) by the scales of their blocks, in float32."""
    rows, k = x.shape[-2:] if columns > 1 else (1, x.shape[-1])
    wide = scales.float().repeat_interleave(depth, -1)[..., :k]
    if columns > 1:
        wide = wide.repeat_interleave(columns, -2)[..., :rows, :]
    return x.float() * wide


def quantized(x: torch.Tensor, depth: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Quantize x (... x K): return it in float8, and the float32 scale of each `depth` elements of
    a row, which maps the largest of them to 448.
    """
    is_row, k = depth == x.shape[-1], x.shape[-1]
    blocks = (x if is_row else x.reshape(*x.shape[:-1], k // depth, depth)).float()
    scales = (blocks.abs().amax(-1, keepdim=True) / LARGEST).clamp(min=LEAST_SCALE)
    elements = (blocks / scales).to(FLOAT8)
    return (elements, scales) if is_row else (elements.flatten(-2), scales.squeeze(-1))


def quantized_weight(weight: torch.Tensor, scheme: Scheme) -> tuple[torch.Tensor, torch.Tensor]:
    """Quantize a weight N x K to float8; return it and its scales (N / columns x K / depth)."""
    (n, k), depth = weight.shape, scheme.depth_of(weight.shape[1])
    padded = F.pad(weight.float(), (0, 0, 0, -n % scheme.columns))
    blocks = padded.view(-1, scheme.columns, k // depth, depth)
    scales = (blocks.abs().amax((1, 3), keepdim=True) / LARGEST).clamp(min=LEAST_SCALE)
    elements = (blocks / scales).to(FLOAT8).view(padded.shape)[:n]
    return elements.contiguous(), scales[:, 0, :, 0].contiguous()


class ScaledLinear(nn.Module):
    """A linear layer in float8, whose input is quantized in each call by the largest magnitude of
    each row or block.

    The parameters have the names and the shapes of checkpoints of transformers: `weight` (N x K),
    `weight_scale_inv` (its factors, not their reciprocals) and `bias`. They are not trained.
    """

    def __init__(
        self, weight: torch.Tensor, scales: torch.Tensor, bias: torch.Tensor | None, scheme: Scheme
    ):
        super().__init__()
        self.out_features, self.in_features = weight.shape
        self.scheme = scheme
        self.weight = nn.Parameter(weight, requires_grad=False)
        self.weight_scale_inv = nn.Parameter(scales, requires_grad=False)
        self.bias = None if bias is None else nn.Parameter(bias, requires_grad=False)

    @staticmethod
    def of(linear: nn.Linear, scheme: Scheme) -> ScaledLinear:
        """Quantize the weight of a layer, by the largest element of each block."""
        bias: torch.Tensor | None = getattr(linear, "bias", None)
        weight, scales = quantized_weight(linear.weight.detach(), scheme)
        return ScaledLinear(weight, scales, None if bias is None else bias.detach(), scheme)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return scaled_linear(x, self.weight, self.weight_scale_inv, self.bias, self.scheme)

    def extra_repr(self) -> str:
        return f"{self.in_features}, {self.out_features}, {self.scheme}"


def scaled_linear(
    x: torch.Tensor,
    weight: torch.Tensor,
    scales: torch.Tensor,
    bias: torch.Tensor | None,
    scheme: Scheme,
) -> torch.Tensor:
    """Compute a linear layer with a float8 weight: x is quantized; the result has the type of x."""
    depth = scheme.depth_of(x.shape[-1])
    q, x_scales = quantized(x, depth)
    return SCALED_LINEAR(q, weight, x_scales, scales, bias, depth, scheme.columns, x.dtype)


@torch.library.custom_op("coda_ir::quantized_linear", mutates_args=())
def _quantized_linear(
    x: torch.Tensor, weight: torch.Tensor, depth: int | None, columns: int, is_all: bool
) -> torch.Tensor:
    """Return x · weightᵀ in the type of x, both rounded to float8 with the scales of `Scheme(depth,
    columns, is_all)`; if nothing compiles the product, it is computed in float32.
    """
    return _product(x, weight, Scheme(depth, columns)).to(x.dtype)


def _product(x: torch.Tensor, weight: torch.Tensor, scheme: Scheme) -> torch.Tensor:
    k = x.shape[-1]
    depth = scheme.depth_of(k)
    missing = -k % depth
    wide = dequantized(*quantized(F.pad(x, (0, missing)), depth), 1, depth)
    padded = F.pad(weight, (0, missing))
    rounded = dequantized(*quantized_weight(padded, scheme), scheme.columns, depth)
    return wide_linear(wide, rounded)


def wide_linear(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Return x · weightᵀ of float32 operands, which autocast does not round."""
    with torch.autocast(x.device.type, enabled=False):
        return F.linear(x, weight)


def _trained_type(x: Any, weight: Any, *_: Any) -> torch.Tensor:
    return x.new_empty((*x.shape[:-1], weight.shape[0]))


def _save(ctx: Any, inputs: Any, output: Any) -> None:
    x, weight, *scheme = inputs
    ctx.save_for_backward(x, weight)
    ctx.scheme = Scheme(*scheme)


def _gradients(ctx: Any, dy: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
    """Return the gradients, like the rule of `coda.quantized_linear`."""
    (x, weight), scheme = ctx.saved_tensors, ctx.scheme
    dx = dw = None
    if ctx.needs_input_grad[0]:
        dx = _product(dy, weight.t(), scheme).to(x.dtype)
    if ctx.needs_input_grad[1]:
        dy, x = (each.reshape(-1, each.shape[-1]).t() for each in (dy, x))
        product = _product(dy, x, scheme) if scheme.is_all else wide_linear(dy.float(), x.float())
        dw = product.to(weight.dtype)
    return dx, dw, None, None, None


_trained: Any = _quantized_linear
_trained.register_fake(_trained_type)
_trained.register_autograd(_gradients, setup_context=_save)


QUANTIZED_LINEAR: Any = torch.ops.coda_ir.quantized_linear.default


class QuantizedLinear(nn.Linear):
    """A linear layer that multiplies in float8, forward and for the gradient of its input; with
    `scheme.is_all`, for that of its weight, too.

    Its parameters are those of the layer in whose place it is, in their own types; they are
    quantized in each call. Under autocast the input and the result have the type of autocast.
    """

    scheme: Scheme

    @staticmethod
    def of(linear: nn.Linear, scheme: Scheme) -> QuantizedLinear:
        """Make the layer with the parameters of `linear`."""
        layer = QuantizedLinear(
            linear.in_features, linear.out_features, bias=False, device=torch.device("meta")
        )
        layer.weight, layer.bias, layer.scheme = linear.weight, linear.bias, scheme
        return layer.train(linear.training)

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        kind = input.device.type
        if torch.is_autocast_enabled(kind):
            input = input.to(torch.get_autocast_dtype(kind))
        scheme = self.scheme
        product = QUANTIZED_LINEAR(input, self.weight, scheme.depth, scheme.columns, scheme.is_all)
        bias: torch.Tensor | None = getattr(self, "bias", None)
        return product if bias is None else product + bias.to(product.dtype)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, {self.scheme}"
