"""Linear maps of quantized operands, whose scales vary along K."""

from typing import ClassVar

from xdsl.dialects.builtin import DYNAMIC_INDEX, IntAttr, TensorType, UnitAttr, f32
from xdsl.ir import SSAValue
from xdsl.irdl import (
    irdl_attr_definition,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
)
from xdsl.utils.exceptions import VerifyException

from coda_ir.dialects.coda.library_call import expect_rank
from coda_ir.dialects.coda.linear import Product, rows_by_rows, verify_linear
from coda_ir.dialects.coda.shapes import (
    ceiling,
    computes_in_float32,
    element_type_of,
    expect_element_type,
    expect_rank_at_least,
    expect_shape,
    is_float,
    is_float8,
    shape_of,
    wrong_property,
    wrong_type,
)
from coda_ir.dialects.fields import FieldsAttr

LEAST_DEPTH = 32
"""K of the smallest blocks: what tensor cores multiply of float8 at once."""


@irdl_attr_definition
class BlocksAttr(FieldsAttr):
    """The elements of the operands of a linear map that share a scale: `#coda.blocks<128, 128>`.

    x (M x K) has one for `depth` neighbours of a row, and the weight (N x K) one for `columns` of
    its rows by `depth` neighbours of each. The last block of a row or a column may be smaller.
    """

    name = "coda.blocks"
    depth: IntAttr
    columns: IntAttr

    UNNAMED: ClassVar = ("depth", "columns")

    @staticmethod
    def get(depth: int = 128, columns: int = 128) -> "BlocksAttr":
        return BlocksAttr(IntAttr(depth), IntAttr(columns))

    def verify(self) -> None:
        for name, size, least in (
            ("depth", self.depth.data, LEAST_DEPTH),
            ("columns", self.columns.data, 1),
        ):
            if size < least or size & (size - 1):
                raise wrong_property(name, size, f"a power of two of at least {least}")

    def verify_scales(
        self, x: SSAValue, weight: SSAValue, x_scales: SSAValue, weight_scales: SSAValue
    ) -> None:
        """Raise VerifyException unless x and weight are float8, with f32 scales of blocks."""
        for what, value in (("operand x", x), ("operand weight", weight)):
            if not is_float8(element_type_of(value)):
                raise wrong_type(what, value, "a float8 type, as it has scales of blocks")
        *rows, k = shape_of(x)
        n, depth = shape_of(weight)[0], ceiling(k, self.depth.data)
        expect_element_type("operand x_scales", x_scales, f32)
        expect_element_type("operand weight_scales", weight_scales, f32)
        expect_shape("operand x_scales", x_scales, (*rows, depth))
        expect_shape("operand weight_scales", weight_scales, (ceiling(n, self.columns.data), depth))


@irdl_op_definition
class ScaledLinearOp(Product):
    """x · Wᵀ of float8 operands with scales of blocks, as in DeepSeek-V3 (arXiv 2412.19437).

    Element (m, n) is the sum over the blocks b of K of sx[m, b] · sw[n / columns, b] · (x_b · w_b),
    where x_b and w_b are the elements of row m of x and row n of W in block b. The product of each
    block is scaled and added in float32.

    `%y = coda.scaled_linear %x, %w, %sx, %sw {blocks = #coda.blocks<128, 128>} :
    (tensor<?x256xf8E4M3FN>, tensor<512x256xf8E4M3FN>, tensor<?x2xf32>, tensor<4x2xf32>) ->
    tensor<?x512xf32>`
    """

    infer = rows_by_rows

    x = operand_def(TensorType)
    weight = operand_def(TensorType)
    x_scales = operand_def(TensorType)
    weight_scales = operand_def(TensorType)
    blocks = prop_def(BlocksAttr)

    def check(self) -> None:
        verify_linear(self.x, self.weight, None, self.result, k=1)
        self.blocks.verify_scales(self.x, self.weight, self.x_scales, self.weight_scales)


@irdl_op_definition
class QuantizedLinearOp(Product):
    """x · Wᵀ of wide operands that are rounded to float8 (e4m3) for the product.

    Without `blocks`, a row of x and a row of W (N x K) have one scale; with it, the blocks do, as
    those of `coda.scaled_linear`. A scale is the largest magnitude of its elements divided by 448.
    The gradient goes straight through the rounding (arXiv 1308.3432). That of x is a product of
    float8, too; that of W only with `quantized_gradient`, because its scales lie along the rows of
    x and of the gradient (tokens), which takes other copies of both.

    `%y = coda.quantized_linear %x, %w : (tensor<?x256xbf16>, tensor<512x256xf32>) ->
    tensor<?x512xbf16>`
    """

    infer = rows_by_rows
    x = operand_def(TensorType)
    weight = operand_def(TensorType)
    blocks = opt_prop_def(BlocksAttr)
    quantized_gradient = opt_prop_def(UnitAttr)

    def check(self) -> None:
        expect_rank_at_least("operand x", self.x, 1)
        expect_rank("operand weight", self.weight, 2)
        values = {"operand x": self.x, "operand weight": self.weight, "result": self.result}
        for what, value in values.items():
            type = element_type_of(value)
            if not is_float(type) or not computes_in_float32(type):
                raise wrong_type(what, value, "bf16, f16 or f32, as the operator quantizes")
        if self.blocks is not None and DYNAMIC_INDEX in shape_of(self.weight):
            raise VerifyException(
                "operand weight has a dynamic extent, expected static ones: blocks are counted"
            )
        expect_shape(
            "operand weight", self.weight, (shape_of(self.weight)[0], shape_of(self.x)[-1])
        )
