"""parse(print(m)) = m, in the custom and the generic form, with and without locations."""

from collections.abc import Iterable
from io import StringIO
from itertools import product
from math import isnan

from xdsl.dialects.builtin import FloatAttr, ModuleOp
from xdsl.parser import Parser
from xdsl.printer import Printer

from coda_ir.context import make_context
from generator.violations import Violation, expected_to_work

PROPERTY = "parse(print(m)) = m"


def printed(module: ModuleOp, *, generic: bool = False, locations: bool = False) -> str:
    stream = StringIO()
    printer = Printer(stream, print_generic_format=generic, print_debuginfo=locations)
    printer.print_op(module)
    return stream.getvalue()


FORMS = tuple(product((False, True), (False, True)))
"""Two facts: the text is generic, and it has locations."""


def check_round_trip(
    module: ModuleOp, level: str, forms: Iterable[tuple[bool, bool]] = FORMS
) -> None:
    """Each form of the text of `module` reads back as the same module, and prints the same."""
    for generic, locations in forms:
        form = "generic" if generic else "custom"
        where = f"{level}, {form} form{' with locations' if locations else ''}"
        with expected_to_work(PROPERTY, where):
            _check_form(module, where, generic=generic, locations=locations)


def _has_nan(module: ModuleOp) -> bool:
    """Return whether an attribute is NaN, which is not equal to itself: then only texts are
    compared.
    """
    attributes = (
        attribute
        for op in module.walk()
        for attribute in (*op.properties.values(), *op.attributes.values())
    )
    return any(isinstance(a, FloatAttr) and isnan(a.value.data) for a in attributes)


def _check_form(module: ModuleOp, where: str, *, generic: bool, locations: bool) -> None:
    text = printed(module, generic=generic, locations=locations)
    again = Parser(make_context(), text).parse_module()
    again.verify()
    if not module.is_structurally_equivalent(again) and not _has_nan(module):
        raise Violation(PROPERTY, where, "the module that was read back differs")
    if printed(again, generic=generic, locations=locations) != text:
        raise Violation(PROPERTY, where, "the module that was read back prints differently")
    if locations:
        for op, copy in zip(module.walk(), again.walk(), strict=True):
            if op.location != copy.location:
                message = f"{op.name} at {op.location} is at {copy.location} when read back"
                raise Violation(PROPERTY, where, message)
