"""Block-level elementwise operators as scalar code of an epilogue region."""

from collections.abc import Callable, Sequence

from xdsl.ir import Operation, SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import computes_in_float32, element_bytes, element_type_of
from coda_ir.dialects.gemm import NumericsMode, ScalarBuilder

Emit = Callable[[ScalarBuilder, Operation, Sequence[SSAValue]], SSAValue]


def _unary(method: Callable[[ScalarBuilder, SSAValue], SSAValue]) -> Emit:
    return lambda builder, _, args: method(builder, args[0])


def _binary(method: Callable[[ScalarBuilder, SSAValue, SSAValue], SSAValue]) -> Emit:
    return lambda builder, _, args: method(builder, args[0], args[1])


def _emit_gelu(builder: ScalarBuilder, op: Operation, args: Sequence[SSAValue]) -> SSAValue:
    assert isinstance(op, coda.GeluOp)
    exact = op.approximate.data == "none"
    return builder.gelu(args[0]) if exact else builder.gelu_tanh(args[0])


def _emit_softcap(builder: ScalarBuilder, op: Operation, args: Sequence[SSAValue]) -> SSAValue:
    assert isinstance(op, coda.SoftcapOp)
    return builder.softcap(args[0], op.cap.value.data, element_type_of(op.result))


def _emit_activation_grad(
    builder: ScalarBuilder, op: Operation, args: Sequence[SSAValue]
) -> SSAValue:
    assert isinstance(op, coda.ActivationGradOp)
    return builder.activation_grad(op.activation.data, args[0], args[1])


def _emit_maximum_grad(builder: ScalarBuilder, op: Operation, args: Sequence[SSAValue]) -> SSAValue:
    assert isinstance(op, coda.MaximumGradOp)
    a, b, dy = args
    return builder.maximum_grad(a, b, dy, bound=op.bound is not None)


def _emit_div(builder: ScalarBuilder, op: Operation, args: Sequence[SSAValue]) -> SSAValue:
    if builder.mode == NumericsMode.EAGER_EXACT and isinstance(
        op.operands[0].owner, coda.ConstantOp
    ):
        # PyTorch computes a number over a tensor as the tensor's reciprocal times the number.
        reciprocal = builder.div(builder.constant(1.0), args[1])
        return builder.mul(builder.result(reciprocal, element_type_of(op.results[0])), args[0])
    return builder.div(args[0], args[1])


def _emit_cast(_: ScalarBuilder, __: Operation, args: Sequence[SSAValue]) -> SSAValue:
    # Epilogues compute in float32 and round where they store, or where the numerics mode says.
    return args[0]


_EMIT: dict[type[Operation], Emit] = {
    coda.AddOp: _binary(ScalarBuilder.add),
    coda.SubOp: _binary(ScalarBuilder.sub),
    coda.MulOp: _binary(ScalarBuilder.mul),
    coda.DivOp: _emit_div,
    coda.MaximumOp: _binary(ScalarBuilder.maximum),
    coda.MinimumOp: _binary(ScalarBuilder.minimum),
    coda.NegOp: _unary(ScalarBuilder.neg),
    coda.AbsOp: _unary(ScalarBuilder.abs),
    coda.ExpOp: _unary(ScalarBuilder.exp),
    coda.LogOp: _unary(ScalarBuilder.log),
    coda.SqrtOp: _unary(ScalarBuilder.sqrt),
    coda.RsqrtOp: _unary(ScalarBuilder.rsqrt),
    coda.TanhOp: _unary(ScalarBuilder.tanh),
    coda.SigmoidOp: _unary(ScalarBuilder.sigmoid),
    coda.SiluOp: _unary(ScalarBuilder.silu),
    coda.ReluOp: _unary(ScalarBuilder.relu),
    coda.Relu2Op: _unary(ScalarBuilder.relu2),
    coda.GeluOp: _emit_gelu,
    coda.SoftcapOp: _emit_softcap,
    coda.DetachOp: _unary(lambda _, a: a),
    coda.CastOp: _emit_cast,
    coda.ActivationGradOp: _emit_activation_grad,
    coda.SignOp: _unary(ScalarBuilder.sign),
    coda.MaximumGradOp: _emit_maximum_grad,
}


def is_pointwise(op: object) -> bool:
    """Whether `op` maps elements to elements and float32 scalar code computes it."""
    return (
        type(op) in _EMIT
        and isinstance(op, Operation)
        and all(
            computes_in_float32(element_type_of(value)) for value in (*op.operands, *op.results)
        )
    )


def scalar_code(builder: ScalarBuilder, op: Operation, args: Sequence[SSAValue]) -> SSAValue | None:
    """Append the scalar code of `op` on the float elements `args`: its value before it is rounded
    to the type of the result. None where there is no code for `op`.
    """
    emit = _EMIT.get(type(op))
    return None if emit is None else emit(builder, op, args)


def emit_scalar(builder: ScalarBuilder, op: Operation, args: Sequence[SSAValue]) -> SSAValue:
    """Append the scalar code of the pointwise operator `op` on the elements `args`."""
    return builder.result(_EMIT[type(op)](builder, op, args), element_type_of(op.results[0]))


def is_widening_cast(op: Operation) -> bool:
    """Whether `op` only extends its operand to a wider float type, which loads do for free."""
    return (
        isinstance(op, coda.CastOp)
        and is_pointwise(op)
        and element_bytes(op.result.type) > element_bytes(op.operand.type)
    )
