"""Names and expressions of the host program: arguments, symbols and extents."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from math import prod

from xdsl.dialects.builtin import IntegerType, Signedness, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute

from coda_ir.backends.triton.kernel import NameAllocator, triton_type
from coda_ir.symbolic_shapes import Dim, Dims

_NAME = re.compile(r"[^\W\d]\w*")

_TORCH_TYPES = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32", "i1": "bool"}


def torch_type(type: Attribute) -> str:
    """The torch dtype of an element type. Raises CodaError for one that the backend lacks."""
    if type == IntegerType(8, Signedness.UNSIGNED):
        return "torch.uint8"
    short = triton_type(type)
    return f"torch.{_TORCH_TYPES.get(short, short.replace('i', 'int'))}"


def argument_hints(func: FuncOp) -> list[str]:
    """What the arguments of `func` are called: `coda.name`, else the name in the IR."""
    entries = func.arg_attrs.data if func.arg_attrs else ()
    hints: list[str] = []
    for index, argument in enumerate(func.args):
        given = entries[index].data.get("coda.name") if index < len(entries) else None
        name = given.data if isinstance(given, StringAttr) else argument.name_hint
        hints.append(name or f"arg{index}")
    return hints


class SymbolNames:
    """The host's variables for the symbols of a function, and extents as Python expressions.

    A symbol is *bound* once the program has assigned its variable.
    """

    def __init__(self, names: NameAllocator):
        self._names = names
        self._variables: dict[str, str] = {}
        self.used: set[str] = set()

    def bind(self, symbol: str) -> str:
        """The variable of a symbol, which is bound from now on."""
        self._variables[symbol] = self._names.fresh(symbol)
        return self._variables[symbol]

    def is_bound(self, symbol: str) -> bool:
        return symbol in self._variables

    def variable(self, symbol: str) -> str:
        return self._variables[symbol]

    def unbound(self, dim: Dim) -> list[str]:
        """The symbols of an extent that are not bound yet."""
        return [symbol for symbol in symbols_of(dim) if symbol not in self._variables]

    def extent(self, dim: Dim) -> str:
        """The Python expression of an extent; its symbols must be bound."""
        if isinstance(dim, int):
            return str(dim)
        self.used.update(symbols_of(dim))
        text = _NAME.sub(lambda name: self._variables.get(name[0], name[0]), dim)
        text = " * ".join(factor.strip() for factor in text.split("*"))
        return f"({text})" if "+" in text or "-" in text else text

    def strides(self, dims: Dims) -> str:
        """A tuple of the strides of a tensor in row-major order."""
        steps = [self._product(dims[axis + 1 :]) for axis in range(len(dims))]
        return f"({', '.join(steps)}{',' * (len(steps) == 1)})"

    def _product(self, dims: Dims) -> str:
        number = prod(dim for dim in dims if isinstance(dim, int))
        symbols = [self.extent(dim) for dim in dims if isinstance(dim, str)]
        return " * ".join([*symbols, *([str(number)] if number != 1 or not symbols else [])])

    def shape(self, dims: Dims) -> str:
        """A tuple of extents."""
        inner = ", ".join(map(self.extent, dims))
        return f"({inner},)" if len(dims) == 1 else f"({inner})"


def symbols_of(dim: Dim) -> list[str]:
    """The symbols of an extent, which may be a sum: `2*M + 1`."""
    return [] if isinstance(dim, int) else _NAME.findall(dim)


def is_symbol(dim: Dim) -> bool:
    """Whether an extent is a single symbol."""
    return isinstance(dim, str) and re.fullmatch(r"[^\W\d]\w*", dim) is not None


def unpacked(names: Sequence[str], sequence: str) -> list[str]:
    """The assignment of the elements of a sequence to variables."""
    line = f"{', '.join(names)}{',' * (len(names) == 1)} = {sequence}"
    if len(line) <= 96:
        return [line]
    return ["(", *(f"    {name}," for name in names), f") = {sequence}"]


def wrapped(lines: Iterable[str], limit: int = 100) -> list[str]:
    """Break `name = call(a, b)` and `if call(a, b):` lines that are too long at the commas."""
    result: list[str] = []
    for line in lines:
        closing = "):" if line.endswith("):") else ")"
        if len(line) <= limit or not line.endswith(closing) or "(" not in line:
            result.append(line)
            continue
        indent = " " * (len(line) - len(line.lstrip()))
        head, inner = line[: line.index("(") + 1], line[line.index("(") + 1 : -len(closing)]
        arguments = (f"{indent}    {part}," for part in _split_arguments(inner))
        result += [head, *arguments, f"{indent}{closing}"]
    return result


def _split_arguments(text: str) -> list[str]:
    parts, depth, start = list[str](), 0, 0
    for index, character in enumerate(text):
        depth += (character in "([{") - (character in ")]}")
        if character == "," and depth == 0:
            parts.append(text[start:index].strip())
            start = index + 1
    return [*parts, text[start:].strip()]
