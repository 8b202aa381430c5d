"""Modules as text with source locations."""

from io import StringIO

from xdsl.dialects.builtin import ModuleOp, UnknownLoc
from xdsl.ir import Operation
from xdsl.printer import Printer


class LocatedPrinter(Printer):
    """Prints `loc(...)` after operators with known locations only; xDSL prints it after all."""

    def print_bytes_literal(self, bytestring: bytes) -> None:
        text = bytestring.decode("ascii", "replace")
        if text.isprintable() and text.isascii() and not {'"', "\\"} & set(text):
            self.print_string(f'"{text}"')  # xDSL prints each character
        else:
            super().print_bytes_literal(bytestring)

    def print_op(self, op: Operation) -> None:
        super().print_op(op)
        if not isinstance(op.location, UnknownLoc):
            self.print_string(" ")
            self.print_attribute(op.location)


def located_text(module: ModuleOp) -> str:
    """Return the text of a module with source locations, which `read_module` reads."""
    output = StringIO()
    LocatedPrinter(stream=output).print_op(module)
    return output.getvalue() + "\n"
