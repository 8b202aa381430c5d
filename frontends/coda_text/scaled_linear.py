"""The operators `scaled_linear` and `quantized_linear` of .coda."""

from dataclasses import dataclass

from xdsl.utils.exceptions import VerifyException

from coda_ir.dialects import coda
from coda_ir.frontends.coda_text.invocation import Invocation
from coda_ir.frontends.coda_text.values import TensorValue

OF_ACCUMULATOR = (
    "scaled_linear(x, w, x_scales, w_scales, *, depth: integer = 128, columns: integer = 128)"
)
SCALED_LINEAR = f"{OF_ACCUMULATOR[:-1]}, dtype: type?)"


QUANTIZED_LINEAR = 'quantized_linear(x, w, *, recipe: string = "rowwise", dtype: type?)'
RECIPES = {
    "rowwise": (None, False),
    "blocks": (coda.BlocksAttr.get(), False),
    "all_rowwise": (None, True),
    "all_blocks": (coda.BlocksAttr.get(), True),
}
"""The blocks that share a scale, and whether gradients of weights are quantized as well."""


@dataclass(frozen=True, slots=True)
class Scaling:
    """The scales of blocks of x, and those of each weight that it is multiplied with."""

    blocks: coda.BlocksAttr
    x: TensorValue
    weights: tuple[TensorValue, ...]


def scaled_linear(call: Invocation) -> TensorValue:
    x, w, scaling = scaled_factors(call)
    operands = (x, w, scaling.x, *scaling.weights)
    dtype = call.float_type("dtype")
    return call.make(coda.ScaledLinearOp, *operands, scaling.blocks, element_type=dtype)


def quantized_linear(call: Invocation) -> TensorValue:
    x, w = call.tensor("x", least_rank=1), call.tensor("w", rank=2)
    blocks, is_all = RECIPES[call.choice("recipe", "rowwise", tuple(RECIPES))]
    dtype = call.float_type("dtype")
    return call.make(coda.QuantizedLinearOp, x, w, blocks, is_all, element_type=dtype)


def scaled_factors(call: Invocation) -> tuple[TensorValue, TensorValue, Scaling]:
    """x and the weight w, with their scales. Raises Mistake for what does not fit."""
    x, w = call.tensor("x", least_rank=1), call.tensor("w", rank=2)
    of_x, of_w = call.tensor("x_scales"), call.tensor("w_scales")
    sizes = {name: call.integer(name, 128) for name in ("depth", "columns")}
    try:
        blocks = coda.BlocksAttr.get(**sizes)
    except VerifyException as error:
        raise call.fault(error) from error
    call.check(coda.ScaledLinearOp, x, w, of_x, of_w, blocks)
    return x, w, Scaling(blocks, of_x, (of_w,))


LOW_BIT_LINEAR = (
    "low_bit_linear(x, w, scales, zeros?, *, depth: integer = 128, offset: integer = 0, "
    'packing: string = "", transposed: boolean = false, dtype: type?)'
)


def low_bit_linear(call: Invocation) -> TensorValue:
    """x times a weight of 8 or 4 bits. Raises Mistake for what does not fit."""
    x, w = call.float_tensor("x", least_rank=1), call.tensor("w", 2)
    scales, zeros = call.float_tensor("scales", 2), call.optional_tensor("zeros")
    packing, is_kn = call.value("packing") or "", call.flag("transposed")
    if not isinstance(packing, str):
        raise call.wrong("packing", 'expected the axis and the positions of elements: "k01234567"')
    try:
        scheme = coda.QuantizedAttr.get(
            call.integer("depth", 128), offset=call.integer("offset", 0), packing=packing
        )
    except VerifyException as error:
        raise call.fault(error) from error
    operands, dtype = (x, w, scales, zeros), call.float_type("dtype")
    return call.make(coda.LowBitLinearOp, *operands, scheme, kn=is_kn, element_type=dtype)
