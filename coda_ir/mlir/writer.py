"""Modules as text that keeps where operators come from."""

from io import StringIO

from xdsl.dialects.builtin import ModuleOp, UnknownLoc
from xdsl.ir import Operation
from xdsl.printer import Printer


class LocatedPrinter(Printer):
    """Prints `loc(...)` behind operators whose place is known, where xDSL has it behind all."""

    def print_op(self, op: Operation) -> None:
        super().print_op(op)
        if not isinstance(op.location, UnknownLoc):
            self.print_string(" ")
            self.print_attribute(op.location)


def located_text(module: ModuleOp) -> str:
    """The text of a module with the places of its operators, which `read_module` reads."""
    output = StringIO()
    LocatedPrinter(stream=output).print_op(module)
    return output.getvalue() + "\n"
