"""Elementwise operators on the elements of an epilogue, by the rules that tensors have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.dialects.builtin import TensorType as IRTensorType
from xdsl.ir import Block, Operation, SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import element_type_of, float_type, is_float
from coda_ir.dialects.gemm import ScalarBuilder
from coda_ir.dialects.gemm.scalar_code import emit_scalar
from coda_ir.frontends.coda_text.arguments import Mistake
from coda_ir.frontends.coda_text.invocation import Invocation
from coda_ir.frontends.coda_text.operators import Rule
from coda_ir.frontends.coda_text.values import (
    CODA_NAMES,
    ScalarValue,
    TensorType,
    TensorValue,
    TupleValue,
    Value,
    element_name,
)


def call_on_elements(
    builder: ScalarBuilder, name: str, values: Mapping[str, Sequence[Value]], rule: Rule
) -> ScalarValue:
    """The element that `rule` computes of elements and numbers. May raise Mistake.

    For the rule, an element is a tensor without dimensions.
    """
    elements = _Elements(builder)
    given = {
        parameter: [elements.wrapped(value, parameter) for value in each]
        for parameter, each in values.items()
    }
    result = rule(Invocation(name, given, elements.insert))
    assert isinstance(result, TensorValue)
    return ScalarValue(elements.scalars[result.ssa])


class _Elements:
    """Values of a region, by the tensors that represent them."""

    def __init__(self, builder: ScalarBuilder):
        self.scalars: dict[SSAValue, SSAValue] = {}
        self._builder = builder
        self._block = Block()

    def wrapped(self, value: Value, argument: str) -> Value:
        match value:
            case ScalarValue(ssa) if ssa.type in CODA_NAMES:
                tensor = self._block.insert_arg(IRTensorType(ssa.type, ()), 0)
                self.scalars[tensor] = ssa
                return TensorValue(TensorType(element_name(ssa.type), ()), tensor)
            case TupleValue():
                raise Mistake(
                    "this is a pair, one element per column",
                    "unpack it first: first, second = pair",
                    argument=argument,
                )
            case _:
                return value

    def insert(self, op: Operation) -> None:
        """Write the scalar code of an operator of the block level; a cast is a rounding point."""
        (result,) = op.results
        if isinstance(op, coda.ConstantOp):
            self.scalars[result] = self._builder.number(op.number, element_type_of(result))
        else:
            operands = [self.scalars[operand] for operand in op.operands]
            value, type = emit_scalar(self._builder, op, operands), element_type_of(result)
            if isinstance(op, coda.CastOp) and is_float(type):
                value = self._builder.round_to(value, float_type(type))
            self.scalars[result] = value
