"""The operators `scaled_linear` and `quantized_linear` of .coda."""

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.utils.exceptions import VerifyException

from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import is_float8
from coda_ir.frontends.coda_text.invocation import Invocation
from coda_ir.frontends.coda_text.values import ELEMENT_TYPES, Dim, TensorValue

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
"""The blocks of elements that share a scale, and whether gradients of weights are quantized as
well."""


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
    for name, tensor in (("x", x), ("w", w)):
        if tensor.type.element not in ("bf16", "f16", "f32"):
            remedy = "products of float8 are those of linear and scaled_linear"
            raise call.wrong(name, "expected bf16, f16 or f32 elements", remedy, "E0501")
    call.expect_dims("w", w, (w.dims[0], x.dims[-1]), "N x K, with the K of x")
    blocks, is_all = RECIPES[call.choice("recipe", "rowwise", tuple(RECIPES))]
    if blocks is not None and not all(isinstance(size, int) for size in w.dims):
        remedy = 'name its sizes by numbers or constants, or use recipe="rowwise"'
        raise call.wrong("w", "expected known sizes, as blocks are counted", remedy)
    dtype = call.float_type("dtype")
    return call.make(coda.QuantizedLinearOp, x, w, blocks, is_all, element_type=dtype)


def scaled_factors(call: Invocation) -> tuple[TensorValue, TensorValue, Scaling]:
    """x and the weight w, with their scales. Raises Mistake for what does not fit."""
    x, w = call.factors()
    call.expect_dims("w", w, (w.dims[0], x.dims[-1]), "N x K, with the K of x")
    sizes = {name: call.integer(name, 128) for name in ("depth", "columns")}
    for name, least in (("depth", coda.LEAST_DEPTH), ("columns", 1)):
        size = sizes[name]
        if size < least or size & (size - 1):
            raise call.wrong(name, f"expected a power of two of at least {least}", given=size)
    blocks = coda.BlocksAttr.get(**sizes)
    for name, tensor in (("x", x), ("w", w)):
        if not is_float8(ELEMENT_TYPES[tensor.type.element]):
            raise call.wrong(
                name,
                "expected float8 elements",
                f"convert it: cast(${name}, f8e4m3); quantized_linear(x, w) rounds its operands",
                "E0501",
            )
    per_row, rows = _blocks_of(w.dims[1], sizes["depth"]), _blocks_of(w.dims[0], sizes["columns"])
    of_x = _scales(call, "x_scales", (*x.dims[:-1], per_row), f"one for {sizes['depth']} of K")
    shape = f"one for {sizes['columns']} x {sizes['depth']} of w"
    of_w = _scales(call, "w_scales", (rows, per_row), shape)
    return x, w, Scaling(blocks, of_x, (of_w,))


def _blocks_of(size: Dim, block: int) -> Dim | None:
    """The number of blocks of a size; None where the size is symbolic."""
    return -(-size // block) if isinstance(size, int) else None


def _scales(call: Invocation, name: str, dims: Sequence[Dim | None], why: str) -> TensorValue:
    """The scales of an operand, of a stated shape as far as it is known."""
    scales = call.tensor(name, rank=len(dims))
    known = zip(dims, scales.dims, strict=True)
    call.expect_dims(name, scales, tuple(a if b is None else b for b, a in known), why)
    if scales.type.element != "f32":
        raise call.wrong(name, "expected f32 elements", f"convert it: cast(${name}, f32)", "E0501")
    return scales


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
        _expect_shapes(call, scheme, x.dims[-1], scales.dims[is_kn], is_kn)
    except VerifyException as error:
        raise call.fault(error) from error
    operands, dtype = (x, w, scales, zeros), call.float_type("dtype")
    return call.make(coda.LowBitLinearOp, *operands, scheme, kn=is_kn, element_type=dtype)


def _expect_shapes(
    call: Invocation, scheme: coda.QuantizedAttr, k: Dim, n: Dim, is_kn: bool
) -> None:
    """Raise Mistake unless the weight and its scales have the shapes that K and N ask for."""
    if not (isinstance(k, int) and isinstance(n, int)):
        return
    depth, order = scheme.depth.data, -1 if is_kn else 1
    groups, words = (n, -(-k // depth))[::order], scheme.words(n, k)[::order]
    remedy = None if is_kn else "state transposed=true for a weight and scales of K x N"
    call.expect_dims("scales", call.tensor("scales"), groups, f"one for {depth} of K", remedy)
    remedy = None if scheme.axis else 'state the packing of 4 bits, such as packing="k01234567"'
    why = "with the K of x and the N of scales"
    call.expect_dims("w", call.tensor("w"), words, why, remedy)
