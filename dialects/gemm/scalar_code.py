"""Block-level elementwise operators as scalar code of an epilogue region."""

from collections.abc import Callable, Sequence
from math import inf
from typing import Any

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import IntegerType, i1
from xdsl.ir import Attribute, Operation, SSAValue

from coda_ir.dialects import coda, gemm
from coda_ir.dialects.coda import elementwise
from coda_ir.dialects.coda.elementwise_op import Scalar
from coda_ir.dialects.coda.shapes import (
    computes_in_float32,
    element_bytes,
    element_type_of,
    float_type,
    is_float,
    is_float8,
)
from coda_ir.dialects.gemm import NumericsMode, ScalarBuilder
from coda_ir.dialects.gemm.scalars import ACTIVATION_CODE

Emit = Callable[[ScalarBuilder, Any, Sequence[SSAValue]], SSAValue]
"""Appends the code of an operator, of the class that it is for, on elements."""


def _unary(method: Callable[[ScalarBuilder, SSAValue], SSAValue]) -> Emit:
    return lambda builder, _, args: method(builder, args[0])


def _binary(method: Callable[[ScalarBuilder, SSAValue, SSAValue], SSAValue]) -> Emit:
    return lambda builder, _, args: method(builder, args[0], args[1])


def _emit_formula(
    builder: ScalarBuilder, op: coda.RealFunction, args: Sequence[SSAValue]
) -> SSAValue:
    """Emit the operators of a formula. Each rounds where PyTorch computes it on its own."""

    def apply(operator: type[coda.ElementwiseOp], *operands: SSAValue | float) -> SSAValue:
        values = [builder.constant(x) if isinstance(x, float) else x for x in operands]
        value = _EMIT[operator](builder, op, values)
        return value if op.ATEN else builder.result(value, element_type_of(op.result))

    formula = type(op).FORMULA
    assert formula is not None, f"{op.name} has a formula"
    return formula(coda.Term(args[0], apply), *op.numbers).value


def _emit_maximum_grad(
    builder: ScalarBuilder, op: coda.MaximumGradOp, args: Sequence[SSAValue]
) -> SSAValue:
    a, b, dy = args
    return builder.maximum_grad(a, b, dy, bound=op.bound is not None)


def _emit_div(builder: ScalarBuilder, op: Operation, args: Sequence[SSAValue]) -> SSAValue:
    is_of_number = isinstance(op, coda.DivOp) and isinstance(op.lhs.owner, coda.ConstantOp)
    if builder.mode == NumericsMode.EAGER_EXACT and is_of_number:
        # PyTorch computes a number over a tensor as the tensor's reciprocal times the number.
        reciprocal = builder.div(builder.constant(1.0), args[1])
        return builder.mul(builder.result(reciprocal, element_type_of(op.results[0])), args[0])
    return builder.div(args[0], args[1])


def _emit_cast(builder: ScalarBuilder, op: Operation, args: Sequence[SSAValue]) -> SSAValue:
    """Emit a cast. Between floats it is a no-op: epilogues compute in float32 and round where they
    store, or where the numerics mode says. Only a cast to float8, which has no arithmetic, always
    rounds.
    """
    type = element_type_of(op.results[0])
    value = builder.converted(args[0], type)
    return builder.round_to(value, float_type(type)) if is_float8(type) else value


def _emit_stored(builder: ScalarBuilder, op: coda.StoredOp, args: Sequence[SSAValue]) -> SSAValue:
    return builder.round_to(args[0], float_type(element_type_of(op.result)))


def _emit_elu(builder: ScalarBuilder, op: coda.EluOp, args: Sequence[SSAValue]) -> SSAValue:
    (x,) = args
    below = builder.scale(builder.insert(math.ExpM1Op(x)), op.alpha.value.data)
    return builder.select(builder.compare("ole", x, builder.constant(0.0)), below, x)


def _softplus(builder: ScalarBuilder, x: SSAValue) -> SSAValue:
    """Emit one operator. `eager-exact` computes it as eager PyTorch does."""
    if builder.mode != NumericsMode.EAGER_EXACT:
        return builder.insert(gemm.SoftplusOp(x))
    curve = builder.insert(math.Log1pOp(builder.exp(x)))
    return builder.select(builder.compare("ogt", x, builder.constant(20.0)), x, curve)


_FLOAT_RELATIONS = {"eq": "oeq", "ne": "une", "lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge"}
_INTEGER_RELATIONS = {"lt": "slt", "le": "sle", "gt": "sgt", "ge": "sge"}


def _emit_compare(builder: ScalarBuilder, op: coda.CompareOp, args: Sequence[SSAValue]) -> SSAValue:
    relation = op.relation.data
    if is_float(args[0].type):
        return builder.compare(_FLOAT_RELATIONS[relation], *args)
    predicate = _INTEGER_RELATIONS.get(relation, relation)
    return builder.insert(arith.CmpiOp(args[0], args[1], predicate))


def _one(operator: Scalar) -> Emit:
    return lambda builder, _, args: builder.insert(operator(*args))


def _integer_remainder(builder: ScalarBuilder, a: SSAValue, b: SSAValue) -> SSAValue:
    quotient = builder.insert(arith.FloorDivSIOp(a, b))
    return builder.insert(arith.SubiOp(a, builder.insert(arith.MuliOp(quotient, b))))


def _zero_minus(builder: ScalarBuilder, x: SSAValue) -> SSAValue:
    return builder.insert(arith.SubiOp(builder.integer(0, x.type), x))


def _wrapping(emit: Emit) -> Emit:
    """Return `emit` with a result that a narrow integer type truncates to its lowest bits."""

    def emit_wrapped(builder: ScalarBuilder, op: Operation, args: Sequence[SSAValue]) -> SSAValue:
        return builder.wrapped(emit(builder, op, args), element_type_of(op.results[0]))

    return emit_wrapped


def _magnitude(builder: ScalarBuilder, x: SSAValue) -> SSAValue:
    return builder.insert(arith.MaxSIOp(x, _zero_minus(builder, x)))


_EMIT_INTEGERS: dict[type[Operation], Emit] = {
    coda.AddOp: _wrapping(_one(arith.AddiOp)),
    coda.SubOp: _wrapping(_one(arith.SubiOp)),
    coda.MulOp: _wrapping(_one(arith.MuliOp)),
    coda.MaximumOp: _one(arith.MaxSIOp),
    coda.MinimumOp: _one(arith.MinSIOp),
    elementwise.RemainderOp: _binary(_integer_remainder),
    elementwise.FloorDivideOp: _wrapping(_one(arith.FloorDivSIOp)),
    coda.NegOp: _wrapping(_unary(_zero_minus)),
    coda.AbsOp: _wrapping(_unary(_magnitude)),
}
"""Operators with other code for integers than for floats."""

_EMIT: dict[type[Operation], Emit] = {
    **{op: _one(op.SCALAR) for op in coda.ELEMENTWISE_OPS if op.SCALAR is not None},
    **{op: _emit_formula for op in coda.ELEMENTWISE_OPS if op.FORMULA is not None},
    **{op: _unary(ACTIVATION_CODE[name]) for name, op in coda.GATES.items()},
    coda.DivOp: _emit_div,
    elementwise.RemainderOp: _one(gemm.RemainderOp),
    elementwise.FloorDivideOp: _one(gemm.FloorDivideOp),
    coda.SignOp: _unary(ScalarBuilder.sign),
    elementwise.SoftplusOp: _unary(_softplus),
    elementwise.IsnanOp: lambda builder, _, args: builder.compare("une", args[0], args[0]),
    elementwise.IsinfOp: lambda b, _, x: b.compare("oeq", b.abs(x[0]), b.constant(inf)),
    coda.EluOp: _emit_elu,
    coda.PowOp: lambda b, op, x: b.insert(math.PowFOp(x[0], b.constant(op.exponent.value.data))),
    coda.CompareOp: _emit_compare,
    coda.LogicalNotOp: lambda b, _, x: b.insert(arith.XOrIOp(x[0], b.integer(1, i1))),
    coda.DetachOp: _unary(lambda _, a: a),
    coda.CastOp: _emit_cast,
    coda.StoredOp: _emit_stored,
    coda.ActivationGradOp: lambda b, op, args: b.activation_grad(op.activation.data, *args),
    coda.MaximumGradOp: _emit_maximum_grad,
}


def computes_elements(operator: type) -> bool:
    """Return whether an operator maps elements to elements, by scalar code of a region."""
    return operator in _EMIT


def is_pointwise(op: object) -> bool:
    """Return whether `op` maps elements to elements of types with which regions compute."""
    # The class first: to ask an abstract base class takes longer.
    if not computes_elements(type(op)) or not isinstance(op, Operation):
        return False
    types = map(element_type_of, (*op.operands, *op.results))
    return all(map(is_scalar, types))


def is_scalar(type: Attribute) -> bool:
    """Return whether regions compute with elements of `type`."""
    return computes_in_float32(type) or isinstance(type, IntegerType)


def scalar_code(builder: ScalarBuilder, op: Operation, args: Sequence[SSAValue]) -> SSAValue | None:
    """Append the scalar code of `op` on `args`; return its value before rounding, or None."""
    emit = _EMIT.get(type(op))
    if args and isinstance(args[0].type, IntegerType):
        emit = _EMIT_INTEGERS.get(type(op), emit)
    return None if emit is None else emit(builder, op, args)


def emit_scalar(builder: ScalarBuilder, op: Operation, args: Sequence[SSAValue]) -> SSAValue:
    """Append the scalar code of the pointwise operator `op` on the elements `args`."""
    value = scalar_code(builder, op, args)
    assert value is not None, f"{op.name} is pointwise"
    return builder.result(value, element_type_of(op.results[0]))


def is_widening_cast(op: Operation) -> bool:
    """Return whether `op` only widens its operand to another float: loads do that for free."""
    return (
        isinstance(op, coda.CastOp)
        and is_pointwise(op)
        and is_float(element_type_of(op.operand))
        and is_float(element_type_of(op.result))
        and element_bytes(op.result.type) > element_bytes(op.operand.type)
    )
