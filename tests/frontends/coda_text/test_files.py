"""Files that cannot be read, and imports."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from xdsl.dialects.func import FuncOp

from coda_ir.diagnostics import CodaError, DiagnosticError
from coda_ir.frontends.coda_text import parse_text
from coda_ir.sources import read_source

Write = Callable[[str, str], Path]

IDENTITY = "fn f(x: bf16[M, 8]) { return x }\n"


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Writes files to the current directory, which is a new one."""
    monkeypatch.chdir(tmp_path)

    def write_file(name: str, text: str) -> Path:
        path = Path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    return write_file


def message(path: str | Path) -> str:
    with pytest.raises(CodaError) as error:
        parse_text(read_source(str(path)), str(path))
    return str(error.value)


def function_names(path: Path) -> list[str]:
    ops = parse_text(read_source(str(path)), str(path)).body.block.ops
    return [op.sym_name.data for op in ops if isinstance(op, FuncOp)]


class TestUnreadable:
    def test_missing(self, write: Write):
        assert message("no.coda") == (
            "no.coda: cannot read the file: No such file or directory\n  help: check the path"
        )

    def test_directory(self, write: Write):
        Path("folder.coda").mkdir()
        assert message("folder.coda") == ("folder.coda: this is a directory\n  help: name a file")

    @pytest.mark.skipif(os.geteuid() == 0, reason="root reads every file")
    def test_without_permission(self, write: Write):
        path = write("a.coda", IDENTITY)
        path.chmod(0)
        assert message(path).startswith("a.coda: cannot read the file: Permission denied")

    def test_no_path(self):
        assert message("a\0b") == (
            "'a\\x00b': not a path: embedded null byte\n  help: check the path"
        )

    def test_not_utf8(self, write: Write):
        path = write("a.coda", "")
        path.write_bytes("# Umläute\n# ähm \xff".encode("latin-1"))
        assert message(path) == (
            "a.coda:1:6: not UTF-8: byte 0xe4 at offset 5\n  help: save the file as UTF-8"
        )

    def test_not_utf8_in_a_later_line(self, write: Write):
        path = write("a.coda", "")
        path.write_bytes("# ähm\n# ä ".encode() + b"\xff")
        assert message(path) == (
            "a.coda:2:5: not UTF-8: byte 0xff at offset 12\n  help: save the file as UTF-8"
        )

    @pytest.mark.parametrize("text", ["", "\n\n", "  \t", "# nothing"])
    def test_empty(self, write: Write, text: str):
        assert message(write("a.coda", text)).startswith(
            "a.coda:1:1: error[E0104]: the file has no definitions\n"
        )


class TestText:
    @pytest.mark.parametrize("prefix", ["\ufeff", "\r\n", "\t"])
    def test_byte_order_mark_and_line_ends(self, write: Write, prefix: str):
        path = write("a.coda", "")
        path.write_bytes((prefix + IDENTITY.replace("\n", "\r\n")).encode())
        assert function_names(path) == ["f"]

    def test_no_newline_at_the_end(self):
        assert len(parse_text(IDENTITY.strip() + "  # comment").body.block.ops) == 1

    def test_columns_count_characters(self):
        with pytest.raises(DiagnosticError) as error:
            parse_text('fn f(x: bf16[M, 8]) {\n\treturn glu(x, activation="ä", x)\n}', "a.coda")
        assert str(error.value) == (
            "a.coda:2:32: error[E0401]: glu takes 1 positional argument, got 3\n"
            '  \treturn glu(x, activation="ä", x)\n'
            "  \t                              ^\n"
            "  help: the signature is "
            'glu(x, *, activation: string = "silu", adjacent: boolean = false)'
        )


class TestImports:
    def test_names_of_the_other_file(self, write: Write):
        write("lib/norms.coda", "const EPS = 1e-5\nfn n(x: bf16[R, C]) { return rms_norm(x) }\n")
        path = write(
            "main.coda",
            'import "lib/norms.coda"\nfn f(x: bf16[M, 8]) { return n(rms_norm(x, eps=EPS)) }\n',
        )
        assert function_names(path) == ["f"]

    def test_epilogues(self, write: Write):
        write("e.coda", "const C = 2\nepilogue e(acc) -> (y: tile) { y = C * acc }\n")
        path = write(
            "main.coda",
            'import "e.coda"\nfn f(x: bf16[M, 8], w: bf16[8, 8]) { return e(x @ w) }\n',
        )
        (func,) = parse_text(read_source(str(path)), str(path)).body.block.ops
        assert isinstance(func, FuncOp)
        assert [op.name for op in func.body.block.ops] == ["gemm.fused", "func.return"]

    def test_paths_are_relative_to_the_importing_file(self, write: Write):
        write("a/b/two.coda", "fn two(x: bf16[R, C]) { return 2 * x }\n")
        write("a/one.coda", 'import "b/two.coda"\nfn one(x: bf16[R, C]) { return two(x) }\n')
        path = write("main.coda", 'import "a/one.coda"\nfn f(x: bf16[M, 8]) { return one(x) }\n')
        assert function_names(path) == ["f"]

    def test_imports_are_not_passed_on(self, write: Write):
        write("two.coda", "fn two(x: bf16[R, C]) { return 2 * x }\n")
        write("one.coda", 'import "two.coda"\nfn one(x: bf16[R, C]) { return two(x) }\n')
        path = write("main.coda", 'import "one.coda"\nfn f(x: bf16[M, 8]) { return two(x) }\n')
        assert message(path) == (
            "main.coda:2:30: error[E0202]: unknown function 'two'\n"
            "  fn f(x: bf16[M, 8]) { return two(x) }\n"
            "                               ^~~\n"
            "  help: docs/language.md lists the operators; PyTorch has more: "
            'torch("namespace.operator.overload({0})", x, dtype=f32, shape=[M, 64])'
        )

    def test_the_same_file_twice(self, write: Write):
        write("two.coda", "const C = 2\n")
        write("one.coda", 'import "two.coda"\nfn one(x: bf16[R, C]) { return x }\n')
        path = write(
            "main.coda",
            'import "two.coda"\nimport "one.coda"\nimport "./two.coda"\n'
            "fn f(x: bf16[M, C]) { return one(x) }\n",
        )
        assert function_names(path) == ["f"]

    def test_overrides_reach_imports(self, write: Write):
        write("c.coda", "const D = 4\n")
        path = write("main.coda", 'import "c.coda"\nfn f(x: bf16[M, D]) { return x }\n')
        (func,) = parse_text(read_source(str(path)), str(path), constants={"D": 16}).body.block.ops
        assert isinstance(func, FuncOp)
        assert str(func.args[0].type) == "tensor<?x16xbf16>"

    def test_missing(self, write: Write):
        path = write("main.coda", f'import "no.coda"\n{IDENTITY}')
        assert message(path) == (
            "main.coda:1:8: error[E0104]: cannot import: no.coda: cannot read the file: "
            "No such file or directory\n"
            '  import "no.coda"\n'
            "         ^~~~~~~~~\n"
            "  help: paths are relative to the folder of this file"
        )

    def test_not_utf8(self, write: Write):
        write("bad.coda", "").write_bytes(b"# \xff")
        path = write("main.coda", f'import "bad.coda"\n{IDENTITY}')
        assert message(path) == (
            "main.coda:1:8: error[E0104]: cannot import: "
            "bad.coda:1:3: not UTF-8: byte 0xff at offset 2\n"
            '  import "bad.coda"\n'
            "         ^~~~~~~~~~\n"
            "  help: save the file as UTF-8"
        )

    def test_itself(self, write: Write):
        path = write("main.coda", f'import "main.coda"\n{IDENTITY}')
        assert message(path) == (
            "main.coda:1:8: error[E0104]: "
            "'main.coda' imports itself, directly or through other files\n"
            '  import "main.coda"\n'
            "         ^~~~~~~~~~~\n"
            "  help: move what both need to a third file"
        )

    def test_cycle(self, write: Write):
        write("b.coda", 'import "a.coda"\n')
        path = write("a.coda", f'import "b.coda"\n{IDENTITY}')
        assert message(path).startswith(
            "b.coda:1:8: error[E0104]: 'a.coda' imports itself, directly or through other files\n"
        )

    def test_two_definitions_of_a_name(self, write: Write):
        write("a.coda", IDENTITY)
        path = write("main.coda", f'{IDENTITY}import "a.coda"\n')
        assert message(path) == (
            "main.coda:2:8: error[E0203]: 'f' is defined twice\n"
            '  import "a.coda"\n'
            "         ^~~~~~~~\n"
            "  help: the first definition is at main.coda:1:4; rename one of them"
        )

    def test_errors_of_all_files(self, write: Write):
        write("a.coda", "fn g(x: bf16[M]) { return slu(x) }\n")
        path = write("main.coda", 'import "a.coda"\nfn f(x: bf16[M]) { return sil(x) }\n')
        text = message(path)
        assert "a.coda:1:27: error[E0202]: unknown function 'slu'" in text
        assert "main.coda:2:27: error[E0202]: unknown function 'sil'" in text

    def test_syntax_errors_of_all_files(self, write: Write):
        write("a.coda", "fn g(x bf16[M]) { return x }\n")
        path = write("main.coda", 'import "a.coda"\nfn f(x: bf16 M) { return x }\n')
        text = message(path)
        assert "a.coda:1:12: error[E0102]: unexpected '[', expected ':'" in text
        assert "main.coda:2:14: error[E0102]: unexpected 'M', expected '['" in text
