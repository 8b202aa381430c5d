"""`coda-opt --emit`: every level, machine code without a GPU, pictures, and its mistakes."""

import json
import shutil
from pathlib import Path

import pytest
from support.examples import EXAMPLES

from coda_ir.backends.triton.aot.compiler import MACHINE_LEVELS
from coda_ir.backends.triton.architectures import ARCHITECTURES
from coda_ir.tools.coda_opt import main
from coda_ir.tools.opt import arguments, emit

EXAMPLE = str(EXAMPLES / "linear_bias_gelu.coda")
LLAMA = str(EXAMPLES / "llama_layer.coda")

Capture = pytest.CaptureFixture[str]


def emitted(capsys: Capture, *arguments: str, code: int = 0) -> str:
    """The output of the tool, which is stderr where it fails."""
    assert main([EXAMPLE, *arguments]) == code
    captured = capsys.readouterr()
    return captured.err if code else captured.out


def test_the_names_are_those_of_the_backends():
    assert emit.MACHINE == MACHINE_LEVELS
    assert tuple(ARCHITECTURES) == arguments.ARCHITECTURES


class TestLevels:
    def test_levels_of_ir(self, capsys: Capture, tmp_path: Path):
        block, gemm, scheduled = (emitted(capsys, "--emit", level) for level in emit.IR)
        assert "coda.gelu" in block and "gemm.fused" not in block
        assert "gemm.fused" in gemm and "schedule<" not in gemm
        assert "schedule<pointer" in scheduled and "coda.buffers" in scheduled
        # A later level starts from whatever the input is at.
        path = tmp_path / "gemm.mlir"
        path.write_text(gemm)
        assert main([str(path), "--emit=scheduled"]) == 0
        assert capsys.readouterr().out == scheduled

    def test_architecture_decides_the_schedule(self, capsys: Capture):
        text = emitted(capsys, "--emit=scheduled", "--arch=sm_90")
        assert "schedule<ping_pong" in text
        assert "TensorDescriptor" in emitted(capsys, "--emit=triton", "--arch=sm_90")

    def test_passes_run_first(self, capsys: Capture):
        passes = "coda-to-gemm,schedule{tile=64x64x32 warps=4}"
        assert '"64x64x32", warps = 4' in emitted(capsys, "-p", passes, "--emit=scheduled")
        message = emitted(capsys, "-p", passes, "--emit=block", code=1)
        assert "no longer on the block level" in message


class TestMachineCode:
    def test_sections(self, capsys: Capture):
        text = emitted(capsys, "--emit=sass", "--arch=sm_80")
        first, second, *rest = text.splitlines()
        assert first == "// kernel: gemm_bias_gelu"
        assert second.startswith("// sm_80: ") and "0 bytes spilled" in second
        assert any("HMMA" in line for line in rest)

    def test_resources(self, capsys: Capture):
        text = emitted(capsys, "--emit=resources", "--arch=gfx942", "--kernel=gemm_bias_gelu")
        assert text.startswith("gfx942 (MI300): a program may have 64 KiB of shared memory")
        (data,) = json.loads(emitted(capsys, "--emit=resources-json", "--arch=gfx942"))
        assert data["kernel"] == "gemm_bias_gelu" and data["fits"] and not data["spills"]
        assert f" {data['registers']} " in text

    def test_ttir_of_kernels_in_gluon(self, capsys: Capture, tmp_path: Path):
        output = tmp_path / "out.txt"
        command = [LLAMA, "--emit=ttir", "--arch=sm_90", "-o", str(output)]
        assert main(command) == 1
        message = capsys.readouterr().err
        assert "kernel gemm_residual_scale_ssq has no ttir: it is warp-specialized" in message
        assert "use ttgir" in message and "--kernel finalize_sum_rsqrt has ttir" in message
        assert not output.exists()
        assert main([*command, "--kernel=finalize_sum_rsqrt"]) == 0
        assert "tt.func public @finalize_sum_rsqrt" in output.read_text()

    def test_a_kernel_that_is_too_large(self, capsys: Capture):
        passes = "coda-to-gemm,schedule{tile=128x128x128 stages=3}"
        assert main([EXAMPLE, "-p", passes, "--emit=resources", "--arch=gfx942"]) == 1
        captured = capsys.readouterr()
        assert "does not fit" in captured.out
        assert "gfx942, which has 65536 bytes for a program: gemm_bias_gelu needs" in captured.err


class TestPictures:
    def test_dot(self, capsys: Capture):
        text = emitted(capsys, "--emit=dot")
        assert text.startswith("digraph ") and "gemm_bias_gelu" in text

    @pytest.mark.skipif(shutil.which("dot") is None, reason="needs graphviz")
    def test_svg(self, capsys: Capture, tmp_path: Path):
        assert "</svg>" in emitted(capsys, "-p", "coda-to-gemm", "--emit=svg")
        output = tmp_path / "layer.svg"
        assert main([EXAMPLE, "--emit", "svg", "-o", str(output)]) == 0
        assert "</svg>" in output.read_text()

    def test_svg_without_dot(
        self, capsys: Capture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ):
        monkeypatch.setenv("PATH", str(tmp_path))
        assert "install graphviz" in emitted(capsys, "--emit=svg", code=1)


class TestMistakes:
    @pytest.mark.parametrize(
        "arguments, message",
        [
            (["--emit=ptx"], "ptx needs an architecture\n  help: add --arch sm_90"),
            (["--emit=ptx", "--arch=gfx942"], "gfx942 has no ptx\n  help: use amdgcn"),
            (["--emit=amdgcn", "--arch=sm_90"], "sm_90 has no amdgcn\n  help: use ptx or sass"),
            (["--emit=gemm", "--arch=sm_90"], "gemm is the same for every architecture"),
            (["--emit=triton", "--kernel=k"], "triton contains the whole program"),
            (["--emit=gemm", "-t", "triton"], "not allowed with -t/--target"),
            (["--emit=gemm", "-t", "mlir"], "not allowed with -t/--target"),
            (["--emit=gemm", "--run"], "not allowed with --run"),
            (["--arch=sm_90"], "argument --arch: needs --emit"),
            (["--kernel=k"], "argument --kernel: needs --emit"),
        ],
    )
    def test_command_line(self, arguments: list[str], message: str, capsys: Capture):
        assert message in emitted(capsys, *arguments, code=2)

    @pytest.mark.parametrize(
        "arguments, message",
        [
            (["--emit=resorces"], "unknown level 'resorces': did you mean 'resources'?"),
            (["--emit=ptx", "--arch=h100"], "unknown architecture 'h100': use one of sm_80, "),
        ],
    )
    def test_unknown_names(self, arguments: list[str], message: str, capsys: Capture):
        with pytest.raises(SystemExit) as stop:
            main([EXAMPLE, *arguments])
        assert stop.value.code == 2
        assert message in capsys.readouterr().err

    @pytest.mark.parametrize("level", ["block", "triton"])
    def test_unknown_function(self, level: str, capsys: Capture):
        assert "no function 'f'" in emitted(capsys, f"--emit={level}", "--entry=f", code=1)

    def test_unknown_kernel(self, capsys: Capture):
        message = emitted(capsys, "--emit=ptx", "--arch=sm_80", "--kernel=gemm_gelu", code=1)
        assert "unknown kernel 'gemm_gelu'\n  help: did you mean 'gemm_bias_gelu'?" in message
