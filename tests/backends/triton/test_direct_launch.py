"""Launches without Triton's Python: their text, and that they pass what Triton's pass."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from support import fake_cuda
from support.emitted import load_module
from support.examples import EXAMPLES
from support.inputs import random_inputs

import coda_ir
from coda_ir.backends.triton import emit_module
from coda_ir.backends.triton.host.launches import DirectLaunch, LaunchFunctions
from coda_ir.backends.triton.names import NameAllocator
from coda_ir.cache.artifact import Artifact
from coda_ir.diagnostics import CodaError
from coda_ir.functions import find_entry
from coda_ir.launching import direct_launch
from coda_ir.launching.direct_launch import direct_launch_is_on, missed_direct_launch
from coda_ir.lowering import Lowering
from coda_ir.options import CompileOptions
from coda_ir.remarks import Remark

ROOT = Path(__file__).parents[3]
CASES = [
    str(Path(__file__).with_name(f"{name}_cases.py")) for name in ("direct_launch", "kernels_ahead")
]
LAYER = EXAMPLES / "llama_layer.coda"
SIZES = {"D": 64, "F": 96, "HEAD": 32}


@pytest.mark.slow
@pytest.mark.skipif(not fake_cuda.is_possible(), reason="Triton's launchers need a C compiler")
def test_what_is_passed_to_the_driver(tmp_path: Path):
    """The cases run in a process in which Triton is not in its interpreter."""
    environment = dict(os.environ)
    environment.pop("TRITON_INTERPRET", None)
    environment |= {
        "TRITON_CACHE_DIR": str(tmp_path / "triton"),
        "CODA_CACHE_DIR": str(tmp_path / "coda"),
        "PYTHONPATH": os.pathsep.join(str(ROOT / folder) for folder in ("tests", "benchmarks")),
    }
    command = [sys.executable, "-m", "pytest", "--noconftest", "-q", "-x"]
    command += ["-p", "support.fake_driver", *CASES]
    done = subprocess.run(
        command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=500
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout and "skipped" not in done.stdout


def missed(artifact: Artifact) -> list[Remark]:
    return [remark for remark in artifact.remarks if remark.pass_name == "direct-launch"]


class TestInTheInterpreter:
    """Both texts do the same if Triton has to launch."""

    def test_results_are_the_same(self):
        module = self.lowering.module("scheduled")
        plain, direct = (
            load_module(emit_module(module, direct_launch=chosen)) for chosen in (False, True)
        )
        inputs = self.inputs(seed=1)
        expected = plain.run(*inputs)
        for _ in range(2):
            for a, b in zip(expected, direct.run(*inputs), strict=True):
                assert torch.equal(a, b) and a.stride() == b.stride()
        assert direct.direct_stream(torch.device("cpu")) is None

    def test_strided_arguments(self):
        module = load_module(emit_module(self.lowering.module("scheduled"), direct_launch=True))
        inputs = self.inputs(seed=2)
        strided = [torch.stack([x, x], -1)[..., 0] for x in inputs]
        assert not any(x.is_contiguous() for x in strided)
        assert all(map(torch.equal, module.run(*strided), module.run(*inputs)))

    lowering = Lowering(coda_ir.parse(LAYER, constants=SIZES))

    def inputs(self, seed: int) -> list[torch.Tensor]:
        function = find_entry(self.lowering.module("block"))
        return random_inputs(function, {"B": 2, "T": 5}, seed=seed)


def test_views_of_a_copy_do_not_copy_again():
    """A reshape of transposed columns is one; what is cut from it begins there."""
    text = """fn f(x: f32[4, 8, 16]) {
        t = reshape(transpose(x), [4, 128])
        return silu(t[:, 0:64]), relu(t[:, 64:])
    }"""
    module = Lowering(coda_ir.parse(text)).module("scheduled")
    source = emit_module(module, direct_launch=True)
    assert source.count("out_ptr + at") == 1 and ".permute(" not in source
    x = torch.randn(4, 8, 16)
    y, z = load_module(source).run(x)
    t = x.transpose(1, 2).reshape(4, 128)
    torch.testing.assert_close(y, torch.nn.functional.silu(t[:, :64]))
    torch.testing.assert_close(z, torch.relu(t[:, 64:]))


def test_pytorch_reads_what_kernels_have_stored_before():
    """The number of targets divides the gradient of their mean, which a kernel computes first."""
    text = """
        func.func @f(%x: tensor<4x8xf32>, %ids: tensor<4xi64>, %d: tensor<f32>) -> tensor<4x8xf32> {
          %s = coda.add %d, %d : (tensor<f32>, tensor<f32>) -> tensor<f32>
          %y = coda.cross_entropy_grad %x, %ids, %s {ignore_index = -100 : i64, reduction = "mean"}
            : (tensor<4x8xf32>, tensor<4xi64>, tensor<f32>) -> tensor<4x8xf32>
          func.return %y : tensor<4x8xf32>
        }"""
    module = Lowering(coda_ir.parse(text)).module("scheduled")
    x, ids, d = torch.randn(4, 8), torch.tensor([3, 0, -100, 7]), torch.tensor(3.0)
    right = torch.nn.functional.one_hot(ids.clamp(min=0), 8)
    expected = (x.softmax(-1) - right) * (2 * d / 3) * (ids >= 0)[:, None]
    for is_direct in (False, True):
        run = load_module(emit_module(module, direct_launch=is_direct)).run
        torch.testing.assert_close(run(x, ids, d), expected)


def test_launches_of_other_types_are_told_apart():
    """Kernels with the same text are one, which Triton compiles for each element type."""
    functions = LaunchFunctions(NameAllocator())
    bodies = ("return kernel[(rows,)](x)",)
    names = [
        functions.name_of(DirectLaunch("add", bodies, {"rows": "n"}, {"x": "y"}, (0,), (type,)))
        for type in ("*bf16", "*fp32", "*bf16")
    ]
    assert names == ["launch_add", "launch_add_1", "launch_add"] and len(functions.sources) == 2


class TestSetting:
    @pytest.mark.parametrize(
        ("architecture", "expected"), [("sm_80", True), ("sm_90", True), ("gfx942", False)]
    )
    def test_the_default(self, monkeypatch: pytest.MonkeyPatch, architecture: str, expected: bool):
        monkeypatch.delenv("CODA_DIRECT_LAUNCH", raising=False)
        assert direct_launch_is_on(architecture) is expected
        lowering = Lowering(
            coda_ir.parse(LAYER, constants=SIZES),
            CompileOptions("target=interpreter", architecture=architecture),
        )
        artifact = lowering.artifact()
        assert ("DirectLaunch" in artifact.source) is expected
        assert not missed(artifact)

    def test_off_on_the_cpu(self, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.delenv("CODA_DIRECT_LAUNCH", raising=False)
        assert "DirectLaunch" not in self.source()

    @pytest.mark.slow
    @pytest.mark.parametrize("version", ["3.5.1", "3.10.0", "4.0"])
    def test_a_triton_that_is_not_known(self, monkeypatch: pytest.MonkeyPatch, version: str):
        """Programs are simple there, and say what it costs, unless that was asked for."""
        versions = {"triton": version}
        monkeypatch.setattr(direct_launch, "package_version", versions.__getitem__)
        monkeypatch.delenv("CODA_DIRECT_LAUNCH", raising=False)
        lowering = Lowering(
            coda_ir.parse(LAYER, constants=SIZES),
            CompileOptions("target=interpreter", architecture="sm_90"),
        )
        artifact = lowering.artifact()
        assert "DirectLaunch" not in artifact.source
        (remark,) = missed(artifact)
        assert (
            f"Triton {version}" in remark.message and remark.suggestion == "use Triton 3.6 to 3.9"
        )
        func = find_entry(lowering.module("block"))
        monkeypatch.setenv("CODA_DIRECT_LAUNCH", "0")
        assert not missed_direct_launch(func, "sm_90")
        monkeypatch.setenv("CODA_DIRECT_LAUNCH", "1")
        assert missed_direct_launch(func, "sm_90") and not missed_direct_launch(func, "gfx942")

    @pytest.mark.slow
    @pytest.mark.parametrize("value", ["0", "1"])
    def test_on_and_off(self, monkeypatch: pytest.MonkeyPatch, value: str):
        monkeypatch.setenv("CODA_DIRECT_LAUNCH", value)
        assert ("DirectLaunch" in self.source()) is (value == "1")

    def test_wrong_value(self, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setenv("CODA_DIRECT_LAUNCH", "yes")
        with pytest.raises(CodaError, match="CODA_DIRECT_LAUNCH is 'yes'"):
            self.source()

    @pytest.mark.slow
    def test_the_cache_tells_them_apart(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
        monkeypatch.setenv("CODA_CACHE_DIR", str(tmp_path))
        monkeypatch.setenv("CODA_CACHE_LIMIT", "1GiB")
        for value in ("0", "1", "0", "1"):
            monkeypatch.setenv("CODA_DIRECT_LAUNCH", value)
            assert ("DirectLaunch" in self.source()) is (value == "1")
        assert len(list(tmp_path.glob("programs/*"))) == 2

    @staticmethod
    def source() -> str:
        return coda_ir.compile(LAYER, constants=SIZES, device="cpu").source
