"""coda-opt around passes: dumps, reports, verification, defects and their reproducers."""

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import IO

import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.passes import ModulePass
from xdsl.utils.target import Target

from coda_ir.tools.coda_opt import main
from coda_ir.tools.opt import driver

SILU = """
func.func @silu(%x: tensor<?x8xf32> {coda.name = "x", coda.dims = ["M", 8]}) -> tensor<?x8xf32> {
  %unused = coda.relu %x : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %y = coda.silu %x : (tensor<?x8xf32>) -> tensor<?x8xf32>
  func.return %y : tensor<?x8xf32>
}
"""

Capture = pytest.CaptureFixture[str]


class FailPass(ModulePass):
    """Has a defect that shows on functions with a name."""

    name = "fail"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        raise KeyError("on\npurpose")


class BreakPass(ModulePass):
    """Leaves invalid IR."""

    name = "break"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for func in list(op.ops):
            if isinstance(func, FuncOp):
                op.body.block.add_op(FuncOp.external(func.sym_name.data, [], []))


class MakeInvalidPass(ModulePass):
    """Fails while it makes invalid IR."""

    name = "make-invalid"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        BreakPass().apply(ctx, op)
        op.verify()


class InterruptPass(ModulePass):
    name = "interrupt"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        raise KeyboardInterrupt


class RecursePass(ModulePass):
    name = "recurse"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        raise RecursionError


class FailTarget(Target):
    name = "fail"

    def emit(self, ctx: Context, module: ModuleOp, output: IO[str]) -> None:
        raise KeyError("target")


@pytest.fixture(autouse=True)
def faulty_passes(monkeypatch: pytest.MonkeyPatch):
    """Passes with a defect, besides the real ones."""
    real = driver.get_all_passes()
    classes: tuple[type[ModulePass], ...] = (
        *(FailPass, BreakPass, MakeInvalidPass, InterruptPass, RecursePass),
    )
    faulty = {each.name: loader(each) for each in classes}
    monkeypatch.setattr(driver, "get_all_passes", lambda: real | faulty)


def loader(pass_class: type[ModulePass]) -> Callable[[], type[ModulePass]]:
    return lambda: pass_class


@pytest.fixture
def silu(tmp_path: Path) -> str:
    path = tmp_path / "input.mlir"
    path.write_text(SILU)
    return str(path)


def headers(text: str) -> list[str]:
    return re.findall(r"^// -----// IR Dump (.*) //----- //$", text, re.MULTILINE)


class TestPrintIR:
    @pytest.mark.parametrize(
        "arguments, expected",
        [
            (["--print-ir-before=dce"], ["Before dce"]),
            (["--print-ir-after=dce,cse"], ["After cse", "After dce"]),
            (["--print-ir-after=dce", "--print-ir-after=cse"], ["After cse", "After dce"]),
            (["--print-ir-before-all"], ["Before cse", "Before dce"]),
            (["--print-ir-after-all"], ["After cse", "After dce"]),
            (["--print-ir-after-change"], ["After cse"]),
            (["--print-ir-after=dce", "--print-ir-after-change"], []),
            (["--print-ir-after-failure"], []),
        ],
    )
    def test_selection(self, silu: str, arguments: list[str], expected: list[str], capsys: Capture):
        assert main([silu, "-p", "cse,dce", *arguments]) == 0
        assert headers(capsys.readouterr().err) == expected

    def test_text(self, silu: str, capsys: Capture):
        assert main([silu, "-p", "dce", "--print-ir-after-all", "--print-ir-before-all"]) == 0
        captured = capsys.readouterr()
        before, after = captured.err.split("// -----// IR Dump After dce //----- //\n")
        assert "coda.relu" in before and "coda.relu" not in after
        assert after.strip() == captured.out.strip()

    def test_generic_form(self, silu: str, capsys: Capture):
        assert main([silu, "-p", "cse", "--print-ir-after=cse", "--print-op-generic"]) == 0
        assert '"coda.silu"(' in capsys.readouterr().err

    def test_a_pipeline_pass_stands_for_its_ends(self, silu: str, capsys: Capture):
        selection = ["--print-ir-before=coda-to-gemm", "--print-ir-after=coda-to-gemm"]
        assert main([silu, "-p", "cse,coda-to-gemm,cse", *selection]) == 0
        captured = capsys.readouterr()
        assert headers(captured.err) == ["Before coda-to-gemm", "After coda-to-gemm"]
        before, after = captured.err.split("After coda-to-gemm")
        assert "coda.silu" in before and "gemm.map" in after

    def test_failure(self, silu: str, tmp_path: Path, capsys: Capture):
        arguments = ["--print-ir-after-failure", f"--crash-reproducer={tmp_path / 'r.mlir'}"]
        assert main([silu, "-p", "dce,fail", *arguments]) == 3
        message = capsys.readouterr().err
        assert headers(message) == ["After fail Failed"]
        assert '"coda.silu"' in message and '"coda.relu"' not in message

    def test_folder(self, silu: str, tmp_path: Path, capsys: Capture):
        folder = tmp_path / "new" / "folder"
        assert main([silu, "-p", "cse,dce", f"--print-ir-tree-dir={folder}"]) == 0
        assert capsys.readouterr().err == ""
        assert sorted(path.name for path in folder.iterdir()) == ["00_cse.mlir", "01_dce.mlir"]
        assert "coda.relu" not in (folder / "01_dce.mlir").read_text()

    def test_folder_of_chosen_dumps(self, silu: str, tmp_path: Path):
        chosen = ["--print-ir-before=dce", "--print-ir-after=dce", "--print-ir-after-change"]
        chosen.append(f"--print-ir-tree-dir={tmp_path / 'd'}")
        assert main([silu, "-p", "report-unfused,dce", *chosen]) == 0
        names = sorted(path.name for path in (tmp_path / "d").iterdir())
        assert names == ["01_dce.before.mlir", "01_dce.mlir"]

    def test_folder_of_a_split_input(self, tmp_path: Path):
        path = tmp_path / "two.mlir"
        path.write_text(f"{SILU}\n// -----\n{SILU}")
        folder = tmp_path / "tree"
        arguments = ["--split-input-file", f"--print-ir-tree-dir={folder}"]
        assert main([str(path), "-p", "cse", *arguments]) == 0
        files = [path.relative_to(folder).as_posix() for path in folder.rglob("*.mlir")]
        assert sorted(files) == ["0/00_cse.mlir", "1/00_cse.mlir"]

    def test_folder_that_cannot_be_made(self, silu: str, capsys: Capture):
        assert main([silu, "-p", "cse", f"--print-ir-tree-dir={silu}/x"]) == 1
        assert "Not a directory" in capsys.readouterr().err

    def test_unknown_pass(self, silu: str, capsys: Capture):
        assert main([silu, "-p", "cse", "--print-ir-after=cze"]) == 2
        message = capsys.readouterr().err
        assert "unknown pass 'cze'" in message and "did you mean" in message

    def test_two_packages_with_one_pass(
        self, silu: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
    ):
        (tmp_path / "twice.py").write_text(
            "from xdsl.universe import Universe\nUNIVERSE = Universe(all_passes={'twice': None})\n"
        )
        for package in ("one", "other"):
            (tmp_path / f"{package}-0.dist-info").mkdir()
            (tmp_path / f"{package}-0.dist-info" / "entry_points.txt").write_text(
                f"[xdsl.universe]\n{package} = twice:UNIVERSE\n"
            )
        monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
        assert main([silu, "-p", "cse"]) == 1
        message = capsys.readouterr().err
        assert "Duplicate definition of twice in ['one', 'other']" in message
        assert "help: rename one of the definitions, or remove" in message

    def test_a_package_that_cannot_be_loaded(
        self, silu: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
    ):
        (tmp_path / "half_written.py").write_text("def (\n")
        (tmp_path / "half_written-0.dist-info").mkdir()
        (tmp_path / "half_written-0.dist-info" / "entry_points.txt").write_text(
            "[xdsl.universe]\nhalf-written = half_written:UNIVERSE\n"
        )
        monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
        assert main([silu, "-p", "cse"]) == 1
        message = capsys.readouterr().err
        assert "cannot be loaded: SyntaxError: invalid syntax (half_written.py, line 1)" in message
        assert "help: fix it, or remove it from the Python path" in message


class TestReports:
    def test_timing(self, silu: str, capsys: Capture):
        assert main([silu, "-p", "cse,coda-to-gemm", "--timing"]) == 0
        captured = capsys.readouterr()
        assert "Execution time report" in captured.err and "time" not in captured.out
        lines = captured.err.splitlines()
        rows = [re.fullmatch(r" +[0-9.]+ \( *(-?[0-9.]+)%\)  ( *)(\S.*)", line) for line in lines]
        found = [(len(row[2]) // 2, row[3]) for row in rows if row]
        assert found[:4] == [(0, "parse"), (0, "passes"), (1, "cse"), (1, "coda-to-gemm")]
        assert found[4] == (2, "drop-detach")
        assert found[-4:] == [(1, "(verification)"), (0, "output"), (0, "Rest"), (0, "Total")]
        total = sum(float(row[1]) for row in rows if row and not row[2] and row[3] != "Total")
        assert total == pytest.approx(100, abs=0.5)
        assert len({line.index(")  ") for line in lines if "%)" in line}) == 1, "aligned"

    def test_timing_of_a_run_that_fails(self, silu: str, tmp_path: Path, capsys: Capture):
        reproducer = f"--crash-reproducer={tmp_path / 'r.mlir'}"
        assert main([silu, "-p", "fail", "--timing", reproducer]) == 3
        assert re.search(r"%\)    fail$", capsys.readouterr().err, re.MULTILINE)

    def test_statistics(self, silu: str, capsys: Capture):
        assert main([silu, "-p", "report-unfused,dce,coda-to-gemm", "--statistics"]) == 0
        report = capsys.readouterr().err
        assert "\nreport-unfused: 5 operators; 2 missed\n" in report
        assert "\ndce: 5 -> 4 operators\n  removed: coda.relu 1\n" in report
        assert "\ncoda-to-gemm\n  drop-detach: 4 operators\n" in report
        assert re.search(
            r"  outline-pointwise\{statistics=false\}: 4 -> \d+ operators\n"
            r"    made: .*gemm.map 1.*\n    removed: coda.silu 1\n",
            report,
        )

    def test_statistics_of_a_failure(self, silu: str, tmp_path: Path, capsys: Capture):
        reproducer = f"--crash-reproducer={tmp_path / 'r.mlir'}"
        assert main([silu, "-p", "report-unfused,fail", "--statistics", reproducer]) == 3
        assert "report-unfused: 5 operators; 2 missed\nfail: failed\n" in capsys.readouterr().err


class TestDefects:
    @pytest.mark.parametrize(
        "pass_name, message",
        [
            ("fail", r"internal error: KeyError: 'on\\npurpose'"),
            ("break", "internal error: invalid IR after pass 'break': "),
            ("make-invalid", "internal error: invalid IR after pass 'make-invalid': "),
        ],
    )
    def test_one_line_and_a_reproducer(
        self, silu: str, pass_name: str, message: str, tmp_path: Path, capsys: Capture
    ):
        path = tmp_path / "reproducer.mlir"
        pipeline = f"dce,{pass_name},func.func(cse)"
        assert main([silu, "-p", pipeline, f"--crash-reproducer={path}"]) == 3
        captured = capsys.readouterr()
        *notes, error = captured.err.splitlines()
        assert captured.out == ""
        assert re.match(rf"coda-opt: error\[E1901\]: {message}", error)
        assert notes[0].startswith(f"coda-opt: note: pass '{pass_name}' failed: ")
        again = f"to see it again, with its traceback: coda-opt --run-reproducer {path} --debug"
        assert notes[1] == f"coda-opt: note: {again}"
        assert "Traceback" not in captured.err
        text = path.read_text()
        assert f"'--passes=builtin.module({pass_name},func.func(cse))'" in text
        assert '"coda.silu"' in text and "coda.relu" not in text, "the IR before the pass"

        again = tmp_path / "again.mlir"
        assert main(["--run-reproducer", str(path), f"--crash-reproducer={again}"]) == 3
        repeated = capsys.readouterr().err.splitlines()[-1]
        assert repeated == error
        assert again.read_text().splitlines()[:2] == text.splitlines()[:2]
        assert again.read_text().splitlines()[3:] == text.splitlines()[3:]

    def test_temporary_file_by_default(
        self, silu: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
    ):
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
        (tmp_path / "temporary").mkdir()
        assert main([silu, "-p", "fail"]) == 3
        (path,) = (tmp_path / "temporary").iterdir()
        assert str(path) in capsys.readouterr().err

    def test_reproducer_keeps_the_options(self, silu: str, tmp_path: Path):
        path = tmp_path / "r.mlir"
        options = ["--no-verify-each", "--allow-unregistered-dialect"]
        assert main([silu, "-p", "break,fail", *options, f"--crash-reproducer={path}"]) == 3
        line = path.read_text().splitlines()[1]
        assert line == (
            "// configuration: '--passes=builtin.module(fail)' --frontend=mlir "
            "--allow-unregistered-dialect --no-verify-each"
        )

    def test_reproducer_that_cannot_be_written(self, silu: str, capsys: Capture):
        assert main([silu, "-p", "fail", "--crash-reproducer=/nowhere/r.mlir"]) == 3
        assert "KeyError" in capsys.readouterr().err

    def test_a_reproducer_that_succeeds_now(self, silu: str, tmp_path: Path, capsys: Capture):
        path = tmp_path / "r.mlir"
        assert main([silu, "-p", "fail", f"--crash-reproducer={path}"]) == 3
        capsys.readouterr()
        path.write_text(path.read_text().replace("(fail)", "(dce)"))
        assert main(["--run-reproducer", str(path)]) == 0
        assert "coda.relu" not in capsys.readouterr().out

    @pytest.mark.parametrize(
        "text, message",
        [
            (SILU, "not a crash reproducer"),
            ("// configuration: '--passes=cse\n", "configuration: No closing quotation"),
        ],
    )
    def test_no_reproducer(self, text: str, message: str, tmp_path: Path, capsys: Capture):
        path = tmp_path / "none.mlir"
        path.write_text(text)
        assert main(["--run-reproducer", str(path)]) == 1
        assert message in capsys.readouterr().err

    def test_reproducer_needs_a_file(self, capsys: Capture):
        assert main(["--run-reproducer"]) == 2
        assert "--run-reproducer needs a FILE" in capsys.readouterr().err

    def test_debug_raises(self, silu: str, tmp_path: Path):
        with pytest.raises(KeyError):
            main([silu, "-p", "fail", "--debug", f"--crash-reproducer={tmp_path / 'r.mlir'}"])

    def test_no_verification_after_passes(self, silu: str, capsys: Capture):
        assert main([silu, "-p", "break", "--no-verify-each"]) == 0
        assert capsys.readouterr().out.count("@silu") == 2

    def test_interrupt(self, silu: str, capsys: Capture):
        assert main([silu, "-p", "interrupt"]) == 130
        assert capsys.readouterr().err == ""

    def test_recursion(self, silu: str, tmp_path: Path, capsys: Capture):
        """No fault of the input: the readers refuse what is nested too deeply."""
        path = tmp_path / "r.mlir"
        assert main([silu, "-p", "recurse", f"--crash-reproducer={path}"]) == 3
        assert "internal error: RecursionError" in capsys.readouterr().err
        assert "(recurse)" in path.read_text()

    def test_nested_too_deeply(self, tmp_path: Path, capsys: Capture):
        path = tmp_path / "deep.mlir"
        path.write_text("builtin.module {" * 100 + "}" * 100)
        assert main([str(path)]) == 1
        assert "brackets are nested more than 64 levels deep" in capsys.readouterr().err


class TestDefectsOutsideOfPasses:
    """A target that fails: the input and the command line are kept."""

    @pytest.fixture(autouse=True)
    def faulty_target(self, monkeypatch: pytest.MonkeyPatch):
        real = driver.get_all_targets()
        monkeypatch.setattr(driver, "get_all_targets", lambda: real | {"fail": lambda: FailTarget})

    @pytest.mark.parametrize(
        "name, text, comment",
        [("input.mlir", SILU, "//"), ("input.coda", "fn f(x: f32[M, 4]) { return x }\n", "#")],
    )
    def test_input_and_command_line(
        self, name: str, text: str, comment: str, tmp_path: Path, capsys: Capture
    ):
        source, path = tmp_path / name, tmp_path / "kept"
        source.write_text(text)
        options = ["-p", "cse", "-t", "fail", f"--crash-reproducer={path}"]
        assert main([*options, str(source)]) == 3
        error = capsys.readouterr().err
        assert error.splitlines() == [
            "coda-opt: note: KeyError: 'target'",
            "coda-opt: note: to see it again, with its traceback: "
            f"coda-opt --run-reproducer {path} --debug",
            "coda-opt: error[E1901]: internal error: KeyError: 'target'",
        ]
        lines = path.read_text().splitlines()
        arguments = f"-p cse -t fail --crash-reproducer={path} --frontend={source.suffix[1:]}"
        assert lines[1] == f"{comment} configuration: {arguments}"
        assert path.read_text().endswith(text)
        assert main(["--run-reproducer", str(path)]) == 3
        assert capsys.readouterr().err == error

    def test_one_reproducer_where_a_pass_fails(self, silu: str, tmp_path: Path, capsys: Capture):
        path = tmp_path / "r.mlir"
        assert main([silu, "-p", "fail", "-t", "fail", f"--crash-reproducer={path}"]) == 3
        assert capsys.readouterr().err.count("note: to see it again") == 1
        assert "(fail)" in path.read_text()

    def test_reproducer_that_cannot_be_written(self, silu: str, capsys: Capture):
        assert main([silu, "-t", "fail", "--crash-reproducer=/nowhere/r.mlir"]) == 3
        assert (
            capsys.readouterr().err
            == "coda-opt: error[E1901]: internal error: KeyError: 'target'\n"
        )
