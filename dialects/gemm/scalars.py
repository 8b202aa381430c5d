"""Scalar code of epilogue regions: `arith` and `math` operators on float32."""

from collections.abc import Callable, Sequence
from math import e, log2, pi, sqrt
from typing import NamedTuple

from xdsl.builder import Builder
from xdsl.dialects import arith, math
from xdsl.dialects.builtin import (
    AnyFloat,
    Float32Type,
    IntegerAttr,
    IntegerType,
    LocationAttr,
    Signedness,
    UnknownLoc,
    f32,
    i1,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint

from coda_ir.dialects.coda.shapes import float_type, is_float, is_narrow_integer
from coda_ir.dialects.coda.truth_folding import rounded_number
from coda_ir.dialects.gemm.attrs import Combiner
from coda_ir.dialects.gemm.constants import exact_number, float_constant
from coda_ir.dialects.gemm.numerics import NumericsMode
from coda_ir.dialects.gemm.region_ops import NormalCdfOp, SoftplusOp
from coda_ir.dialects.gemm.segment import region_type


class RotationTypes(NamedTuple):
    """The element types of a rotation in PyTorch."""

    stored: Attribute
    product: Attribute
    """The type of x times cos by type promotion: the common type, or float32."""

    @staticmethod
    def of(x: Attribute, cos: Attribute) -> "RotationTypes":
        return RotationTypes(x, x if x == cos else f32)


_EXACT = (
    *(arith.MaximumfOp, arith.MinimumfOp, arith.NegfOp, math.AbsFOp),
    *(math.RoundEvenOp, math.FloorOp, math.CeilOp, math.TruncOp),
)
"""Operators whose results are elements of a type if their operands are."""


def _is_of_type(a: SSAValue, type: AnyFloat) -> bool:
    """Return whether a float32 is known to be an element of `type`, which rounding preserves."""
    match a.owner:
        case arith.ExtFOp() as widened:
            return widened.input.type == type
        case arith.ConstantOp() as constant:
            number = exact_number(constant)
            return number == rounded_number(number, type)
        case arith.SelectOp() as choice:
            return all(_is_of_type(value, type) for value in choice.operands[1:])
        case Operation() as op if isinstance(op, _EXACT):
            return all(_is_of_type(value, type) for value in op.operands)
        case _:
            return False


class ScalarBuilder:
    """Appends scalar operators to the block of a region, before its terminator if there is one, or
    inserts them `at_start`.

    Methods take and return float32 values unless stated; every operator gets `location`. Where
    `mode` says so, `result` rounds, and so do the steps of what PyTorch has no operator for.
    """

    def __init__(
        self,
        block: Block,
        location: LocationAttr | None = None,
        mode: NumericsMode = NumericsMode.FP32_EPILOGUE,
        *,
        at_start: bool = False,
    ):
        self.mode = mode
        self._builder = Builder(InsertPoint.at_start(block) if at_start else _end_of(block))
        self._location = location or UnknownLoc()
        self._constants: dict[tuple[float, Attribute], SSAValue] = {}

    def insert(self, op: Operation) -> SSAValue:
        """Insert an operator with one result and return the result."""
        op.location = self._location
        self._builder.insert(op)
        return op.results[0]

    def constant(self, value: float) -> SSAValue:
        """Return the number in f32, infinite if it is out of range, as in PyTorch."""
        key = (value, f32)
        if key not in self._constants:
            self._constants[key] = self.insert(float_constant(value))
        return self._constants[key]

    def integer(self, value: int, type: Attribute) -> SSAValue:
        return self.insert(arith.ConstantOp(IntegerAttr(value, type)))  # pyright: ignore

    def add(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self.insert(arith.AddfOp(a, b))

    def sub(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self.insert(arith.SubfOp(a, b))

    def mul(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self.insert(arith.MulfOp(a, b))

    def div(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self.insert(arith.DivfOp(a, b))

    def maximum(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self.insert(arith.MaximumfOp(a, b))

    def minimum(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self.insert(arith.MinimumfOp(a, b))

    def neg(self, a: SSAValue) -> SSAValue:
        return self.insert(arith.NegfOp(a))

    def abs(self, a: SSAValue) -> SSAValue:
        return self.insert(math.AbsFOp(a))

    def exp(self, a: SSAValue) -> SSAValue:
        return self.insert(math.ExpOp(a))

    def log(self, a: SSAValue) -> SSAValue:
        return self.insert(math.LogOp(a))

    def sqrt(self, a: SSAValue) -> SSAValue:
        return self.insert(math.SqrtOp(a))

    def rsqrt(self, a: SSAValue) -> SSAValue:
        return self.insert(math.RsqrtOp(a))

    def tanh(self, a: SSAValue) -> SSAValue:
        """tanh(a); of a softplus log(1 + e) with e = exp(x), n / (n + 2) with n = e · (e + 2)."""
        if not isinstance(a.owner, SoftplusOp):
            return self.insert(math.TanhOp(a))
        two = self.constant(2.0)
        # Of 20 it is 1.
        e = self.exp(self.minimum(a.owner.x, self.constant(20.0)))
        n = self.mul(e, self.add(e, two))
        return self.div(n, self.add(n, two))

    def scale(self, a: SSAValue, factor: float) -> SSAValue:
        return self.mul(a, self.constant(factor))

    def sigmoid(self, a: SSAValue) -> SSAValue:
        """1 / (1 + exp(-a))."""
        one = self.constant(1.0)
        return self.div(one, self.add(one, self.exp(self.neg(a))))

    def silu(self, a: SSAValue) -> SSAValue:
        """a / (1 + exp(-a))."""
        return self.div(a, self.add(self.constant(1.0), self.exp(self.neg(a))))

    def relu(self, a: SSAValue) -> SSAValue:
        return self.maximum(a, self.constant(0.0))

    def relu2(self, a: SSAValue) -> SSAValue:
        positive = self.relu(a)
        return self.mul(positive, positive)

    def gelu(self, a: SSAValue) -> SSAValue:
        """a · Φ(a), with the normal distribution Φ."""
        return self.mul(a, self.normal_cdf(a))

    def normal_cdf(self, a: SSAValue) -> SSAValue:
        """Φ(a). `eager-exact` computes it by the error function, as eager PyTorch does."""
        if self.mode != NumericsMode.EAGER_EXACT:
            return self.insert(NormalCdfOp(a))
        bell = self.add(self.constant(1.0), self.insert(math.ErfOp(self.scale(a, 1 / sqrt(2)))))
        return self.scale(bell, 0.5)

    def gelu_tanh(self, a: SSAValue) -> SSAValue:
        """a/2 · (1 + tanh(u)) = a · sigmoid(2 u), with u = √(2/π) · (a + 0.044715 a³)."""
        return self.div(a, self._one_and_exp(a))

    def gelu_tanh_share(self, a: SSAValue) -> SSAValue:
        """sigmoid(2 u), with u as in `gelu_tanh`."""
        return self.div(self.constant(1.0), self._one_and_exp(a))

    def _one_and_exp(self, a: SSAValue) -> SSAValue:
        cube = self.mul(a, self.mul(a, a))
        inner = self.scale(self.add(a, self.scale(cube, 0.044715)), 2 * sqrt(2 / pi))
        return self.add(self.constant(1.0), self.exp(self.neg(inner)))

    def compare(self, predicate: str, a: SSAValue, b: SSAValue) -> SSAValue:
        """Compare `a` and `b` by a `predicate` of `arith.cmpf`; return an i1."""
        return self.insert(arith.CmpfOp(a, b, predicate))

    def select(self, condition: SSAValue, a: SSAValue, b: SSAValue) -> SSAValue:
        """Return `a` where the i1 `condition` holds, else `b`."""
        return self.insert(arith.SelectOp(condition, a, b))

    def sign(self, a: SSAValue) -> SSAValue:
        """-1, 0 or 1; 0 for NaN."""
        zero = self.constant(0.0)
        negative = self.select(self.compare("olt", a, zero), self.constant(-1.0), zero)
        return self.select(self.compare("ogt", a, zero), self.constant(1.0), negative)

    def maximum_grad(
        self, a: SSAValue, b: SSAValue, dy: SSAValue, *, bound: bool = False
    ) -> SSAValue:
        """The gradient of max(a, b) for a: dy, half of it where both are equal, 0 where b wins.

        With `bound`, where one of them is a number, dy where both are equal, and 0 for NaN.
        """
        if bound:
            return self.select(self.compare("oge", a, b), dy, self.constant(0.0))
        shared = self.select(self.compare("oeq", a, b), self.scale(dy, 0.5), dy)
        return self.select(self.compare("olt", a, b), self.constant(0.0), shared)

    def gated(self, name: str, gate: SSAValue, up: SSAValue, type: Attribute) -> SSAValue:
        """activation(gate) · up: two operators of PyTorch on elements of `type`."""
        activated = self.result(self.activation(name, gate), type)
        return self.result(self.mul(activated, up), type)

    def rotate(
        self,
        a: SSAValue,
        b: SSAValue,
        cos: Sequence[SSAValue],
        sin: Sequence[SSAValue],
        types: RotationTypes,
        *,
        transposed: bool = False,
    ) -> list[SSAValue]:
        """(a·cos − b·sin, b·cos + a·sin): products and sums of PyTorch, and a cast.

        `cos` and `sin` are one value for the pair, or one for each of its columns. `transposed`,
        the adjoint, (a·cos + b·sin, b·cos − a·sin), with the sines of the other column.
        """
        cos_a, cos_b = cos[0], cos[-1]
        sin_a, sin_b = (sin[-1], sin[0]) if transposed else (sin[0], sin[-1])

        def product(x: SSAValue, y: SSAValue) -> SSAValue:
            return self.result(self.mul(x, y), types.product)

        first, second = (self.add, self.sub) if transposed else (self.sub, self.add)
        rotated = [
            first(product(a, cos_a), product(b, sin_a)),
            second(product(b, cos_b), product(a, sin_b)),
        ]
        return [self.result(value, types.stored) for value in rotated]

    def round_to(self, a: SSAValue, type: AnyFloat) -> SSAValue:
        """Round `a` to `type` and widen it to float32 again: an explicit rounding point."""
        if type == f32 or _is_of_type(a, type):
            return a
        return self.insert(arith.ExtFOp(self.insert(arith.TruncFOp(a, type)), f32))

    def number(self, value: float, type: Attribute) -> SSAValue:
        """Return the number as an element of `type`."""
        computed = region_type(type)
        if is_float(computed):
            return self.constant(float(value))
        return self.integer(int(value), computed)

    def converted(self, a: SSAValue, element: Attribute) -> SSAValue:
        """Convert `a` to the type in which regions compute with elements of type `element`:
        truncated to an integer, and true where it is not 0.
        """
        type = region_type(element)
        if type == i1 != a.type:
            zero = self.number(0, a.type)
            is_real = is_float(a.type)
            return self.insert(
                arith.CmpfOp(a, zero, "une") if is_real else arith.CmpiOp(a, zero, "ne")
            )
        return self.wrapped(self._converted(a, type), element)

    def _converted(self, a: SSAValue, type: Attribute) -> SSAValue:
        """Convert `a` to `type`, in which regions compute."""
        if a.type == type:
            return a
        if isinstance(type, Float32Type):
            return self.insert((arith.UIToFPOp if a.type == i1 else arith.SIToFPOp)(a, type))
        assert isinstance(type, IntegerType), f"no conversion to {type}"
        if is_float(a.type):
            return self.insert(arith.FPToSIOp(a, type))
        if a.type == i1:
            return self.insert(arith.ExtUIOp(a, type))
        assert isinstance(a.type, IntegerType)
        is_wider = type.width.data > a.type.width.data
        return self.insert((arith.ExtSIOp if is_wider else arith.TruncIOp)(a, type))

    def wrapped(self, a: SSAValue, element: Attribute) -> SSAValue:
        """Truncate `a` to the bits of `element` if that is a narrow integer; else return `a`."""
        if not is_narrow_integer(element):
            return a
        assert isinstance(element, IntegerType)
        if element.signedness.data == Signedness.UNSIGNED:
            return self.insert(arith.AndIOp(a, self.integer(2**element.bitwidth - 1, a.type)))
        return self.insert(arith.ExtSIOp(self.insert(arith.TruncIOp(a, element)), a.type))

    def result(self, a: SSAValue, type: Attribute) -> SSAValue:
        """Return `a` as an operator's result of type `type`, rounded where eager PyTorch rounds."""
        if self.mode != NumericsMode.EAGER_EXACT or not is_float(type):
            return a
        return self.round_to(a, float_type(type))

    def divide_by(self, a: SSAValue, number: int) -> SSAValue:
        """Divide by a number: by its reciprocal, but exactly if every bit counts."""
        if self.mode == NumericsMode.EAGER_EXACT:
            return self.div(a, self.constant(float(number)))
        return self.scale(a, 1 / number)

    def combine(self, kind: Combiner, a: SSAValue, b: SSAValue) -> SSAValue:
        """Combine two elements of a partial: a + b, max(a, b), or log(exp(a) + exp(b))."""
        if kind == Combiner.ADD:
            return self.add(a, b)
        largest = self.maximum(a, b)
        if kind == Combiner.MAX:
            return largest
        total = self.add(self.exp(self.sub(a, largest)), self.exp(self.sub(b, largest)))
        return self.add(largest, self.log(total))

    def activation(self, name: str, a: SSAValue) -> SSAValue:
        """Apply the activation `name` (one of `coda.ACTIVATIONS`) to `a`."""
        return ACTIVATION_CODE[name](self, a)

    def activation_grad(self, name: str, a: SSAValue, dy: SSAValue) -> SSAValue:
        """Return activation'(a) · dy, in PyTorch's order; `a` is the result of sigmoid and tanh."""
        return _DERIVATIVES[name](self, a, dy)


def _silu_grad(builder: ScalarBuilder, a: SSAValue, dy: SSAValue) -> SSAValue:
    """dy · s · (1 + a · (1 − s)) with s = sigmoid(a)."""
    one, share = builder.constant(1.0), builder.sigmoid(a)
    bend = builder.add(one, builder.mul(a, builder.sub(one, share)))
    return builder.mul(builder.mul(dy, share), bend)


def _gelu_grad(builder: ScalarBuilder, a: SSAValue, dy: SSAValue) -> SSAValue:
    """dy · (Φ(a) + a · φ(a)), with the normal distribution Φ and its density φ."""
    exponent = builder.scale(builder.mul(a, a), -0.5 * log2(e))
    density = builder.insert(math.Exp2Op(exponent))  # fewer instructions than `exp`
    slope = builder.mul(a, builder.scale(density, 1 / sqrt(2 * pi)))
    return builder.mul(dy, builder.add(builder.normal_cdf(a), slope))


def _gelu_tanh_grad(builder: ScalarBuilder, a: SSAValue, dy: SSAValue) -> SSAValue:
    """dy · (s + a · s · (1 − s) · 2 u'), with s = sigmoid(2 u) and u = √(2/π) (a + 0.044715 a³)."""
    one, share = builder.constant(1.0), builder.gelu_tanh_share(a)
    square = builder.mul(a, a)
    slope = builder.scale(builder.add(one, builder.scale(square, 3 * 0.044715)), 2 * sqrt(2 / pi))
    # a · s first: where a³ overflows, s is 0.
    bend = builder.mul(builder.mul(a, share), builder.sub(one, share))
    return builder.mul(dy, builder.add(share, builder.mul(bend, slope)))


def _relu_grad(builder: ScalarBuilder, a: SSAValue, dy: SSAValue) -> SSAValue:
    """0 where a ≤ 0, else dy."""
    zero = builder.constant(0.0)
    return builder.select(builder.compare("ole", a, zero), zero, dy)


def _relu2_grad(builder: ScalarBuilder, a: SSAValue, dy: SSAValue) -> SSAValue:
    """0 where a ≤ 0, also for an infinite dy, else 2 · dy · a."""
    return _relu_grad(builder, a, builder.mul(dy, builder.scale(a, 2.0)))


def _sigmoid_grad(builder: ScalarBuilder, y: SSAValue, dy: SSAValue) -> SSAValue:
    """dy · (1 − y) · y with y = sigmoid(a)."""
    return builder.mul(builder.mul(dy, builder.sub(builder.constant(1.0), y)), y)


def _tanh_grad(builder: ScalarBuilder, y: SSAValue, dy: SSAValue) -> SSAValue:
    """dy · (1 − y²) with y = tanh(a)."""
    return builder.mul(dy, builder.sub(builder.constant(1.0), builder.mul(y, y)))


def _identity(_: ScalarBuilder, a: SSAValue) -> SSAValue:
    return a


ACTIVATION_CODE: dict[str, Callable[[ScalarBuilder, SSAValue], SSAValue]] = {
    "identity": _identity,
    "silu": ScalarBuilder.silu,
    "gelu": ScalarBuilder.gelu,
    "gelu_tanh": ScalarBuilder.gelu_tanh,
    "relu": ScalarBuilder.relu,
    "relu2": ScalarBuilder.relu2,
    "sigmoid": ScalarBuilder.sigmoid,
    "tanh": ScalarBuilder.tanh,
}
"""The code of each of `coda.ACTIVATIONS`."""

_DERIVATIVES: dict[str, Callable[[ScalarBuilder, SSAValue, SSAValue], SSAValue]] = {
    "silu": _silu_grad,
    "gelu": _gelu_grad,
    "gelu_tanh": _gelu_tanh_grad,
    "relu": _relu_grad,
    "relu2": _relu2_grad,
    "sigmoid": _sigmoid_grad,
    "tanh": _tanh_grad,
}


def _end_of(block: Block) -> InsertPoint:
    """Return the insertion point at the end of a block, before its terminator if there is one."""
    last = block.last_op
    if last is not None and last.name == "gemm.yield":
        return InsertPoint.before(last)
    return InsertPoint.at_end(block)
