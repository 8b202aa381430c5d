"""Pass `convert-float64-to-torch`: operators on float64 become calls of PyTorch."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

from xdsl.dialects.builtin import DYNAMIC_INDEX, TensorType, f64
from xdsl.ir import Attribute, Operation, SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import element_type_of, shape_of
from coda_ir.dialects.element_types import BY_ATTRIBUTE
from coda_ir.dialects.torch import CallOp
from coda_ir.passes.support.function_pass import FunctionPass, FunctionRewriter
from coda_ir.passes.support.matching import Norm, is_float64
from coda_ir.passes.support.norm_products import is_modulated
from coda_ir.symbolic_shapes import dims_attribute


class ConvertFloat64ToTorchPass(FunctionPass):
    """Turns operators with a float64 operand or result into calls of PyTorch, one or a few for
    each.

        %a = coda.exp %x : (tensor<?x8xf64>) -> tensor<?x8xf64>
    ->  %a = torch.call "aten.exp.default"(%x) {arguments = "{0}"}

    Kernels compute in float32, which cannot represent every float64 value. Always legal: PyTorch
    computes in float64 as well. Views, copies and attention are unchanged, because PyTorch runs
    them in any case. Operators without a counterpart in PyTorch (`coda.rope`, `coda.glu`, norms of
    groups) and losses are also unchanged; the target triton refuses them.
    """

    def run_on_function(self, rewriter: FunctionRewriter) -> None:
        for op in rewriter.ops:
            rule = _RULES.get(type(op))
            if rule is None or not is_float64(op):
                continue
            value = rule(_Calls(rewriter, op), op)
            if value is None:
                continue
            rewriter.replace(op, value)


@dataclass
class _Calls:
    """Inserts calls of PyTorch in place of an operator."""

    rewriter: FunctionRewriter
    op: Operation

    def call(
        self, callee: str, *arguments: SSAValue | str, like: SSAValue, type: Attribute | None = None
    ) -> SSAValue:
        """Insert a call of `callee` with a result like `like` in shape, and by default in type."""
        call = CallOp.on(f"aten.{callee}", arguments, type or like.type)
        dims = self.rewriter.shapes.dims(like)
        if self.rewriter.shapes.are_declared(dims):
            call.attributes["coda.dims"] = dims_attribute(dims)
        return self.rewriter.before(self.op).insert(call)

    def in_type(self, value: SSAValue, element: Attribute) -> SSAValue:
        """Convert `value` to another element type."""
        if element_type_of(value) == element:
            return value
        type = TensorType(element, shape_of(value))
        dtype = f"dtype=torch.{BY_ATTRIBUTE[element].torch}"
        return self.call("_to_copy.default", value, dtype, like=value, type=type)


Rule: TypeAlias = Callable[[_Calls, Any], SSAValue | None]
"""Inserts what computes the result of an operator; None where no call of PyTorch does."""


def _call(callee: str, options: Callable[[Any], Sequence[str]] = lambda _: ()) -> Rule:
    """Return the rule of an operator that one call computes from its operands and these options."""

    def rule(calls: _Calls, op: Operation) -> SSAValue:
        return calls.call(callee, *op.operands, *options(op), like=op.results[0])

    return rule


def _aten_options(op: coda.ElementwiseOp) -> Sequence[str]:
    named = [f"{name}={value!r}" for name, value in op.ATEN_OPTIONS.items()]
    return [*map(repr, op.numbers), *named]


def _arithmetic(callee: str) -> Rule:
    def rule(calls: _Calls, op: coda.BinaryOp) -> SSAValue:
        number = op.rhs.owner
        rhs = repr(number.number) if isinstance(number, coda.ConstantOp) else op.rhs
        return calls.call(callee, op.lhs, rhs, like=op.result)

    return rule


def _cast(calls: _Calls, op: coda.CastOp) -> SSAValue:
    return calls.in_type(op.operand, element_type_of(op.result))


def _compare(calls: _Calls, op: coda.CompareOp) -> SSAValue:
    return calls.call(f"{op.relation.data}.Tensor", *op.operands, like=op.result)


def _formula(formula: coda.Formula) -> Rule:
    """Return the rule of an operator without an overload: a call for each operator of a formula."""

    def rule(calls: _Calls, op: coda.RealFunction) -> SSAValue:
        def apply(operator: type[coda.ElementwiseOp], *operands: SSAValue | float) -> SSAValue:
            values = [repr(x) if isinstance(x, float) else x for x in operands]
            return calls.call(_ELEMENTWISE[operator], *values, like=op.result)

        return formula(coda.Term(op.operand, apply), *op.numbers).value

    return rule


_REDUCTIONS = {
    "sum": "sum.dim_IntList",
    "mean": "mean.dim",
    "max": "amax.default",
    "lse": "logsumexp.default",
}


def _reduce(calls: _Calls, op: coda.ReduceOp) -> SSAValue:
    x = calls.in_type(op.x, f64)
    column = TensorType(f64, shape_of(op.result))
    total = calls.call(_REDUCTIONS[op.kind.data], x, "[-1]", "True", like=op.result, type=column)
    return calls.in_type(total, element_type_of(op.result))


def _product(callee: str, calls: _Calls, op: Operation) -> SSAValue | None:
    """Return the call for a product; None if its result has another type than its operands."""
    values = (*op.operands, *op.results)
    if any(element_type_of(value) != f64 for value in values):
        return None
    return calls.call(callee, *op.operands, like=op.results[0])


def _norm(callee: str, calls: _Calls, op: Norm) -> SSAValue | None:
    """Return the calls for a norm; None for norms of groups or of an unknown number of columns."""
    columns = shape_of(op.x)[-1]
    if columns == DYNAMIC_INDEX or "group" in op.properties:
        return None
    params = [op.weight, op.bias] if isinstance(op, coda.LayerNormOp) else [op.weight]
    given = ["None" if param is None or is_modulated(op) else param for param in params]
    eps = repr(op.eps.value.data)
    value = calls.call(callee, op.x, f"[{columns}]", *given, eps, like=op.result)
    # PyTorch's norms take vectors only.
    for param, applied in zip(params, ("mul.Tensor", "add.Tensor"), strict=False):
        if is_modulated(op) and param is not None:
            value = calls.call(applied, value, param, like=op.result)
    return value


def _embedding(calls: _Calls, op: coda.EmbeddingOp) -> SSAValue:
    padding = -1 if op.padding is None else op.padding
    return calls.call("embedding.default", op.table, op.ids, str(padding), like=op.result)


_ARITHMETIC = (coda.AddOp, coda.SubOp, coda.MulOp, coda.DivOp)
"""Operators that PyTorch computes with a number as well, in place of the second operand."""

_ELEMENTWISE: Mapping[type[Operation], str] = {
    op: op.ATEN for op in coda.ELEMENTWISE_OPS if op.ATEN is not None and op is not coda.DetachOp
}

_RULES: Mapping[type[Operation], Rule] = {
    **{op: _formula(op.FORMULA) for op in coda.ELEMENTWISE_OPS if op.FORMULA is not None},
    **{op: _call(callee, _aten_options) for op, callee in _ELEMENTWISE.items()},
    **{op: _arithmetic(_ELEMENTWISE[op]) for op in _ARITHMETIC},
    coda.CompareOp: _compare,
    coda.CastOp: _cast,
    coda.SoftmaxOp: _call("softmax.int", lambda _: ["-1"]),
    coda.ReduceOp: _reduce,
    coda.EmbeddingOp: _embedding,
    coda.LinearOp: partial(_product, "linear.default"),
    coda.MatmulOp: partial(_product, "matmul.default"),
    coda.RMSNormOp: partial(_norm, "rms_norm.default"),
    coda.LayerNormOp: partial(_norm, "layer_norm.default"),
}
