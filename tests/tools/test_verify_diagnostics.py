"""--verify-diagnostics: reading expectations, matching, and the exit code of the tool."""

from pathlib import Path

import pytest

from coda_ir.api import parse
from coda_ir.diagnostics import Diagnostic, Severity, SourceRange, collect_diagnostics
from coda_ir.tools.coda_opt import main
from coda_ir.tools.opt.verify_diagnostics import (
    ExpectationError,
    check_diagnostics,
    parse_expectations,
)

FILE = "input.mlir"


def emitted(severity: Severity, line: int | None, message: str, file: str = FILE) -> Diagnostic:
    place = None if line is None else SourceRange(file, line, 3, 4)
    return Diagnostic(severity, place, message)


def mismatches(
    text: str,
    *diagnostics: Diagnostic,
    counted: frozenset[Severity] = frozenset(),
) -> list[str]:
    """`line: message` of what does not fit, `?` for an unknown line."""
    found = check_diagnostics(diagnostics, text, FILE, counted)
    return [f"{d.range.line if d.range else '?'}: {d.message}" for d in found]


class TestExpectations:
    @pytest.mark.parametrize(
        "text, severity, line",
        [
            ("x // expected-error {{a}}", "error", 1),
            ("\n// expected-warning@+2 {{a}}", "warning", 4),
            ("\n\n// expected-note @-1{{a}}", "note", 2),
            ("\nx\n// expected-remark@above {{a}}", "remark", 2),
            ("// expected-error@below {{a}}\nx", "error", 2),
            ("// expected-error@unknown {{a}}", "error", None),
        ],
    )
    def test_places(self, text: str, severity: str, line: int | None):
        (expectation,) = parse_expectations(text, FILE)
        assert (expectation.severity, expectation.line) == (severity, line)

    def test_above_and_below_skip_lines_with_expectations(self):
        text = (
            "op\n// expected-error@above {{a}}\n// expected-error@above {{b}}\n"
            "// expected-error@below {{c}}\n// expected-error@+1 {{d}}\nop"
        )
        assert [e.line for e in parse_expectations(text, FILE)] == [1, 1, 6, 6]

    def test_several_on_a_line(self):
        text = "x // expected-error {{a}} expected-remark@+1 {{b}}, expected-note{{c}}"
        found = [(e.severity, e.line, e.text) for e in parse_expectations(text, FILE)]
        assert found == [("error", 1, "a"), ("remark", 2, "b"), ("note", 1, "c")]

    def test_only_comments_count(self):
        text = '%x = "expected-error {{a}}"\n# expected-error {{a}}'
        assert parse_expectations(text, FILE) == []
        (expectation,) = parse_expectations(text, "input.coda")
        assert expectation.line == 2

    def test_prose_is_no_expectation(self):
        text = "// an expected-error comment, and expected-errors {{x}}"
        assert parse_expectations(text, FILE) == []

    @pytest.mark.parametrize(
        "comment, message, matches",
        [
            ("-error {{a {{b}} c}}", "say a {{b}} c!", True),
            ("-error {{a.c}}", "abc", False),
            ("-error {{a b}}", "a\n   b", True),
        ],
    )
    def test_texts(self, comment: str, message: str, matches: bool):
        (expectation,) = parse_expectations(f"// expected{comment}", FILE)
        assert expectation.accepts(emitted("error", 1, message)) is matches

    @pytest.mark.parametrize(
        "comment, fault",
        [
            ("expected-error {a}", "expected a text in {{...}}"),
            ("expected-error {{a}", "expected a text in {{...}}"),
            ("expected-error {{ }}", "expected a text in {{...}}"),
            ("expected-error@below a", "expected a text in {{...}}"),
            ("expected-error@1 {{a}}", "unknown place '@1'"),
            ("expected-error-re {{a}}", "expected no -re"),
        ],
    )
    def test_malformed(self, comment: str, fault: str):
        with pytest.raises(ExpectationError) as error:
            parse_expectations(f"\n// {comment}", FILE)
        (diagnostic,) = error.value.diagnostics
        assert fault in diagnostic.message
        assert str(diagnostic.range) == "input.mlir:2:4"
        assert mismatches(f"\n// {comment}") == [f"2: {diagnostic.message}"]


class TestMatching:
    def test_all_met(self):
        text = "// expected-error {{a}} expected-error {{b}}"
        assert mismatches(text, emitted("error", 1, "xbx"), emitted("error", 1, "a")) == []

    def test_each_expectation_is_met_once(self):
        text = "// expected-error {{a}}"
        assert mismatches(text, emitted("error", 1, "a"), emitted("error", 1, "a")) == [
            "1: unexpected error: a"
        ]
        assert mismatches(f"{text} expected-error {{{{a}}}}", emitted("error", 1, "a")) == [
            '1: expected error "a" was not given on line 1'
        ]

    def test_unknown_places(self):
        text = "// expected-error@unknown {{a}}"
        assert mismatches(text, emitted("error", None, "a")) == []
        assert mismatches(text, emitted("error", 1, "a", "other.mlir")) == []
        assert len(mismatches(text, emitted("error", 1, "a"))) == 2

    @pytest.mark.parametrize("severity", ["error", "warning"])
    def test_unexpected_errors_and_warnings_count(self, severity: Severity):
        assert mismatches("", emitted(severity, 1, "a")) == [f"1: unexpected {severity}: a"]

    @pytest.mark.parametrize("severity", ["remark", "note"])
    def test_unexpected_remarks_and_notes_count_where_some_are_expected(self, severity: Severity):
        given = emitted(severity, 1, "a"), emitted(severity, 2, "b")
        text = f"// expected-{severity} {{{{a}}}}"
        assert mismatches("", *given) == []
        assert mismatches(text, *given) == [f"2: unexpected {severity}: b"]
        assert len(mismatches("", *given, counted=frozenset({severity}))) == 2

    def test_a_remedy_is_a_note(self):
        given = Diagnostic("error", SourceRange(FILE, 1, 1, 2), "a", "do b")
        assert mismatches("// expected-error {{a}}", given) == []
        assert mismatches("// expected-error {{a}} expected-note {{do b}}", given) == []
        assert mismatches("// expected-error {{a}} expected-note {{do c}}", given) == [
            '1: expected note "do c" was not given on line 1',
            "1: unexpected note: do b",
        ]


PROGRAM = """
func.func @f(%x: tensor<?x8xf32>, %w: tensor<8x8xf32>) -> tensor<?x8xf32> {
  %y = coda.linear %x, %w : (tensor<?x8xf32>, tensor<8x8xf32>) -> tensor<?x8xf32>COMMENT
  func.return %y : tensor<?x8xf32>
}
"""


class TestTool:
    @pytest.mark.parametrize(
        "comment, arguments, code",
        [
            ("", [], 0),
            ("// expected-error {{a}}", [], 1),
            ("// expected-remark {{[analysis] schedule}}", ["-p", "coda-to-gemm,schedule"], 0),
            ("// expected-remark {{[missed] schedule}}", ["-p", "coda-to-gemm,schedule"], 1),
            ("", ["-p", "coda-to-gemm,schedule", "--remarks"], 1),
            ("", ["-p", "coda-to-gemm,schedule", "--remarks=missed"], 0),
            ("", ["-p", "coda-to-gemm,schedule", "--remarks", "--remarks-filter=cse"], 0),
        ],
    )
    def test_exit_codes(
        self,
        comment: str,
        arguments: list[str],
        code: int,
        tmp_path: Path,
        capsys: pytest.CaptureFixture[str],
    ):
        path = tmp_path / FILE
        path.write_text(PROGRAM.replace("COMMENT", f" {comment}"))
        assert main([str(path), "--verify-diagnostics", *arguments]) == code
        assert bool(capsys.readouterr().err) is bool(code)

    def test_an_expected_error_prints_nothing(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ):
        path = tmp_path / FILE
        path.write_text("func.func @f( // expected-error {{argument or type}}")
        assert main([str(path), "--verify-diagnostics"]) == 0
        assert capsys.readouterr() == ("", "")

    def test_a_wrong_command_line_is_no_diagnostic(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ):
        path = tmp_path / FILE
        path.write_text("// expected-error@unknown {{unknown pass}}")
        assert main([str(path), "--verify-diagnostics", "-p", "nonsense"]) == 2
        assert main([str(tmp_path / "missing.mlir"), "--verify-diagnostics"]) == 1
        assert "No such file" in capsys.readouterr().err

    def test_errors_of_the_verifier_have_a_place(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ):
        path = tmp_path / FILE
        path.write_text(
            "func.func @f(%x: tensor<8xf32>) {\n"
            "  %y = coda.softcap %x {cap = -1.0} : (tensor<8xf32>) -> tensor<8xf32>\n"
            "  func.return\n}\n"
        )
        assert main([str(path)]) == 1
        assert capsys.readouterr().err.endswith(
            "input.mlir:2:8: error[E0602]: property cap is -1.0, expected a positive number\n"
            "    %y = coda.softcap %x {cap = -1.0} : (tensor<8xf32>) -> tensor<8xf32>\n"
            "         ^~~~~~~~~~~~\n"
        )


class TestWarnings:
    PROGRAM = "fn f(x: f32[M, 8], y: f32[M, 8], _z: f32[M]) {\n  return silu(x)\n}\n"

    def test_are_printed(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
        path = tmp_path / "input.coda"
        path.write_text(self.PROGRAM)
        assert main([str(path)]) == 0
        assert capsys.readouterr().err.endswith(
            "input.coda:1:20: warning[E0204]: the parameter 'y' is never used\n"
            "  fn f(x: f32[M, 8], y: f32[M, 8], _z: f32[M]) {\n"
            "                     ^\n"
            "  help: remove it, or call it _y\n"
        )

    def test_count(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
        path = tmp_path / "input.coda"
        path.write_text(self.PROGRAM)
        assert main([str(path), "--verify-diagnostics"]) == 1
        assert "unexpected warning: the parameter 'y'" in capsys.readouterr().err

    def test_not_where_an_error_may_be_the_reason(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ):
        path = tmp_path / "input.coda"
        path.write_text(self.PROGRAM.replace("silu(x)", "x + undefined(y)"))
        assert main([str(path)]) == 1
        message = capsys.readouterr().err
        assert "undefined" in message and "warning" not in message

    def test_are_collected_in_python(self):
        with collect_diagnostics() as warnings:
            parse(self.PROGRAM)
        assert [str(warning.range) for warning in warnings] == ["<text>:1:20"]
