"""Linear layers of transformers' FP8 checkpoints (`weight_scale_inv`), whose own kernels no graph
shows.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from copy import deepcopy
from functools import cache
from importlib import import_module
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from coda_ir.diagnostics import CodaError
from coda_ir.frontends.torch.scaled_layers import (
    FLOAT8,
    LARGEST,
    SCALED_LINEAR,
    Scheme,
    scaled_linear,
)

MODULE, FUNCTION = "transformers.integrations.finegrained_fp8", "fp8_linear"


@cache
def keep_float8_layers() -> None:
    """Make torch.compile trace the linear layers of transformers' FP8 checkpoints as products with
    scales of blocks, in place of the kernels that transformers downloads.

    From here on torch.compile traces them so for every backend; what is not traced runs as before.
    `coda_ir.export` does it by itself. Raises CodaError for a version of transformers without these
    layers.
    """
    try:
        function: Any = getattr(import_module(MODULE), FUNCTION)
    except (ImportError, AttributeError) as error:
        raise CodaError(
            f"transformers has no {MODULE}.{FUNCTION}", "install transformers 5 or later"
        ) from error
    torch.compiler.substitute_in_graph(function, skip_signature_check=True)(float8_linear)


def with_scaled_layers(model: nn.Module) -> nn.Module:
    """`model`, or where it has such layers a copy with the same tensors in which they call
    `float8_linear`.
    """
    kind: Any = getattr(sys.modules.get(MODULE), "FP8Linear", None)
    if kind is None or not any(isinstance(module, kind) for module in model.modules()):
        return model
    shared = {id(tensor): tensor for tensor in (*model.parameters(), *model.buffers())}
    copied = deepcopy(model, shared)
    for module in copied.modules():
        if isinstance(module, kind):
            module.__class__ = _scaled(type(module))
    return copied


@cache
def _scaled(kind: Any) -> Any:
    """The subclass of a layer's class whose product is `float8_linear`."""

    class Scaled(kind):
        def forward(self, input: torch.Tensor) -> torch.Tensor:
            layer: Any = self
            if layer.weight.element_size() > 1:
                return F.linear(input, layer.weight, layer.bias)
            options = (layer.block_size, layer.bias, layer.activation_scale)
            return float8_linear(input, layer.weight, layer.weight_scale_inv, *options)

    return Scaled


def float8_linear(
    input: torch.Tensor,
    weight: torch.Tensor,
    weight_scale_inv: torch.Tensor,
    block_size: Sequence[int] | None = None,
    bias: torch.Tensor | None = None,
    activation_scale: torch.Tensor | None = None,
    allow_deepgemm: bool = True,
) -> torch.Tensor:
    """The layer of a checkpoint, as transformers calls it: `weight` (N x K, e4m3) with a scale for
    each block of `block_size` (rows, then K), or one for all of it, and an input that is quantized
    by 1 x K of a block (of all of K), or by the static `activation_scale`.

    The scales are float32; those in `float8_e8m0fnu` are converted.
    """
    rows, depth = block_size or weight.shape
    scales = weight_scale_inv.float()
    if not scales.ndim:
        scales = scales.reshape(1, 1)
    scheme = Scheme(depth, rows)
    if activation_scale is None:
        return scaled_linear(input, weight, scales, bias, scheme)
    q = (input.float() / activation_scale).clamp(-LARGEST, LARGEST).to(FLOAT8)
    blocks = -(-input.shape[-1] // depth)
    x_scales = activation_scale.float().reshape(1).expand(*input.shape[:-1], blocks)
    return SCALED_LINEAR(q, weight, x_scales, scales, bias, depth, rows, input.dtype)
