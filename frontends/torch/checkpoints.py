"""Linear layers of FP8 (`weight_scale_inv`), GPTQ and AWQ checkpoints of transformers, whose
kernels do not appear in graphs.
"""

import sys
import warnings
from collections.abc import Sequence
from copy import deepcopy
from functools import cache
from importlib import import_module
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from coda_ir.diagnostics import ModelError, expect_kind
from coda_ir.frontends.torch.low_bit_layers import PACKING, WORD, LowBitLinear
from coda_ir.frontends.torch.quantize import ModelT, NotQuantizedWarning
from coda_ir.frontends.torch.scaled_layers import (
    FLOAT8,
    LARGEST,
    SCALED_LINEAR,
    Scheme,
    scaled_linear,
)

MODULE, FUNCTION = "transformers.integrations.finegrained_fp8", "fp8_linear"


def function_of_transformers(module: str, name: str) -> Any:
    """Return the function `name` of a module of transformers. Raises CodaError if there is none."""
    try:
        return getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise ModelError(
            f"transformers has no {module}.{name}", "install transformers 5 or later"
        ) from error


@cache
def keep_float8_layers() -> None:
    """Make torch.compile trace the linear layers of transformers' FP8 checkpoints as products with
    block scales, instead of calls of the kernels that transformers downloads.

    After this call, torch.compile traces them in this way for every backend; untraced code is
    unchanged. `coda_ir.export` does this automatically. Raises CodaError for a version of
    transformers without these layers.
    """
    function = function_of_transformers(MODULE, FUNCTION)
    torch.compiler.substitute_in_graph(function, skip_signature_check=True)(float8_linear)


def with_scaled_layers(model: nn.Module) -> nn.Module:
    """Return `model`, or a copy with the same tensors whose FP8 layers call `float8_linear`."""
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
    """Return the subclass of a layer's class whose product is `float8_linear`."""

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
    """Compute the layer of a checkpoint, with transformers' interface: `weight` (N x K, e4m3) has a
    scale for each block of `block_size` (rows, then K), or a single one; the input is quantized by
    1 x K of a block (of all of K), or by the static `activation_scale`.

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


AWQ = "n04152637"
"""Eight neighbours along N in an int32, in the order of AWQ's kernels."""


def read_low_bit_layers(model: ModelT, *, gptq_offset: int = 1) -> ModelT:
    """Replace the layers of a 4-bit GPTQ or AWQ checkpoint by layers that compile.

    Such a layer, of any class, has `qweight`, `qzeros` and `scales`, and optionally `g_idx` and
    `bias`; the new one has the same tensors. In GPTQ's layout `qweight` is K / 8 x N, in AWQ's K x
    N / 8. `gptq_offset` is added to GPTQ's zero points: 1 for checkpoints of version 1, 0 for
    version 2. Layers with other shapes, with groups whose size is not a power of two, or whose rows
    are reordered (`desc_act`) are kept, and a warning names them. `model` is changed in place and
    returned. Raises CodaError if it is not a module.
    """
    expect_kind("the model", model, nn.Module, "pass the model, not a class or a function")
    left: list[str] = []
    given: Any = model  # `named_modules` has no complete type
    for name, module in list(given.named_modules()):
        tensors = [getattr(module, each, None) for each in ("qweight", "qzeros", "scales")]
        is_layer = all(isinstance(each, torch.Tensor) for each in tensors)
        if not name or not is_layer or isinstance(module, LowBitLinear):
            continue
        layer = _layer(module, gptq_offset)
        if layer is None:
            left.append(name)
        else:
            model.set_submodule(name, layer)
    if left:
        message = f"low-bit layers that are left unchanged: {', '.join(left)}"
        warnings.warn(message, NotQuantizedWarning, stacklevel=2)
    return model


def _layer(module: Any, gptq_offset: int) -> LowBitLinear | None:
    """Return the layer with the tensors of another one; None if its layout is unknown."""
    qweight, qzeros, scales = module.qweight, module.qzeros, module.scales
    groups, n = scales.shape
    offset, packing = 0, AWQ
    if qweight.shape[1] == n:
        offset, packing = gptq_offset, PACKING
    k = qweight.shape[0] * (WORD if packing == PACKING else 1)
    depth = -(-k // groups)
    is_whole = groups == 1 or (depth >= 32 and depth & (depth - 1) == 0 and k % depth == 0)
    words = (k // WORD, n) if packing == PACKING else (k, n // WORD)
    if not is_whole or n % WORD or qzeros.shape != (groups, n // WORD) or qweight.shape != words:
        return None
    order = getattr(module, "g_idx", None)
    if isinstance(order, torch.Tensor) and order.numel():
        in_order = torch.arange(k, device=order.device) // depth
        if not torch.equal(order.long(), in_order):
            return None
    depth = max(32, 1 << (depth - 1).bit_length())
    bias = getattr(module, "bias", None)
    return LowBitLinear(
        *(qweight.detach(), scales.detach(), qzeros.detach()),
        None if bias is None else bias.detach(),
        depth=depth,
        offset=offset,
        packing=packing,
    )
