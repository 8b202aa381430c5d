"""Pass `raise-elementwise`: calls of PyTorch's elementwise operators become those of `coda`."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import isfinite
from typing import ClassVar, TypeAlias

from xdsl.dialects.builtin import i1
from xdsl.ir import Attribute, BlockArgument, Operation, SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.coda import elementwise
from coda_ir.dialects.coda.shapes import element_type_of, is_float
from coda_ir.dialects.coda.weights import is_weight
from coda_ir.dialects.element_types import ELEMENT_TYPES
from coda_ir.dialects.torch import CallOp
from coda_ir.passes.support.function_pass import FunctionPass, FunctionRewriter
from coda_ir.passes.support.index_values import literal
from coda_ir.passes.support.norms import OpInserter

Argument: TypeAlias = "SSAValue | float | int | bool"
_TYPES = {f"torch.{type.torch}": type.attribute for type in ELEMENT_TYPES}


@dataclass(frozen=True)
class RaiseElementwisePass(FunctionPass):
    """Finds calls of PyTorch that the dialect has an operator for.

        %c = torch.call "aten.gt.Scalar"(%h) {"{0}, 0"}          %c = coda.compare %h, 0 {"gt"}
        %y = torch.call "aten.where.self"(%c, %h, %z)       ->   %y = coda.where %c, %h, %z
        %s = torch.call "aten.softplus.default"(%y)              %s = coda.softplus %y

    They fuse into the epilogue that computes an operand. Legal iff the operands have one element
    type, so that PyTorch promotes none of them, and the options of the call are defaults. What is
    computed from positions, masks and weights alone stays: other passes read such calls, and no
    epilogue computes their operands.
    """

    name: ClassVar[str] = "raise-elementwise"

    def run_on_function(self, rewriter: FunctionRewriter) -> None:
        # Values that depend on a tensor of floats that is no weight, or on an embedding.
        active = set[SSAValue]()
        for op in rewriter.ops:
            given = (v for v in op.operands if isinstance(v, BlockArgument))
            active.update(v for v in given if is_float(element_type_of(v)) and not is_weight(v))
            is_active = isinstance(op, coda.EmbeddingOp) or not active.isdisjoint(op.operands)
            is_constant = isinstance(op, CallOp) and op.callee.data == _CONSTANT
            raised = _raised(op) if isinstance(op, CallOp) and (is_active or is_constant) else None
            results = op.results if raised is None else [_replace(op, raised, rewriter)]
            if is_active:
                active.update(results)


def _replace(op: Operation, raised: list[Operation], rewriter: FunctionRewriter) -> SSAValue:
    insert = OpInserter(rewriter, op, op.location)
    rewriter.passed(op, f"raised to {raised[-1].name}")
    value = [insert.insert(new) for new in raised][-1]
    value.name_hint = op.results[0].name_hint
    op.results[0].replace_all_uses_with(value)
    rewriter.order.erase(op)
    return value


def _raised(op: CallOp) -> list[Operation] | None:
    """The operators for a call: constants, and last the one with the result.

    None where there are none, or a condition does not hold.
    """
    make = _MAKERS.get(op.callee.data.removeprefix("aten."))
    if make is None or len(op.outputs) != 1 or op.in_place is not None:
        return None
    call = _Call.of(op)
    made = None if call is None else make(call)
    if call is None or made is None:
        return None
    return [*call.constants, made] if made.results[0].type == op.outputs[0].type else None


@dataclass
class _Call:
    """The arguments of a call; operands become constants where a maker asks for them."""

    arguments: list[Argument]
    options: Mapping[str, object]
    constants: list[Operation]

    @staticmethod
    def of(op: CallOp) -> _Call | None:
        """None where an argument is neither a tensor nor a number."""
        template = op.template.call
        arguments: list[Argument] = []
        for node in template.args:
            if isinstance(node, ast.Set):
                (number,) = node.elts
                assert isinstance(number, ast.Constant) and isinstance(number.value, int)
                arguments.append(op.inputs[number.value])
                continue
            value = literal(node)
            if value is None:
                return None
            arguments.append(value)
        options = {str(k.arg): ast.unparse(k.value) for k in template.keywords}
        return _Call(arguments, options, [])

    def with_arguments(self, arguments: list[Argument]) -> _Call:
        """A call with other arguments, whose constants go to the same place."""
        return _Call(arguments, self.options, self.constants)

    def tensors(self, count: int, *, start: int = 0) -> list[SSAValue] | None:
        """`count` arguments of one element type, the rest of which are left out.

        None where they are not that.
        """
        given = self.arguments[start:]
        types = {element_type_of(value) for value in given if isinstance(value, SSAValue)}
        if len(given) != count or len(types) != 1 or self.options:
            return None
        (element,) = types
        found = [self._operand(value, element) for value in given]
        return None if None in found else [value for value in found if value is not None]

    def _operand(self, value: Argument, element: Attribute) -> SSAValue | None:
        """A tensor, or a number as a constant; None for a number that PyTorch would promote."""
        if isinstance(value, SSAValue):
            return value
        if not is_float(element) and (
            not isinstance(value, int) or (element == i1) != isinstance(value, bool)
        ):
            return None
        number = float(value) if is_float(element) else int(value)
        self.constants.append(coda.ConstantOp(number, element))
        return self.constants[-1].results[0]


Maker: TypeAlias = Callable[[_Call], "Operation | None"]


def _of(operator: type[coda.ElementwiseOp], count: int) -> Maker:
    def make(call: _Call) -> Operation | None:
        operands = call.tensors(count)
        fits = operands and operator.ELEMENTS.includes(element_type_of(operands[0]))
        return operator(*operands) if operands and fits else None  # pyright: ignore

    return make


def _compare(relation: str) -> Maker:
    def make(call: _Call) -> Operation | None:
        operands = call.tensors(2)
        if operands is None or (
            element_type_of(operands[0]) == i1 and relation not in ("eq", "ne")
        ):
            return None
        return coda.CompareOp(*operands, relation)

    return make


def _where(call: _Call) -> Operation | None:
    condition, values = call.arguments[0], call.tensors(2, start=1)
    return _chosen(condition, values)


def _masked_fill(call: _Call) -> Operation | None:
    """The number where the mask holds, else x."""
    if len(call.arguments) != 3:
        return None
    x, mask, number = call.arguments
    return _chosen(mask, call.with_arguments([mask, number, x]).tensors(2, start=1))


def _chosen(condition: Argument, values: list[SSAValue] | None) -> Operation | None:
    is_mask = isinstance(condition, SSAValue) and element_type_of(condition) == i1
    return coda.WhereOp(condition, *values) if is_mask and values is not None else None


def _softplus(call: _Call) -> Operation | None:
    is_default = call.arguments[1:] in ([], [1], [1, 20])
    return (
        _of(elementwise.SoftplusOp, 1)(call.with_arguments(call.arguments[:1]))
        if is_default
        else None
    )


def _elu(call: _Call) -> Operation | None:
    x, *numbers = call.arguments
    alpha, *scales = numbers or [1.0]
    if (
        not isinstance(x, SSAValue)
        or isinstance(alpha, SSAValue)
        or scales not in ([], [1], [1, 1])
    ):
        return None
    return None if call.options else coda.EluOp(x, float(alpha))


def _pow(call: _Call) -> Operation | None:
    """A constant power of x; that of 0 is 1 whatever x is."""
    x, *exponents = call.arguments
    if len(exponents) != 1 or call.options or not isinstance(x, SSAValue):
        return None
    (exponent,) = exponents
    if isinstance(exponent, SSAValue) or not exponent or not isfinite(exponent):
        return None
    return coda.PowOp(x, float(exponent)) if is_float(element_type_of(x)) else None


def _cast(call: _Call) -> Operation | None:
    """A conversion of truth values or integers; `coda.cast` of floats is there before."""
    (x,) = call.arguments
    target = _TYPES.get(str(call.options.get("dtype")))
    if not isinstance(x, SSAValue) or target is None or len(call.options) != 1:
        return None
    return coda.CastOp(x, target)


def _constant(call: _Call) -> Operation | None:
    type = _TYPES.get(str(call.options.get("dtype")))
    (number,) = call.arguments
    if type is None or isinstance(number, SSAValue):
        return None
    return coda.ConstantOp(float(number) if is_float(type) else int(number), type)


_CONSTANT = "aten.scalar_tensor.default"

_MAKERS: dict[str, Maker] = {
    **{op.ATEN: _of(op, 1) for op in coda.REAL_FUNCTIONS.values() if op.ATEN is not None},
    "scalar_tensor.default": _constant,
    "softplus.default": _softplus,
    "elu.default": _elu,
    "pow.Tensor_Scalar": _pow,
    "_to_copy.default": _cast,
    **dict.fromkeys(("logical_not.default", "bitwise_not.default"), _of(coda.LogicalNotOp, 1)),
    **dict.fromkeys(("logical_and.default", "bitwise_and.Tensor"), _of(coda.LogicalAndOp, 2)),
    **dict.fromkeys(("logical_or.default", "bitwise_or.Tensor"), _of(coda.LogicalOrOp, 2)),
    **{
        f"{relation}.{overload}": _compare(relation)
        for relation in coda.CompareOp.RELATIONS
        for overload in ("Tensor", "Scalar")
    },
    **dict.fromkeys(("where.self", "where.ScalarOther", "where.ScalarSelf"), _where),
    **dict.fromkeys(("masked_fill.Scalar", "masked_fill.Tensor"), _masked_fill),
}
"""By the overload of ATen."""
