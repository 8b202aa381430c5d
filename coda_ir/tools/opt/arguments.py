"""Arguments of the tools, and their types."""

import argparse
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from coda_ir.diagnostics import closest

# The names are written out here, since every start of a tool reads them; a test compares them.
ARCHITECTURES = (
    *("sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120"),
    *("gfx90a", "gfx942", "gfx950"),
)


def named(parse: Callable[[str], float | int]) -> Callable[[str], tuple[str, float | int]]:
    """Return a parser of `NAME=VALUE` arguments."""

    def parse_assignment(text: str) -> tuple[str, float | int]:
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise argparse.ArgumentTypeError(f"'{text}' is not of the form NAME=VALUE")
        try:
            return name, parse(value)
        except ValueError as error:
            raise argparse.ArgumentTypeError(f"'{text}': {error}") from error

    return parse_assignment


def one_of(kind: str, known: Sequence[str]) -> Callable[[str], str]:
    """Return a parser of names that suggests a known one for an unknown one."""

    def parse_name(text: str) -> str:
        if text in known:
            return text
        hint = closest(text, known, f"use one of {', '.join(known)}", cutoff=0.8)
        raise argparse.ArgumentTypeError(f"unknown {kind} '{text}': {hint}")

    return parse_name


def number(text: str) -> float | int:
    """Parse an integer or a real number. Raises ValueError for anything else."""
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        raise ValueError("expected a number, such as 4096 or 1e-5") from None


def extent(text: str) -> int:
    """Parse the size of a dimension. Raises ValueError for a negative one."""
    if not text.removeprefix("-").isdecimal():
        raise ValueError("expected a number of elements, such as 128")
    size = int(text)
    if size < 0:
        raise ValueError(f"a dimension has {size} elements, expected 0 or more")
    return size


def positive(text: str) -> int:
    """Parse a count. Raises ArgumentTypeError for anything but a positive integer."""
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"'{text}' is not a positive integer")
    return int(text)


ARCH: Mapping[str, Any] = {
    "type": one_of("architecture", ARCHITECTURES),
    "choices": ARCHITECTURES,
    "metavar": "NAME",
}
"""The arguments of `add_argument` for `--arch`, but for its help."""

DIM: Mapping[str, Any] = {
    "action": "append",
    "default": [],
    "type": named(extent),
    "metavar": "SYMBOL=SIZE",
}
"""The arguments of `add_argument` for `--dim`, but for its help."""
