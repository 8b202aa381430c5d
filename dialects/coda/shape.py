"""Operators that move or view elements: reshape, transpose, slice, shift, concat."""

from collections.abc import Sequence
from math import prod

from xdsl.dialects.builtin import DYNAMIC_INDEX, ArrayAttr, IntegerAttr, TensorType
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    prop_def,
    var_operand_def,
)
from xdsl.utils.exceptions import VerifyException

from coda_ir.dialects.coda.infer_type import Extents, InferTypeOp, StatedShapeOp, replaced, total
from coda_ir.dialects.coda.shapes import (
    element_type_of,
    expect_element_type,
    expect_rank_at_least,
    expect_tensor,
    format_shape,
    shape_of,
)


@irdl_op_definition
class ReshapeOp(StatedShapeOp):
    """The same elements in row-major order under another shape.

    At most one dimension of the result is taken from the number of elements.
    """

    x = operand_def(TensorType)

    def verify_(self) -> None:
        before, after = shape_of(self.x), shape_of(self.result)
        static = DYNAMIC_INDEX not in (*before, *after)
        if static and prod(before) != prod(after):
            raise VerifyException(
                f"result of shape {format_shape(after)} has {prod(after)} elements, "
                f"expected the {prod(before)} of operand x"
            )
        expect_element_type("result", self.result, element_type_of(self.x))


@irdl_op_definition
class TransposeOp(InferTypeOp):
    """Permutation of the dimensions: result dimension i is dimension perm[i] of x."""

    @staticmethod
    def infer(x: Extents, perm: Sequence[int]) -> list[Extents]:
        return [tuple(x[axis] for axis in perm)]

    x = operand_def(TensorType)
    perm = prop_def(ArrayAttr[IntegerAttr])

    @property
    def permutation(self) -> tuple[int, ...]:
        return tuple(p.value.data for p in self.perm)

    @property
    def keeps_columns(self) -> bool:
        """True if the last dimension stays the last one."""
        return self.permutation[-1] == len(self.permutation) - 1

    def check(self) -> None:
        rank = len(shape_of(self.x))
        if sorted(self.permutation) != list(range(rank)):
            raise VerifyException(
                f"property perm is {list(self.permutation)}, expected a permutation of "
                f"{list(range(rank))}"
            )


@irdl_op_definition
class SliceOp(InferTypeOp):
    """Elements start <= i < stop of dimension `dim`.

    `coda.slice %x {dim = 1 : i64, start = 0 : i64, stop = 8 : i64} : (tensor<?x16xf32>) -> ...`
    """

    @staticmethod
    def infer(x: Extents, dim: int, start: int, stop: int) -> list[Extents]:
        return [replaced(x, dim, stop - start)]

    x = operand_def(TensorType)
    dim = prop_def(IntegerAttr)
    start = prop_def(IntegerAttr)
    stop = prop_def(IntegerAttr)

    @property
    def range(self) -> tuple[int, int, int]:
        """Dimension, start and stop."""
        return self.dim.value.data, self.start.value.data, self.stop.value.data

    def check(self) -> None:
        dim, start, stop = self.range
        extent = shape_of(self.x)[dim]
        if not 0 <= start <= stop or (extent != DYNAMIC_INDEX and stop > extent):
            raise VerifyException(
                f"range {start} to {stop} is outside of the {format_shape((extent,))} "
                f"elements of dimension {dim}"
            )


@irdl_op_definition
class ShiftOp(InferTypeOp):
    """x later by `by` positions, which are the dimension before the last one: row t of the result
    is row t − by of x, and 0 where x has no such row.

    Pointwise kernels read the rows where they are. A causal convolution of each column is a sum of
    shifted rows.

    `coda.shift %x {by = 1 : i64} : (tensor<?x?x8xbf16>) -> tensor<?x?x8xbf16>`
    """

    x = operand_def(TensorType)
    by = prop_def(IntegerAttr)

    @property
    def distance(self) -> int:
        """The number of positions; negative where rows come earlier."""
        return self.by.value.data

    def check(self) -> None:
        expect_rank_at_least("operand x", self.x, 2)


@irdl_op_definition
class ConcatOp(InferTypeOp):
    """The operands one after the other along dimension `dim`."""

    @staticmethod
    def infer(*parts: Extents, dim: int) -> list[Extents]:
        return [replaced(parts[0], dim, total([part[dim] for part in parts]))]

    parts = var_operand_def(TensorType)
    dim = prop_def(IntegerAttr)

    def check(self) -> None:
        dim = self.dim.value.data
        if not self.parts:
            raise VerifyException("no operands, expected at least one")
        rank = len(shape_of(self.parts[0]))
        for index, part in enumerate(self.parts):
            expected = list(shape_of(self.parts[0]))
            if len(shape_of(part)) == rank:
                expected[dim] = shape_of(part)[dim]
            expect_tensor(f"operand {index}", part, expected, element_type_of(self.parts[0]))


@irdl_op_definition
class BarrierOp(InferTypeOp):
    """x, available only after the operands `after` have been computed.

    What reads the result neither moves in front of them nor shares a kernel with what they need:
    so parts of a large tensor are computed one after the other, in the same memory. Costs nothing;
    the pass `drop-barriers` removes it when nothing moves any more. XLA calls it an optimization
    barrier.

    `%h1 = coda.barrier %h, %dw0 : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x8xbf16>`
    """

    x = operand_def(TensorType)
    after = var_operand_def(TensorType)
