"""Arithmetic of elements, and formulas that are made of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from xdsl.dialects import arith

from coda_ir.dialects.coda.elementwise_op import (
    BinaryOp,
    Elements,
    ElementwiseOp,
    UnaryOp,
    elementwise,
)


@elementwise(
    "add.Tensor",
    arith.AddfOp,
    aliases=("add.Scalar",),
    elements=Elements.NUMBERS,
    zero_at_zero=True,
)
class AddOp(BinaryOp):
    """Sum: `coda.add %a, %b : (tensor<?x8xbf16>, tensor<8xbf16>) -> tensor<?x8xbf16>`."""


@elementwise(
    "sub.Tensor",
    arith.SubfOp,
    aliases=("sub.Scalar",),
    elements=Elements.NUMBERS,
    zero_at_zero=True,
)
class SubOp(BinaryOp):
    """Difference of two tensors."""


@elementwise("mul.Tensor", arith.MulfOp, aliases=("mul.Scalar",), elements=Elements.NUMBERS)
class MulOp(BinaryOp):
    """Elementwise product."""


@elementwise("div.Tensor", arith.DivfOp, aliases=("div.Scalar",))
class DivOp(BinaryOp):
    """Quotient of two tensors."""


@elementwise("neg.default", arith.NegfOp, elements=Elements.NUMBERS, zero_at_zero=True)
class NegOp(UnaryOp):
    """Negation."""


ValueT = TypeVar("ValueT")


@dataclass(frozen=True)
class Term(Generic[ValueT]):
    """A value in a formula: Python's operators on it apply operators of the dialect.

    `apply` computes an operator of values, one of which may be a number.
    """

    value: ValueT
    apply: Callable[..., ValueT]

    def of(self, operator: type[UnaryOp]) -> Term[ValueT]:
        """Apply a function to this value."""
        return self._made(operator, self.value)

    def __neg__(self) -> Term[ValueT]:
        return self.of(NegOp)

    def __add__(self, other: Term[ValueT] | float) -> Term[ValueT]:
        return self._with(AddOp, other)

    def __mul__(self, other: Term[ValueT] | float) -> Term[ValueT]:
        return self._with(MulOp, other)

    def __truediv__(self, other: Term[ValueT] | float) -> Term[ValueT]:
        return self._with(DivOp, other)

    def _with(self, operator: type[BinaryOp], other: Term[ValueT] | float) -> Term[ValueT]:
        return self._made(operator, self.value, other.value if isinstance(other, Term) else other)

    def _made(self, operator: type[ElementwiseOp], *operands: ValueT | float) -> Term[ValueT]:
        return replace(self, value=self.apply(operator, *operands))
