"""Messages about an operator that only the dialect knows, and a check that there is none."""

import re
from collections.abc import Mapping

import pytest
from generator.round_trip import printed
from support.function_numbers import some_numbers
from xdsl.dialects.builtin import Float8E4M3FNType, ModuleOp, TensorType, f32, i1
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.irdl import irdl_op_definition
from xdsl.parser import Parser
from xdsl.utils.exceptions import VerifyException

from coda_ir.backends.triton import emit_module
from coda_ir.context import make_context
from coda_ir.diagnostics import CodaError
from coda_ir.dialects import coda
from coda_ir.dialects.gemm.scalar_code import is_pointwise
from coda_ir.passes.gradient.derivatives import refusal

ROW = TensorType(f32, [8])

ELEMENTWISE = coda.ELEMENTWISE_OPS

PROPERTIES: Mapping[type, tuple[float | str, ...]] = {
    **{op: some_numbers(op) for op in ELEMENTWISE},
    coda.CompareOp: ("eq",),
}


def made(operator: type[coda.ElementwiseOp], element: Attribute, columns: int = 8) -> Operation:
    """An elementwise operator on rows of `element`, the last of which has `columns`."""
    count = len(operator.get_irdl_definition().operands)
    types = [TensorType(element, [8])] * (count - 1) + [TensorType(element, [columns])]
    if issubclass(operator, coda.Selection):
        types[0] = TensorType(i1, [8])
    values: list[SSAValue] = list(Block(arg_types=types).args)
    return operator(*values, *PROPERTIES[operator])  # pyright: ignore


def own_type(operator: type[coda.ElementwiseOp]) -> Attribute:
    return i1 if operator.ELEMENTS == coda.Elements.BOOLEANS else f32


@irdl_op_definition
class CubeOp(coda.UnaryOp):
    """x³."""


def cube() -> CubeOp:
    return CubeOp(Block(arg_types=[ROW]).args[0])


def in_module(op: Operation) -> ModuleOp:
    """A function that computes an operator of its arguments."""
    block = op.operands[0].owner
    assert isinstance(block, Block)
    block.add_ops([op, ReturnOp(op.results[0])])
    types = (block.arg_types, op.result_types)
    return ModuleOp([FuncOp("f", types, Region(block))])


def test_no_derivative():
    assert refusal(cube(), 0) == "it has no rule"


def test_no_scalar_code():
    with pytest.raises(CodaError, match=r"no scalar code for coda\.cube"):
        emit_module(in_module(cube()))


@pytest.mark.parametrize("operator", ELEMENTWISE, ids=lambda operator: operator.name)
def test_elementwise_operators_can_be_fused(operator: type[coda.ElementwiseOp]):
    assert is_pointwise(made(operator, own_type(operator)))


@pytest.mark.parametrize("operator", ELEMENTWISE, ids=lambda operator: operator.name)
def test_elementwise_operators_verify_their_operands(operator: type[coda.ElementwiseOp]):
    """As their base class does, which the goldens of some show."""
    made(operator, own_type(operator)).verify_()
    with pytest.raises(VerifyException, match="has element type f8E4M3FN, expected"):
        made(operator, Float8E4M3FNType()).verify_()
    if not issubclass(operator, coda.UnaryOp):
        with pytest.raises(VerifyException, match="does not broadcast with shape 8"):
            made(operator, own_type(operator), 7)


@pytest.mark.parametrize("operator", ELEMENTWISE, ids=lambda operator: operator.name)
@pytest.mark.parametrize("generic", [False, True])
def test_elementwise_operators_are_printed_and_read_again(
    operator: type[coda.ElementwiseOp], generic: bool
):
    """In the form of all elementwise operators, which the golden ops_elementwise.mlir shows."""
    op = made(operator, own_type(operator))
    module = in_module(op)
    text = printed(module, generic=generic)
    again = Parser(make_context(), text).parse_module()
    again.verify()
    assert printed(again, generic=generic) == text
    operands = ", ".join(f"%{i}" for i in range(len(op.operands)))
    form = rf'"{op.name}"\({operands}\)' if generic else rf"{re.escape(op.name)} {operands} .*: \("
    assert re.search(form, text)
