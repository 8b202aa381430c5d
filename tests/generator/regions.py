"""Random scalar code of epilogue regions."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import IntegerType, bf16, f16, f32
from xdsl.ir import SSAValue

from coda_ir.dialects.gemm import Combiner, GroupReduceOp, ScalarBuilder
from generator.choices import Choices

CONSTANTS = (1.0, 0.5, 0.0, -2.0, 3.0, 0.125, 1e-3)

Values: TypeAlias = Sequence[SSAValue]


@dataclass
class RegionBuilder:
    """Appends scalar code to a region; every value is well conditioned where its operands are."""

    choices: Choices
    builder: ScalarBuilder
    groups: Sequence[int]
    """Sizes over which the region may reduce groups of columns."""
    floats: list[SSAValue] = field(default_factory=list[SSAValue])
    integers: list[SSAValue] = field(default_factory=list[SSAValue])

    def take(self, arguments: Values) -> None:
        for argument in arguments:
            is_integer = isinstance(argument.type, IntegerType)
            (self.integers if is_integer else self.floats).append(argument)

    def value(self) -> SSAValue:
        return self.choices.recent(self.floats)

    def constant(self) -> SSAValue:
        return self.builder.constant(self.choices.pick(CONSTANTS))

    def grow(self, steps: int) -> None:
        for _ in range(steps):
            if not self.floats:
                self.floats.append(self.constant())
            self.floats.append(self.choices.weighted(_STEPS)(self))


def _unary(r: RegionBuilder) -> SSAValue:
    methods: Sequence[Callable[[SSAValue], SSAValue]] = (
        r.builder.neg,
        r.builder.relu,
        r.builder.abs,
        r.builder.tanh,
        r.builder.sigmoid,
        r.builder.silu,
        r.builder.gelu,
        r.builder.gelu_tanh,
        r.builder.relu2,
        lambda a: r.builder.insert(math.ErfOp(a)),
        lambda a: r.builder.insert(math.SinOp(r.builder.tanh(a))),
        lambda a: r.builder.insert(math.CosOp(r.builder.tanh(a))),
        lambda a: r.builder.insert(math.Exp2Op(r.builder.tanh(a))),
    )
    return r.choices.pick(methods)(r.value())


def _binary(r: RegionBuilder) -> SSAValue:
    methods: Sequence[Callable[[SSAValue, SSAValue], SSAValue]] = (
        r.builder.add,
        r.builder.mul,
        r.builder.sub,
        r.builder.maximum,
        r.builder.minimum,
        lambda a, b: r.builder.insert(arith.MaxnumfOp(a, b)),
        lambda a, b: r.builder.insert(arith.MinnumfOp(a, b)),
        lambda a, b: r.builder.insert(math.FmaOp(a, b, r.constant())),
    )
    other = r.constant() if r.choices.chance(25) else r.value()
    return r.choices.pick(methods)(r.value(), other)


def _guarded(r: RegionBuilder) -> SSAValue:
    """exp of something bounded, roots, logarithms and quotients of something positive."""
    positive = r.builder.add(r.builder.abs(r.value()), r.builder.constant(1.0))
    methods: Sequence[Callable[[SSAValue], SSAValue]] = (
        r.builder.log,
        r.builder.sqrt,
        r.builder.rsqrt,
        lambda a: r.builder.div(r.value(), a),
        lambda a: r.builder.exp(r.builder.div(r.builder.constant(1.0), a)),
        lambda a: r.builder.insert(math.Log2Op(a)),
        lambda a: r.builder.insert(math.Log1pOp(a)),
        lambda a: r.builder.insert(math.ExpM1Op(r.builder.div(r.builder.constant(1.0), a))),
    )
    return r.choices.pick(methods)(positive)


def _select(r: RegionBuilder) -> SSAValue:
    """The larger or the smaller of two values by a comparison: continuous, unlike other selects."""
    a, b = r.value(), r.value()
    predicate = r.choices.pick(("ogt", "olt", "oge", "ole", "ugt", "ult"))
    holds = r.builder.insert(arith.CmpfOp(a, b, predicate))
    return r.builder.insert(arith.SelectOp(holds, a, b))


def _integer(r: RegionBuilder) -> SSAValue:
    """A float that an integer port decides."""
    if not r.integers:
        return _binary(r)
    index = r.choices.recent(r.integers)
    if r.choices.chance(30):
        index = r.builder.insert(arith.AddiOp(index, r.builder.integer(1, index.type)))
    if r.choices.chance(40):
        return r.builder.insert(arith.SIToFPOp(index, f32))
    predicate = r.choices.pick(("eq", "ne", "slt", "sge"))
    other = r.builder.integer(r.choices.integer(0, 3), index.type)
    holds = r.builder.insert(arith.CmpiOp(index, other, predicate))
    if r.choices.chance(20):
        return r.builder.insert(arith.UIToFPOp(holds, f32))
    return r.builder.insert(arith.SelectOp(holds, r.value(), r.value()))


def _rounded(r: RegionBuilder) -> SSAValue:
    return r.builder.round_to(r.value(), r.choices.pick((bf16, f16)))


def _group(r: RegionBuilder) -> SSAValue:
    if not r.groups:
        return _unary(r)
    combiner = r.choices.pick((Combiner.ADD, Combiner.MAX, Combiner.LSE))
    return r.builder.insert(GroupReduceOp(r.value(), combiner, r.choices.pick(r.groups)))


_STEPS: Sequence[tuple[int, Callable[[RegionBuilder], SSAValue]]] = (
    (8, _binary),
    (6, _unary),
    (3, _guarded),
    (1, _select),
    (2, _integer),
    (1, _rounded),
    (2, _group),
)
