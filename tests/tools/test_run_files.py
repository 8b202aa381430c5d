"""`coda-opt --run` with files: inputs by name, saved results, and files that are wrong."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

from coda_ir.diagnostics import CodaError
from coda_ir.tensor_files import read_tensors, write_tensors
from coda_ir.tools import run_module
from coda_ir.tools.coda_opt import main

PROGRAM = """
func.func @f(%x: tensor<?x8xbf16> {coda.name = "x", coda.dims = ["M", 8]},
             %i: tensor<?xi64> {coda.name = "i", coda.dims = ["M"]})
    -> (tensor<?x8xbf16> {coda.name = "y", coda.dims = ["M", 8]},
        tensor<?x8xbf16> {coda.name = "y", coda.dims = ["M", 8]}, tensor<?xi64>) {
  %y = coda.silu %x : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
  func.return %y, %y, %i : tensor<?x8xbf16>, tensor<?x8xbf16>, tensor<?xi64>
}
"""

X = torch.arange(16).reshape(2, 8).bfloat16() / 4
INDICES = torch.tensor([3, 5])

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def program(tmp_path: Path) -> str:
    path = tmp_path / "program.mlir"
    path.write_text(PROGRAM)
    return str(path)


def stored(path: Path, tensors: Mapping[str, torch.Tensor]) -> str:
    write_tensors(path, tensors)
    return str(path)


class TestFiles:
    def test_round_trip(self, tmp_path: Path):
        tensors = {
            "x": X,
            "i": INDICES,
            "empty": torch.zeros(0, 3),
            "scalar": torch.tensor(2.0),
            "v": X.T,
        }
        read = read_tensors(Path(stored(tmp_path / "t.safetensors", tensors)))
        assert read.keys() == tensors.keys()
        assert all(torch.equal(read[name], t) for name, t in tensors.items())

    def test_inputs_and_outputs(self, program: str, tmp_path: Path, capsys: Capture):
        inputs = stored(tmp_path / "in.safetensors", {"x": X, "i": INDICES, "unused": INDICES})
        output = tmp_path / "out.safetensors"
        assert main([program, "--run", "--inputs", inputs, "--save-outputs", str(output)]) == 0
        assert capsys.readouterr().out.startswith("y: bfloat16[2, 8] norm ")
        results = read_tensors(output)
        assert results.keys() == {"y", "y_1", "result2"}
        expected = torch.nn.functional.silu(X.float()).bfloat16()
        assert torch.equal(results["y"], expected)
        assert torch.equal(results["result2"], INDICES)

    @pytest.mark.parametrize(
        "tensors, message",
        [
            ({"x": X}, "lacks i: int64[M]\n  help: the file has x; f takes x, i"),
            ({}, "lacks x: bfloat16[M, 8], i: int64[M]\n  help: the file has no tensors"),
            ({"x": X, "i": INDICES.int()}, "argument i has element type int32, expected int64"),
            ({"x": X, "i": INDICES.float()}, "argument i has element type float32, expected int64"),
            (
                {"x": X[:, :7], "i": INDICES},
                "argument x has shape [2, 7]: dimension 1 is 7, expected 8",
            ),
            ({"x": X, "i": INDICES[:1]}, "M"),
        ],
    )
    def test_tensors_that_do_not_fit(
        self,
        tensors: dict[str, torch.Tensor],
        message: str,
        program: str,
        tmp_path: Path,
        capsys: Capture,
    ):
        inputs = stored(tmp_path / "in.safetensors", tensors)
        assert main([program, "--run", "--inputs", inputs]) == 1
        text = capsys.readouterr().err
        assert "in.safetensors: " in text and message in text

    def test_truncated_file(self, tmp_path: Path):
        path = tmp_path / "t.safetensors"
        write_tensors(path, {"x": torch.zeros(1000)})
        whole = path.read_bytes()
        for size in (0, 1, 7, 8, 40, len(whole) // 2, len(whole) - 1):
            path.write_bytes(whole[:size])
            with pytest.raises(CodaError, match=r"t\.safetensors: "):
                read_tensors(path)

    def test_a_folder_and_a_missing_file(self, program: str, tmp_path: Path, capsys: Capture):
        folder = tmp_path / "folder.safetensors"
        folder.mkdir()
        assert main([program, "--run", "--inputs", str(folder)]) == 1
        assert "folder.safetensors: Is a directory" in capsys.readouterr().err
        assert main([program, "--run", "--inputs", str(folder / "in.safetensors")]) == 1
        assert "in.safetensors: No such file" in capsys.readouterr().err
        output = str(folder / "none" / "out.safetensors")
        assert main([program, "--run", "--save-outputs", output]) == 1
        assert "out.safetensors: No such file" in capsys.readouterr().err


class TestWrongResults:
    """A result that is NaN, or further from float64 than its types allow."""

    PASSES = ("-p", "coda-to-gemm,schedule,plan-buffers")
    SCALED = """
        fn f(x: f16[M, 32], weight w: f16[24, 32]) -> f16[M, 24] {
            return linear(x, w) * FACTOR
        }"""

    @pytest.fixture
    def scaled(self, tmp_path: Path) -> str:
        path = tmp_path / "scaled.coda"
        path.write_text(self.SCALED.replace("FACTOR", "2.0"))
        return str(path)

    @pytest.mark.parametrize("fault", ["nan", "one wrong element"])
    def test_of_a_backend(
        self,
        fault: str,
        scaled: str,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        capsys: Capture,
    ):
        run_well = run_module.run_triton

        def run_wrong(*arguments: Any) -> tuple[torch.Tensor, ...]:
            (result,) = run_well(*arguments)
            result[3, 5] = float("nan") if fault == "nan" else result[3, 5] + 1
            return (result,)

        output = tmp_path / "out.safetensors"
        command = [scaled, *self.PASSES, "--run", "--run-target=triton", f"--save-outputs={output}"]
        assert main(command) == 0
        assert capsys.readouterr().err == "" and output.exists()
        output.unlink()
        monkeypatch.setattr(run_module, "run_triton", run_wrong)
        assert main(command) == 3
        shown = capsys.readouterr()
        assert shown.out.startswith("result0: float16[16, 24]")
        assert (
            "coda-opt: error[E1901]: result0 of f " in shown.err
            and "--check-equivalence" in shown.err
        )
        expected = "is NaN or infinite" if fault == "nan" else "has a relative error of"
        assert expected in shown.err and not output.exists()

    @pytest.mark.parametrize("target", ["reference", "triton"])
    def test_of_types_that_are_too_narrow(self, target: str, tmp_path: Path, capsys: Capture):
        """float16 ends at 65504: the sum is infinite less infinite, and 0 in float64."""
        path = tmp_path / "narrow.mlir"
        path.write_text("""
            func.func @f(%x: tensor<8xf16>) -> tensor<8xf16> {
              %c = coda.constant {value = 6.0e4 : f64} : tensor<f16>
              %a = coda.exp %x : (tensor<8xf16>) -> tensor<8xf16>
              %b = coda.add %a, %c : (tensor<8xf16>, tensor<f16>) -> tensor<8xf16>
              %d = coda.add %b, %c : (tensor<8xf16>, tensor<f16>) -> tensor<8xf16>
              %e = coda.sub %d, %d : (tensor<8xf16>, tensor<8xf16>) -> tensor<8xf16>
              func.return %e : tensor<8xf16>
            }""")
        assert main([str(path), "--run", f"--run-target={target}"]) == 1
        message = capsys.readouterr().err
        assert "result0 of f is nan at [0] where float64 has a number" in message
        assert "use wider types" in message

    def test_what_is_no_number_in_float64_either(self, tmp_path: Path, capsys: Capture):
        path = tmp_path / "log.coda"
        path.write_text("fn f(x: f32[M]) -> f32[M] {\n    return log(x)\n}\n")
        assert main([str(path), "--run"]) == 0
        shown = capsys.readouterr()
        assert "nan" in shown.out and "error nan" not in shown.out and shown.err == ""


class TestMistakes:
    def test_output_of_an_unknown_kind(self, program: str, tmp_path: Path, capsys: Capture):
        assert main([program, "--run", "--save-outputs", str(tmp_path / "out.pt")]) == 1
        message = capsys.readouterr().err
        assert "out.pt: unknown file type '.pt'" in message and "norm" not in message

    @pytest.mark.parametrize(
        ("option", "needed"),
        [
            ("--inputs=x.safetensors", "--run"),
            ("--save-outputs=x.safetensors", "--run"),
            ("--run-target=triton", "--run"),
            ("--seed=0", "--run"),
            ("--device=cpu", "--run"),
            ("--entry=f", "--run or --emit"),
            ("--dim=M=2", "--run, --check-equivalence or --emit"),
            ("--counterexample=x.safetensors", "--check-equivalence"),
        ],
    )
    def test_options_without_a_run(self, option: str, needed: str, program: str, capsys: Capture):
        assert main([program, option]) == 2
        name = option.partition("=")[0]
        assert f"argument {name}: needs {needed}\n" in capsys.readouterr().err

    @pytest.mark.parametrize(
        ("option", "message"),
        [
            ("--cosnt=D=4", "unrecognized arguments: --cosnt=D=4: did you mean --const?"),
            ("--qwertz", "unrecognized arguments: --qwertz\n"),
            ("--cse", "unrecognized arguments: --cse: passes run by -p cse\n"),
            ("-cse", "unrecognized arguments: -cse: passes run by -p cse\n"),
            ("--canonicalize", ": passes run by -p canonicalize\n"),
            ("--fuse-pointwise", ": passes run by -p fuse-pointwise\n"),
            ("--time", ": did you mean --timing?\n"),
            ("--numerics=eager-exact", ": -p coda-to-gemm{numerics=eager-exact}\n"),
            ("--tile=128", ": -p coda-to-gemm,schedule{tile=128x128x64}\n"),
            ("--const=D=x", "'D=x': expected a number, such as 4096"),
            ("--dim=M=x", "'M=x': expected a number of elements, such as 128"),
        ],
    )
    def test_misspelled_options(self, option: str, message: str, program: str, capsys: Capture):
        with pytest.raises(SystemExit, match="2"):
            main([program, option])
        assert message in capsys.readouterr().err

    @pytest.mark.parametrize(
        "pipeline",
        [
            "cse",
            "canonicalize",
            "fuse-pointwise",
            "coda-to-gemm{numerics=eager-exact}",
            "coda-to-gemm,schedule{tile=128x128x64}",
        ],
    )
    def test_what_those_messages_say(self, pipeline: str, program: str):
        assert main([program, "-p", pipeline, "-o", "/dev/null"]) == 0

    def test_sizes_that_the_inputs_do_not_have(self, program: str, tmp_path: Path, capsys: Capture):
        inputs = stored(tmp_path / "in.safetensors", {"x": X, "i": INDICES})
        assert main([program, "--run", "--inputs", inputs, "--dim", "M=2"]) == 0
        assert main([program, "--run", "--inputs", inputs, "--dim", "M=3"]) == 1
        assert "in.safetensors: M is 2, not 3\n  help: leave out --dim" in capsys.readouterr().err
        assert main([program, "--run", "--inputs", inputs, "--dim", "N=3"]) == 1
        assert "in.safetensors: N is unknown, not 3" in capsys.readouterr().err
