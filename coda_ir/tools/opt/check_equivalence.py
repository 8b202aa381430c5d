"""`--check-equivalence`: compare the results of the program before and after each pass."""

import argparse
from collections.abc import Iterable

from coda_ir.diagnostics import Diagnostic
from coda_ir.pipeline import PassInstrumentation
from coda_ir.tools.opt.feature import Session


def register_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("translation validation")
    group.add_argument(
        "--check-equivalence",
        action="store_true",
        help="run the program before and after each pass, in float64 on random inputs, and fail at "
        "the first pass that changes a result; then run the emitted Triton as well; "
        "--dim fixes the size of a symbol",
    )
    group.add_argument(
        "--counterexample",
        type=_file_name,
        metavar="FILE.safetensors",
        help="save inputs that show the difference to FILE, for --run --inputs",
    )


def _file_name(text: str) -> str:
    """Parse the name of a file. Raises ArgumentTypeError for one that --inputs would not read."""
    if not text.endswith(".safetensors"):
        raise argparse.ArgumentTypeError(f"'{text}': expected a name that ends in .safetensors")
    return text


def instrumentations(session: Session) -> Iterable[PassInstrumentation]:
    options = session.options
    if not options.check_equivalence:
        return ()
    from coda_ir.equivalence import EquivalenceCheck
    from coda_ir.equivalence.emitted import EmittedCheck

    sizes = dict(options.dim)
    return (
        EquivalenceCheck(sizes=sizes, counterexample=options.counterexample),
        EmittedCheck(sizes, note=lambda text: session.report(Diagnostic("note", None, text))),
    )
