"""Derivative operators: those that `derive-gradient` needs besides the operators of models."""

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    IntegerAttr,
    StringAttr,
    TensorType,
    UnitAttr,
    f32,
)
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    opt_result_def,
    prop_def,
    result_def,
    var_operand_def,
)
from xdsl.utils.exceptions import VerifyException

from coda_ir.dialects.coda.base import CodaOp
from coda_ir.dialects.coda.block import verify_loss, verify_padding
from coda_ir.dialects.coda.elementwise import GATES
from coda_ir.dialects.coda.elementwise_op import ElementwiseOp
from coda_ir.dialects.coda.extension import verify_like
from coda_ir.dialects.coda.infer_type import Extents, InferTypeOp, StatedShapeOp
from coda_ir.dialects.coda.library_call import expect_rank
from coda_ir.dialects.coda.linear import expect_ends
from coda_ir.dialects.coda.shapes import (
    computes_in_float32,
    dims_agree,
    element_type_of,
    expect_element_type,
    expect_integers,
    expect_one_of,
    expect_rank_at_least,
    expect_shape,
    expect_tensor,
    format_shape,
    is_float,
    optional_operand,
    shape_of,
    wrong_property,
    wrong_shape,
)


@irdl_op_definition
class WeightGradientOp(InferTypeOp):
    """dyᵀ · x, summed over all rows: the gradient of the weight of `coda.linear`, N x K.

    Accumulates in float32. The result may have another element type than the operands: float32
    for a gradient that is accumulated.

    `%dw = coda.weight_gradient %dy, %x : (tensor<?x16xbf16>, tensor<?x8xbf16>) ->
    tensor<16x8xbf16>`
    """

    RESULT_ELEMENTS: ClassVar = (None,)

    @staticmethod
    def infer(dy: Extents, x: Extents) -> list[Extents]:
        return [(dy[-1], x[-1])]

    dy = operand_def(TensorType)
    x = operand_def(TensorType)

    def check(self) -> None:
        expect_rank_at_least("operand dy", self.dy, 1)
        expect_rank_at_least("operand x", self.x, 1)
        expect_shape("operand x", self.x, (*shape_of(self.dy)[:-1], shape_of(self.x)[-1]))
        expect_element_type("operand x", self.x, element_type_of(self.dy))
        _expect_floats(self.dy, self.result)


@irdl_op_definition
class GroupedWeightGradientOp(InferTypeOp):
    """dyᵀ · x, summed over the rows of each group: the gradient of the weights of
    `coda.grouped_linear`, E x N x K.

    `offsets` has the end of each group of rows. Empty groups have zeros; rows after the last group
    belong to none. Accumulates in float32; the result may have another element type.

    `%dw = coda.grouped_weight_gradient %dy, %x, %ends : (tensor<?x16xbf16>, tensor<?x8xbf16>,
    tensor<4xi32>) -> tensor<4x16x8xbf16>`
    """

    RESULT_ELEMENTS: ClassVar = (None,)

    @staticmethod
    def infer(dy: Extents, x: Extents, offsets: Extents) -> list[Extents]:
        return [(*offsets, dy[-1], x[-1])]

    dy = operand_def(TensorType)
    x = operand_def(TensorType)
    offsets = operand_def(TensorType)

    def check(self) -> None:
        expect_rank("operand dy", self.dy, 2)
        expect_ends("operand offsets", self.offsets)
        expect_shape("operand x", self.x, (*shape_of(self.dy)[:-1], shape_of(self.x)[-1]))
        expect_element_type("operand x", self.x, element_type_of(self.dy))
        _expect_floats(self.dy, self.result)
        if not all(computes_in_float32(element_type_of(v)) for v in (self.dy, self.result)):
            raise VerifyException("gradients of grouped weights accumulate in f32, expected no f64")


def summed_dims(before: Sequence[int], after: Sequence[int]) -> tuple[int, ...]:
    """Return the dimensions of `before` that `after`, aligned at the right, lacks or has as 1."""
    missing = len(before) - len(after)
    ones = (
        missing + axis
        for axis, extent in enumerate(after)
        if extent == 1 and before[missing + axis] != 1
    )
    return (*range(missing), *ones)


@irdl_op_definition
class SumToOp(StatedShapeOp):
    """x summed over the dimensions that the result lacks, or has as 1: the adjoint of broadcasting.

    Dimensions are aligned at the right. Accumulates in float32; the result may have another element
    type than x.

    `%dbias = coda.sum_to %dy : (tensor<?x?x8xbf16>) -> tensor<8xbf16>`
    """

    x = operand_def(TensorType)

    def verify_(self) -> None:
        before, after = shape_of(self.x), shape_of(self.result)
        aligned = before[len(before) - len(after) :]
        fits = len(after) <= len(before) and all(
            extent == 1 or dims_agree(extent, summed)
            for extent, summed in zip(after, aligned, strict=True)
        )
        if not fits:
            shape = f"{format_shape(before)}, the shape of operand x"
            raise wrong_shape("result", after, f"one that broadcasts to {shape}")
        _expect_floats(self.x, self.result)

    @property
    def summed_dims(self) -> tuple[int, ...]:
        """The dimensions of x that are summed."""
        return summed_dims(shape_of(self.x), shape_of(self.result))

    @property
    def kept_dims(self) -> list[int]:
        """The dimensions of x with several elements that stay."""
        extents, summed = shape_of(self.x), self.summed_dims
        return [axis for axis, extent in enumerate(extents) if extent != 1 and axis not in summed]


DERIVED_FROM_RESULT = ("sigmoid", "tanh")
"""The activations of which PyTorch computes the derivative from the result: y · (1 − y), 1 − y²."""


@irdl_op_definition
class ActivationGradOp(ElementwiseOp):
    """act'(x) · dy, with PyTorch's convention at a kink: relu'(0) = 0.

    For `sigmoid` and `tanh`, `x` is the result of the activation.

    `%dx = coda.activation_grad %x, %dy {activation = "silu"} : (tensor<?x8xbf16>,
    tensor<?x8xbf16>) -> tensor<?x8xbf16>`
    """

    x = operand_def(TensorType)
    dy = operand_def(TensorType)
    activation = prop_def(StringAttr)

    def check(self) -> None:
        super().check()
        expect_one_of("activation", self.activation.data, GATES)


@irdl_op_definition
class MaximumGradOp(ElementwiseOp):
    """dy where a > b, dy/2 where they are equal, 0 elsewhere: the gradient of `coda.maximum` for a.

    With a and b exchanged it is the gradient for b, or that of `coda.minimum` for a. Where an
    operand is NaN, dy, as in PyTorch. `bound` marks a maximum or minimum with a number, of which
    the gradient is dy where they are equal, and 0 for NaN, as in PyTorch's `clamp`.

    `%da = coda.maximum_grad %a, %b, %dy : (tensor<?x8xf32>, tensor<8xf32>, tensor<?x8xf32>) ->
    tensor<?x8xf32>`
    """

    a = operand_def(TensorType)
    b = operand_def(TensorType)
    dy = operand_def(TensorType)
    bound = opt_prop_def(UnitAttr)


@irdl_op_definition
class CrossEntropyGradOp(InferTypeOp):
    """(softmax(logits) − onehot(target)) · dloss per row: the gradient of `coda.cross_entropy`.

    `dloss` has the type of the loss; it is divided by the number of targets that count for
    reduction `mean`. Rows whose target is `ignore_index` give 0. Computed in float32. `lse`, the
    logsumexp of each row as a column, is not computed again where it is given: the float32 and,
    in a separate column, what that lacks, or the float32 alone. A second result is
    the sum of logits ⊙ result over each row, as a column.

    With `start`, the logits are the columns from `start` on of longer rows, whose logsumexp is
    `lse`.
    """

    RESULT_ELEMENTS: ClassVar = (0, f32)

    @staticmethod
    def infer(logits: Extents, *_: Extents, **__: object) -> list[Extents]:
        return [logits, (*logits[:-1], 1)]

    logits = operand_def(TensorType)
    target = operand_def(TensorType)
    dloss = operand_def(TensorType)
    row_lse = var_operand_def(TensorType)
    ignore_index = prop_def(IntegerAttr)
    reduction = prop_def(StringAttr)
    start = opt_prop_def(IntegerAttr)
    result = result_def(TensorType)
    moment = opt_result_def(TensorType)

    @property
    def first_column(self) -> int:
        """The number of the first of the logits in its row."""
        return 0 if self.start is None else self.start.value.data

    def check(self) -> None:
        verify_loss(self.logits, self.target, self.reduction.data)
        per_row = self.reduction.data == "none"
        expect_shape("operand dloss", self.dloss, shape_of(self.target) if per_row else ())
        if self.first_column < 0:
            raise wrong_property("start", self.first_column, "at least 0")
        if self.start is not None and not self.row_lse:
            raise VerifyException("no operand lse, expected that of the rows that start before")
        if len(self.row_lse) > 2:
            raise VerifyException(f"{len(self.row_lse)} operands lse, expected at most 2")
        for lse in self.row_lse:
            expect_tensor("operand lse", lse, (*shape_of(self.target), 1), f32)
        _expect_floats(self.logits, self.dloss)


@irdl_op_definition
class EmbeddingGradOp(CodaOp):
    """The rows of dy added up by id: the gradient of the table of `coda.embedding`.

    If the number of rows is dynamic, a third operand provides the shape. The row `padding_idx` of
    the result is 0.

    `%dtable = coda.embedding_grad %ids, %dy : (tensor<?xi64>, tensor<?x8xbf16>) ->
    tensor<100x8xbf16>`
    """

    ids = operand_def(TensorType)
    dy = operand_def(TensorType)
    like = opt_operand_def(TensorType)
    padding_idx = opt_prop_def(IntegerAttr)
    result = result_def(TensorType)

    def __init__(
        self,
        ids: SSAValue | Operation,
        dy: SSAValue | Operation,
        rows: int,
        like: SSAValue | Operation | None = None,
        *,
        padding_idx: int | None = None,
    ):
        dy = SSAValue.get(dy)
        shape = (rows, shape_of(dy)[-1])
        super().__init__(
            operands=[ids, dy, optional_operand(like)],
            properties={
                "padding_idx": None if padding_idx is None else IntegerAttr(padding_idx, 64)
            },
            result_types=[TensorType(element_type_of(dy), shape)],
        )

    @property
    def padding(self) -> int | None:
        """The number of the row that is 0."""
        return None if self.padding_idx is None else self.padding_idx.value.data

    def verify_(self) -> None:
        expect_integers("operand ids", self.ids)
        expect_rank_at_least("operand dy", self.dy, 1)
        columns = shape_of(self.dy)[-1]
        expect_shape("operand dy", self.dy, (*shape_of(self.ids), columns))
        expect_rank("result", self.result, 2)
        expect_shape("result", self.result, (shape_of(self.result)[0], columns))
        expect_element_type("result", self.result, element_type_of(self.dy))
        _expect_floats(self.dy)
        is_dynamic = shape_of(self.result)[0] == DYNAMIC_INDEX
        verify_like(self.like, self.result, [0] if is_dynamic else [])
        verify_padding(self.padding, shape_of(self.result)[0])


def _expect_floats(*values: SSAValue) -> None:
    for value in values:
        if not is_float(element_type_of(value)):
            raise VerifyException(
                f"element type {element_type_of(value)}, expected a float type: there is no "
                "gradient of integers"
            )
