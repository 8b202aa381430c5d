"""Rounding of values in the two precisions of the reference backend."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any, Literal, TypeAlias

import torch
import torch.nn.functional as F
from xdsl.dialects import arith
from xdsl.dialects.builtin import Float8E4M3FNType, Float32Type, FloatAttr
from xdsl.ir import Attribute, Operation, SSAValue

from coda_ir.diagnostics import IndexOutOfRangeError
from coda_ir.dialects import coda
from coda_ir.dialects.coda import BlocksAttr, QuantizedAttr
from coda_ir.dialects.coda.elementwise_op import Scalar
from coda_ir.dialects.coda.shapes import is_float8
from coda_ir.dialects.gemm import NumericsMode, exact_number
from coda_ir.float64 import grouped_mm
from coda_ir.remarks import format_location, source_position
from coda_ir.signatures import stated_dtype

Precision: TypeAlias = Literal["float64", "stated"]


@dataclass(frozen=True)
class Numerics:
    """The precision in which one operator computes.

    `exact`: every float is a float64 and nothing is rounded. Otherwise floats compute in `compute`
    and results are rounded to the types that the IR states.
    """

    exact: bool
    compute: torch.dtype
    mode: NumericsMode = NumericsMode.FP32_EPILOGUE
    device: torch.device | None = None
    """The device of a graph of PyTorch that is traced: sums are PyTorch's own there, and no index
    is checked, as the tensors have no data. None to run on the CPU.
    """

    @staticmethod
    def of(
        precision: Precision,
        types: Sequence[Attribute],
        mode: NumericsMode = NumericsMode.FP32_EPILOGUE,
        device: torch.device | None = None,
    ) -> Numerics:
        """Return the numerics of an operator: float64 if any of its types is, else float32."""
        if precision == "float64":
            return Numerics(True, torch.float64, mode)
        wide = any(stated_dtype(type) == torch.float64 for type in types)
        return Numerics(False, torch.float64 if wide else torch.float32, mode, device)

    def rounded_once(
        self, function: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor
    ) -> torch.Tensor:
        """Return a sum of `x`, rounded once; see the function `rounded_once`."""
        return rounded_once(function, x) if self.device is None else function(x)

    def lift(self, value: torch.Tensor) -> torch.Tensor:
        """Convert `value` to the computing type: floats are widened, integers stay."""
        return value.to(self.compute) if value.is_floating_point() else value

    def store(self, value: torch.Tensor, type: Attribute) -> torch.Tensor:
        """Round `value` to its stated `type`; in exact mode, convert it to float64."""
        dtype, value = stated_dtype(type), in_range(value, type)
        return value.to(torch.float64 if self.exact and dtype.is_floating_point else dtype)

    def step(self, value: torch.Tensor, type: Attribute) -> torch.Tensor:
        """Return an intermediate value of an operator that PyTorch splits into several: rounded to
        `type` in the mode eager-exact.
        """
        if self.exact or self.mode != NumericsMode.EAGER_EXACT:
            return value
        return value.to(stated_dtype(type)).to(self.compute)

    def store_scalar(self, value: torch.Tensor, type: Attribute) -> torch.Tensor:
        """Like `store`, for a scalar of a region, in which f32 is the computing type."""
        return value.to(self.compute) if isinstance(type, Float32Type) else self.store(value, type)

    def constant(self, op: arith.ConstantOp) -> torch.Tensor:
        """Return a float constant of a region."""
        assert isinstance(op.value, FloatAttr)
        number = exact_number(op) if self.exact else op.value.value.data
        return self.store_scalar(torch.tensor(number, dtype=torch.float64), op.result.type)


def in_range(value: torch.Tensor, type: Attribute) -> torch.Tensor:
    """Return `value`; if `type` is a float8, replace what overflows."""
    dtype = stated_dtype(type)
    if not is_float8(type) or value.dtype == dtype:
        return value
    value = value if value.is_floating_point() else value.double()
    largest = torch.finfo(dtype).max
    if isinstance(type, Float8E4M3FNType):
        return value.clamp(-largest, largest)
    return torch.where(value.abs() < F8E5M2_OVERFLOW, value, value * torch.inf)


F8E5M2_OVERFLOW = 61440.0
"""The smallest number that rounds to infinity."""


def rounded_once(function: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor) -> torch.Tensor:
    """Return `function(x)`, computed in float64 and rounded to the type of x.

    For sums whose order is not stated: they are as exact as their type allows, so that no
    implementation that sums in some order is closer, and the processor's library does not matter.
    """
    return function(x.double()).to(x.dtype)


def rounded_and_rest(wide: torch.Tensor, numerics: Numerics) -> tuple[torch.Tensor, torch.Tensor]:
    """Split a float64 into the number that computations use, and the remainder."""
    held = wide.to(numerics.compute)
    return held, torch.where(held.isinf(), 0.0, wide - held).to(numerics.compute)


def product_of(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Return a @ b, with each sum rounded once."""
    return rounded_once(lambda wide: wide @ b.double(), a)


def grouped_product_of(a: torch.Tensor, b: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
    """Multiply each row of `a` by the matrix of its group in `b`, rounding each sum once."""
    return rounded_once(lambda wide: grouped_mm(wide, b.double(), ends), a)


def scaled_product_of(
    operands: Sequence[torch.Tensor], blocks: BlocksAttr, step: int | None = None
) -> torch.Tensor:
    """Return x · Wᵀ, given `operands` x (M x K), W (N x K) and the scales of their blocks.

    The whole sum is rounded once, or every sum with `step` more elements of K.
    """
    x, weight, x_scales, weight_scales = operands
    size, wide, rows = step or blocks.depth.data, x.double(), weight.double()
    per_column = weight_scales.double().repeat_interleave(blocks.columns.data, 0)
    total = x.new_zeros(x.shape[0], weight.shape[0], dtype=torch.float64)
    for start in range(0, x.shape[-1], size):
        block = start // blocks.depth.data
        product = wide[:, start : start + size] @ rows[:, start : start + size].T
        scale = x_scales[:, block, None].double() * per_column[: weight.shape[0], block]
        total += product * scale
        total = total if step is None else total.to(x.dtype).double()
    return total.to(x.dtype)


def dequantized(
    operands: Sequence[torch.Tensor], scheme: QuantizedAttr, k: int, *, kn: bool
) -> torch.Tensor:
    """Return the weight (N x K) in float64, given `operands`: elements or words, scales, and
    optional zero points, which are K x N for `kn`.
    """
    words, scales, *zeros = (value.T if kn else value for value in operands)
    depth, order = scheme.depth.data, scheme.order
    along = {"k": 1, "n": 0}.get(scheme.axis)
    weight = (words if along is None else unpacked(words, order, along)).double()
    offset = torch.full_like(scales, scheme.offset.data, dtype=torch.float64)
    for zero in zeros:
        offset += unpacked(zero, order, 0) if zero.dtype == torch.int32 else zero

    def wide(groups: torch.Tensor) -> torch.Tensor:
        return groups.double().repeat_interleave(depth, 1)[:, :k]

    return (weight - wide(offset)) * wide(scales)


def unpacked(words: torch.Tensor, order: Sequence[int], axis: int) -> torch.Tensor:
    """Unpack four-bit elements from `words` along a dimension, at positions of `order`."""
    elements = torch.stack([words.int() >> 4 * position & 15 for position in order], -1)
    return (elements if axis else elements.movedim(-1, 1)).reshape(
        words.shape[0] * (1 if axis else len(order)), -1
    )


def rounded_to_float8(x: torch.Tensor, rows: int, columns: int) -> torch.Tensor:
    """Round x (M x N) to e4m3 and back, with a scale by magnitude for each `rows` x `columns`."""
    m, n = x.shape
    padded = F.pad(x, (0, -n % columns, 0, -m % rows))
    blocks = padded.reshape(padded.shape[0] // rows, rows, padded.shape[1] // columns, columns)
    largest = torch.finfo(torch.float8_e4m3fn).max
    scales = (blocks.abs().amax((1, 3), keepdim=True) / largest).clamp(min=1e-12)
    elements = (blocks / scales).to(torch.float8_e4m3fn).to(x.dtype)
    return (elements * scales).reshape(padded.shape)[:m, :n]


def vectors_of_rows(vectors: torch.Tensor, ends: torch.Tensor, rows: int) -> torch.Tensor:
    """Return the vector of each row's group in `vectors`; zeros for rows without a group."""
    number = torch.arange(rows, dtype=ends.dtype, device=ends.device)
    return F.pad(vectors, (0, 0, 0, 1))[torch.searchsorted(ends.contiguous(), number, right=True)]


def split_columns(x: torch.Tensor, *sizes: int) -> torch.Tensor:
    """Split the last dimension of `x` into several; the first is what remains after `sizes`."""
    return x.reshape(*x.shape[:-1], x.shape[-1] // prod(sizes), *sizes)


Handler: TypeAlias = Callable[[Any, Sequence[torch.Tensor], Numerics], Sequence[torch.Tensor]]
"""(operator, its operands ready to compute with, numerics) -> its results, not yet rounded."""

Handlers: TypeAlias = dict[type[Operation], Handler]


def place(op: Operation) -> str:
    """Return ` at file:line:column`, or "" if the location is unknown."""
    return f" at {format_location(op.location)}" if source_position(op.location) else ""


def check_index(
    op: Operation, value: SSAValue, index: torch.Tensor, extent: int, ignored: int | None = None
) -> None:
    """Raise unless all of `index`, the tensor of `value`, is in [0, extent) or `ignored`."""
    wrong = (index < 0) | (index >= extent)
    if ignored is not None:
        wrong &= index != ignored
    if not wrong.any():
        return
    row = int(wrong.flatten().nonzero()[0])
    or_ignored = "" if ignored is None else f", or {ignored}, which is ignored"
    raise IndexOutOfRangeError(
        f"{op.name}{place(op)}: {value.name_hint or 'the index'} has {index.flatten()[row]} in "
        f"row {row}, expected 0 to {extent - 1}{or_ignored}"
    )


Function = Callable[..., torch.Tensor]


def _function(operator: type[coda.ElementwiseOp]) -> Function:
    name, _, overload = str(operator.ATEN).partition(".")
    function = getattr(getattr(torch.ops.aten, name), overload)
    return partial(function, **operator.ATEN_OPTIONS)


ELEMENTWISE: Mapping[type[coda.ElementwiseOp], Function] = {
    operator: _function(operator) for operator in coda.ELEMENTWISE_OPS if operator.ATEN is not None
}
"""Functions of PyTorch by operator of the block level."""

SCALARS: Mapping[Scalar, Function] = {
    operator.SCALAR: function
    for operator, function in ELEMENTWISE.items()
    if operator.SCALAR is not None
}
"""Functions of PyTorch by operator of regions on floats and truth values."""
