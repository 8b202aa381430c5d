"""`--explain`: documentation of an error code, a pass, an operator, or a term of the language."""

import argparse
import re
from collections.abc import Iterator, Mapping
from inspect import cleandoc
from textwrap import indent

from xdsl.ir import Operation
from xdsl.passes import ModulePass

from coda_ir.diagnostics import closest
from coda_ir.error_codes import ErrorKind, error_kinds
from coda_ir.registry import get_all_dialects
from coda_ir.tools.opt.errors import SUCCESS, UsageError
from coda_ir.tools.opt.feature import Session
from coda_ir.tools.opt.listing import option_lines

_FENCED = re.compile(r"```(coda(?:-error)?)\n(.*?)```\n?", re.DOTALL)

EXAMPLE = """\
epilogue activated(acc, bias: row, scale: col) -> (y: tile, largest: partial_row<max>) {
    z = (acc + bias) * scale
    y = relu(z)
    largest = abs(z)
}

fn layer(x: bf16[M, 64], weight w: bf16[96, 64], bias: bf16[96], scale: f32[M, 1]) {
    y, largest = activated(linear(x, w), bias, scale)
    return y, finalize(largest)
}
"""
"""The end of the explanation of a word of epilogues."""


def register_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument_group("information").add_argument(
        "--explain",
        metavar="NAME",
        help="explain an error code (E0201), a pass and its condition (defer-norms), an "
        "operator (coda.rope) or a term of .coda (group_max, partial_row), and exit",
    )


def act(session: Session) -> int | None:
    """Print the documentation. Raises UsageError for an unknown name."""
    name: str | None = session.options.explain
    if name is None:
        return None
    print("\n".join(_lines(session, name)))
    return SUCCESS


def _lines(session: Session, name: str) -> Iterator[str]:
    if name.upper() in error_kinds():
        return _error_lines(error_kinds()[name.upper()])
    if name in session.passes:
        return pass_lines(name, session.passes[name]())
    dialects = [load() for load in get_all_dialects().values()]
    operators = {op.name: op for dialect in dialects for op in dialect.operations}
    if name in operators:
        return _operator_lines(name, operators[name])
    words = language_words()
    if name in words:
        return iter((f"{name}: a term of .coda, see docs/language.md\n", words[name]))
    known = [*error_kinds(), *session.passes, *operators, *words]
    raise UsageError(
        f"argument --explain: there is no error code, pass, operator or term '{name}'",
        closest(name, known, "see --list-passes, docs/language.md and coda_ir/errors.md"),
    )


def _error_lines(kind: ErrorKind) -> Iterator[str]:
    yield f"{kind.code}: {kind.title}\n"
    yield _FENCED.sub(_indented, kind.explanation)


def _indented(block: re.Match[str]) -> str:
    """Return a block of code as text, with a title."""
    title = "Wrong" if block[1] == "coda-error" else "Right"
    return f"{title}:\n\n{indent(block[2], '    ')}"


def pass_lines(name: str, pass_class: type[ModulePass]) -> Iterator[str]:
    yield f"{name}: the pass {pass_class.__module__}.{pass_class.__name__}"
    yield f"\n{cleandoc(pass_class.__doc__ or '')}"
    options = list(option_lines(pass_class))
    if options:
        yield "\nOptions:"
        yield from options


def _operator_lines(name: str, operator: type[Operation]) -> Iterator[str]:
    yield f"{name}: the operator {operator.__module__}.{operator.__name__}"
    yield f"\n{cleandoc(operator.__doc__ or '')}"


def language_words() -> Mapping[str, str]:
    """Return the documentation of `.coda` words: operators, keywords, ports, results, combiners."""
    from coda_ir.lsp import documentation

    texts = [
        (documentation.KEYWORDS, "The keyword `{}`: {}."),
        (documentation.PORT_KINDS, "The port `{}` of an epilogue: {}."),
        (documentation.RESULT_KINDS, "The result `{}` of an epilogue: {}."),
        (documentation.COMBINERS, "The combiner `{}` of a partial result: {}."),
    ]
    words: dict[str, str] = {}
    for name in (*documentation.SIGNATURES, *documentation.INFIX):
        words[name] = f"{documentation.usage(name)}\n\n{documentation.description(name)}"
    for meanings, form in texts:
        for name, meaning in meanings.items():
            text = form.format(name, meaning)
            words[name] = f"{words[name]}\n\n{text}" if name in words else text
    for name in {"epilogue", *(word for meanings, _ in texts[1:] for word in meanings)}:
        words[name] += f"\n\n{indent(EXAMPLE, '    ')}"
    return words
