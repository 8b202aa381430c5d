"""coda-opt and the entry point of xdsl-opt: exit codes, messages, execution."""

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save

from coda_ir.diagnostics import CodaError
from coda_ir.error_codes import error_kinds
from coda_ir.tools.coda_opt import main

SILU = """
func.func @silu(%x: tensor<?x8xf32> {coda.name = "x", coda.dims = ["M", 8]}) -> tensor<?x8xf32> {
  %y = coda.silu %x : (tensor<?x8xf32>) -> tensor<?x8xf32>
  func.return %y : tensor<?x8xf32>
}
"""

WRONG_CAP = """
func.func @f(%x: tensor<8xf32>) {
  %y = coda.softcap %x {cap = -1.0} : (tensor<8xf32>) -> tensor<8xf32>
  func.return
}
"""

CONST_OF_MLIR = "argument --const: input.mlir is MLIR, which has no constants to override"


@pytest.fixture
def silu(tmp_path: Path) -> str:
    return write(tmp_path, SILU)


def write(directory: Path, text: str, name: str = "input.mlir") -> str:
    path = directory / name
    path.write_text(text)
    return str(path)


def run(*arguments: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of the installed tool."""
    tool = Path(sys.executable).parent / "coda-opt"
    done = subprocess.run([tool, *arguments], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


class TestErrors:
    """A mistake of the user gives a message and an exit code, never a traceback."""

    @pytest.mark.slow
    def test_installed_tool(self, tmp_path: Path):
        code, out, err = run(str(tmp_path / "missing.mlir"))
        assert (code, out) == (1, "")
        assert err.startswith("coda-opt: error[E0801]:") and "missing.mlir: No such file" in err
        assert "Traceback" not in err

    def test_not_utf8(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
        path = tmp_path / "latin1.coda"
        path.write_bytes(b"# na\xefve\n")
        assert main([str(path)]) == 1
        message = capsys.readouterr().err
        assert "latin1.coda:1:5: error[E0801]: not UTF-8: byte 0xef at offset 4" in message
        assert "help: save the file as UTF-8" in message

    def test_mlir_that_is_not_utf8(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
        path = tmp_path / "latin1.mlir"
        path.write_bytes(b"// na\xefve\n")
        assert main([str(path)]) == 1
        assert (
            "latin1.mlir:1:6: error[E0801]: not UTF-8: byte 0xef at offset 5"
            in capsys.readouterr().err
        )

    def test_directory(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
        (tmp_path / "d.mlir").mkdir()
        assert main([str(tmp_path / "d.mlir")]) == 1
        assert "d.mlir: Is a directory" in capsys.readouterr().err

    def test_unreadable_output(self, silu: str, capsys: pytest.CaptureFixture[str]):
        assert main([silu, "-o", "/nowhere/out.mlir"]) == 1
        assert "/nowhere/out.mlir: No such file" in capsys.readouterr().err

    def test_syntax_error(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
        assert main([write(tmp_path, "func.func @f(")]) == 1
        assert "input.mlir:1:14" in capsys.readouterr().err

    def test_coda_where_mlir_is_expected(
        self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ):
        text = b"# Comment.\nfn f(x: f32[M]) {\n    return relu(x)\n}\n"
        for options, code in (([], 1), (["-f", "mlir"], 1), (["-f", "coda"], 0)):
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
            assert main([*options]) == code
            message = capsys.readouterr().err
            assert ("help: pass -f coda" in message) == (not options)
            assert "first_char" not in message

    def test_malformed_name(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
        text = '"test.op"() ({\n^0():\n}) : () -> ()'
        assert main([write(tmp_path, text), "--allow-unregistered-dialect"]) == 1
        assert "Invalid Block name format" in capsys.readouterr().err

    def test_ir_that_does_not_verify(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
        assert main([write(tmp_path, WRONG_CAP)]) == 1
        assert "property cap is -1.0, expected a positive number" in capsys.readouterr().err

    def test_deep_nesting(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
        depth = 100_000
        text = "func.func private @f() attributes {a = " + "[" * depth + "]" * depth + "}"
        assert main([write(tmp_path, text)]) == 1
        assert "nested more than 64 levels deep" in capsys.readouterr().err

    @pytest.mark.parametrize(
        "text, arguments, code, expected",
        [
            (
                WRONG_CAP,
                [],
                1,
                {
                    "message": "property cap is -1.0, expected a positive number",
                    "location": {"line": 3, "column": 8, "end_column": 20},
                },
            ),
            (
                SILU,
                ["-p", "cse,code-to-gemm"],
                2,
                {
                    "message": "unknown pass 'code-to-gemm'",
                    "remedy": "did you mean 'coda-to-gemm'?",
                    "location": {"line": 1, "column": 5, "end_column": 17},
                },
            ),
            (SILU, ["--const", "D=3"], 2, {"message": CONST_OF_MLIR}),
            (
                SILU,
                ["-o", "/nowhere/x"],
                1,
                {
                    "message": "/nowhere/x: No such file or directory",
                    "remedy": "there is no folder /nowhere",
                },
            ),
        ],
    )
    @pytest.mark.parametrize("option", [["--diagnostics=json"], ["--diagnostics", "json"]])
    def test_errors_as_json(
        self,
        text: str,
        arguments: list[str],
        code: int,
        expected: dict[str, Any],
        option: list[str],
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ):
        monkeypatch.chdir(tmp_path)
        assert main([Path(write(tmp_path, text)).name, *arguments, *option]) == code
        (line,) = capsys.readouterr().err.splitlines()
        found = json.loads(line)
        found.get("location", {}).pop("file", None)
        assert found.pop("code") in error_kinds()
        assert found == {"severity": "error", **expected}

    def test_failed_checks_as_json(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
        text = "// expected-error {{nothing}}\n" + SILU
        assert main([write(tmp_path, text), "--verify-diagnostics", "--diagnostics=json"]) == 1
        (found,) = map(json.loads, capsys.readouterr().err.splitlines())
        assert found["location"]["line"] == 1 and "nothing" in found["message"]

    def test_debug_shows_the_exception(self, tmp_path: Path):
        with pytest.raises(FileNotFoundError):
            main([str(tmp_path / "missing.mlir"), "--debug"])


class TestUsage:
    """A wrong command line exits with 2."""

    @pytest.mark.parametrize(
        "arguments, message",
        [
            (["-p", "code-to-gemm"], "did you mean 'coda-to-gemm'?"),
            (["-p", "cse{x=1}"], "pipeline:1:5: error[E0702]: pass 'cse' has no option 'x'"),
            (["-p", "cse{{"], "pipeline:1:5: error[E0702]: expected an option, found '{'"),
            (["-t", "ptx"], "invalid choice: 'ptx'"),
            (["--const", "D=3"], "input.mlir is MLIR, which has no constants to override"),
        ],
    )
    def test_names(
        self, silu: str, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
    ):
        assert main([silu, *arguments]) == 2
        assert message in capsys.readouterr().err

    @pytest.mark.parametrize(
        "arguments, message",
        [
            (["--const", "D"], "'D' is not of the form NAME=VALUE"),
            (["--const", "D=many"], "'D=many'"),
            (["--dim", "M=1.5"], "'M=1.5'"),
            (["--dim", "M=-1"], "expected 0 or more"),
            (["--remarks=some"], "invalid choice: 'some'"),
            (["-p", "cse", "-p", "dce"], "--pass-pipeline: there are passes already: 'cse'"),
            (["--check-equivalence", "--counterexample=x.txt"], "a name that ends in .safetensors"),
        ],
    )
    def test_options(
        self, silu: str, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
    ):
        with pytest.raises(SystemExit) as stop:
            main([silu, *arguments])
        assert stop.value.code == 2
        assert message in capsys.readouterr().err

    def test_unknown_kind_of_file(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
        assert main([write(tmp_path, SILU, "input.txt")]) == 2
        message = capsys.readouterr().err
        assert "unknown file type" in message and "-f coda or -f mlir" in message


class TestRun:
    def test_reports_shape_type_and_error(self, silu: str, capsys: pytest.CaptureFixture[str]):
        assert main([silu, "--run", "--dim", "M=3"]) == 0
        line = capsys.readouterr().out
        assert line.startswith("result0: float32[3, 8] norm ")
        assert float(line.rpartition("error ")[2]) < 1e-6

    def test_seed_decides_the_inputs(self, silu: str, capsys: pytest.CaptureFixture[str]):
        outputs: list[str] = []
        for seed in ("0", "0", "1"):
            assert main([silu, "--run", "--seed", seed]) == 0
            outputs.append(capsys.readouterr().out)
        assert outputs[0] == outputs[1] != outputs[2]

    def test_no_rows(self, silu: str, capsys: pytest.CaptureFixture[str]):
        assert main([silu, "--run", "--dim", "M=0"]) == 0
        assert "float32[0, 8] norm 0 first [] error 0" in capsys.readouterr().out

    def test_inputs_from_a_file(
        self, silu: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ):
        path = str(tmp_path / "inputs.safetensors")
        Path(path).write_bytes(save({"x": torch.zeros(2, 8)}))
        assert main([silu, "--run", "--inputs", path]) == 0
        assert "float32[2, 8] norm 0 first [0, 0, 0, 0, ...]" in capsys.readouterr().out

    def test_inputs_of_the_wrong_shape(
        self, silu: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ):
        path = str(tmp_path / "inputs.safetensors")
        Path(path).write_bytes(save({"x": torch.zeros(2, 7)}))
        assert main([silu, "--run", "--inputs", path]) == 1
        assert "argument x has shape [2, 7]: dimension 1 is 7, expected 8" in (
            capsys.readouterr().err
        )

    @pytest.mark.parametrize("suffix", [".safetensors", ".pt"])
    def test_damaged_inputs(
        self, silu: str, suffix: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ):
        path = tmp_path / f"inputs{suffix}"
        path.write_bytes(b"not a tensor")
        assert main([silu, "--run", "--inputs", str(path)]) == 1
        message = capsys.readouterr().err
        assert f"inputs{suffix}: " in message and "pass a .safetensors file" in message

    @pytest.mark.parametrize(
        "arguments, message",
        [
            (["--dim", "N=3"], "silu has no dimension 'N'"),
            (
                ["--dim", f"M={10**14}"],
                "arguments of silu with M = 100000000000000 exceeds the memory",
            ),
            (["--entry", "gelu"], "no function 'gelu'"),
            (["--device", "tpu"], "unknown device 'tpu'"),
            (["--device", "cuda:99"], "device 'cuda:99' does not exist"),
        ],
    )
    def test_mistakes(
        self, silu: str, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
    ):
        assert main([silu, "--run", *arguments]) == 1
        assert message in capsys.readouterr().err

    def test_unknown_symbol_of_a_check(self, silu: str, capsys: pytest.CaptureFixture[str]):
        assert main([silu, "-p", "cse", "--check-equivalence", "--dim", "N=3"]) == 1
        message = "no function has a dimension 'N'\n  help: the symbols are M"
        assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("callee", "message"),
    [
        ("aten.add.default", "2:8: error[E0602]: torch.call: aten.add.default returns no tensor"),
        ("aten.add_.Tensor", "2:8: error[E0602]: torch.call: aten.add_.Tensor changes its operand"),
        ("aten.matmul.default", "2:8: error[E0902]: aten.matmul.default fails: mat1 and mat2"),
    ],
)
def test_a_wrong_call_of_pytorch_is_located(
    tmp_path: Path, callee: str, message: str, capsys: pytest.CaptureFixture[str]
):
    type = "tensor<3x4xf32>"
    call = f'torch.call "{callee}"(%x, %x) {{arguments = "{{0}}, {{1}}"}}'
    text = f"""func.func @f(%x: {type}) -> {type} {{
  %y = {call} : ({type}, {type}) -> {type}
  func.return %y : {type}
}}"""
    assert main([write(tmp_path, text), "--run"]) == 1
    assert message in capsys.readouterr().err


def test_a_row_outside_of_a_tensor_is_located(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    text = """func.func @f(%x: tensor<4x8xf32>, %i: tensor<3xi64>) -> tensor<3x8xf32> {
  %c = coda.constant {value = 10 : i64} : tensor<i64>
  %j = coda.add %i, %c : (tensor<3xi64>, tensor<i64>) -> tensor<3xi64>
  %y = coda.index %x, %j {dim = 0 : i64} : (tensor<4x8xf32>, tensor<3xi64>) -> tensor<3x8xf32>
  func.return %y : tensor<3x8xf32>
}"""
    assert main([write(tmp_path, text), "--run"]) == 1
    assert "4:8: error[E0902]: aten.index.Tensor fails: index 1" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["", "// Nothing.\n"])
def test_empty_input(tmp_path: Path, text: str, capsys: pytest.CaptureFixture[str]):
    assert main([write(tmp_path, text), "-p", "coda-to-gemm,schedule"]) == 0
    assert capsys.readouterr().out.split() == ["builtin.module", "{", "}"]


def test_output_file(silu: str, tmp_path: Path):
    output = tmp_path / "out.mlir"
    assert main([silu, "-o", str(output)]) == 0
    assert "coda.silu" in output.read_text()


@pytest.mark.parametrize("options", [["-p", "coda-to-gemm"], ["-t", "triton"], ["--run"]])
def test_a_failed_run_leaves_the_output_file_as_it_was(
    silu: str, tmp_path: Path, options: list[str], monkeypatch: pytest.MonkeyPatch
):
    def fail(self: object, *_: object) -> None:
        raise CodaError("no")

    monkeypatch.setattr("coda_ir.pipeline.PassManager.run", fail)
    output = tmp_path / "out.txt"
    assert main([silu, *options, "-o", str(output)]) == 1
    assert not output.exists()
    output.write_text("kept")
    assert main([silu, *options, "-o", str(output)]) == 1
    assert output.read_text() == "kept"


def test_an_output_file_that_cannot_be_written_is_found_before_the_work(
    silu: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr("coda_ir.pipeline.PassManager.run", pytest.fail)
    (tmp_path / "file").write_text("")
    missing = "No such file or directory\n  help: there is no folder"
    for path, reason in (
        (tmp_path, "Is a directory\n  help: name a file"),
        (tmp_path / "no" / "out", f"{missing} {tmp_path}/no"),
        (
            tmp_path / "file" / "out",
            f"{missing} {tmp_path}/file",
        ),
    ):
        assert main([silu, "-o", str(path)]) == 1
        assert capsys.readouterr().err == f"coda-opt: error[E0801]: {path}: {reason}\n"
    assert (tmp_path / "file").read_text() == ""


def test_version(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as stop:
        main(["--version"])
    assert stop.value.code == 0
    assert capsys.readouterr().out.startswith("coda-opt 0.")


@pytest.mark.slow
def test_printing_and_emitting_import_neither_torch_nor_triton(silu: str):
    script = (
        "import sys; from coda_ir.tools.coda_opt import main; main(sys.argv[1:]); "
        "main([*sys.argv[1:], '--emit=triton']); "
        "sys.exit(sum(name in sys.modules for name in ('torch', 'triton', 'numpy', 'rich')))"
    )
    done = subprocess.run([sys.executable, "-c", script, silu], capture_output=True, check=False)
    assert done.returncode == 0
    assert b"@triton.jit" in done.stdout


@pytest.mark.slow
def test_xdsl_opt_sees_dialects_and_passes(silu: str):
    tool = Path(sys.executable).parent / "xdsl-opt"
    done = subprocess.run(
        [tool, silu, "-p", "plan-buffers"], capture_output=True, text=True, check=False
    )
    assert "coda.silu" in done.stdout, done.stderr


@pytest.mark.slow
def test_reader_that_has_seen_enough(silu: str):
    """`coda-opt ... | true` is no error, and says nothing."""
    tool = Path(sys.executable).parent / "coda-opt"
    process = subprocess.Popen(
        [tool, silu], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None and process.stderr is not None
    process.stdout.close()
    assert process.stderr.read() == ""
    process.stderr.close()
    assert process.wait() == 0


def test_disabled_verification(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert main([write(tmp_path, WRONG_CAP), "--disable-verify"]) == 0
    assert "cap = -1.0" in capsys.readouterr().out


def test_target_with_options(silu: str, capsys: pytest.CaptureFixture[str]):
    assert main([silu, "-t", "mlir{print-generic-format=true}"]) == 0
    assert '"coda.silu"(' in capsys.readouterr().out
    assert main([silu, "-t", "mlir{colour=true}"]) == 2
    assert "argument -t/--target" in capsys.readouterr().err
    assert main([silu, "-t", "mlir{{"]) == 2
