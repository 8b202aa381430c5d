"""Linear layers that are trained in float8: their product and its gradient as one operator."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from coda_ir.frontends.torch.scaled_layers import (
    Scheme,
    dequantized,
    quantized,
    quantized_weight,
)


@torch.library.custom_op("coda_ir::quantized_linear", mutates_args=())
def _quantized_linear(
    x: torch.Tensor, weight: torch.Tensor, depth: int | None, columns: int
) -> torch.Tensor:
    """x · weightᵀ in the type of x, both rounded to float8 with the scales of `Scheme(depth,
    columns)`; the product is one of float32 where nothing compiles it.
    """
    return _product(x, weight, Scheme(depth, columns)).to(x.dtype)


def _product(x: torch.Tensor, weight: torch.Tensor, scheme: Scheme) -> torch.Tensor:
    k = x.shape[-1]
    depth = scheme.depth_of(k)
    missing = -k % depth
    wide = dequantized(*quantized(F.pad(x, (0, missing)), depth), 1, depth)
    padded = F.pad(weight, (0, missing))
    rounded = dequantized(*quantized_weight(padded, scheme), scheme.columns, depth)
    return F.linear(wide, rounded)


def _fake(x: Any, weight: Any, *_: Any) -> torch.Tensor:
    return x.new_empty((*x.shape[:-1], weight.shape[0]))


def _save(ctx: Any, inputs: Any, output: Any) -> None:
    x, weight, depth, columns = inputs
    ctx.save_for_backward(x, weight)
    ctx.scheme = Scheme(depth, columns)


def _gradients(ctx: Any, dy: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
    """As the rule of `coda.quantized_linear`: dx in float8, dW not."""
    x, weight = ctx.saved_tensors
    dx = dw = None
    if ctx.needs_input_grad[0]:
        dx = _product(dy, weight.t(), ctx.scheme).to(x.dtype)
    if ctx.needs_input_grad[1]:
        rows = dy.flatten(0, -2).float().t()
        dw = (rows @ x.flatten(0, -2).float()).to(weight.dtype)
    return dx, dw, None, None


_operator: Any = _quantized_linear  # has no complete types
_operator.register_fake(_fake)
_operator.register_autograd(_gradients, setup_context=_save)


QUANTIZED_LINEAR: Any = torch.ops.coda_ir.quantized_linear.default


class QuantizedLinear(nn.Linear):
    """A linear layer that multiplies in float8, in the forward and for the gradient of its input.

    Its parameters are those of the layer in whose place it is, in their own types; they are
    quantized in each call. Under autocast the input and the result have the type of autocast.
    """

    scheme: Scheme

    @staticmethod
    def of(linear: nn.Linear, scheme: Scheme) -> QuantizedLinear:
        """The layer with the parameters of `linear`."""
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
        product = QUANTIZED_LINEAR(input, self.weight, scheme.depth, scheme.columns)
        bias: torch.Tensor | None = getattr(self, "bias", None)
        return product if bias is None else product + bias.to(product.dtype)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, {self.scheme}"
