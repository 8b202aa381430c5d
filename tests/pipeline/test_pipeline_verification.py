"""Verification between passes: every change is verified, and a state only once."""

from collections.abc import Callable

import pytest
from support.programs import parse_mlir
from xdsl.dialects.arith import AddfOp, ConstantOp
from xdsl.dialects.builtin import FloatAttr, FunctionType, ModuleOp, StringAttr, f32, f64
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block
from xdsl.rewriter import Rewriter
from xdsl.utils.exceptions import VerifyException

from coda_ir.pipeline.manager import Verification

DOUBLE = """
func.func @double(%x: f32) -> f32 {
  %two_x = arith.addf %x, %x : f32
  func.return %two_x : f32
}
"""

Change = Callable[[FuncOp, AddfOp], object]


def other_name(func: FuncOp, add: AddfOp) -> None:
    del func.properties["sym_name"]


def other_type(func: FuncOp, add: AddfOp) -> None:
    func.function_type = FunctionType.from_lists([f32], [f64])


def other_argument(func: FuncOp, add: AddfOp) -> None:
    Rewriter.replace_value_with_new_type(func.args[0], f64)


def other_operand(func: FuncOp, add: AddfOp) -> None:
    wide = ConstantOp(FloatAttr(1.0, f64))
    func.body.block.insert_op_before(wide, add)
    add.operands[1] = wide.result


def other_result(func: FuncOp, add: AddfOp) -> None:
    Rewriter.replace_value_with_new_type(add.result, f64)


def no_return(func: FuncOp, add: AddfOp) -> None:
    last = func.body.block.last_op
    assert last is not None
    last.detach()


def second_block(func: FuncOp, add: AddfOp) -> None:
    func.body.add_block(Block([ConstantOp(FloatAttr(1.0, f32))]))


def use_before_definition(func: FuncOp, add: AddfOp) -> None:
    late = AddfOp(add.lhs, add.rhs)
    func.body.block.insert_op_after(late, add)
    add.operands[1] = late.result


@pytest.mark.parametrize(
    "change",
    [
        use_before_definition,
        other_name,
        other_type,
        other_argument,
        other_operand,
        other_result,
        no_return,
        second_block,
    ],
)
def test_every_change_is_verified(change: Change):
    module = parse_mlir(DOUBLE)
    verification = Verification()
    verification.verify(module)
    (func,) = (op for op in module.ops if isinstance(op, FuncOp))
    (add,) = (op for op in func.walk() if isinstance(op, AddfOp))
    change(func, add)
    for _ in range(2):
        with pytest.raises(VerifyException):
            verification.verify(module)


def test_a_state_is_verified_once(monkeypatch: pytest.MonkeyPatch):
    module = parse_mlir(DOUBLE)
    (func,) = (op for op in module.ops if isinstance(op, FuncOp))
    verified: list[str] = []

    def verify(module: ModuleOp) -> None:
        verified.append(func.sym_name.data)

    monkeypatch.setattr(ModuleOp, "verify", verify)
    verification = Verification()
    verification.verify(module)
    verification.verify(module)
    func.sym_name = StringAttr("twice")
    verification.verify(module)
    verification.verify(module)
    func.sym_name = StringAttr("double")
    verification.verify(module)
    assert verified == ["double", "twice", "double"]
