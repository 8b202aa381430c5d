"""`coda_ir.quantize`: the linear layers of a model in float8."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Any, TypeVar

import torch
from torch import nn

from coda_ir.diagnostics import CodaError, expect_kind
from coda_ir.frontends.torch.scaled_layers import BLOCKS, ROWWISE, ScaledLinear, Scheme
from coda_ir.frontends.torch.trained_layers import QuantizedLinear

RECIPES: Mapping[str, Scheme] = MappingProxyType({"blocks": BLOCKS, "rowwise": ROWWISE})

ModelT = TypeVar("ModelT", bound=nn.Module)


class NotQuantizedWarning(UserWarning):
    """Linear layers of a model stay in their type."""


def quantize(
    model: ModelT,
    recipe: str = "blocks",
    *,
    skip: Collection[str] = (),
    training: bool = False,
) -> ModelT:
    """Put layers of float8 (e4m3) in the place of the linear layers of `model`, which is changed.

    `recipe` says what shares a scale: `blocks`, 1 x 128 elements of an input and 128 x 128 of a
    weight (DeepSeek-V3, arXiv 2412.19437), or `rowwise`, a row of an input (a token) and a row of a
    weight (a column of the result). Weights are quantized here, inputs in each call, both by their
    largest elements. Compiled or exported, the quantization of an input is part of the kernel that
    computes it, as far as that has whole blocks. `skip` has the last parts of the names of layers
    that stay, such as `lm_head`; so do layers that share their weight, and in `blocks` those whose
    K is no multiple of 128, of which a warning tells. The layers are for inference: they have no
    gradients. With `training` they have: the parameters stay as they are (bf16 or float32), and are
    quantized in each call. The gradient of a layer's input is a product of float8, too: the
    gradient of the result by the weight with scales of its own for K x N. The gradient of the
    weight is a product in the type of the input, which is not quantized, as in torchao's recipe
    `rowwise_with_gw_hp`. Returns `model`. Raises CodaError for an unknown recipe, and for a model
    that is a linear layer itself.
    """
    expect_kind("the model", model, nn.Module, "pass the model, not a class or a function")
    if recipe not in RECIPES:
        raise CodaError(f"unknown recipe '{recipe}'", f"use one of {', '.join(RECIPES)}")
    if type(model) is nn.Linear:
        raise CodaError("the model is a single linear layer", "pass nn.Sequential(model)")
    scheme = RECIPES[recipe]
    given: Any = model  # `named_modules` has no complete type
    modules: dict[str, nn.Module] = dict(given.named_modules())
    readers = _readers(model)
    left: list[str] = []
    for name, linear in modules.items():
        # A subclass may have a forward of its own, or others may read its weight.
        if type(linear) is not nn.Linear or name.rpartition(".")[2] in skip:
            continue
        if not scheme.fits(linear.weight):
            left.append(f"{name} (K = {linear.in_features})")
        elif readers[linear.weight] > 1:
            left.append(f"{name} (its weight is shared)")
        else:
            make = QuantizedLinear.of if training else ScaledLinear.of
            model.set_submodule(name, make(linear, scheme))
    if left:
        message = f"recipe '{recipe}': layers that stay as they are: {', '.join(left)}"
        warnings.warn(message, NotQuantizedWarning, stacklevel=2)
    return model


def _readers(model: nn.Module) -> Counter[torch.Tensor]:
    """The number of modules that have each parameter."""
    modules = dict.fromkeys(model.modules())
    return Counter(p for module in modules for p in module.parameters(recurse=False))
