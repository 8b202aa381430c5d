"""All ways to add and subtract two products and two tiles: which of them have which sign."""

from collections.abc import Iterator
from itertools import combinations, product

HEADER = """
func.func @f(%x: tensor<?x8xf32>, %w: tensor<16x8xf32>, %a: tensor<2x8xf32>,
             %b: tensor<16x2xf32>, %s: tensor<f32>, %r: tensor<?x16xf32>, %q: tensor<?x16xf32>)
    -> tensor<?x16xf32> {
  %z = coda.linear %x, %w : (tensor<?x8xf32>, tensor<16x8xf32>) -> tensor<?x16xf32>
  %t = coda.linear %x, %a : (tensor<?x8xf32>, tensor<2x8xf32>) -> tensor<?x2xf32>
  %u = coda.linear %t, %b : (tensor<?x2xf32>, tensor<16x2xf32>) -> tensor<?x16xf32>
  %su = coda.mul %u, %s : (tensor<?x16xf32>, tensor<f32>) -> tensor<?x16xf32>
"""

SHAPES = (
    "((0 i 1) j 2) + 3",
    "(0 i (1 j 2)) + 3",
    "(0 i 1) + (2 j 3)",
    "0 + ((1 i 2) j 3)",
    "0 + (1 i (2 j 3))",
)
"""Sums of four terms, by how they are bracketed."""


def signed_sums() -> Iterator[tuple[str, str]]:
    """The formula and the text of each: the products at any two of four places, all signs."""
    for places in combinations(range(4), 2):
        others = iter(("r", "q"))
        products = iter(("z", "su"))
        terms = [next(products if place in places else others) for place in range(4)]
        for shape, i, j in product(SHAPES, "+-", "+-"):
            formula = shape.replace("i", i).replace("j", j)
            for place, term in enumerate(terms):
                formula = formula.replace(str(place), term)
            yield formula, f"{HEADER}{_code(formula)}"


def _code(formula: str) -> str:
    """The operators of a formula, innermost brackets first, and the end of the function."""
    type, lines = "tensor<?x16xf32>", list[str]()
    tokens = formula.replace("(", "( ").replace(")", " )").split()
    while len(tokens) > 1:
        stop = tokens.index(")") if ")" in tokens else len(tokens)
        lhs, sign, rhs = tokens[stop - 3 : stop]
        name = f"n{len(lines)}"
        op = "add" if sign == "+" else "sub"
        lines.append(f"  %{name} = coda.{op} %{lhs}, %{rhs} : ({type}, {type}) -> {type}")
        is_bracketed = stop < len(tokens)
        tokens[stop - 3 - is_bracketed : stop + is_bracketed] = [name]
    return "\n".join([*lines, f"  func.return %{tokens[0]} : {type}", "}"])
