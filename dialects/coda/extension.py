"""Operators that extend tensors by repetition or padding."""

from collections.abc import Sequence

from xdsl.dialects.builtin import DYNAMIC_INDEX, FloatAttr, IntegerAttr, TensorType
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
)
from xdsl.utils.exceptions import VerifyException

from coda_ir.dialects.coda.casts import expect_float_constant
from coda_ir.dialects.coda.infer_type import StatedShapeOp
from coda_ir.dialects.coda.shapes import (
    broadcast_shapes,
    element_type_of,
    expect_dim,
    expect_element_type,
    expect_like,
    expect_shape,
    expect_tensor,
    format_shape,
    shape_of,
    shapes_agree,
    wrong_shape,
)


@irdl_op_definition
class BroadcastOp(StatedShapeOp):
    """x repeated along the dimensions that it lacks, or has as 1: the adjoint of a sum.

    If x is repeated along a dynamic extent, a second operand provides the shape.

    `%dx = coda.broadcast %dy : (tensor<?x1xf32>) -> tensor<?x8xf32>`
    """

    x = operand_def(TensorType)
    like = opt_operand_def(TensorType)

    def verify_(self) -> None:
        before, after = shape_of(self.x), shape_of(self.result)
        merged = broadcast_shapes(before, after)
        if merged is None or len(before) > len(after) or not shapes_agree(merged, after):
            shape = f"{format_shape(before)}, the shape of operand x,"
            raise wrong_shape("result", after, f"one that {shape} broadcasts to")
        expect_element_type("result", self.result, element_type_of(self.x))
        padded = (1,) * (len(after) - len(before)) + tuple(before)
        unknown = [
            axis
            for axis, extent in enumerate(after)
            if extent == DYNAMIC_INDEX and padded[axis] != DYNAMIC_INDEX
        ]
        verify_like(self.like, self.result, unknown)


@irdl_op_definition
class PadOp(StatedShapeOp):
    """x padded in dimension `dim`: x begins at `start`, and the other elements are a number, by
    default 0. It is also the adjoint of `coda.slice`.

    If the extent of the result is dynamic, a second operand provides it; or the extent of x is
    dynamic as well, and `after` is the number of elements after x.

    `%dx = coda.pad %dy {dim = 1 : i64, start = 0 : i64} : (tensor<?x8xf32>) -> tensor<?x16xf32>`
    """

    x = operand_def(TensorType)
    like = opt_operand_def(TensorType)
    dim = prop_def(IntegerAttr)
    start = prop_def(IntegerAttr)
    after = opt_prop_def(IntegerAttr)
    value = opt_prop_def(FloatAttr | IntegerAttr)

    def __init__(
        self,
        x: SSAValue | Operation,
        dim: int,
        start: int,
        extent: int,
        like: SSAValue | Operation | None = None,
        *,
        after: int | None = None,
        value: float | int = 0,
    ):
        shape = list(shape_of(SSAValue.get(x)))
        shape[dim] = extent
        super().__init__(x, shape, like, dim=dim, start=start, after=after, value=value or None)

    @staticmethod
    def around(
        x: SSAValue | Operation, dim: int, before: int, after: int, value: float | int = 0
    ) -> "PadOp":
        """Pad x by the given numbers of elements before and after a dimension."""
        extent = shape_of(SSAValue.get(x))[dim]
        if extent == DYNAMIC_INDEX:
            return PadOp(x, dim, before, extent, after=after, value=value)
        return PadOp(x, dim, before, before + extent + after, value=value)

    @property
    def range(self) -> tuple[int, int, int]:
        """Dimension, and where x, of static extent, starts and stops in the result."""
        dim, start = self.dim.value.data, self.start.value.data
        return dim, start, start + shape_of(self.x)[dim]

    @property
    def added(self) -> tuple[int, int] | None:
        """The numbers of elements before and after x; None if another operand sets the extent."""
        dim, start, stop = self.range
        if self.after is not None:
            return start, self.after.value.data
        extent = shape_of(self.result)[dim]
        return None if extent == DYNAMIC_INDEX else (start, extent - stop)

    @property
    def number(self) -> float | int:
        """The number around x."""
        return 0 if self.value is None else self.value.value.data

    def verify_(self) -> None:
        shape = list(shape_of(self.x))
        dim = self.dim.value.data
        expect_dim(dim, len(shape))
        if isinstance(self.value, FloatAttr):
            expect_float_constant(self.x)
        if self.after is not None:
            self._verify_after(dim, self.after.value.data)
            return
        if shape[dim] == DYNAMIC_INDEX:
            raise VerifyException(
                f"dimension {dim} of operand x is dynamic, expected a static extent, or the "
                "property after"
            )
        _, start, stop = self.range
        if len(shape_of(self.result)) == len(shape):
            extent = shape[dim] = shape_of(self.result)[dim]
            if start < 0 or (extent != DYNAMIC_INDEX and stop > extent):
                raise VerifyException(
                    f"range {start} to {stop} is outside of the {format_shape((extent,))} "
                    f"elements of dimension {dim} of the result"
                )
        expect_tensor("result", self.result, shape, element_type_of(self.x))
        verify_like(self.like, self.result, [dim] if shape[dim] == DYNAMIC_INDEX else [])

    def _verify_after(self, dim: int, after: int) -> None:
        """Raise unless x is extended by numbers of elements that are stated."""
        for name, count in (("start", self.start.value.data), ("after", after)):
            if count < 0:
                raise VerifyException(f"property {name} is {count}, expected 0 or more")
        if self.like is not None:
            raise VerifyException("both operand like and property after, expected one of them")
        if shape_of(self.x)[dim] != DYNAMIC_INDEX:
            raise VerifyException(
                f"property after is given, but dimension {dim} of operand x is static: expected "
                "the extent of the result alone"
            )
        expect_like("result", self.result, self.x)


def verify_like(like: SSAValue | None, result: SSAValue, unknown: Sequence[int]) -> None:
    """Check the operand that gives the shape, for the `unknown` dimensions of `result`."""
    if like is not None:
        expect_shape("operand like", like, shape_of(result))
    elif unknown:
        raise VerifyException(
            f"dimension {unknown[0]} of the result is dynamic and no operand has it, expected an "
            "operand like with the shape of the result"
        )
