"""The arguments of a host program: their names, the symbols in their shapes, dense copies."""

from __future__ import annotations

from xdsl.dialects.func import FuncOp
from xdsl.ir import BlockArgument

from coda_ir.backends.triton.host.extents import Extents, is_symbol
from coda_ir.backends.triton.host.text import argument_hints, unpacked
from coda_ir.backends.triton.kernel import indented
from coda_ir.backends.triton.names import LocalNames


class HostArguments:
    """Names arguments and binds the symbols that their shapes tell."""

    def __init__(self, func: FuncOp, names: LocalNames, extents: Extents):
        hints = argument_hints(func)
        self.variables = {
            argument: names.fresh(hint) for argument, hint in zip(func.args, hints, strict=True)
        }
        self._extents = extents
        self._dense: set[BlockArgument] = set()
        self._bindings = {argument: self._bound(argument) for argument in func.args}

    @property
    def parameters(self) -> list[str]:
        return list(self.variables.values())

    def _bound(self, argument: BlockArgument) -> list[str]:
        """The symbols that the shape of an argument is the first to tell; "" for other extents."""
        bound: list[str] = []
        for dim in self._extents.dims(argument):
            symbol = dim if isinstance(dim, str) and is_symbol(dim) else ""
            bound.append("" if self._extents.is_bound(symbol) else symbol)
            if bound[-1]:
                self._extents.declare(symbol)
        return bound

    def shape_lines(self) -> list[str]:
        """The statements that take the symbols that are used from shapes."""
        lines: list[str] = []
        for argument, bound in self._bindings.items():
            used = [
                self._extents.variable(symbol) if symbol in self._extents.used else "_"
                for symbol in bound
            ]
            if any(name != "_" for name in used):
                lines += unpacked(used, f"{self.variables[argument]}.shape")
        return lines

    def need_dense(self, argument: BlockArgument) -> None:
        """Say that a kernel takes an argument, which has to be dense for it."""
        self._dense.add(argument)

    def dense_lines(self) -> list[str]:
        """Copies of the arguments that kernels cannot take, looked for in one call."""
        names = [name for argument, name in self.variables.items() if argument in self._dense]
        copies = [f"{name} = dense({name})" for name in names]
        if len(names) < 2:
            return copies
        return [f"if not are_dense({', '.join(names)}):", *indented(copies)]
