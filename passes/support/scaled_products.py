"""Block-level sums as products times factors of whole rows, and other terms."""

from collections.abc import Container, Hashable, Sequence
from dataclasses import dataclass

from xdsl.ir import Operation, SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import element_type_of, is_float, shape_of
from coda_ir.dialects.gemm import PortKind
from coda_ir.dialects.gemm.tables import port_kind
from coda_ir.passes.support.matching import number_of, unwidened

_OF_ROWS = (PortKind.SCALAR, PortKind.COL)
"""Factors of whole rows."""


@dataclass(frozen=True)
class Term:
    """A term that a sum adds or subtracts."""

    value: SSAValue
    is_negative: bool = False


@dataclass(frozen=True)
class Scaled:
    """A value as the product of a tile and factors, each one number or one per row."""

    tile: SSAValue
    factors: Sequence[SSAValue]


@dataclass(frozen=True)
class Product:
    """A term that is the result of a GEMM times factors."""

    term: Term
    gemm: coda.LinearOp | coda.MatmulOp
    factors: Sequence[SSAValue]

    @property
    def is_plain(self) -> bool:
        """True if the term is the result of the GEMM, unchanged."""
        return self.term.value is self.gemm.result


def terms_of(root: coda.AddOp, seen: set[Operation]) -> list[Term]:
    """Return the terms of a sum, whole if they have other uses; add its operators to `seen`."""
    found: list[Term] = []
    pending = [Term(root.result)]
    while pending:
        term = pending.pop()
        op = term.value.owner
        if op is not root and not (term.value.has_one_use() and _is_like(term.value, root.result)):
            found.append(term)
        elif isinstance(op, coda.AddOp | coda.SubOp):
            seen.add(op)
            is_minus = isinstance(op, coda.SubOp)
            pending.append(Term(op.rhs, term.is_negative != is_minus))
            pending.append(Term(op.lhs, term.is_negative))
        elif isinstance(op, coda.CastOp) and is_float(element_type_of(op.operand)):
            pending.append(Term(op.operand, term.is_negative))
        else:
            found.append(term)
    return found


def _is_like(value: SSAValue, other: SSAValue) -> bool:
    return shape_of(value) == shape_of(other) and is_float(element_type_of(value))


def product_of(term: Term) -> Product | None:
    """Return the GEMM whose result a term is, apart from factors that only the term has."""
    found = scaled(term.value, alone=True)
    gemm = found.tile.owner
    if term.is_negative or not isinstance(gemm, coda.LinearOp | coda.MatmulOp):
        return None
    return Product(term, gemm, found.factors)


def scaled(value: SSAValue, *, alone: bool = False) -> Scaled:
    """Return the factors of `value`; with `alone`, as far as each product has no other use."""
    factors: list[SSAValue] = []
    domain = shape_of(value)
    while not alone or value.has_one_use():
        op = value.owner
        if isinstance(op, coda.CastOp) and is_float(element_type_of(op.operand)):
            value = op.operand
            continue
        pair = tile_and_factor(op, domain) if isinstance(op, coda.MulOp) else None
        if pair is None:
            break
        value = pair[0]
        factors.append(pair[1])
    return Scaled(value, factors)


def tile_and_factor(
    op: coda.MulOp, domain: Sequence[int], factors: Container[PortKind | None] = _OF_ROWS
) -> tuple[SSAValue, SSAValue] | None:
    """Return a tile of `domain`, and the factor of one of these kinds that multiplies it."""
    for tile, factor in op.pairs:
        kinds = port_kind(shape_of(tile), domain), port_kind(shape_of(factor), domain)
        if kinds[0] == PortKind.TILE and kinds[1] in factors:
            return tile, factor
    return None


def identity(factor: SSAValue) -> Hashable:
    """Return a key that is equal for equal factors."""
    number = number_of(factor)
    return unwidened(factor) if number is None else number


def without(values: Sequence[SSAValue], removed: Sequence[SSAValue]) -> tuple[list[SSAValue], ...]:
    """Return the factors `values` without `removed`, and those of `removed` not among them."""
    left, missing = list(values), list[SSAValue]()
    for value in removed:
        same = [each for each in left if identity(each) == identity(value)]
        if same:
            left.remove(same[0])
        else:
            missing.append(value)
    return left, missing


def is_reciprocal_deviation(factor: SSAValue) -> bool:
    """Return whether `factor` is the rstd of rows, which is always positive."""
    value = unwidened(factor)
    return isinstance(value.owner, coda.NormStatsOp) and value is value.owner.results[0]
