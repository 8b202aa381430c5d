"""The arguments of the host program."""

from collections.abc import Iterator

from xdsl.dialects.func import FuncOp
from xdsl.ir import BlockArgument

from coda_ir.backends.triton.host.extents import Extents, is_symbol
from coda_ir.backends.triton.host.text import argument_hints, unpacked
from coda_ir.backends.triton.kernel import indented
from coda_ir.backends.triton.names import LocalNames
from coda_ir.symbolic_shapes import SymbolicSize


class HostArguments:
    """The arguments of the host program: their names, and the symbols in their shapes."""

    def __init__(self, func: FuncOp, names: LocalNames, extents: Extents):
        hints = argument_hints(func)
        self.variables = {
            argument: names.fresh(hint) for argument, hint in zip(func.args, hints, strict=True)
        }
        self._extents = extents
        self._dense: set[BlockArgument] = set()
        self._bindings = {argument: self._bound(argument) for argument in func.args}
        self._quotients = {
            symbol: quotient
            for argument in func.args
            for symbol, quotient in self._quotients_of(argument)
        }

    @property
    def parameters(self) -> list[str]:
        return list(self.variables.values())

    def _bound(self, argument: BlockArgument) -> list[str]:
        """Return the symbols that the shape of an argument binds first; "" for other extents."""
        bound: list[str] = []
        for dim in self._extents.dims(argument):
            symbol = dim if isinstance(dim, str) and is_symbol(dim) else ""
            bound.append("" if self._extents.is_bound(symbol) else symbol)
            if bound[-1]:
                self._extents.declare(symbol)
        return bound

    def _quotients_of(self, argument: BlockArgument) -> Iterator[tuple[str, str]]:
        """Yield symbols that only a multiple in the shape of an argument binds, and values."""
        for axis, dim in enumerate(self._extents.dims(argument)):
            multiple = SymbolicSize.of(dim).multiple
            if multiple is not None and not self._extents.is_bound(multiple[0]):
                self._extents.declare(multiple[0])
                yield multiple[0], f"{self.variables[argument]}.shape[{axis}] // {multiple[1]}"

    def shape_lines(self) -> list[str]:
        """Return the statements that read the used symbols from shapes."""
        lines: list[str] = []
        for argument, bound in self._bindings.items():
            used = [
                self._extents.variable(symbol) if symbol in self._extents.used else "_"
                for symbol in bound
            ]
            if any(name != "_" for name in used):
                lines += unpacked(used, f"{self.variables[argument]}.shape")
        for symbol, quotient in self._quotients.items():
            if symbol in self._extents.used:
                lines.append(f"{self._extents.variable(symbol)} = {quotient}")
        return lines

    def need_dense(self, argument: BlockArgument) -> None:
        """Record that a kernel reads an argument, which must therefore be dense."""
        self._dense.add(argument)

    def dense_lines(self) -> list[str]:
        """Return the statements that copy arguments that kernels cannot read, found by one call."""
        names = [name for argument, name in self.variables.items() if argument in self._dense]
        copies = [f"{name} = dense({name})" for name in names]
        if len(names) < 2:
            return copies
        return [f"if not are_dense({', '.join(names)}):", *indented(copies)]
