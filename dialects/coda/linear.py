"""Linear maps, which become GEMMs."""

from abc import ABC
from typing import ClassVar

from xdsl.dialects.builtin import IntegerAttr, TensorType, i32, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, opt_operand_def, prop_def, result_def
from xdsl.utils.exceptions import VerifyException

from coda_ir.dialects.coda.infer_type import Extents, InferTypeOp, InferTypesOp
from coda_ir.dialects.coda.library_call import expect_rank
from coda_ir.dialects.coda.shapes import (
    computes_in_float32,
    dims_agree,
    element_type_of,
    expect_element_type,
    expect_factor,
    expect_integers,
    expect_rank_at_least,
    expect_tensor,
    format_shape,
    is_float,
    product_type,
    shape_of,
    stores_floats,
    wrong_property,
    wrong_shape,
)


def verify_linear(
    x: SSAValue, weight: SSAValue, bias: SSAValue | None, result: SSAValue, *, k: int
) -> None:
    """Check x (... x K), weight with K in dimension `k`, bias (N) and the element types."""
    expect_rank_at_least("operand x", x, 1)
    expect_rank("operand weight", weight, 2)
    _verify_product(x, weight, result, k)
    if bias is not None:
        columns = shape_of(weight)[1 - k]
        expect_tensor("operand bias", bias, (columns,), product_type(element_type_of(x)))


def _verify_product(x: SSAValue, weight: SSAValue, result: SSAValue, k: int) -> None:
    """Check that the weight has the K of x in dimension `k`, and an element type for it."""
    inner = shape_of(weight)[k]
    if not dims_agree(shape_of(x)[-1], inner):
        raise VerifyException(
            f"operand weight of shape {format_shape(shape_of(weight))} has K = {inner} in "
            f"dimension {k}, expected {shape_of(x)[-1]}, the last dimension of operand x"
        )
    _verify_floats(x, result)
    expect_factor("operand weight", weight, x)


def _verify_floats(x: SSAValue, result: SSAValue) -> None:
    if not stores_floats(element_type_of(x)) or not is_float(element_type_of(result)):
        raise VerifyException("linear maps need floating-point operands and results")


PATCHES = "coda.patches"
"""The attribute of a linear map of the patches of an image, which was a convolution."""


def rows_by_rows(x: Extents, weight: Extents, *_: Extents, **__: object) -> list[Extents]:
    """Return the rule of x · Wᵀ with W of N x K."""
    return [(*x[:-1], weight[0])]


class Product(InferTypeOp, ABC):
    """An operator with the element type of a product of its first two operands, or a stated one."""

    RESULT_ELEMENTS: ClassVar = (None,)

    @classmethod
    def default_element_type(cls, x: SSAValue) -> Attribute:
        return product_type(element_type_of(x))


@irdl_op_definition
class LinearOp(Product):
    """x · Wᵀ (+ b) with the weight as PyTorch stores it: W is N x K.

    Accumulates in float32; the result may have a wider element type than the operands. x and the
    weight have one float type, or two float8 types, of which the product is f32 unless stated; or
    the weight has 8 bits (i8, ui8 or float8), and its elements are multiplied in the type of x.

    `%y = coda.linear %x, %w : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xbf16>`
    """

    infer = rows_by_rows
    x = operand_def(TensorType)
    weight = operand_def(TensorType)
    bias = opt_operand_def(TensorType)

    def check(self) -> None:
        verify_linear(self.x, self.weight, self.bias, self.result, k=1)


@irdl_op_definition
class MatmulOp(Product):
    """x · W with W a K x N matrix (the layout of GPT-2's Conv1D). Accumulates in float32.

    `%y = coda.matmul %x, %w : (tensor<?x8xbf16>, tensor<8x16xbf16>) -> tensor<?x16xbf16>`
    """

    @staticmethod
    def infer(x: Extents, weight: Extents, *_: Extents, **__: object) -> list[Extents]:
        return [(*x[:-1], weight[1])]

    x = operand_def(TensorType)
    weight = operand_def(TensorType)

    def check(self) -> None:
        verify_linear(self.x, self.weight, None, self.result, k=0)


def expect_ends(what: str, value: SSAValue) -> None:
    """Raise unless `value` has the type of the ends of one or more groups of rows."""
    expect_rank(what, value, 1)
    expect_element_type(what, value, i32)
    if not shape_of(value)[0]:
        raise wrong_shape(what, shape_of(value), "at least one group")


class GroupedLinearMap(Product, ABC):
    """A linear map whose weight depends on the row: there is one for each group of rows.

    The rows of x (M x K) are sorted by group. `offsets` has the end of each group, as
    `torch.nn.functional.grouped_mm` takes them: integers that never decrease, up to M. Groups may
    be empty. Of rows after the last group, which belong to none, results are left open.
    """

    K_AXIS: ClassVar[int]
    """The dimension of K in the weight of a group."""

    x = operand_def(TensorType)
    weight = operand_def(TensorType)
    offsets = operand_def(TensorType)
    bias = opt_operand_def(TensorType)

    def check(self) -> None:
        expect_rank("operand x", self.x, 2)
        expect_rank("operand weight", self.weight, 3)
        groups, outer = shape_of(self.weight)[0], shape_of(self.weight)[2 - self.K_AXIS]
        expect_tensor("operand offsets", self.offsets, (groups,), i32)
        _verify_product(self.x, self.weight, self.result, self.K_AXIS + 1)
        if self.bias is not None:
            expect_tensor(
                "operand bias", self.bias, (groups, outer), product_type(element_type_of(self.x))
            )
        if not all(computes_in_float32(element_type_of(v)) for v in (self.x, self.result)):
            raise VerifyException("grouped linear maps accumulate in f32, expected no f64")


@irdl_op_definition
class GroupedLinearOp(GroupedLinearMap):
    """x · Wᵀ (+ b) with the weight (N x K) and the bias of each row's group: W is E x N x K, b is
    E x N. The experts of a mixture are such groups (arXiv 2211.15841).

    `%y = coda.grouped_linear %x, %w, %ends : (tensor<?x8xbf16>, tensor<4x16x8xbf16>,
    tensor<4xi32>) -> tensor<?x16xbf16>`
    """

    K_AXIS: ClassVar = 1

    @staticmethod
    def infer(x: Extents, weight: Extents, *_: Extents, **__: object) -> list[Extents]:
        return [(x[0], weight[1])]


@irdl_op_definition
class GroupedMatmulOp(GroupedLinearMap):
    """x · W (+ b) with the weight (K x N) and the bias of each row's group: W is E x K x N.

    `%y = coda.grouped_matmul %x, %w, %ends : (tensor<?x8xbf16>, tensor<4x8x16xbf16>,
    tensor<4xi32>) -> tensor<?x16xbf16>`
    """

    K_AXIS: ClassVar = 0

    @staticmethod
    def infer(x: Extents, weight: Extents, *_: Extents, **__: object) -> list[Extents]:
        return [(x[0], weight[2])]


@irdl_op_definition
class GroupOrderOp(InferTypesOp):
    """The order that sorts rows by group number, and the end of each group in that order.

    `ids` has one group number for each row, from 0 to `groups` - 1. Rows of a group keep their
    order. The results equal those of a stable sort, and of the running sum of a histogram.

    `%order, %ends = coda.group_order %ids {groups = 4 : i64} : (tensor<?xi64>) -> (tensor<?xi64>,
    tensor<4xi32>)`
    """

    RESULT_ELEMENTS: ClassVar = (i64, i32)

    @staticmethod
    def infer(ids: Extents, *, groups: int) -> list[Extents]:
        return [ids, (groups,)]

    ids = operand_def(TensorType)
    groups = prop_def(IntegerAttr)
    order = result_def(TensorType)
    ends = result_def(TensorType)

    def check(self) -> None:
        expect_rank("operand ids", self.ids, 1)
        expect_integers("operand ids", self.ids)
        if not 1 <= self.given["groups"] <= MAX_GROUPS:
            raise wrong_property("groups", self.given["groups"], f"1 to {MAX_GROUPS}")


MAX_GROUPS = 512
"""Groups that a program of `coda.group_order` counts in registers."""
