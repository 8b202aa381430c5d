"""`coda_ir.quantize`: the linear layers of a model in float8, or with weights of few bits."""

import warnings
from collections import Counter
from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Any, TypeVar

import torch
from torch import nn

from coda_ir.diagnostics import ModelError, OptionError, expect_kind
from coda_ir.dialects.coda import LEAST_DEPTH
from coda_ir.dialects.gemm import is_power_of_two
from coda_ir.frontends.torch.low_bit_layers import LowBitLinear, WeightScheme
from coda_ir.frontends.torch.scaled_layers import (
    ALL_BLOCKS,
    ALL_ROWWISE,
    BLOCKS,
    ROWWISE,
    QuantizedLinear,
    ScaledLinear,
    Scheme,
)

RECIPES: Mapping[str, Scheme] = MappingProxyType(
    {
        "blocks": BLOCKS,
        "rowwise": ROWWISE,
        "all_blocks": ALL_BLOCKS,
        "all_rowwise": ALL_ROWWISE,
    }
)

ModelT = TypeVar("ModelT", bound=nn.Module)


class NotQuantizedWarning(UserWarning):
    """Linear layers of a model that were not quantized."""


WEIGHTS: Mapping[str, WeightScheme] = MappingProxyType(
    {
        "int4": WeightScheme("int4", 128, has_zeros=True),
        "int8": WeightScheme("int8", None),
        "float8": WeightScheme("float8", None),
    }
)
"""Recipes for weights alone."""


def quantize(
    model: ModelT,
    recipe: str = "blocks",
    *,
    skip: Collection[str] = ("lm_head",),
    group: int | None = None,
    zero_points: bool | None = None,
    training: bool = False,
) -> ModelT:
    """Replace the linear layers of `model` by low-precision ones, in place.

    Two recipes multiply in float8 (e4m3); three only store weights in fewer bits.

    For products of float8, the recipe determines which elements share a scale: `blocks`, 1 x 128
    elements of an input and 128 x 128 of a weight (DeepSeek-V3, arXiv 2412.19437), or `rowwise`, a
    row of an input (a token) and a row of a weight (a column of the result). Weights are quantized
    immediately, inputs in each call, both by their largest elements. In compiled and exported
    models, the kernel that computes an input also quantizes it, if its tiles hold whole blocks.

    With `int4`, `int8` and `float8` only the weight is quantized, and inputs keep their type: each
    row of the weight has a scale for `group` elements along K (a power of two of at least 32; by
    default 128 for `int4`, and all of K for the others), and with `zero_points` (the default for
    `int4`; not available for `float8`) a zero point. Decoding, which is bound by reading weights,
    gains most.

    `skip` lists the last parts of the names of layers to keep; the default is the projection to the
    vocabulary, under its name in transformers' models, because its rounding error goes straight
    into the logits. Layers that share their weight are also kept, and so are layers whose N and K
    are not multiples of the recipe's groups or packed words; a warning names them. The layers are
    for inference: they have no gradients. With `training` they have gradients: the parameters stay
    bf16 or float32, and are quantized in each call. The gradient of a layer's input is also a
    product of float8: the gradient of the result times the weight, which has separate scales as
    K x N. With `blocks` and `rowwise` the gradient of the weight is a product in the type of the
    input, without quantization, as in torchao's recipe `rowwise_with_gw_hp`. `all_blocks` and
    `all_rowwise` (torchao's `rowwise`) multiply it in float8 as well, with scales along the tokens:
    one for a column of an operand, or for 128 tokens of it; they require `training`. Recipes for
    weights alone do not support it. Returns `model`. Raises CodaError for an unknown recipe, for
    options that a recipe does not have, and for a model that is itself a linear layer.
    """
    expect_kind("the model", model, nn.Module, "pass the model, not a class or a function")
    scheme = _scheme(recipe, group, zero_points)
    if training and isinstance(scheme, WeightScheme):
        raise OptionError(
            f"the recipe '{recipe}' does not support training", f"use one of {', '.join(RECIPES)}"
        )
    if isinstance(scheme, Scheme) and scheme.is_all and not training:
        remedy = f"pass training=True, or use {recipe.removeprefix('all_')}"
        raise OptionError(f"'{recipe}' is a recipe for training", remedy)
    if type(model) is nn.Linear:
        raise ModelError("the model is a single linear layer", "pass nn.Sequential(model)")
    given: Any = model  # `named_modules` has no complete type
    modules: dict[str, nn.Module] = dict(given.named_modules())
    readers = _readers(model)
    left: list[str] = []
    for name, linear in modules.items():
        # A subclass may define its own forward, or other code may read its weight.
        if type(linear) is not nn.Linear or name.rpartition(".")[2] in skip:
            continue
        if not scheme.fits(linear.weight):
            left.append(f"{name} (K = {linear.in_features}, N = {linear.out_features})")
        elif readers[linear.weight] > 1:
            left.append(f"{name} (its weight is shared)")
        else:
            if isinstance(scheme, WeightScheme):
                layer: nn.Module = LowBitLinear.of(linear, scheme)
            else:
                layer = (QuantizedLinear if training else ScaledLinear).of(linear, scheme)
            model.set_submodule(name, layer)
    if left:
        message = f"recipe '{recipe}': layers that are left unchanged: {', '.join(left)}"
        warnings.warn(message, NotQuantizedWarning, stacklevel=2)
    return model


def _scheme(recipe: str, group: int | None, zero_points: bool | None) -> Scheme | WeightScheme:
    """Return the scheme of a recipe. Raises CodaError for an unknown one or options it lacks."""
    if recipe not in RECIPES and recipe not in WEIGHTS:
        known = ", ".join((*RECIPES, *WEIGHTS))
        raise OptionError(f"unknown recipe '{recipe}'", f"use one of {known}")
    if recipe in RECIPES:
        for name, value in (("group", group), ("zero_points", zero_points)):
            if value is not None:
                raise OptionError(
                    f"the recipe '{recipe}' has no option {name}",
                    f"leave it out, or use one of {', '.join(WEIGHTS)}",
                )
        return RECIPES[recipe]
    scheme = WEIGHTS[recipe]
    if group is not None and (group < LEAST_DEPTH or not is_power_of_two(group)):
        raise OptionError(f"group is {group}", f"use a power of two of at least {LEAST_DEPTH}")
    if zero_points and recipe == "float8":
        raise OptionError(
            "the recipe 'float8' has no option zero_points", "leave it out, or use int8"
        )
    has_zeros = scheme.has_zeros if zero_points is None else zero_points
    return WeightScheme(scheme.type, group or scheme.group, has_zeros)


def _readers(model: nn.Module) -> Counter[torch.Tensor]:
    """Return the number of modules that share each parameter."""
    modules = dict.fromkeys(model.modules())
    return Counter(p for module in modules for p in module.parameters(recurse=False))
