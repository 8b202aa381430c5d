"""What is said of an operator that only the dialect knows yet, and that none is left like that."""

import pytest
from xdsl.dialects.builtin import ModuleOp, TensorType, f32
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region
from xdsl.irdl import irdl_op_definition

from coda_ir.backends.reference.interpreter import HANDLERS
from coda_ir.backends.triton import emit_module
from coda_ir.diagnostics import CodaError
from coda_ir.dialects import coda
from coda_ir.dialects.gemm.scalar_code import is_pointwise
from coda_ir.passes.gradient.derivatives import refusal

ROW = TensorType(f32, [8])


@irdl_op_definition
class CubeOp(coda.UnaryOp):
    """x³."""

    name = "coda.cube"


def cube() -> CubeOp:
    return CubeOp(Block(arg_types=[ROW]).args[0])


def test_no_derivative():
    assert refusal(cube(), 0) == "it has no rule"


def test_no_scalar_code():
    op = cube()
    block = op.operand.owner
    assert isinstance(block, Block)
    block.add_ops([op, ReturnOp(op.result)])
    module = ModuleOp([FuncOp("f", ((ROW,), (ROW,)), Region(block))])
    with pytest.raises(CodaError, match=r"no scalar code for coda\.cube"):
        emit_module(module)


def test_every_operator_runs_on_the_reference_backend():
    elementwise = {op for op in coda.Coda.operations if issubclass(op, coda.ElementwiseOp)}
    assert elementwise <= set(HANDLERS)


def test_every_elementwise_operator_can_be_fused():
    x = Block(arg_types=[ROW]).args[0]
    unary = [op for op in coda.Coda.operations if issubclass(op, coda.UnaryOp)]
    made = [op(x, 1.5) if op in (coda.SoftcapOp, coda.PowOp) else op(x) for op in unary]
    assert [op.name for op in made if not is_pointwise(op)] == []
