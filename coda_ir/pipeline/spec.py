"""The text of a pipeline: `builtin.module(func.func(defer-rms-norm,cse),schedule{target=sm_90})`.

    pipeline ::= element (`,` element)*
    element  ::= pass-name options? | anchor `(` pipeline? `)`
    options  ::= `{` (name (`=` value (`,` value)*)?)* `}`

The passes of a flat list run on the module, as those inside `builtin.module(...)`; those inside
`func.func(...)` run on every function by itself. Spaces and line breaks may stand anywhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from json import dumps

from xdsl.passes import ModulePass

MODULE_ANCHOR, FUNCTION_ANCHOR = "builtin.module", "func.func"

ANCHORS = (MODULE_ANCHOR, FUNCTION_ANCHOR)
"""The operators that a pass can run on."""

BARE_WORD = re.compile(r"[A-Za-z0-9_.+\-]+")
INTEGER = re.compile(r"[-+]?[0-9]+")
REAL = re.compile(r"[-+]?[0-9]+(\.[0-9]*)?([eE][-+]?[0-9]+)?")
KEYWORDS = {"true": True, "false": False}

OptionValue = str | int | bool | float


@dataclass(frozen=True)
class Pipeline:
    """Passes in order, and pipelines nested in them, which all run on operators named `anchor`.

    `str()` gives the canonical text, which parses to an equal pipeline.
    """

    steps: tuple[ModulePass | Pipeline, ...] = ()
    anchor: str = MODULE_ANCHOR

    def __str__(self) -> str:
        return f"{self.anchor}({','.join(map(format_step, self.steps))})"


def format_step(step: ModulePass | Pipeline) -> str:
    return str(step) if isinstance(step, Pipeline) else format_pass(step)


def format_pass(pass_: ModulePass) -> str:
    """A pass with those options that are not the default: `schedule{target=sm_90 warps=8}`."""
    options = pass_.spec().parameters.items()
    text = " ".join(_format_option(name, values) for name, values in options)
    return f"{pass_.name}{{{text}}}" if text else pass_.name


def _format_option(name: str, values: Iterable[OptionValue]) -> str:
    text = ",".join(map(format_value, values))
    name = name.replace("_", "-")
    return f"{name}={text}" if text else name


def format_value(value: OptionValue) -> str:
    """The text that `parse_word` or a quoted string reads as `value`."""
    match value:
        case bool():
            return str(value).lower()
        case str() if BARE_WORD.fullmatch(value) and parse_word(value) == value:
            return value
        case str():
            return dumps(value, ensure_ascii=False)
        case _:
            return repr(value)


def parse_word(word: str) -> OptionValue:
    """The value of an unquoted word: a truth value, a number, or the word itself."""
    if word in KEYWORDS:
        return KEYWORDS[word]
    if INTEGER.fullmatch(word):
        return int(word)
    return float(word) if REAL.fullmatch(word) else word
