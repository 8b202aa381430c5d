"""Extents of tensors as expressions of the host program, and their symbols."""

import re
from math import prod

from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from coda_ir.backends.triton.names import LocalNames
from coda_ir.diagnostics import CodaError, LoweringError
from coda_ir.remarks import format_location
from coda_ir.symbolic_shapes import Dim, Dims, SymbolicShapes, SymbolicSize

_NAME = re.compile(r"[^\W\d]\w*")


class Extents:
    """Emits extents, and the statements that bind symbols.

    A symbol is *bound* once the program has assigned its variable.
    """

    def __init__(self, func: FuncOp, names: LocalNames, lines: list[str]):
        """Set up with `lines`, the statements of the host program."""
        self.shapes = SymbolicShapes(func)
        self.used: set[str] = set()
        """The symbols that expressions mention."""
        self._names = names
        self._lines = lines
        self._variables: dict[str, str] = {}
        self._sizes: dict[SymbolicSize, str] = {}

    def dims(self, value: SSAValue) -> Dims:
        return self.shapes.dims(value)

    # Symbols

    def declare(self, symbol: str) -> str:
        """Return the variable of a symbol, which is bound from now on."""
        self._variables[symbol] = self._names.fresh(symbol)
        return self._variables[symbol]

    def is_bound(self, symbol: str) -> bool:
        return symbol in self._variables

    def variable(self, symbol: str) -> str:
        return self._variables[symbol]

    def unbound(self, dim: Dim) -> list[str]:
        """Return the unbound symbols of an extent."""
        return [symbol for symbol in symbols_of(dim) if symbol not in self._variables]

    def bind(self, dim: Dim, expression: str) -> None:
        """Bind a new symbol to its extent; do nothing for a number or a known symbol."""
        if not isinstance(dim, str) or self.is_bound(dim):
            return
        if expression.isdecimal():
            self._variables[dim] = expression
        else:
            self._lines.append(f"{self.declare(dim)} = {expression}")

    def number(self, dim: Dim) -> int | None:
        """Return an extent that is a number, or was bound to one; else None."""
        bound = str(dim) if isinstance(dim, int) else self._variables.get(dim, "")
        return int(bound) if bound.isdecimal() else None

    def bind_shape(self, value: SSAValue, tensor: str) -> None:
        """Bind unknown symbols by the shape of an existing tensor."""
        for axis, dim in enumerate(self.dims(value)):
            if is_symbol(dim):
                self.bind(dim, f"{tensor}.shape[{axis}]")

    def bind_quotient(self, dims: Dims, source: Dims) -> None:
        """Compute the one unknown extent of `dims`: `source` has as many elements."""
        unknown = [dim for dim in dims if self.unbound(dim)]
        if len(unknown) == 1 and not any(map(self.unbound, source)):
            known = self.size(tuple(dim for dim in dims if dim not in unknown))
            self.bind(unknown[0], f"{self.size(source)} // {known}")

    def symbol(self, symbol: str, op: Operation) -> str:
        """Return the variable of a symbol that `op` needs, or raise CodaError if it is unknown."""
        if not self.is_bound(symbol):
            raise _unknown(op, f"the extent {symbol}")
        return self.of(symbol)

    def check_known(self, result: SSAValue) -> None:
        """Raise CodaError if nothing determines an extent of a result."""
        owner = result.owner
        assert isinstance(owner, Operation)
        for dim in self.dims(result):
            for symbol in self.unbound(dim):
                raise _unknown(owner, f"the extent {symbol} of a result")

    # Expressions

    def of(self, dim: Dim) -> str:
        """Return the Python expression of an extent; its symbols must be bound."""
        if isinstance(dim, int):
            return str(dim)
        self.used.update(symbols_of(dim))
        text = _NAME.sub(lambda name: self._variables.get(name[0], name[0]), dim)
        text = " * ".join(factor.strip() for factor in text.split("*"))
        return f"({text})" if "+" in text or "-" in text else text

    def shape(self, dims: Dims) -> str:
        """Return a tuple of extents."""
        inner = ", ".join(map(self.of, dims))
        return f"({inner},)" if len(dims) == 1 else f"({inner})"

    def strides(self, dims: Dims) -> str:
        """Return the strides of a tensor in row-major order as a tuple."""
        steps = [self._product(dims[axis + 1 :]) for axis in range(len(dims))]
        return f"({', '.join(steps)}{',' * (len(steps) == 1)})"

    def _product(self, dims: Dims) -> str:
        number = prod(dim for dim in dims if isinstance(dim, int))
        symbols = [self.of(dim) for dim in dims if isinstance(dim, str)]
        return " * ".join([*symbols, *([str(number)] if number != 1 or not symbols else [])])

    def size(self, dims: Dims) -> str:
        """Return the product of extents as a number or a variable."""
        size = SymbolicSize.product(dims)
        if not size.symbols:
            return str(int(size))
        symbols = [dim for dim in dims if dim != 1]
        if len(symbols) == 1 and is_symbol(symbols[0]):
            return self.of(symbols[0])
        if size not in self._sizes:
            name = self._names.fresh("rows")
            self._lines.append(f"{name} = {' * '.join(map(self.of, symbols))}")
            self._sizes[size] = name
        return self._sizes[size]

    def quotient(self, dims: Dims, divisor: int) -> str:
        """Return the product of extents divided by a number that divides it."""
        size = self.size(dims)
        return str(int(size) // divisor) if size.isdecimal() else f"{size} // {divisor}"


def _unknown(op: Operation, what: str) -> CodaError:
    return LoweringError(
        f"{format_location(op.location)}: {op.name}: the arguments do not determine {what}",
        "name it in the dimensions of an argument",
    )


def symbols_of(dim: Dim) -> list[str]:
    """Return the symbols of an extent, which may be a sum: `2*M + 1`."""
    return [] if isinstance(dim, int) else _NAME.findall(dim)


def is_symbol(dim: Dim) -> bool:
    """Return whether an extent is a single symbol."""
    return isinstance(dim, str) and _NAME.fullmatch(dim) is not None
