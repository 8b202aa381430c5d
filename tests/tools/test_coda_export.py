"""`coda-export`: what it writes, what it says, and what it says about wrong factories."""

import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch

import coda_ir
from coda_ir.tools import coda_export

safetensors: Any = import_module("safetensors.torch")  # partly without types

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")

FACTORIES = """
import torch
from torch import nn
from torch.export import Dim


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.RMSNorm(8, eps=1e-6)
        self.gate_proj, self.up_proj = nn.Linear(8, 16, bias=False), nn.Linear(8, 16, bias=False)
        self.down_proj = nn.Linear(16, 8)

    def forward(self, x):
        h = self.norm(x)
        return x + self.down_proj(nn.functional.silu(self.gate_proj(h)) * self.up_proj(h))


class Sums(nn.Module):
    def forward(self, x):
        return x.cumprod(-1) + x.cumprod(0)


class Example:
    model = Mlp()
    args = (torch.zeros(2, 3, 8),)


def mlp():
    torch.manual_seed(0)
    shapes = ({0: Dim("batch"), 1: Dim("time")},)
    return Mlp(), (torch.zeros(2, 3, 8),), None, shapes


class OfEvenBatches(nn.Module):
    def forward(self, x):
        return 2 * x if x.shape[0] % 2 == 0 else x


def of_even_batches():
    return OfEvenBatches(), (torch.zeros(4, 8),), None, ({0: Dim.DYNAMIC},)


def bare():
    return Mlp()


def sums():
    return Sums(), (torch.zeros(3, 4),)


def in_training():
    return nn.Sequential(nn.Linear(4, 4), nn.Dropout()), (torch.zeros(3, 4),)


class Best(nn.Module):
    def forward(self, x):
        values, places = x.max(-1)
        return values, places


def best():
    return Best(), (torch.zeros(3, 4),)


def fails():
    raise RuntimeError("no weights here\\nand a second line")


def number():
    return 3


def swapped():
    return (torch.zeros(3),), Sums()


def mapping():
    return Sums(), {"x": torch.zeros(3, 4)}


def one_tensor():
    return Sums(), torch.zeros(3, 4)


def branches():
    class Branch(nn.Module):
        def forward(self, x):
            return x if x.sum() > 0 else -x

    return Branch(), (torch.zeros(3),)


class Parts:
    sums = staticmethod(sums)


constant = 3
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    (tmp_path / "factories.py").write_text(FACTORIES)
    (tmp_path / "broken.py").write_text("import nothing_of_this_name\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    yield tmp_path
    for name in ("factories", "broken"):
        sys.modules.pop(name, None)


@pytest.mark.slow
def test_mlir(folder: Path, capsys: pytest.CaptureFixture[str]):
    assert coda_export.main(["factories:mlp", "-o", "mlp.mlir"]) == 0
    loaded = coda_ir.load(folder / "mlp.mlir")
    x = torch.randn(1, 5, 8)
    model = sys.modules["factories"].mlp()[0]
    compiled = loaded.compile(target="reference")
    torch.testing.assert_close(compiled(x), model(x).detach(), rtol=1e-5, atol=1e-5)
    told = capsys.readouterr()
    assert told.out == ""
    assert "import factories:mlp (" in told.err and "export Mlp (" in told.err
    assert "mlp.safetensors: 5 weights, 1,600 bytes" in told.err
    assert "calls of PyTorch left: none" in told.err


@pytest.mark.slow
def test_a_page_is_for_a_gpu_and_sizes(folder: Path):
    command = ["factories:mlp", "-o", "mlp.mlir", "--html", "mlp.html", "-q"]
    assert coda_export.main([*command, "--arch", "sm_80", "--dim", "batch=3"]) == 0
    page = (folder / "mlp.html").read_text()
    assert '"batch":3' in page and ".target sm_80" in page


@pytest.mark.parametrize("option", [["--arch", "sm_90"], ["--dim", "batch=3"]])
def test_options_of_a_page_need_one(option: list[str], capsys: pytest.CaptureFixture[str]):
    assert coda_export.main(["factories:mlp", "-o", "mlp.mlir", *option]) == 2
    assert "needs --html" in capsys.readouterr().err


@pytest.mark.slow
def test_page(folder: Path, capsys: pytest.CaptureFixture[str]):
    assert coda_export.main(["factories:mlp", "-o", "mlp.mlir", "--html", "mlp.html"]) == 0
    assert "write mlp.html (" in capsys.readouterr().err
    assert "gate_proj" in (folder / "mlp.html").read_text()
    command = ["factories:mlp", "-o", "mlp.mlir", "--html", "nowhere/mlp.html", "-q"]
    assert coda_export.main(command) == 1
    assert "nowhere/mlp.html: cannot write the file" in capsys.readouterr().err


@pytest.mark.slow
def test_coda(folder: Path):
    command = ["factories:mlp", "-o", "mlp.coda", "--weights", "w.safetensors", "-q"]
    assert coda_export.main([*command, "--name", "network"]) == 0
    text = (folder / "mlp.coda").read_text()
    assert text.startswith("fn network(\n    x: f32[batch, time, 8],\n    weight norm: f32[8],")
    assert "silu(linear(h1, w_gate)) * linear(h1, w_up)" in text
    compiled = coda_ir.compile(folder / "mlp.coda", target="reference", device="cpu")
    x = torch.randn(2, 2, 8)
    result = compiled(x=x, **safetensors.load_file(folder / "w.safetensors"))
    model = sys.modules["factories"].mlp()[0]
    torch.testing.assert_close(result, model(x).detach(), rtol=1e-5, atol=1e-5)


def test_quiet(capsys: pytest.CaptureFixture[str]):
    assert coda_export.main(["factories:sums", "-o", "sums.mlir", "--quiet"]) == 0
    assert capsys.readouterr().err == ""


def test_models_that_were_left_in_training_mode(capsys: pytest.CaptureFixture[str]):
    assert coda_export.main(["factories:in_training", "-o", "model.mlir", "--quiet"]) == 0
    message = capsys.readouterr().err
    assert message.startswith("coda-export: warning: Sequential is in training mode: aten.")


def test_conditions_on_sizes_that_the_text_lacks(capsys: pytest.CaptureFixture[str]):
    assert coda_export.main(["factories:of_even_batches", "-o", "model.coda", "--quiet"]) == 0
    message = capsys.readouterr().err
    assert message.startswith(
        "coda-export: warning: the model was exported for sizes with ((s0 % 2)"
    )
    assert coda_export.main(["factories:of_even_batches", "-o", "model.mlir", "--quiet"]) == 0
    assert capsys.readouterr().err == ""


def test_calls_of_pytorch_are_told(capsys: pytest.CaptureFixture[str]):
    assert coda_export.main(["factories:sums", "-o", "sums.mlir"]) == 0
    assert "calls of PyTorch left: aten.cumprod.default (2)" in capsys.readouterr().err


@pytest.mark.slow
def test_objects_and_paths(folder: Path):
    for factory in ("factories:Example", "factories:Parts.sums"):
        assert coda_export.main([factory, "-o", "a.mlir", "-q"]) == 0


@pytest.mark.slow
def test_dynamic_inputs_by_position(folder: Path):
    command = ["factories:mlp", "-o", "a.mlir", "-q", "--dynamic", "x.1=length"]
    assert coda_export.main(command) == 0
    assert '[2 : i64, "length", 8 : i64]' in (folder / "a.mlir").read_text()


@pytest.mark.slow
def test_inputs_from_a_file(folder: Path):
    safetensors.save_file({"x": torch.zeros(2, 3, 8)}, folder / "inputs.safetensors")
    command = ["factories:bare", "-o", "a.mlir", "--args-from", "inputs.safetensors", "-q"]
    assert coda_export.main([*command, "--dynamic", "x.0=batch", "--dynamic", "x.1=time"]) == 0
    assert '["batch", "time", 8 : i64]' in (folder / "a.mlir").read_text()


@pytest.mark.parametrize(
    ("factory", "message"),
    [
        ("nowhere:f", "nowhere cannot be imported: ModuleNotFoundError"),
        ("models/mlp.py:f", "help: write models.mlp:f, a module"),
        ("broken:f", "broken cannot be imported: ModuleNotFoundError"),
        ("factories:missing", "factories has no 'missing'"),
        ("factories:constant", "is of type int, expected a function"),
        ("factories:fails", "factories:fails fails: RuntimeError: no weights here"),
        ("factories:Mlp.forward", "fails: TypeError"),
        ("factories:number", "returns a value of type int"),
        ("factories:swapped", "returns a tuple of (tuple, Sums)"),
        ("factories:mapping", "args is of type dict"),
        ("factories:one_tensor", "args is a Tensor"),
        ("factories:branches", "Branch cannot be captured"),
        ("factories:bare", "the forward of Mlp cannot be called in this way"),
    ],
)
def test_wrong_factories(
    factory: str, message: str, folder: Path, capsys: pytest.CaptureFixture[str]
):
    assert coda_export.main([factory, "-o", "a.mlir", "-q"]) == 1
    told = capsys.readouterr().err
    assert told.startswith("coda-export: error[E") and message in told
    assert "Traceback" not in told and "second line" not in told
    assert not (folder / "a.mlir").exists()


def test_what_coda_cannot_express(folder: Path, capsys: pytest.CaptureFixture[str]):
    assert coda_export.main(["factories:best", "-o", "best.coda", "-q"]) == 1
    told = capsys.readouterr().err
    assert "factories.py:" in told and "aten.max.dim cannot be written as .coda" in told
    assert not (folder / "best.coda").exists()


def test_calls_of_pytorch_in_coda(folder: Path):
    assert coda_export.main(["factories:sums", "-o", "sums.coda", "-q"]) == 0
    compiled = coda_ir.compile(folder / "sums.coda", target="reference", device="cpu")
    x = torch.randn(3, 4)
    torch.testing.assert_close(compiled(x), x.cumprod(-1) + x.cumprod(0))


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["factories", "-o", "a.mlir"], 2, "does not name a factory"),
        (["factories:", "-o", "a.mlir"], 2, "does not name a factory"),
        (["factories:sums", "-o", "a.txt"], 2, "name it *.mlir or *.coda"),
        (["factories:sums", "-o", "a.mlir", "--weights", "w.pt"], 2, "name it *.safetensors"),
        (["factories:sums", "-o", "a.mlir", "--dynamic", "x=3"], 2, "INPUT.AXIS=NAME"),
        (["factories:sums", "-o", "a.mlir", "--dynamic", "y.0=B"], 2, "use x"),
        (["factories:sums", "-o", "a.mlir", "--args-from", "b.safetensors"], 1, "b.safetensors"),
        (["factories:mlp", "-o", "nowhere/a.mlir"], 1, "cannot write the file"),
        (["factories:mlp", "-o", "nowhere/a.coda"], 1, "cannot write the file"),
    ],
)
def test_wrong_command_lines(
    arguments: list[str], code: int, message: str, capsys: pytest.CaptureFixture[str]
):
    assert coda_export.main([*arguments, "-q"]) == code
    assert message in capsys.readouterr().err


def test_arguments_that_are_missing(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as stopped:
        coda_export.main(["factories:sums"])
    assert stopped.value.code == 2
    assert "-o" in capsys.readouterr().err


def test_debug_raises():
    with pytest.raises(coda_export.FactoryError):
        coda_export.main(["factories:fails", "-o", "a.mlir", "--debug"])


@pytest.mark.parametrize("option", ["--help", "--version"])
def test_information(option: str, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as stopped:
        coda_export.main([option])
    assert stopped.value.code == 0
    assert "coda-export" in capsys.readouterr().out


def test_help_is_as_wide_as_a_terminal(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit):
        coda_export.main(["--help"])
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 100


@pytest.mark.slow
def test_the_module_runs_as_a_program(folder: Path):
    command = [sys.executable, "-m", "coda_ir.tools.coda_export", "nowhere:f", "-o", "a.mlir"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines()[0].startswith(
        "coda-export: error[E0701]: nowhere cannot be imported"
    )
