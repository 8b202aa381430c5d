"""Properties of the `.coda` frontend: the formatter keeps the meaning and is idempotent."""

from xdsl.dialects.builtin import ModuleOp

from coda_ir.frontends.coda_text import format_text, parse_text
from generator.violations import Violation, expected_to_work

PROPERTY = "format"


def check_text(text: str, module: ModuleOp) -> None:
    """format(text) reads as the same module, and formatting it again changes nothing."""
    with expected_to_work(PROPERTY, "coda-fmt"):
        formatted = format_text(text, "random.coda")
        if format_text(formatted, "random.coda") != formatted:
            raise Violation(PROPERTY, "coda-fmt", "formatting twice differs from formatting once")
        again = parse_text(formatted, "random.coda")
    if not module.is_structurally_equivalent(again):
        raise Violation(PROPERTY, "coda-fmt", "the formatted text is another program")
