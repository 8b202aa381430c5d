"""Sizes in terms of symbolic dimensions: polynomials such as `16384*M + 64`."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import prod

from coda_ir.diagnostics import OptionError

Monomial = tuple[str, ...]
"""A product of symbols, sorted: `("B", "T", "T")` is B*T*T and `()` is 1."""

Term = tuple[Monomial, int]
"""A monomial with its coefficient."""


@dataclass(frozen=True)
class SymbolicSize:
    """A polynomial with integer coefficients in the symbols of a function.

    Immutable and hashable; equal polynomials are equal values. `str()` writes the terms in
    descending degree: `32*B*T + 8*M + 4`.
    """

    terms: tuple[Term, ...] = field(default=())

    @staticmethod
    def constant(value: int) -> SymbolicSize:
        return _from_terms([((), value)])

    @staticmethod
    def product(dims: Iterable[int | str]) -> SymbolicSize:
        """Return the product of extents: numbers, symbols, products (`32*B*T`), sums (`L - 2`)."""
        coefficient, symbols, sums = 1, list[str](), list[SymbolicSize]()
        for dim in dims:
            if isinstance(dim, int):
                coefficient *= dim
                continue
            if " " in dim:
                sums.append(SymbolicSize.of(dim))
                continue
            for factor in dim.split("*"):
                if factor.lstrip("-").isdigit():
                    coefficient *= int(factor)
                else:
                    symbols.append(factor)
        return prod(sums, start=_from_terms([(tuple(sorted(symbols)), coefficient)]))

    @staticmethod
    def of(dim: int | str) -> SymbolicSize:
        """Return an extent as a number or as text, which may be a sum: `2*M + 1`."""
        terms = filter(None, re.split(r"(?=[+-])", str(dim).replace(" ", "")))
        factors = ((term.lstrip("+-"), -1 if term.startswith("-") else 1) for term in terms)
        return sum(map(SymbolicSize.product, factors), SymbolicSize())

    @property
    def multiple(self) -> tuple[str, int] | None:
        """The symbol and the coefficient of a multiple such as `2*M`; None for other sizes."""
        if len(self.terms) == 1 and len(self.terms[0][0]) == 1:
            ((symbol,), coefficient) = self.terms[0]
            return symbol, coefficient
        return None

    @property
    def symbols(self) -> frozenset[str]:
        return frozenset(symbol for monomial, _ in self.terms for symbol in monomial)

    def __add__(self, other: SymbolicSize | int) -> SymbolicSize:
        return _from_terms([*self.terms, *as_size(other).terms])

    __radd__ = __add__

    def __sub__(self, other: SymbolicSize | int) -> SymbolicSize:
        return self + as_size(other) * -1

    def __mul__(self, other: SymbolicSize | int) -> SymbolicSize:
        return _from_terms(
            (tuple(sorted((*a, *b))), x * y) for a, x in self.terms for b, y in as_size(other).terms
        )

    __rmul__ = __mul__

    def divided(self, divisor: SymbolicSize | int) -> SymbolicSize | None:
        """Return the size divided by another; None if that is not exact for all sizes."""
        by, rest, quotient = as_size(divisor), self, SymbolicSize()
        while rest.terms:
            term = _divide_term(rest.terms[0], by.terms[0]) if by.terms else None
            if term is None:
                return None
            rest, quotient = rest - term * by, quotient + term
        return quotient

    def bind(self, values: Mapping[str, int | SymbolicSize]) -> SymbolicSize:
        """Return the size with numbers or other sizes in place of some symbols."""
        if values.keys().isdisjoint(self.symbols):
            return self
        terms = (
            prod(
                (
                    as_size(values.get(symbol, SymbolicSize((((symbol,), 1),))))
                    for symbol in monomial
                ),
                start=SymbolicSize.constant(coefficient),
            )
            for monomial, coefficient in self.terms
        )
        return sum(terms, SymbolicSize())

    def evaluate(self, bindings: Mapping[str, int] | None = None) -> int:
        """Return the value under `bindings`. Raises KeyError with the name of an unbound symbol."""
        total = 0
        known: Mapping[str, int] = {} if bindings is None else bindings
        for monomial, coefficient in self.terms:
            for symbol in monomial:
                coefficient *= known[symbol]
            total += coefficient
        return total

    def __int__(self) -> int:
        """Return the value of a size without symbols. Raises ValueError if it has some."""
        if self.symbols:
            raise ValueError(f"size {self} depends on {', '.join(sorted(self.symbols))}")
        return self.evaluate()

    def __str__(self) -> str:
        if not self.terms:
            return "0"
        text = " + ".join(_format_term(monomial, value) for monomial, value in self.terms)
        return text.replace("+ -", "- ")


def as_size(value: SymbolicSize | int) -> SymbolicSize:
    return SymbolicSize.constant(value) if isinstance(value, int) else value


def _from_terms(terms: Iterable[Term]) -> SymbolicSize:
    """Collect like terms, drop zeros, and order by descending degree, then by name."""
    terms, totals = list(terms), dict[Monomial, int]()
    if len(terms) == 1:
        return SymbolicSize(tuple(terms) if terms[0][1] else ())
    for monomial, coefficient in terms:
        totals[monomial] = totals.get(monomial, 0) + coefficient
    kept = [(monomial, value) for monomial, value in totals.items() if value]
    return SymbolicSize(tuple(sorted(kept, key=lambda term: (-len(term[0]), term[0]))))


def _divide_term(term: Term, by: Term) -> SymbolicSize | None:
    (symbols, coefficient), (others, divisor) = term, by
    left = Counter(symbols)
    left.subtract(others)
    if coefficient % divisor or min(left.values(), default=0) < 0:
        return None
    return _from_terms([(tuple(sorted(left.elements())), coefficient // divisor)])


def _format_term(monomial: Monomial, coefficient: int) -> str:
    if not monomial:
        return str(coefficient)
    factor = {1: "", -1: "-"}.get(coefficient, f"{coefficient}*")
    return factor + "*".join(monomial)


_SIZE = re.compile(r"\s*([^\W\d]\w*)\s*=\s*(\d{1,12})\s*")


def parse_sizes(text: str | None, option: str = "schedule: sizes") -> dict[str, int]:
    """Parse `B=2,T=8192` to numbers by symbol. Raises CodaError about `option` for other texts."""
    sizes: dict[str, int] = {}
    for part in filter(None, (text or "").split(",")):
        match = _SIZE.fullmatch(part)
        if match is None:
            raise OptionError(f"{option} has '{part}'", 'write sizes as "B=2,T=8192"')
        sizes[match[1]] = int(match[2])
    return sizes


def format_sizes(sizes: Mapping[str, int]) -> str:
    """Return the text that `parse_sizes` reads."""
    return ",".join(f"{symbol}={size}" for symbol, size in sorted(sizes.items()))
