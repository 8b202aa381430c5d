"""`--explain`: the documentation of a pass or of an operator, by the name that a remark gives."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from inspect import cleandoc

from xdsl.ir import Operation
from xdsl.passes import ModulePass

from coda_ir.pipeline.spec_parser import closest
from coda_ir.registry import get_all_dialects
from coda_ir.tools.opt.errors import SUCCESS, UsageError
from coda_ir.tools.opt.feature import Session
from coda_ir.tools.opt.listing import option_lines


def register_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument_group("information").add_argument(
        "--explain",
        metavar="NAME",
        help="print the program before and after a pass, and when the pass is legal; or the "
        "documentation of an operator, and exit",
    )


def act(session: Session) -> int | None:
    """Print the documentation. Raises UsageError for an unknown name."""
    name: str | None = session.options.explain
    if name is None:
        return None
    print("\n".join(_lines(session, name)))
    return SUCCESS


def _lines(session: Session, name: str) -> Iterator[str]:
    if name in session.passes:
        return _pass_lines(name, session.passes[name]())
    dialects = [load() for load in get_all_dialects().values()]
    operators = {op.name: op for dialect in dialects for op in dialect.operations}
    if name in operators:
        return _operator_lines(name, operators[name])
    raise UsageError(
        f"argument --explain: no pass and no operator is called '{name}'",
        closest(name, [*session.passes, *operators], "see --list-passes and docs/language.md"),
    )


def _pass_lines(name: str, pass_class: type[ModulePass]) -> Iterator[str]:
    yield f"{name}: the pass {pass_class.__module__}.{pass_class.__name__}"
    yield f"\n{cleandoc(pass_class.__doc__ or '')}"
    options = list(option_lines(pass_class))
    if options:
        yield "\nOptions:"
        yield from options


def _operator_lines(name: str, operator: type[Operation]) -> Iterator[str]:
    yield f"{name}: the operator {operator.__module__}.{operator.__name__}"
    yield f"\n{cleandoc(operator.__doc__ or '')}"
