"""The inputs on which two functions are compared."""

import random
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Literal, TypeAlias

import torch
from xdsl.dialects.func import FuncOp

from coda_ir.random_inputs import Values, bind_symbols, random_arguments
from coda_ir.symbolic_shapes import SymbolicShapes, SymbolicSize

Sizes: TypeAlias = Literal["small", "one", "odd", "tall"]

LARGEST_TALL_DRAW = 2**18
"""Elements of the arguments up to which inputs with more rows than a tile are cheap."""

LARGEST_DRAW = 2**29
"""Elements of the arguments (4 GiB) up to which a function is compared at all."""

LARGEST_REPEATED_DRAW = 2**24
"""Elements of the arguments above which one draw has to do."""

_ODD = (3, 5, 7, 9, 11)


@dataclass(frozen=True)
class Draw:
    """The distributions of sizes and elements.

    Sizes are `small` (2 to 6, different seeds give different ones), `one`, `odd`, or `tall`: more
    than 128 rows, those of the largest tile.
    """

    sizes: Sizes
    values: Values
    seed: int

    def __str__(self) -> str:
        return f"{self.sizes} sizes, {self.values} values, seed {self.seed}"


DRAWS = (
    Draw("small", "spread", 0),
    Draw("one", "normal", 1),
    Draw("odd", "structured", 2),
    Draw("small", "positive", 3),
    Draw("tall", "spread", 4),
)
"""Each shows what the others may hide: a lost eps, a broadcast, ties and zeros, logarithms of
negative numbers, a second tile of rows."""


def choose_sizes(
    func: FuncOp, draw: Draw, given: Mapping[str, int], attempt: int = 0
) -> dict[str, int]:
    """Choose a size for every symbol of `func`; sizes in `given` are kept."""

    def choose(position: int, symbol: str) -> int:
        if symbol in given:
            return given[symbol]
        match draw.sizes:
            case "one":
                return 1 + attempt
            case "odd":
                return _ODD[(position + attempt) % len(_ODD)]
            case "tall":
                return 131 + attempt if position == 0 else 2
            case "small":
                seed = zlib.crc32(symbol.encode()) + draw.seed
                # Some functions take sizes of which all are equal or even only.
                return random.Random(seed).randint(2, 6) if not attempt else 2 * attempt

    return bind_symbols(func, choose)


def draw_arguments(func: FuncOp, draw: Draw, sizes: Mapping[str, int]) -> list[torch.Tensor]:
    """Draw arguments in float64 (and integers)."""
    return random_arguments(func, sizes, seed=draw.seed, values=draw.values, dtype=torch.float64)


def affordable(func: FuncOp, draws: Sequence[Draw], given: Mapping[str, int]) -> Iterator[Draw]:
    """Yield the `draws` whose inputs are not too large."""
    static = _static_elements(func)
    for index, draw in enumerate(draws):
        if index and static > LARGEST_REPEATED_DRAW:
            return
        if draw.sizes == "tall":
            sizes = choose_sizes(func, draw, given)
            if not sizes or elements(func, sizes) > LARGEST_TALL_DRAW:
                continue
        yield draw


def elements(func: FuncOp, sizes: Mapping[str, int]) -> int:
    """The total number of elements of the arguments."""
    shapes, total = SymbolicShapes(func), 0
    for parameter in func.args:
        product = SymbolicSize.product(shapes.dims(parameter))
        total += product.evaluate({symbol: sizes.get(symbol, 1) for symbol in product.symbols})
    return total


def _static_elements(func: FuncOp) -> int:
    shapes = SymbolicShapes(func)
    return sum(
        prod(dim for dim in shapes.dims(parameter) if isinstance(dim, int))
        for parameter in func.args
    )
