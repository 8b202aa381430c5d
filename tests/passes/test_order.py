"""The order of a block: comparison, insertion, replacement and hoisting."""

import pytest
from support.programs import parse_mlir
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue

from coda_ir.dialects import coda
from coda_ir.passes.support.order import BlockOrder

CHAIN = """
func.func @f(%x: tensor<8xf32>, %y: tensor<8xf32>) -> tensor<8xf32> {
  %a = coda.exp %x : (tensor<8xf32>) -> tensor<8xf32>
  %b = coda.neg %y : (tensor<8xf32>) -> tensor<8xf32>
  %c = coda.abs %b : (tensor<8xf32>) -> tensor<8xf32>
  %d = coda.add %a, %c : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  func.return %d : tensor<8xf32>
}
"""


@pytest.fixture
def block() -> Block:
    (function,) = parse_mlir(CHAIN).ops
    assert isinstance(function, FuncOp)
    return function.body.block


def op_named(block: Block, name: str) -> Operation:
    return next(op for op in block.ops if op.results and op.results[0].name_hint == name)


def value_named(block: Block, name: str) -> SSAValue:
    return op_named(block, name).results[0]


def names(block: Block) -> list[str | None]:
    return [op.results[0].name_hint for op in block.ops if op.results]


def assert_consistent(order: BlockOrder) -> None:
    """The positions are those of the operators in the block, strictly increasing."""
    positions = [order.position(op) for op in order.block.ops]
    assert positions == sorted(set(positions))


def new_neg(x: SSAValue, name: str) -> coda.NegOp:
    op = coda.NegOp(x)
    op.result.name_hint = name
    return op


def test_positions_follow_the_block(block: Block):
    assert_consistent(BlockOrder(block))


def test_insert_before(block: Block):
    order = BlockOrder(block)
    order.insert_before(new_neg(block.args[0], "n"), op_named(block, "c"))
    assert names(block) == ["a", "b", "n", "c", "d"]
    assert_consistent(order)


def test_insert_before_the_first(block: Block):
    order = BlockOrder(block)
    for name in ("n", "m"):
        first = block.first_op
        assert first is not None
        order.insert_before(new_neg(block.args[0], name), first)
    assert names(block) == ["m", "n", "a", "b", "c", "d"]
    assert_consistent(order)


def test_insert_before_moves_an_operator_of_the_block(block: Block):
    order = BlockOrder(block)
    order.insert_before(op_named(block, "b"), op_named(block, "a"))
    assert names(block) == ["b", "a", "c", "d"]
    assert_consistent(order)


@pytest.mark.parametrize("anchor", ["a", "c"])
def test_many_insertions_before_one_anchor(block: Block, anchor: str):
    """Halving a gap more than 100 times exhausts the floats: the block is numbered anew."""
    order = BlockOrder(block)
    inserted = [new_neg(block.args[0], f"n{i}") for i in range(150)]
    for op in inserted:
        order.insert_before(op, op_named(block, anchor))
    expected = ["a", "b", "c", "d"]
    place = expected.index(anchor)
    expected[place:place] = [f"n{i}" for i in range(150)]
    assert names(block) == expected
    assert_consistent(order)


def test_many_insertions_after_one_operator(block: Block):
    order = BlockOrder(block)
    anchor = op_named(block, "b")
    for i in range(150):
        new = new_neg(block.args[0], f"n{i}")
        order.insert_before(new, anchor)
        anchor = new
    assert names(block) == ["a", *(f"n{i}" for i in reversed(range(150))), "b", "c", "d"]
    assert_consistent(order)


def test_replace(block: Block):
    order = BlockOrder(block)
    old = op_named(block, "b")
    new = new_neg(block.args[0], "n")
    old.results[0].replace_all_uses_with(new.result)
    order.replace(old, new)
    assert names(block) == ["a", "n", "c", "d"]
    assert_consistent(order)
    with pytest.raises(KeyError):
        order.position(old)


def test_erase(block: Block):
    order = BlockOrder(block)
    dead = new_neg(block.args[0], "n")
    order.insert_before(dead, op_named(block, "c"))
    order.erase(dead)
    assert names(block) == ["a", "b", "c", "d"]
    with pytest.raises(KeyError):
        order.position(dead)


def test_slice_after(block: Block):
    order = BlockOrder(block)
    found = order.slices_after([value_named(block, "c")], op_named(block, "a"))
    assert found == [op_named(block, "b"), op_named(block, "c")]


def test_slice_after_stops_at_the_anchor(block: Block):
    order = BlockOrder(block)
    assert order.slices_after([value_named(block, "d")], op_named(block, "c")) is None
    assert order.slices_after([value_named(block, "b")], op_named(block, "c")) == []
    assert order.slices_after([block.args[0]], op_named(block, "a")) == []


def test_hoist(block: Block):
    """Operators that the value depends on move with it, in order; the rest stays."""
    order = BlockOrder(block)
    assert order.hoist([value_named(block, "c"), block.args[1]], op_named(block, "a"))
    assert names(block) == ["b", "c", "a", "d"]
    assert_consistent(order)


def test_hoist_of_what_is_there_moves_nothing(block: Block):
    order = BlockOrder(block)
    assert order.hoist([value_named(block, "a")], op_named(block, "d"))
    assert names(block) == ["a", "b", "c", "d"]


def test_hoist_refuses_what_depends_on_the_anchor(block: Block):
    order = BlockOrder(block)
    values = [value_named(block, "b"), value_named(block, "d")]
    assert not order.hoist(values, op_named(block, "a"))
    assert names(block) == ["a", "b", "c", "d"]
