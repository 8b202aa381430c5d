"""Layers of GPTQ and AWQ checkpoints, whose own kernels no graph shows."""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import nn

from coda_ir.diagnostics import expect_kind
from coda_ir.frontends.torch.low_bit_layers import PACKING, WORD, LowBitLinear
from coda_ir.frontends.torch.quantize import ModelT, NotQuantizedWarning

AWQ = "n04152637"
"""Eight neighbours along N in an int32, in the order of AWQ's kernels."""


def read_low_bit_layers(model: ModelT, *, gptq_offset: int = 1) -> ModelT:
    """Put layers that compile in the place of those of a GPTQ or AWQ checkpoint of 4 bits.

    Such a layer, of whatever class, has `qweight`, `qzeros` and `scales`, and perhaps `g_idx` and
    `bias`; the new one has the same tensors. In GPTQ's layout `qweight` is K / 8 x N, in AWQ's
    K x N / 8. `gptq_offset` is what is added to GPTQ's zero points: 1 as version 1 of its
    checkpoints stores them, 0 as version 2 does. Layers with other shapes, with groups of a size
    that is no power of two, or whose rows are in another order (`desc_act`) stay, and a warning
    names them. `model` is changed and returned. Raises CodaError for what is no module.
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
        message = f"layers of few bits that stay as they are: {', '.join(left)}"
        warnings.warn(message, NotQuantizedWarning, stacklevel=2)
    return model


def _layer(module: Any, gptq_offset: int) -> LowBitLinear | None:
    """The layer with the tensors of another one; None where its layout is unknown."""
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
