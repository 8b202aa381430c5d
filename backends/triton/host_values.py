"""Host expressions in terms of a launch: its rows, operands and outputs.

(ROW_COUNT.ceiling(128) * 43).text({ROWS: "B * T"})      # (B * T + 127) // 128 * 43
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias


@dataclass(frozen=True)
class Place:
    """A placeholder: the number of rows, or an operand or output by number."""

    kind: Literal["rows", "operands", "outputs"]
    index: int = 0


ROWS = Place("rows")
"""The number of rows M: all dimensions but the last, flattened."""

Given: TypeAlias = Mapping[Place, str]
"""The Python expressions of a launch for these."""


def given(rows: str, operands: Sequence[str], outputs: Sequence[str]) -> Given:
    """Return the expressions by place: tensors in the order of the operator's operands and
    results.
    """
    return {
        ROWS: rows,
        **{Place("operands", index): text for index, text in enumerate(operands)},
        **{Place("outputs", index): text for index, text in enumerate(outputs)},
    }


@dataclass(frozen=True)
class HostValue:
    """A Python expression: text, with places that become text when a launch is emitted."""

    pieces: tuple[str | Place, ...]
    tensor: Place | None = None
    """The tensor that is passed, by its address or a descriptor; None for numbers and views."""

    def text(self, given: Given) -> str:
        """Return the text of the expression for a launch."""
        return "".join(piece if isinstance(piece, str) else given[piece] for piece in self.pieces)

    @property
    def places(self) -> list[Place]:
        """The places that the expression uses, in order."""
        return [piece for piece in self.pieces if isinstance(piece, Place)]

    def member(self, text: str) -> HostValue:
        """Return an attribute, or the result of a method."""
        return joined(self, f".{text}")

    def shape(self, axis: int) -> HostValue:
        return self.member(f"shape[{axis}]")

    def stride(self, axis: int) -> HostValue:
        return self.member(f"stride({axis})")

    def rows_of(self, columns: int) -> HostValue:
        """Return the rows of a tensor, with all of its dimensions but the last as one."""
        return joined(self.member("numel()"), f" // {columns}")

    def ceiling(self, block: int) -> HostValue:
        """Return the number of blocks that cover an extent. Factors must follow it."""
        if block == 1:
            return self
        match self.pieces:
            case (str(number),) if number.isdecimal():
                return constant(-(-int(number) // block))
            case _:
                return joined("(", self, f" + {block - 1}) // {block}")

    def __mul__(self, factor: HostValue | int) -> HostValue:
        return joined(self, " * ", constant(factor) if isinstance(factor, int) else factor)


def joined(*parts: HostValue | str) -> HostValue:
    """Return the expression that concatenates the text of its parts."""
    pieces: list[str | Place] = []
    for part in parts:
        pieces += [part] if isinstance(part, str) else part.pieces
    return HostValue(tuple(pieces))


def constant(value: int | str) -> HostValue:
    """Return a number, or the name of a constant of the module."""
    return HostValue((str(value),))


def listed(values: Sequence[HostValue | int]) -> HostValue:
    """Return the elements of a list, or the arguments of a call."""
    parts: list[HostValue | str] = []
    for value in values:
        parts += [", ", constant(value) if isinstance(value, int) else value]
    return joined(*parts[1:])


def _tensor(kind: Literal["operands", "outputs"], index: int) -> HostValue:
    place = Place(kind, index)
    return HostValue((place,), place)


def nth_operand(index: int) -> HostValue:
    """Return an operand of the operator, in the order of `op.operands`."""
    return _tensor("operands", index)


def nth_output(index: int) -> HostValue:
    """Return a preallocated output, in the order of `op.results`."""
    return _tensor("outputs", index)


ROW_COUNT = HostValue((ROWS,))
"""The number of rows M."""


def number_in(text: str) -> int | None:
    """Return the number that a host expression of literals is, such as `(8 + 15) // 16 * 2`; None
    for other expressions.
    """
    return _number(ast.parse(text, mode="eval").body)


def _number(node: ast.expr) -> int | None:
    match node:
        case ast.Constant(int(value)):
            return value
        case ast.BinOp(left, operator, right):
            numbers = _number(left), _number(right)
            if numbers[0] is None or numbers[1] is None:
                return None
            match operator:
                case ast.Add():
                    return numbers[0] + numbers[1]
                case ast.Mult():
                    return numbers[0] * numbers[1]
                case ast.FloorDiv():
                    return numbers[0] // numbers[1]
                case _:
                    return None
        case _:
            return None
