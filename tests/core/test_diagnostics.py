"""Diagnostics: excerpts, what errors carry, places of operators that do not verify."""

from pathlib import Path

import pytest
from xdsl.parser import Parser
from xdsl.utils.exceptions import ParseError, VerifyException

from coda_ir.context import make_context
from coda_ir.diagnostics import (
    MAX_WIDTH,
    CodaError,
    Diagnostic,
    DiagnosticError,
    SourceRange,
    collect_diagnostics,
    emit_diagnostic,
    excerpt,
)
from coda_ir.error_diagnostics import diagnostics_of
from coda_ir.mlir.reader import read_module
from coda_ir.remarks import format_location
from coda_ir.sources import Sources

PLACE = SourceRange("a.coda", 2, 3, 6)


class TestExcerpt:
    @pytest.mark.parametrize(
        "place, text, expected",
        [
            (PLACE, "one\ntwo three", ["  two three", "    ^~~"]),
            (PLACE, "one\n\t\tthree\r", ["  \t\tthree", "  \t\t^~~"]),
            (PLACE, "one\n\x1b[2J\rx\u202e", ["  \ufffd[2J\ufffdx\ufffd", "    ^~~"]),
            (PLACE, "one\ntwo", ["  two", "    ^"]),
            (PLACE, "one\n", ["  ", "  ^"]),
            (PLACE, "one", []),
        ],
    )
    def test_line_and_carets(self, place: SourceRange, text: str, expected: list[str]):
        assert excerpt(place, text) == expected

    @pytest.mark.parametrize("column", [1, 300, 5_000, 9_999])
    def test_a_very_long_line_is_cut_around_the_place(self, column: int):
        text = "".join(chr(ord("a") + i % 26) for i in range(10_000))
        line, carets = excerpt(SourceRange("a", 1, column, column + 2), text)
        assert len(line) <= MAX_WIDTH + 8
        start = carets.index("^")
        assert carets.strip() == "^~"
        assert line[start : start + 2] == text[column - 1 : column + 1]


class TestSources:
    def test_given_texts_come_before_files(self, tmp_path: Path):
        path = tmp_path / "a.coda"
        path.write_text("file")
        assert Sources()[str(path)] == "file"
        assert Sources({str(path): "given"})[str(path)] == "given"

    def test_files_that_cannot_be_read_are_missing(self, tmp_path: Path):
        sources = Sources({"known": ""})
        assert sources.get(str(tmp_path)) is None
        assert sources.get("<unknown>") is None
        assert list(sources) == ["known"] and len(sources) == 1


class TestErrors:
    @pytest.mark.parametrize(
        "error, expected",
        [
            (CodaError("no"), "error[E1999]: no"),
            (CodaError("no", "do"), "error[E1999]: no\n  help: do"),
            (CodaError("a.mlir:3:4: pass: no"), "a.mlir:3:4: error[E1999]: pass: no"),
            (CodaError("a.mlir:3:4: error: no"), "a.mlir:3:4: error[E1999]: no"),
            (CodaError("a.mlir: no"), "error[E1999]: a.mlir: no"),
            (DiagnosticError([Diagnostic("error", PLACE, "no")], {}), "a.coda:2:3: error: no"),
            (VerifyException("no"), "error[E0602]: no"),
        ],
    )
    def test_diagnostics(self, error: Exception, expected: str):
        (diagnostic,) = diagnostics_of(error)
        assert diagnostic.render() == expected

    def test_parse_errors_have_notes(self):
        text = "func.func @f(%x: i32, %x: i32) { func.return }"
        with pytest.raises(ParseError) as error:
            Parser(make_context(), text, "a.mlir").parse_module()
        first, *_ = diagnostics_of(error.value)
        assert first.severity == "error"
        assert str(first.range).startswith("a.mlir:1:")

    def test_what_is_emitted_is_collected(self):
        warning = Diagnostic("warning", None, "careful")
        emit_diagnostic(warning)
        with collect_diagnostics() as found:
            emit_diagnostic(warning)
        assert found == [warning]


class TestLocations:
    def test_operators_have_the_place_of_their_name(self):
        text = (
            "func.func @f(%x: tensor<8xf32>) -> tensor<8xf32> {\n"
            "  %y = coda.silu %x : (tensor<8xf32>) -> tensor<8xf32>\n"
            '  %a = "coda.silu"(%y) : (tensor<8xf32>) -> tensor<8xf32> loc("b.coda":7:9)\n'
            "  %b = coda.silu %a : (tensor<8xf32>) -> tensor<8xf32> loc(unknown)\n"
            '  %c = "coda.silu"(%b) : (tensor<8xf32>) -> tensor<8xf32>\n'
            "  func.return %c : tensor<8xf32>\n}\n"
        )
        module = read_module(text, "a.mlir")
        assert [format_location(op.location) for op in module.walk()] == [
            "<unknown>",
            "a.mlir:1:1",
            "a.mlir:2:8",
            "b.coda:7:9",
            "<unknown>",
            "a.mlir:5:8",
            "a.mlir:6:3",
        ]
