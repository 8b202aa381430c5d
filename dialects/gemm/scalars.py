"""Scalar code of epilogue regions, built from `arith` and `math` operators on float32."""

from collections.abc import Callable
from math import pi, sqrt

from xdsl.builder import Builder
from xdsl.dialects import arith, math
from xdsl.dialects.builtin import AnyFloat, FloatAttr, IntegerAttr, LocationAttr, UnknownLoc, f32
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint

from coda_ir.dialects.gemm.attrs import Combiner


class ScalarBuilder:
    """Appends scalar operators to the block of a region, before its terminator if it has one.

    Methods take and return float32 values unless stated; every operator gets `location`.
    """

    def __init__(self, block: Block, location: LocationAttr | None = None):
        terminator = block.last_op if block.last_op and block.last_op.next_op is None else None
        is_yield = terminator is not None and terminator.name == "gemm.yield"
        point = (
            InsertPoint.before(terminator)
            if is_yield and terminator is not None
            else InsertPoint.at_end(block)
        )
        self._builder = Builder(point)
        self._location = location or UnknownLoc()
        self._constants: dict[tuple[float, Attribute], SSAValue] = {}

    def insert(self, op: Operation) -> SSAValue:
        """Insert an operator with one result and return the result."""
        op.location = self._location
        self._builder.insert(op)
        return op.results[0]

    def constant(self, value: float) -> SSAValue:
        key = (value, f32)
        if key not in self._constants:
            self._constants[key] = self.insert(arith.ConstantOp(FloatAttr(value, f32)))
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
        return self.insert(math.TanhOp(a))

    def erf(self, a: SSAValue) -> SSAValue:
        return self.insert(math.ErfOp(a))

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
        """a/2 · (1 + erf(a/√2))."""
        bell = self.add(self.constant(1.0), self.erf(self.scale(a, 1 / sqrt(2))))
        return self.mul(self.scale(a, 0.5), bell)

    def gelu_tanh(self, a: SSAValue) -> SSAValue:
        """a/2 · (1 + tanh(√(2/π) · (a + 0.044715 a³)))."""
        cube = self.mul(a, self.mul(a, a))
        inner = self.scale(self.add(a, self.scale(cube, 0.044715)), sqrt(2 / pi))
        return self.mul(self.scale(a, 0.5), self.add(self.constant(1.0), self.tanh(inner)))

    def softcap(self, a: SSAValue, cap: float) -> SSAValue:
        """cap · tanh(a / cap)."""
        return self.scale(self.tanh(self.div(a, self.constant(cap))), cap)

    def round_to(self, a: SSAValue, type: AnyFloat) -> SSAValue:
        """`a` rounded to `type` and extended to float32 again: an explicit rounding point."""
        if type == f32:
            return a
        return self.insert(arith.ExtFOp(self.insert(arith.TruncFOp(a, type)), f32))

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
        """The activation `name` (one of `coda.ACTIVATIONS`) of `a`."""
        return _ACTIVATIONS[name](self, a)


def _identity(_: ScalarBuilder, a: SSAValue) -> SSAValue:
    return a


_ACTIVATIONS: dict[str, Callable[[ScalarBuilder, SSAValue], SSAValue]] = {
    "identity": _identity,
    "silu": ScalarBuilder.silu,
    "gelu": ScalarBuilder.gelu,
    "gelu_tanh": ScalarBuilder.gelu_tanh,
    "relu": ScalarBuilder.relu,
    "relu2": ScalarBuilder.relu2,
    "sigmoid": ScalarBuilder.sigmoid,
    "tanh": ScalarBuilder.tanh,
}
