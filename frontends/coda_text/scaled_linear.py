"""The operators `scaled_linear` and `quantized_linear` of .coda."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import is_float8
from coda_ir.frontends.coda_text.invocation import Invocation
from coda_ir.frontends.coda_text.values import ELEMENT_TYPES, Dim, TensorValue

OF_ACCUMULATOR = (
    "scaled_linear(x, w, x_scales, w_scales, *, depth: integer = 128, columns: integer = 128)"
)
SCALED_LINEAR = f"{OF_ACCUMULATOR[:-1]}, dtype: type?)"


QUANTIZED_LINEAR = 'quantized_linear(x, w, *, recipe: string = "rowwise", dtype: type?)'
RECIPES = {"rowwise": None, "blocks": coda.BlocksAttr.get()}


@dataclass(frozen=True, slots=True)
class Scaling:
    """The scales of blocks of x, and those of each weight that it is multiplied with."""

    blocks: coda.BlocksAttr
    x: TensorValue
    weights: tuple[TensorValue, ...]


def scaled_linear(call: Invocation) -> TensorValue:
    x, w, scaling = scaled_factors(call)
    (of_w,) = scaling.weights
    op = coda.ScaledLinearOp(
        *(x.ssa, w.ssa, scaling.x.ssa, of_w.ssa, scaling.blocks),
        element_type=call.float_type("dtype"),
    )
    return call.emit(op, (*x.dims[:-1], w.dims[0]))


def quantized_linear(call: Invocation) -> TensorValue:
    x, w = call.tensor("x", least_rank=1), call.tensor("w", rank=2)
    for name, tensor in (("x", x), ("w", w)):
        if tensor.type.element not in ("bf16", "f16", "f32"):
            remedy = "products of float8 are those of linear and scaled_linear"
            raise call.wrong(name, "expected bf16, f16 or f32 elements", remedy)
    call.expect_dims("w", w, (w.dims[0], x.dims[-1]), "N x K, with the K of x")
    blocks = RECIPES[call.choice("recipe", "rowwise", tuple(RECIPES))]
    if blocks is not None and not all(isinstance(size, int) for size in w.dims):
        remedy = 'name its sizes by numbers or constants, or use recipe="rowwise"'
        raise call.wrong("w", "expected known sizes, as blocks are counted", remedy)
    dtype = call.float_type("dtype")
    op = coda.QuantizedLinearOp(x.ssa, w.ssa, blocks, element_type=dtype)
    return call.emit(op, (*x.dims[:-1], w.dims[0]))


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
                f"multiply without scales of blocks, or convert it: cast({name}, f8e4m3)",
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
        raise call.wrong(name, "expected f32 elements", f"convert it: cast({name}, f32)")
    return scales
