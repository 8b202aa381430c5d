"""`coda_ir.parse`, `coda_ir.compile` and the checks of a call."""

import copy
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
from xdsl.dialects.builtin import ModuleOp

import coda_ir
from coda_ir.api import CompiledFunction
from coda_ir.backends.triton.aot import complete_schedule
from coda_ir.diagnostics import ArgumentError, CodaError

ROPE = """
func.func @rotate(
    %x: tensor<?x?x8xbf16> {coda.name = "x", coda.dims = ["B", "T", 8]},
    %cos: tensor<?x2xbf16> {coda.name = "cos", coda.dims = ["T", 2]},
    %sin: tensor<?x2xbf16> {coda.name = "sin", coda.dims = ["T", 2]})
    -> (tensor<?x?x8xbf16> {coda.name = "y", coda.dims = ["B", "T", 8]}) {
  %y = coda.rope %x, %cos, %sin {head_dim = 4 : i64, layout = "half_split"} :
      (tensor<?x?x8xbf16>, tensor<?x2xbf16>, tensor<?x2xbf16>) -> tensor<?x?x8xbf16>
  func.return %y : tensor<?x?x8xbf16>
}
"""

TWO_FUNCTIONS = """
func.func @first(%x: tensor<8xf32>) -> tensor<8xf32> {
  func.return %x : tensor<8xf32>
}
func.func @second(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %y = coda.neg %x : (tensor<8xf32>) -> tensor<8xf32>
  func.return %x, %y : tensor<8xf32>, tensor<8xf32>
}
"""

MEAN_LOSS = """
func.func @loss(
    %logits: tensor<?x8xf32> {coda.name = "logits", coda.dims = ["M", 8]},
    %target: tensor<?xi64> {coda.name = "target", coda.dims = ["M"]}) -> tensor<f32> {
  %y = coda.cross_entropy %logits, %target {ignore_index = -100 : i64, reduction = "mean"} :
      (tensor<?x8xf32>, tensor<?xi64>) -> tensor<f32>
  func.return %y : tensor<f32>
}
"""


@pytest.fixture(scope="module")
def rotate() -> CompiledFunction:
    return coda_ir.compile(ROPE, target="reference", device="cpu")


def inputs(t: int = 5, batch: int = 2) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    shapes = {"x": (batch, t, 8), "cos": (t, 2), "sin": (t, 2)}
    return {
        name: torch.randn(shape, generator=generator).to(torch.bfloat16)
        for name, shape in shapes.items()
    }


class TestParse:
    def test_text(self):
        assert isinstance(coda_ir.parse(ROPE), ModuleOp)

    @pytest.mark.parametrize("as_path", [Path, str])
    def test_file(self, tmp_path: Path, as_path: type):
        path = tmp_path / "rope.mlir"
        path.write_text(ROPE)
        assert str(coda_ir.parse(as_path(path))) == str(coda_ir.parse(ROPE))

    def test_missing_file(self):
        with pytest.raises(CodaError, match=r"missing.coda: cannot read the file: No such"):
            coda_ir.parse("missing.coda")

    def test_directory(self, tmp_path: Path):
        directory = tmp_path / "d.mlir"
        directory.mkdir()
        with pytest.raises(CodaError, match=r"d.mlir: this is a directory"):
            coda_ir.parse(directory)

    @pytest.mark.parametrize("suffix", ["coda", "mlir"])
    def test_not_utf8(self, tmp_path: Path, suffix: str):
        path = tmp_path / f"latin1.{suffix}"
        path.write_bytes(b"\n# na\xefve\n")
        with pytest.raises(CodaError, match=r"latin1.*:2:5: not UTF-8: byte 0xef"):
            coda_ir.parse(path)

    def test_unknown_suffix(self, tmp_path: Path):
        path = tmp_path / "rope.txt"
        path.write_text(ROPE)
        with pytest.raises(CodaError, match=r"name it \*.coda or \*.mlir"):
            coda_ir.parse(path)
        assert isinstance(coda_ir.parse(path, syntax="mlir"), ModuleOp)

    @pytest.mark.parametrize(
        "text, message",
        [
            ("func.func @f(", "<text>:1:14"),
            (ROPE.replace("head_dim = 4", "head_dim = 3"), "property head_dim is 3"),
        ],
    )
    def test_wrong_program(self, text: str, message: str):
        with pytest.raises(CodaError, match=message):
            coda_ir.parse(text)


class TestCompile:
    def test_unknown_entry(self):
        with pytest.raises(CodaError, match=r"no function 'third'\n.* first or second"):
            coda_ir.compile(TWO_FUNCTIONS, target="reference", entry="third")

    def test_other_functions_need_not_compile(self):
        text = """
fn f(x: f32[M, 8]) { return twice(x) + 1 }
fn twice(x: f32[M, 8]) { return 2 * x }
fn head(x: f32[M, 8], weight w: i8[V, 8]) { return linear(x, w) }"""
        with pytest.raises(CodaError, match="is symbolic"):
            coda_ir.compile(text, entry="head", device="cpu")
        assert coda_ir.compile(text, entry="f", device="cpu")(torch.zeros(1, 8)).sum() == 8

    def test_entry_is_needed_for_several_functions(self):
        with pytest.raises(CodaError, match=": first, second"):
            coda_ir.compile(TWO_FUNCTIONS, target="reference")

    def test_no_function(self):
        with pytest.raises(CodaError, match="the program has no function"):
            coda_ir.compile("builtin.module {}  // func.func", target="reference")

    @pytest.mark.parametrize("device", ["cuda:99", "tpu"])
    def test_unknown_device(self, device: str):
        with pytest.raises(CodaError, match=f"device '{device}'"):
            coda_ir.compile(ROPE, target="reference", device=device)

    def test_constants_of_a_module(self):
        with pytest.raises(CodaError, match=r"pass them to coda_ir.parse"):
            coda_ir.compile(coda_ir.parse(ROPE), target="reference", constants={"D": 8})

    def test_several_results_are_a_tuple(self):
        second = coda_ir.compile(TWO_FUNCTIONS, target="reference", entry="second", device="cpu")
        x = torch.arange(8.0)
        same, negated = second(x)
        assert torch.equal(same, x) and torch.equal(negated, -x)

    def test_the_module_that_is_passed_is_not_changed(self):
        module = coda_ir.parse(ROPE)
        before = str(module)
        compiled = coda_ir.compile(module, target="reference", device="cpu")
        compiled.module("block").erase()
        module.erase()
        assert compiled.ir("block") == before

    def test_unknown_level(self, rotate: CompiledFunction):
        with pytest.raises(CodaError, match="use one of block, gemm, scheduled"):
            rotate.ir("host")  # pyright: ignore[reportArgumentType]

    def test_repr_shows_the_signature(self, rotate: CompiledFunction):
        assert repr(rotate) == (
            "<CompiledFunction rotate(x: bfloat16[B, T, 8], cos: bfloat16[T, 2], "
            "sin: bfloat16[T, 2]) -> (y: bfloat16[B, T, 8]) for reference on cpu>"
        )


class TestCall:
    def test_by_position_and_by_name(self, rotate: CompiledFunction):
        given = inputs()
        by_name = rotate(**given)
        assert by_name.dtype == torch.bfloat16
        assert torch.equal(by_name, rotate(*given.values()))
        mixed = rotate(given["x"], sin=given["sin"], cos=given["cos"])
        assert torch.equal(by_name, mixed)

    def test_against_pytorch(self, rotate: CompiledFunction):
        given = inputs()
        x, cos, sin = (tensor.double() for tensor in given.values())
        a, b = x.reshape(2, 5, 2, 2, 2).unbind(-2)
        cos, sin = cos[:, None], sin[:, None]
        expected = torch.stack([a * cos - b * sin, b * cos + a * sin], -2).flatten(-3)
        torch.testing.assert_close(rotate.reference(given), expected)

    def test_strided_tensors(self, rotate: CompiledFunction):
        given = inputs()
        strided = dict(given)
        strided["x"] = given["x"].transpose(0, 1).contiguous().transpose(0, 1)
        strided["cos"] = given["cos"].t().contiguous().t()
        assert not strided["x"].is_contiguous()
        assert torch.equal(rotate(**given), rotate(**strided))

    @pytest.mark.parametrize("t, batch", [(0, 2), (3, 0), (0, 0)])
    def test_a_size_of_zero(self, rotate: CompiledFunction, t: int, batch: int):
        result = rotate(**inputs(t, batch))
        assert result.shape == (batch, t, 8) and result.dtype == torch.bfloat16

    def test_the_mean_of_no_rows_is_nan(self):
        loss = coda_ir.compile(MEAN_LOSS, target="reference", device="cpu")
        result = loss(torch.zeros(0, 8), torch.zeros(0, dtype=torch.int64))
        assert result.shape == () and result.isnan()

    def test_partials_of_no_rows_combine_to_the_identity(self):
        loads = coda_ir.compile("""
epilogue loads(acc) -> (total: partial_col<add>, largest: partial_col<max>) {
    total = acc
    largest = acc
}
fn f(x: f32[M, 8], weight w: f32[3, 8]) {
    total, largest = loads(linear(x, w))
    return finalize(total), finalize(largest)
}""")
        total, largest = loads(torch.zeros(0, 8), torch.zeros(3, 8))
        assert total.tolist() == [0.0] * 3 and largest.tolist() == [-torch.inf] * 3

    def test_nan_and_inf_stay_in_their_rows(self, rotate: CompiledFunction):
        given = inputs()
        clean = rotate(**given)
        given["x"][0, 1, 0] = torch.nan
        given["x"][1, 2, 4] = torch.inf
        result = rotate(**given)
        assert result[0, 1, [0, 2]].isnan().all()
        assert not result[1, 2, [4, 6]].isfinite().any()
        untouched = torch.ones(2, 5, 8, dtype=torch.bool)
        untouched[0, 1, [0, 2]] = untouched[1, 2, [4, 6]] = False
        assert torch.equal(result[untouched], clean[untouched])


class TestWrongCall:
    """One exception class per mistake; the message ends with the remedy."""

    def test_missing(self, rotate: CompiledFunction):
        with pytest.raises(
            ArgumentError, match="is missing 1 argument: sin\n  help: pass sin: bfloat16"
        ):
            rotate(*list(inputs().values())[:2])

    def test_unknown_name(self, rotate: CompiledFunction):
        with pytest.raises(ArgumentError, match=r"no argument 'z'\n  help: .* x, cos, sin"):
            rotate(**inputs(), z=torch.zeros(1))

    def test_too_many(self, rotate: CompiledFunction):
        with pytest.raises(ArgumentError, match="takes 3 arguments, got 4"):
            rotate(*inputs().values(), torch.zeros(1))

    def test_by_position_and_by_name(self, rotate: CompiledFunction):
        given = inputs()
        with pytest.raises(ArgumentError, match="argument x of rotate is given both"):
            rotate(given["x"], **given)

    @pytest.mark.parametrize(
        "value, message",
        [
            (
                None,
                r"argument x is None, .*\n  help: pass x: bfloat16\[B, T, 8\]; an operand",
            ),
            (
                torch.nn.Linear(2, 2),
                r"argument x is of type Linear, .*\n  help: pass .* as x.weight",
            ),
        ],
    )
    def test_no_tensor_at_all(self, rotate: CompiledFunction, value: object, message: str):
        call = {**inputs(), "x": value}
        with pytest.raises(ArgumentError, match=message):
            rotate(**call)  # pyright: ignore[reportArgumentType]

    @pytest.mark.parametrize("value", [3.0, [[1.0]], numpy.zeros((2, 5, 8))])
    def test_not_a_tensor(self, rotate: CompiledFunction, value: object):
        call = {**inputs(), "x": value}
        with pytest.raises(
            ArgumentError,
            match=r"argument x is of type \w+, .*\n  help: convert it with torch.as_",
        ):
            rotate(**call)  # pyright: ignore[reportArgumentType]

    def test_sparse_tensor(self, rotate: CompiledFunction):
        given = inputs()
        given["cos"] = given["cos"].to_sparse()
        with pytest.raises(ArgumentError, match=r"cos has layout .*\n.*cos.to_dense\(\)"):
            rotate(**given)

    def test_nested_tensor(self, rotate: CompiledFunction):
        given = inputs()
        nested: Any = torch.nested
        given["cos"] = nested.nested_tensor([given["cos"], given["cos"]])
        with pytest.raises(ArgumentError, match="cos is a nested tensor, expected a dense tensor"):
            rotate(**given)

    def test_element_type(self, rotate: CompiledFunction):
        given = inputs()
        given["cos"] = given["cos"].float()
        with pytest.raises(
            ArgumentError,
            match=r"cos has element type float32, expected bfloat16\n.*cos.to\(torch.bfloat16\)",
        ):
            rotate(**given)

    def test_device(self, rotate: CompiledFunction):
        given = inputs()
        given["sin"] = given["sin"].to("meta")
        with pytest.raises(ArgumentError, match=r"sin is on meta, expected cpu\n.*with data"):
            rotate(**given)

    def test_rank(self, rotate: CompiledFunction):
        given = inputs()
        given["x"] = given["x"][0]
        with pytest.raises(
            ArgumentError, match=r"x has shape \[5, 8\] of rank 2, expected rank 3\n.*B, T, 8"
        ):
            rotate(**given)

    def test_static_extent(self, rotate: CompiledFunction):
        given = inputs()
        given["x"] = given["x"][..., :6]
        with pytest.raises(
            ArgumentError, match=r"dimension 2 is 6, expected 8\n  help: .*\[B, T, 8\]"
        ):
            rotate(**given)

    def test_symbol_bound_to_two_sizes(self, rotate: CompiledFunction):
        given = {**inputs(t=5), "cos": inputs(t=7)["cos"]}
        with pytest.raises(
            ArgumentError,
            match="symbol T is bound to 5 by argument x and to 7 by argument cos\n  help: give",
        ):
            rotate(**given)

    def test_gradient(self, rotate: CompiledFunction):
        given = inputs()
        given["x"].requires_grad_()
        with pytest.raises(ArgumentError, match=r"torch.no_grad\(\), or pass x.detach\(\)"):
            rotate(**given)
        with torch.no_grad():
            assert isinstance(rotate(**given), torch.Tensor)


@pytest.mark.parametrize("training", [False, True])
def test_copies(training: bool):
    """A module that has a compiled function can be copied, as one that has a function."""
    compiled = coda_ir.compile(ROPE, training=training, target="reference", device="cpu")
    assert copy.deepcopy([compiled])[0] is compiled is copy.copy(compiled)
    with pytest.raises(CodaError, match="cannot be pickled"):
        pickle.dumps(compiled)


def test_import_is_light():
    script = (
        "import sys, coda_ir; coda_ir.parse, coda_ir.compile; "
        "sys.exit(sum(name in sys.modules for name in ('torch', 'triton')))"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


@pytest.mark.slow
def test_triton_that_cannot_interpret_any_more():
    """The CPU needs Triton's interpreter; a triton that was imported before cannot change."""
    script = (
        "import triton, torch; from coda_ir.devices import require_triton_for; "
        "require_triton_for(torch.device('cpu'))"
    )
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, env={}, capture_output=True, text=True, check=False)
    assert "help: set TRITON_INTERPRET=1 before Python starts" in done.stderr


@pytest.mark.slow
def test_the_interpreter_is_switched_on_for_the_cpu():
    script = (
        "import os, torch, warnings; from coda_ir import devices; "
        "devices.require_triton_for(torch.device('cpu')); "
        "print(os.environ['TRITON_INTERPRET'], devices.interpreter_is_asked_for()); "
        "place = ('f.py', 1, 'triton.runtime.interpreter'); "
        "warnings.warn_explicit('divide by zero', RuntimeWarning, *place)"
    )
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, env={}, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("1 False\n", "")


@pytest.mark.parametrize(
    ("options", "completed"),
    [
        ("", "target=sm_90 mainloop=warp_specialized "),
        ("absorb=true", "target=sm_90 mainloop=warp_specialized absorb=true"),
        ("target=sm_90 pdl", "mainloop=warp_specialized target=sm_90 pdl"),
        ('sizes="B=1,T=8" mainloop=tma', 'target=sm_90 sizes="B=1,T=8" mainloop=tma'),
        ("target=portable warps=8", "target=portable warps=8"),
    ],
)
def test_options_of_a_schedule_are_completed(options: str, completed: str):
    assert complete_schedule(options, "sm_90") == completed


def test_a_schedule_without_a_target_is_for_the_device():
    program = "fn f(x: bf16[M, 64], w: bf16[32, 64]) {\n    return linear(x, w)\n}"
    compiled = coda_ir.compile(program, device="cpu", schedule="warps=2")
    assert "warps = 2, stages = 1," in compiled.ir("scheduled")  # as the interpreter has it
