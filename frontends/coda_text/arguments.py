"""Signatures, and the binding of a call's arguments to their parameters."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from coda_ir.diagnostics import listed
from coda_ir.frontends.coda_text.counterparts import SUPERFLUOUS
from coda_ir.frontends.coda_text.remedies import keyword_remedy
from coda_ir.frontends.coda_text.syntax import Argument, Expression, Span

REQUIRED = "required"


REFUSED_VALUE = "E0509"
"""The code of an argument of the right kind with a value that the operator does not accept."""

PARAMETER = re.compile(r"\$(\w+)")


@dataclass(eq=False)
class Mistake(Exception):
    """A mistake in a call: the message, the remedy, the code, and the argument it is about.

    `$x` in a remedy is what the call passes for its parameter x.
    """

    message: str
    remedy: str | None = None
    code: str = REFUSED_VALUE
    argument: str | None = field(default=None, kw_only=True)


@dataclass(eq=False)
class ArgumentMistake(Exception):
    """A mistake at a place, such as an argument of a call that does not match the signature."""

    message: str
    remedy: str
    span: Span
    code: str


@dataclass(frozen=True, slots=True)
class Formal:
    """A parameter: `kind` is what it accepts, `default` is its text or `REQUIRED`."""

    name: str
    kind: str = "tensor"
    default: str | None = REQUIRED
    keyword_only: bool = False
    variadic: bool = False


class Signature(NamedTuple):
    """A name with its parameters, and the text that shows them."""

    name: str
    formals: Sequence[Formal]
    text: str

    @property
    def positional(self) -> list[Formal]:
        return [formal for formal in self.formals if not formal.keyword_only]

    @property
    def variadic(self) -> Formal | None:
        return next((formal for formal in self.formals if formal.variadic), None)


def signature(text: str) -> Signature:
    """Parse a signature such as `name(x, w?, *, eps: number = 1e-6, group: integer?)`.

    A `?` marks what may be missing, `*parts` takes any number, `*` ends the positional ones.
    """
    name, _, rest = text.removesuffix(")").partition("(")
    formals: list[Formal] = []
    keyword_only = False
    for part in filter(None, rest.split(", ")):
        if part == "*":
            keyword_only = True
        else:
            formals.append(_formal(part, keyword_only))
            keyword_only |= formals[-1].variadic
    return Signature(name, tuple(formals), text)


def _formal(text: str, keyword_only: bool) -> Formal:
    declaration, equals, default = text.partition(" = ")
    optional = declaration.endswith("?")
    name, _, kind = declaration.removesuffix("?").partition(": ")
    return Formal(
        name.removeprefix("*"),
        kind or "tensor",
        default if equals else None if optional else REQUIRED,
        keyword_only or name.startswith("*"),
        name.startswith("*"),
    )


def parameters_signature(
    name: str, parameters: Iterable[str], options: Sequence[Formal] = ()
) -> Signature:
    """Return the signature of a user's function or epilogue: required parameters, then options."""
    names = tuple(parameters)
    texts = [*names, *(f"{option.name}: {option.kind} = {option.default}" for option in options)]
    return Signature(name, (*map(Formal, names), *options), f"{name}({', '.join(texts)})")


Bound = dict[str, list[Argument]]
"""The arguments given for each parameter; several for a variadic one only."""


def bind(signature: Signature, arguments: Sequence[Argument], call: Span) -> Bound:
    """Match arguments to parameters. Raises ArgumentMistake if they do not fit."""
    bound: Bound = {}
    positional = signature.positional
    for position, argument in enumerate(arguments):
        formal = _formal_of(signature, positional, position, argument, len(arguments))
        if formal.name in bound and not formal.variadic:
            raise ArgumentMistake(
                f"{signature.name} got two values for '{formal.name}'",
                "remove one of them" if argument.keyword else "write unnamed arguments first",
                argument.span,
                "E0401",
            )
        bound.setdefault(formal.name, []).append(argument)
    missing = [f.name for f in signature.formals if f.default == REQUIRED and f.name not in bound]
    if missing:
        names = [f"'{name}'" for name in missing]
        raise ArgumentMistake(
            f"{signature.name} is called without {listed(names)}",
            f"the signature is {signature.text}",
            call,
            "E0401",
        )
    return bound


def _formal_of(
    signature: Signature,
    positional: Sequence[Formal],
    position: int,
    argument: Argument,
    given: int,
) -> Formal:
    if argument.keyword is not None:
        name = argument.keyword.text
        known = [formal.name for formal in signature.formals if not formal.variadic]
        if name not in known:
            raise ArgumentMistake(
                f"{signature.name} has no parameter '{name}'",
                keyword_remedy(signature.name, name, known, f"the signature is {signature.text}"),
                argument.keyword.span,
                "E0401",
            )
        return next(formal for formal in signature.formals if formal.name == name)
    if position < len(positional):
        return positional[position]
    if signature.variadic is not None:
        return signature.variadic
    plural = "argument" if len(positional) == 1 else "arguments"
    raise ArgumentMistake(
        f"{signature.name} takes {len(positional)} positional {plural}, got {given}",
        SUPERFLUOUS.get(signature.name, f"the signature is {signature.text}"),
        argument.span,
        "E0401",
    )


def expression_of(bound: Bound, name: str) -> Expression | None:
    """Return the expression given for a parameter that takes one, or None."""
    arguments = bound.get(name)
    return arguments[0].value if arguments else None
