"""Activity analysis: the values of a function whose gradients are needed."""

from collections.abc import Collection, Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp, UnitAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from coda_ir.dialects.coda.shapes import element_type_of, is_float, stores_floats
from coda_ir.passes.gradient.derivatives import (
    differentiable_operands,
    is_constant_operand,
    refusal,
)

DIFFERENTIATED = "coda.differentiated"
"""The attribute of an argument that has a gradient, of zeros, although no result depends on it:
rewrites left out what did, such as the part of a concatenation that nothing reads.
"""


@dataclass(frozen=True)
class Obstacle:
    """An operator that a gradient would have to pass, and the reason why it cannot."""

    op: Operation
    operand: int
    reason: str


def depending_on(block: Block, sources: Iterable[SSAValue]) -> set[SSAValue]:
    """Return the float values that depend on the elements of `sources`, including these."""
    found = set(sources)
    for op in block.ops:
        if any(op.operands[index] in found for index in differentiable_operands(op)):
            found.update(value for value in op.results if stores_floats(element_type_of(value)))
    return found


def contributing_to(block: Block, results: Iterable[SSAValue]) -> set[SSAValue]:
    """Return the values on whose elements one of `results` depends, including these."""
    found = set(results)
    for op in reversed(block.ops):
        if any(value in found for value in op.results):
            found.update(op.operands[index] for index in differentiable_operands(op))
    return found


def contributing_arguments(func: FuncOp) -> list[BlockArgument]:
    """Return the arguments on whose elements a result depends, or depended before rewrites."""
    found = contributing_to(func.body.block, float_results(func.body.block))
    stated = func.arg_attrs.data if func.arg_attrs is not None else ()
    marked = {index for index, entry in enumerate(stated) if DIFFERENTIATED in entry.data}
    return [a for a in func.body.block.args if a in found or a.index in marked]


@contextmanager
def keep_differentiated(module: ModuleOp) -> Generator[None]:
    """Mark the arguments on which no result depends any more after rewrites."""
    functions = [op for op in module.ops if isinstance(op, FuncOp) and op.body.blocks]
    before = {func: contributing_arguments(func) for func in functions}
    yield
    for func, arguments in before.items():
        lost = {a.index for a in arguments} - {a.index for a in contributing_arguments(func)}
        if lost and func.arg_attrs is not None:
            entries = [entry.data for entry in func.arg_attrs.data]
            marks = [{DIFFERENTIATED: UnitAttr()} if i in lost else {} for i in range(len(entries))]
            pairs = zip(entries, marks, strict=True)
            func.arg_attrs = ArrayAttr(DictionaryAttr({**entry, **mark}) for entry, mark in pairs)


def float_results(block: Block) -> list[SSAValue]:
    """Return the results of the function that have a gradient."""
    terminator = block.last_op
    assert isinstance(terminator, ReturnOp)
    return [value for value in terminator.arguments if is_float(element_type_of(value))]


def obstacles(block: Block, active: Collection[SSAValue]) -> list[Obstacle]:
    """Return the obstacles to deriving the gradients of `active` values, in order."""
    found: list[Obstacle] = []
    for op in block.ops:
        if any(result in active for result in op.results):
            for index in differentiable_operands(op):
                reason = refusal(op, index) if op.operands[index] in active else None
                if reason is not None:
                    found.append(Obstacle(op, index, reason))
    return found


def differentiable_arguments(block: Block, candidates: Sequence[SSAValue]) -> list[SSAValue]:
    """Return the `candidates` on which a result depends, other than as a constant by convention."""
    useful = contributing_to(block, float_results(block))
    constant = contributing_to(block, _constant_operands(block, useful))
    return [value for value in candidates if value in useful and value not in constant]


def _constant_operands(block: Block, useful: set[SSAValue]) -> list[SSAValue]:
    """Return the values that operators with `useful` results treat as constants."""
    return [
        op.operands[index]
        for op in block.ops
        if not useful.isdisjoint(op.results)
        for index in differentiable_operands(op)
        if is_constant_operand(op, index)
    ]
