"""Programs and options that `coda_ir.compile`, `parse`, `save` and `load` do not take."""

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

import coda_ir
from coda_ir.diagnostics import CodaError, DiagnosticError

PROGRAM = "fn f(x: f32[M, 8], weight w: f32[8, 8]) { return linear(x, w) }"


def refused(call: Callable[[], object]) -> str:
    with pytest.raises(CodaError) as error:
        call()
    return str(error.value)


class TestWrongProgram:
    """Values that are no program, and the function that takes them."""

    MODELS = (torch.nn.Linear(2, 2), torch.nn.Linear)

    @pytest.mark.parametrize("model", MODELS)
    def test_models_are_exported(self, model: Any):
        message = refused(lambda: coda_ir.compile(model))
        assert re.match(r"the program is of type \w+, expected the path or the text", message)
        assert "coda_ir.export(model, args).compile()" in message
        assert "torch.compile(model, backend='coda')" in message

    def test_that_advice_works(self):
        model = torch.nn.Linear(8, 4)
        x = torch.randn(3, 8)
        expected = torch.nn.functional.linear(
            x.double(), model.weight.double(), model.bias.double()
        )
        for target in ("triton", "reference"):
            y = coda_ir.export(model, (x,)).compile(target=target)(x)
            torch.testing.assert_close(y.double(), expected, rtol=1e-5, atol=1e-5)

    def test_exported_programs_of_pytorch(self):
        program: Any = torch.export.export(torch.nn.Linear(8, 4), (torch.ones(3, 8),))
        assert "write coda_ir.export(program).compile()" in refused(
            lambda: coda_ir.compile(program)
        )
        assert coda_ir.export(program).compile(device="cpu")(torch.ones(3, 8)).shape == (3, 4)

    @pytest.mark.parametrize("program", [None, 3, b"fn", [], {}, torch.ones(2), print])
    def test_other_values(self, program: Any):
        message = (
            r"the program is (None|of type \w+), expected the path or the text .*\n"
            r"  help: pass a file such as 'layer.coda'; coda_ir.export takes models"
        )
        assert re.match(message, refused(lambda: coda_ir.compile(program)))
        assert re.match(message, refused(lambda: coda_ir.parse(program)))

    def test_a_word_is_the_name_of_a_file(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.chdir(tmp_path)
        assert refused(lambda: coda_ir.compile("good")) == (
            "'good' is neither program text nor a .coda or .mlir file\n"
            "  help: pass a path such as 'layer.coda', or program text such as "
            "'fn f(x: bf16[M, 64]) { ... }'"
        )
        Path("good").write_text(PROGRAM)
        assert refused(lambda: coda_ir.compile("good")) == (
            "good: not a .coda or .mlir file\n"
            "  help: rename it, or pass Path('good') and the syntax to coda_ir.parse"
        )
        assert coda_ir.compile(coda_ir.parse(Path("good"), syntax="coda"), device="cpu")
        Path("good.coda").write_text(PROGRAM)
        message = refused(lambda: coda_ir.compile("good"))
        assert message == "no program is named 'good'\n  help: did you mean 'good.coda'?"
        assert coda_ir.compile("good.coda", device="cpu")

    @pytest.mark.parametrize(
        "options, message",
        [
            ({"constants": ["D"]}, "constants is of type list\n  help: pass a dictionary"),
            ({"schedule": {"warps": 8}}, "schedule is of type dict\n  help: pass a string"),
            ({"tune": None}, "tune is None\n  help: pass a bool, a number of seconds"),
            ({"training": "no"}, "training is of type str\n  help: pass True or False"),
            ({"device": "meta"}, "tensors on the device 'meta' have no data\n  help: create"),
            ({"device": 0.5}, "unknown device '0.5'\n  help: use cpu or cuda"),
        ],
    )
    def test_values_of_options(self, options: Any, message: str):
        compile: Any = coda_ir.compile
        assert refused(lambda: compile(PROGRAM, **options)).startswith(message)

    def test_an_unknown_syntax(self):
        language: Any = "python"
        message = refused(lambda: coda_ir.parse(PROGRAM, syntax=language))
        assert message == "unknown syntax 'python'\n  help: use one of coda, mlir"

    def test_what_is_saved_and_loaded(self):
        program: Any = PROGRAM
        nothing: Any = None
        assert "help: write coda_ir.save(coda_ir.export(model, args), path)" in refused(
            lambda: coda_ir.save(program, "a.mlir")
        )
        assert refused(lambda: coda_ir.load(nothing)) == (
            "the path is None\n  help: pass the name of a file .mlir"
        )


class TestWrongOptions:
    """Names and sizes that no function takes."""

    @pytest.mark.parametrize(
        "options, message",
        [
            ({"fuse": True}, "unknown option 'fuse'\n  help: use one of entry, constants"),
            (
                {"stream_logit": 2, "training": True},
                "unknown option 'stream_logit'\n  help: did you mean 'stream_logits'?",
            ),
        ],
    )
    def test_an_option_of_another_name(self, options: dict[str, Any], message: str):
        compile: Any = coda_ir.compile
        assert refused(partial(compile, PROGRAM, **options)).startswith(message)

    @pytest.mark.parametrize("training", [False, True])
    @pytest.mark.parametrize(
        "sizes, message",
        [
            ({"M": -3}, "the size M is -3\n  help: pass an integer, 0 or more"),
            ({"M": 2.5}, "the size M is 2.5\n  help: pass an integer, 0 or more"),
            (["M"], "sizes is of type list\n  help: pass a dictionary, such as {'M': 4096}"),
            ({"N": 3}, "f has no dimension 'N'\n  help: the symbols are M"),
        ],
    )
    def test_sizes_that_no_call_has(self, training: bool, sizes: Any, message: str):
        function = coda_ir.compile(PROGRAM, training=training, target="reference", device="cpu")
        assert refused(lambda: function.prepare(sizes=sizes)) == message

    def test_an_array_of_numpy(self):
        function = coda_ir.compile(PROGRAM, target="reference", device="cpu")
        array: Any = torch.ones(3, 8).numpy()
        assert "argument x is of type ndarray, expected" in refused(lambda: function(array, array))


class TestCallsOfPyTorch:
    """Checked where a program is read, not where it is called."""

    MLIR = """\
func.func @f(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
  %y = torch.call "aten.CALLEE"(%x) {arguments = "ARGUMENTS"} : (tensor<?x8xf32>) -> tensor<?x8xf32>
  func.return %y : tensor<?x8xf32>
}
"""

    @pytest.mark.parametrize(
        "callee, arguments, message, remedy",
        [
            ("cumsumm.default", "{0}, -1", "no operator aten.cumsumm", "aten.cumsum.default"),
            ("cumsum.default", "{0}", "missing a required argument: 'dim'", "dim: int"),
            ("sort.default", "{0}", "aten.sort.default gives 2 results", "positions=[0]"),
        ],
    )
    def test_of_mlir(self, callee: str, arguments: str, message: str, remedy: str):
        text = self.MLIR.replace("CALLEE", callee).replace("ARGUMENTS", arguments)
        with pytest.raises(DiagnosticError) as error:
            coda_ir.compile(text, device="cpu")
        (diagnostic,) = error.value.diagnostics
        assert (diagnostic.range and diagnostic.range.line, message in diagnostic.message) == (
            2,
            True,
        )
        assert remedy in (diagnostic.remedy or "")

    def test_operators_of_other_packages_may_be_registered_later(self):
        text = (
            'fn f(x: f32[M, 8]) { return torch("mine.f.default({0})", x, dtype=f32, shape=[M, 8]) }'
        )
        assert coda_ir.parse(text)
