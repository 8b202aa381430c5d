"""Pass `raise-elementwise`: turn PyTorch's elementwise operators into operators of `coda`."""

import re

from xdsl.dialects.builtin import IntegerType, UnitAttr, i1
from xdsl.ir import Attribute, Operation, SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.coda import elementwise
from coda_ir.dialects.coda.shapes import element_type_of, is_float, shape_of
from coda_ir.dialects.torch import CallOp
from coda_ir.passes.raising.elementwise_call import ElementwiseCall
from coda_ir.passes.raising.elementwise_functions import FUNCTIONS, Maker
from coda_ir.passes.raising.made_tensors import (
    ARANGE,
    FULL,
    FULL_LIKE,
    constant_of,
    raised_number,
    raised_positions,
    read_through,
)
from coda_ir.passes.raising.plain_calls import PLAIN
from coda_ir.passes.raising.size_arguments import SizedCall, drop_unused
from coda_ir.passes.support.function_pass import FunctionPass, FunctionRewriter, Refusal
from coda_ir.passes.support.index_values import Argument


class RaiseElementwisePass(FunctionPass):
    """Raises elementwise calls of PyTorch that have a counterpart in the dialect `coda`.

        %c = torch.call "aten.gt.Scalar"(%h) {"{0}, 0"}          %c = coda.compare %h, 0 {"gt"}
        %y = torch.call "aten.where.self"(%c, %h, %z)       ->   %y = coda.where %c, %h, %z
        %s = torch.call "aten.softplus.default"(%y)              %s = coda.softplus %y

    The operators fuse into the epilogue that computes an operand, or with each other into one
    kernel, as for masks and tables that a model computes from positions. Legal iff the conversions
    with which PyTorch promotes the operands are exact, and the options of the call have
    counterparts.
    """

    def run_on_function(self, rewriter: FunctionRewriter) -> None:
        for op in rewriter.ops:
            raised = _raised(op, rewriter) if isinstance(op, CallOp) else None
            if raised is not None:
                _replace(op, raised, rewriter)
            elif isinstance(op, CallOp) and op.callee.data in _REPORTED:
                rewriter.missed(op, _why_not(op))
        for op in rewriter.ops_of(CallOp):
            _read_through(op, rewriter)


def _read_through(op: CallOp, rewriter: FunctionRewriter) -> None:
    """Let readers broadcast the operand of `op` themselves; insert a broadcast for others."""
    read_through(op, rewriter)
    if op.callee.data in (FULL, FULL_LIKE) and op.outputs[0].uses:
        raised = raised_number(op, rewriter)
        if raised is not None:
            _replace(op, raised, rewriter)


def _replace(op: Operation, raised: list[Operation], rewriter: FunctionRewriter) -> None:
    """Replace a call, which is no news: a model has dozens of these calls for each layer."""
    insert = rewriter.before(op)
    value = [insert.insert(new) for new in raised][-1]
    rewriter.replace(op, value)


def _raised(op: CallOp, rewriter: FunctionRewriter) -> list[Operation] | None:
    """Return the operators for a call, that with the result last; None if a condition fails."""
    if op.in_place is not None or op.picks not in (None, (0,)) or len(op.outputs) != 1:
        return None
    if op.callee.data in ARANGE:
        return raised_positions(op, rewriter)
    if op.callee.data in PLAIN:
        return PLAIN[op.callee.data](op, rewriter)
    if op.callee.data.removeprefix("aten.") not in _MAKERS:
        return None
    sized = SizedCall.of(op, rewriter)
    return _made(op) if sized is None else sized.raised(_made)


def _made(op: CallOp) -> list[Operation] | None:
    """Return the operators for an elementwise call."""
    make = _MAKERS[op.callee.data.removeprefix("aten.")]
    call = ElementwiseCall.of(op)
    if call is None:
        return None
    made = make(call)
    ops = call.before if made is None else [*call.before, made]
    if made is not None and made.results[0].type == op.outputs[0].type:
        return ops
    drop_unused(ops)
    return None


_OF_NUMBERS = (*(coda.AddOp, coda.SubOp, coda.MulOp, coda.DivOp, coda.MaximumOp, coda.MinimumOp),)
"""Operators that PyTorch computes in float32 and rounds once, with a wide scalar or `alpha`."""


def _of(operator: type[coda.ElementwiseOp]) -> Maker:
    """Make an operator on elements of the type of the result."""
    count = 1 if issubclass(operator, coda.UnaryOp) else 2

    def make(call: ElementwiseCall) -> Operation | None:
        element, options = call.element_type, dict(call.options)
        alpha = options.pop("alpha", 1)
        if options not in ({}, operator.ATEN_OPTIONS) or _wraps_early(element):
            return None
        rounds = operator in _OF_NUMBERS
        wide = call.computing_type if alpha != 1 or (rounds and call.has_wide_number) else element
        operands = call.operands(wide, count=count, rounds_numbers=rounds)
        chosen = _of_truth_values(operator) if element == i1 else operator
        if not operands or not chosen.ELEMENTS.includes(element):
            return None
        if alpha != 1:
            factor = call.operand(alpha, wide) if is_float(element) else None
            if factor is None:
                return None
            operands[1] = call.insert(coda.MulOp(operands[1], factor))
        made = chosen(*operands)  # pyright: ignore
        if isinstance(made, coda.MaximumOp | coda.MinimumOp):
            made.attributes[elementwise.SHARED_TIES] = UnitAttr()
        return made if wide == element else coda.CastOp(call.insert(made), element)

    return make


def _predicate(operator: type[coda.Predicate]) -> Maker:
    """Make a predicate of floats, of the type that they have."""

    def make(call: ElementwiseCall) -> Operation | None:
        element = call.common_type
        if element is None or call.options or not operator.ELEMENTS.includes(element):
            return None
        operands = call.operands(element, count=1)
        return operator(*operands) if operands else None

    return make


def _wraps_early(type: Attribute) -> bool:
    """Return whether regions compute with more bits than PyTorch, so that overflows differ."""
    return isinstance(type, IntegerType) and type.bitwidth in (8, 16)


def _of_truth_values(operator: type[coda.ElementwiseOp]) -> type[coda.ElementwiseOp]:
    """Return the operator that computes for booleans what PyTorch's `operator` does."""
    return {
        coda.AddOp: coda.LogicalOrOp,
        coda.MaximumOp: coda.LogicalOrOp,
        coda.MulOp: coda.LogicalAndOp,
        coda.MinimumOp: coda.LogicalAndOp,
    }.get(operator, operator)  # pyright: ignore


def _compare(relation: str) -> Maker:
    def make(call: ElementwiseCall) -> Operation | None:
        common = call.common_type
        if common is None or call.options or (common == i1 and relation not in ("eq", "ne")):
            return None
        operands = call.operands(common, count=2)
        if operands is None:
            return None
        lhs, rhs = operands
        return coda.CompareOp(lhs, rhs, relation)

    return make


def _logical(operator: type[coda.ElementwiseOp]) -> Maker:
    """Make an operator on truth values; other elements are true where they are not 0."""
    count = 1 if issubclass(operator, coda.UnaryOp) else 2

    def make(call: ElementwiseCall) -> Operation | None:
        operands = [_truth(call, value) for value in call.arguments]
        known = [value for value in operands if value is not None]
        return operator(*known) if len(known) == len(operands) == count else None  # pyright: ignore

    return make


def _truth(call: ElementwiseCall, value: Argument | None) -> SSAValue | None:
    if not isinstance(value, SSAValue):
        return None
    if element_type_of(value) == i1:
        return value
    element = element_type_of(value)
    zero = call.insert(coda.ConstantOp(0.0 if is_float(element) else 0, element))
    return call.insert(coda.CompareOp(value, zero, "ne"))


def _selection(operator: type[coda.Selection]) -> Maker:
    def make(call: ElementwiseCall) -> Operation | None:
        condition, *values = call.arguments
        return _selected(operator, call.with_arguments(values), condition)

    return make


def _masked_fill(call: ElementwiseCall) -> Operation | None:
    """Raise a masked fill: the number where the mask holds, else x."""
    if len(call.arguments) != 3:
        return None
    x, mask, number = call.arguments
    return _selected(coda.WhereOp, call.with_arguments([number, x]), mask)


def _selected(
    operator: type[coda.Selection], call: ElementwiseCall, condition: Argument | None
) -> Operation | None:
    if not isinstance(condition, SSAValue) or element_type_of(condition) != i1:
        return None
    values = call.operands(call.element_type, count=2, rounds_numbers=True)
    return None if call.options or values is None else operator(condition, *values)


def _cast(call: ElementwiseCall) -> Operation | None:
    """Raise a conversion of truth values or integers; those of floats are `coda.cast` already."""
    (x,) = call.arguments
    if not isinstance(x, SSAValue) or not call.makes_tensor:
        return None
    return coda.CastOp(x, call.element_type)


def _outer_product(call: ElementwiseCall) -> Operation | None:
    """Raise a matrix product whose sums have one term: that of a column and a row."""
    operands = None if call.options else call.operands(call.element_type, count=2)
    if operands is None or not is_float(call.element_type):
        return None
    a, b = map(shape_of, operands)
    is_outer = min(len(a), len(b)) >= 2 and a[-1] == 1 and b[-2] == 1
    return coda.MulOp(*operands) if is_outer else None


_PRODUCTS = ("matmul.default", "bmm.default")

_MAKERS: dict[str, Maker] = {
    **{
        overload: _of(operator)
        for overload, operator in coda.BY_OVERLOAD.items()
        if issubclass(operator, coda.UnaryOp | coda.BinaryOp)
    },
    **{
        f"{relation}.{overload}": _compare(relation)
        for relation in coda.CompareOp.RELATIONS
        for overload in ("Tensor", "Scalar")
    },
    **{
        str(operator.ATEN): _logical(operator)
        for operator in coda.ELEMENTWISE_OPS
        if operator.ELEMENTS == coda.Elements.BOOLEANS
    },
    **{
        str(operator.ATEN): _predicate(operator)
        for operator in coda.ELEMENTWISE_OPS
        if issubclass(operator, coda.Predicate)
    },
    "scalar_tensor.default": constant_of,
    **FUNCTIONS,
    "_to_copy.default": _cast,
    **dict.fromkeys(_PRODUCTS, _outer_product),
    **{
        overload: _selection(operator)
        for overload, operator in coda.BY_OVERLOAD.items()
        if issubclass(operator, coda.Selection)
    },
    **dict.fromkeys(("masked_fill.Scalar", "masked_fill.Tensor"), _masked_fill),
}
"""Operators by overload of ATen."""

_REPORTED = {*ARANGE, *(f"aten.{name}" for name in _MAKERS if name not in _PRODUCTS)}


def _why_not(op: CallOp) -> Refusal:
    """Return the reason why a call with a counterpart stays."""
    types = list(map(str, map(element_type_of, op.inputs)))
    arguments = re.sub(r"\{(\d+)\}", lambda number: types[int(number[1])], op.arguments.data)
    condition = "PyTorch converts its operands exactly, and its options have counterparts"
    if op.callee.data in ARANGE:
        condition = "its numbers are integers, as many as a dimension of an argument has elements"
    found = f"{op.callee.data} remains a call of PyTorch: its arguments are {arguments}"
    return Refusal(condition, found)
