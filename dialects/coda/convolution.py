"""Depthwise convolutions, as sums of shifted rows."""

from collections.abc import Callable

from xdsl.dialects.builtin import f32
from xdsl.ir import Attribute, Operation, SSAValue

from coda_ir.dialects.coda.casts import CastOp
from coda_ir.dialects.coda.elementwise import AddOp, MulOp
from coda_ir.dialects.coda.shape import ReshapeOp, ShiftOp, SliceOp
from coda_ir.dialects.coda.shapes import computes_in_float32, element_type_of, shape_of

MAX_TAPS = 16
"""The positions of a window, at most, of which a pointwise kernel reads all rows."""

Insert = Callable[[Operation], SSAValue]


def shifted_convolution(
    insert: Insert,
    x: SSAValue,
    weight: SSAValue,
    bias: SSAValue | None,
    *,
    before: int,
    dilation: int = 1,
) -> SSAValue:
    """sum over k of weight[c, k] · x[b, t + dilation · k − before, c], plus the bias; 0 where x has
    no such position. It adds up in float32, and rounds once.

    `x` is B x T x C, `weight` C x K or C x 1 x K.
    """
    type, (channels, *_, taps) = element_type_of(x), shape_of(weight)
    wide = f32 if computes_in_float32(type) else type
    total: SSAValue | None = None
    for tap in range(taps):
        distance = before - dilation * tap
        row = insert(ShiftOp(x, distance)) if distance else x
        last = len(shape_of(weight)) - 1
        column = insert(ReshapeOp(insert(SliceOp(weight, last, tap, tap + 1)), (channels,)))
        row.name_hint, column.name_hint = x.name_hint, weight.name_hint
        product = insert(MulOp(_cast(insert, row, wide), _cast(insert, column, wide)))
        total = product if total is None else insert(AddOp(total, product))
    assert total is not None, "a window has a position"
    if bias is not None:
        total = insert(AddOp(total, _cast(insert, bias, wide)))
    return _cast(insert, total, type)


def _cast(insert: Insert, value: SSAValue, type: Attribute) -> SSAValue:
    return value if element_type_of(value) == type else insert(CastOp(value, type))
