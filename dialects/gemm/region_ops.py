"""Operators of epilogue regions that `arith` and `math` do not have."""

from abc import ABC
from typing import ClassVar

from xdsl.dialects.builtin import Float32Type, IntegerAttr, f32, i32, i64
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.irdl import (
    AtLeast,
    EqAttrConstraint,
    IRDLOperation,
    ParsePropInAttrDict,
    VarConstraint,
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import IsTerminator, Pure

from coda_ir.dialects.gemm.attrs import Combiner, CombinerAttr

INDEX = EqAttrConstraint(i32) | EqAttrConstraint(i64)
"""The types of numbers of columns."""


@irdl_op_definition
class YieldOp(IRDLOperation):
    """Ends an epilogue region: the element (or the pair of elements) of each result in order."""

    name = "gemm.yield"
    values = var_operand_def(Attribute)
    traits = traits_def(IsTerminator(), Pure())
    assembly_format = "attr-dict ($values^ `:` type($values))?"

    def __init__(self, *values: SSAValue | Operation):
        super().__init__(operands=[[SSAValue.get(value) for value in values]])


def unchanged_region(count: int = 1) -> Region:
    """Return the region of an epilogue that stores its accumulators unchanged."""
    block = Block(arg_types=[f32] * count)
    block.add_op(YieldOp(*block.args))
    return Region(block)


@irdl_op_definition
class GroupReduceOp(IRDLOperation):
    """Combines a value over each group of `group` consecutive columns of the row and gives the
    result to every column of the group: statistics that are local to a tile (per-head QK norm).

    In pair mode the value is one per pair and the group has the pairs of `group` columns.

    `%s = gemm.group_reduce add %sq over 128 : f32`
    """

    name = "gemm.group_reduce"
    value = operand_def(Float32Type)
    combiner = prop_def(CombinerAttr)
    group = prop_def(IntegerAttr.constr(value=AtLeast(1), type=EqAttrConstraint(i64)))
    result = result_def(Float32Type)
    traits = traits_def(Pure())
    assembly_format = "$combiner $value `over` $group attr-dict `:` type($value)"

    def __init__(self, value: SSAValue | Operation, combiner: Combiner, group: int):
        super().__init__(
            operands=[value],
            properties={"combiner": CombinerAttr(combiner), "group": IntegerAttr(group, 64)},
            result_types=[f32],
        )


@irdl_op_definition
class ColumnOp(IRDLOperation):
    """The number of the column that the region is applied to, counted in the segment's columns.

    Not in pair mode, where an element has two.

    `%n = gemm.column : i64`
    """

    name = "gemm.column"
    result = result_def(INDEX)
    traits = traits_def(Pure())
    assembly_format = "attr-dict `:` type($result)"

    def __init__(self, type: Attribute):
        super().__init__(result_types=[type])


@irdl_op_definition
class CheckedIndexOp(IRDLOperation):
    """An index that is known to be one of 0 to `extent` - 1, or `ignored`: another one ends the
    program with an error, as PyTorch's losses do.

    `%t = gemm.checked_index %target {extent = 32000 : i64, ignored = -100 : i64} : i64`
    """

    name = "gemm.checked_index"
    T: ClassVar = VarConstraint("T", INDEX)

    index = operand_def(T)
    extent = prop_def(IntegerAttr.constr(value=AtLeast(1), type=EqAttrConstraint(i64)))
    ignored = prop_def(IntegerAttr)
    result = result_def(T)
    traits = traits_def(Pure())
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$index attr-dict `:` type($index)"

    def __init__(self, index: SSAValue | Operation, extent: int, ignored: int):
        super().__init__(
            operands=[index],
            properties={"extent": IntegerAttr(extent, 64), "ignored": IntegerAttr(ignored, 64)},
            result_types=[SSAValue.get(index).type],
        )


class _FloorDivision(IRDLOperation, ABC):
    """An operator on two floats that is exact where their quotient is below 2^20."""

    lhs = operand_def(Float32Type)
    rhs = operand_def(Float32Type)
    result = result_def(Float32Type)
    traits = traits_def(Pure())
    assembly_format = "$lhs `,` $rhs attr-dict"

    def __init__(self, lhs: SSAValue | Operation, rhs: SSAValue | Operation):
        super().__init__(operands=[lhs, rhs], result_types=[f32])


class _Function(IRDLOperation, ABC):
    """A function of one float."""

    x = operand_def(Float32Type)
    result = result_def(Float32Type)
    traits = traits_def(Pure())
    assembly_format = "$x attr-dict"

    def __init__(self, x: SSAValue | Operation):
        super().__init__(operands=[x], result_types=[f32])


@irdl_op_definition
class NormalCdfOp(_Function):
    """The probability that a standard normal number is below x: `%p = gemm.normal_cdf %x`."""

    name = "gemm.normal_cdf"


@irdl_op_definition
class SoftplusOp(_Function):
    """log(1 + exp(x)), exact to a few ulp: `%y = gemm.softplus %x`."""

    name = "gemm.softplus"


@irdl_op_definition
class FloorDivideOp(_FloorDivision):
    """floor(a / b), as `torch.floor_divide`: `%q = gemm.floor_divide %a, %b`."""

    name = "gemm.floor_divide"


@irdl_op_definition
class RemainderOp(_FloorDivision):
    """a − floor(a / b) · b, as `torch.remainder`: `%r = gemm.remainder %a, %b`."""

    name = "gemm.remainder"
