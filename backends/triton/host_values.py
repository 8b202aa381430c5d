"""Host expressions in terms of a launch: its rows, operands and outputs.

(ROW_COUNT.ceiling(128) * 43).text({ROWS: "B * T"})      # (B * T + 127) // 128 * 43
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import mul
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
    """Return the expressions by place: tensors in the order of operands and results."""
    return {
        ROWS: rows,
        **{Place("operands", index): text for index, text in enumerate(operands)},
        **{Place("outputs", index): text for index, text in enumerate(outputs)},
    }


Count: TypeAlias = Callable[[int], "int | None"]
"""The number that a number of rows makes of an expression; None where other extents do."""


def _unknown(rows: int) -> int | None:
    return None


@dataclass(frozen=True)
class HostValue:
    """A Python expression: text, with places that become text when a launch is emitted."""

    pieces: tuple[str | Place, ...]
    tensor: Place | None = None
    """The tensor that is passed, by its address or a descriptor; None for numbers and views."""
    count: Count = field(default=_unknown, compare=False, repr=False)

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
                blocks = joined("(", self, f" + {block - 1}) // {block}")
                return replace(blocks, count=_computed(lambda rows: -(-rows // block), self))

    def __mul__(self, factor: HostValue | int) -> HostValue:
        other = constant(factor) if isinstance(factor, int) else factor
        return replace(joined(self, " * ", other), count=_computed(mul, self, other))


def _computed(function: Callable[..., int], *values: HostValue) -> Count:
    """Return the count of what `function` computes from the numbers that the values are."""

    def count(rows: int) -> int | None:
        numbers = [value.count(rows) for value in values]
        return None if None in numbers else function(*numbers)

    return count


def joined(*parts: HostValue | str) -> HostValue:
    """Return the expression that concatenates the text of its parts."""
    pieces: list[str | Place] = []
    for part in parts:
        pieces += [part] if isinstance(part, str) else part.pieces
    return HostValue(tuple(pieces))


def constant(value: int | str) -> HostValue:
    """Return a number, or the name of a constant of the module."""
    return HostValue((str(value),), count=lambda _: value if isinstance(value, int) else None)


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


ROW_COUNT = HostValue((ROWS,), count=lambda rows: rows)
"""The number of rows M."""
