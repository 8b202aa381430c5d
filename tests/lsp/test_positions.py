"""Positions in the encodings of the protocol."""

import pytest
from hypothesis import given, settings, strategies as st
from lsprotocol.types import Position, PositionEncodingKind, Range

from coda_ir.frontends.coda_text.syntax import Span
from coda_ir.lsp.positions import SourceText

TEXT = "aé🙂b\nx\r\n\rlast"


@pytest.mark.parametrize(
    "encoding, characters",
    [
        (PositionEncodingKind.Utf8, [0, 1, 3, 7, 8]),
        (PositionEncodingKind.Utf16, [0, 1, 2, 4, 5]),
        (PositionEncodingKind.Utf32, [0, 1, 2, 3, 4]),
    ],
)
def test_units(encoding: PositionEncodingKind, characters: list[int]):
    source = SourceText(TEXT, encoding)
    assert [source.position(offset).character for offset in range(5)] == characters
    assert [source.offset(Position(0, c)) for c in characters] == [0, 1, 2, 3, 4]


def test_lines_end_at_carriage_returns_for_editors_only():
    source = SourceText(TEXT)
    assert source.position(TEXT.index("last")) == Position(3, 0)
    assert source.place(Position(3, 0)) == (3, 2)
    assert source.offset_at(3, 2) == TEXT.index("last")


def test_places_outside_of_the_text():
    source = SourceText(TEXT)
    assert source.offset(Position(99, 0)) == len(TEXT)
    assert source.offset(Position(0, 99)) == 4
    assert source.offset_at(99, 1) == len(TEXT)
    assert source.range(Span(1, 2, 1, 10**9)) == Range(Position(0, 1), Position(0, 5))


@given(
    st.text(st.sampled_from("a\n\ré🙂\u2028\x0c\ud800"), max_size=30),
    st.sampled_from(PositionEncodingKind),
)
@settings(derandomize=True, database=None, max_examples=200)
def test_every_index_survives_the_round_trip(text: str, encoding: PositionEncodingKind):
    source = SourceText(text, encoding)
    for offset in range(len(text) + 1):
        between_return_and_feed = text[offset - 1 : offset + 1] == "\r\n" and offset > 0
        if not between_return_and_feed:
            assert source.offset(source.position(offset)) == offset
        assert source.offset_at(*source.place(source.position(offset))) <= len(text)
