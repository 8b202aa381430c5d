"""Counterexamples: which function, which value, and on which inputs."""

from pathlib import Path

import torch
from support.programs import parse_mlir
from xdsl.dialects.builtin import ModuleOp

from coda_ir.equivalence import Counterexample, Difference, check_equivalent
from coda_ir.tensor_files import read_tensors

NORM = """
func.func @f(%x : tensor<?x8xf32> {coda.dims = ["M", 8], coda.name = "x"},
             %w : tensor<4x8xf32> {coda.name = "w"}) -> (tensor<?x4xf32>, tensor<?x4xf32>) {
  %h = coda.rms_norm %x {eps = 1.0e-6 : f64} : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %y = coda.linear %h, %w : (tensor<?x8xf32>, tensor<4x8xf32>) -> tensor<?x4xf32>
  %z = coda.silu %y : (tensor<?x4xf32>) -> tensor<?x4xf32>
  %s = coda.OPERATOR %z, %y : (tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x4xf32>
  func.return %y, %s : tensor<?x4xf32>, tensor<?x4xf32>
}"""


def norm(old: str = "", new: str = "") -> ModuleOp:
    return parse_mlir(NORM.replace(old or "OPERATOR", new or "add").replace("OPERATOR", "add"))


def found(after: ModuleOp, before: ModuleOp | None = None) -> Counterexample:
    counterexample = check_equivalent(before or norm(), after)
    assert counterexample is not None
    return counterexample


def test_equal_modules():
    assert check_equivalent(norm(), norm()) is None
    swapped = NORM.replace("OPERATOR %z, %y", "add %y, %z")
    assert check_equivalent(norm(), parse_mlir(swapped)) is None


def test_the_result_and_the_value_are_named():
    counterexample = found(norm("OPERATOR", "sub"))
    assert counterexample.mismatch.result == 1
    assert counterexample.result_name == "s"
    assert counterexample.origin is not None
    assert counterexample.origin.before.name_hint == "s"
    assert isinstance(counterexample.mismatch.problem, Difference)


def test_the_first_value_that_differs():
    """Not a value that differs for another reason: here one that has the name of another."""
    counterexample = found(norm("coda.silu", "coda.relu"))
    assert counterexample.origin is not None
    assert counterexample.origin.before.name_hint == "z"
    renamed = NORM.replace("%h", "%k").replace("%y", "%h").replace("coda.silu", "coda.relu")
    counterexample = found(parse_mlir(renamed.replace("OPERATOR", "add")))
    assert counterexample.origin is not None
    assert counterexample.origin.before.name_hint == "z"


def test_the_text_has_the_inputs():
    text = str(found(norm("1.0e-6", "1.0e-3")))
    assert text.startswith("@f: result 0 (y) ")
    assert "the first value that differs is %h of coda.rms_norm" in text
    assert "sizes: M = 5" in text
    assert "x: float64 5x8 [" in text


def test_given_sizes_are_kept():
    counterexample = check_equivalent(norm(), norm("1.0e-6", "1.0e-3"), sizes={"M": 7, "other": 3})
    assert counterexample is not None
    assert counterexample.sizes == {"M": 7}


def test_a_function_is_gone():
    empty = parse_mlir("builtin.module {}")
    assert "the function no longer exists" in str(found(empty))
    private = parse_mlir(NORM.replace("func.func", "func.func private").replace("OPERATOR", "add"))
    assert check_equivalent(private, empty) is None


def test_another_type():
    text = str(found(norm("x4xf32", "x4xbf16")))
    assert text.startswith("@f: its type is")


CALLS = """
func.func @outer(%x : tensor<?x4xf32>) -> tensor<?x4xf32> {
  %y = func.call @inner(%x) : (tensor<?x4xf32>) -> tensor<?x4xf32>
  %z = coda.neg %y : (tensor<?x4xf32>) -> tensor<?x4xf32>
  func.return %z : tensor<?x4xf32>
}
func.func private @inner(%x : tensor<?x4xf32>) -> tensor<?x4xf32> {
  %y = coda.OPERATOR %x : (tensor<?x4xf32>) -> tensor<?x4xf32>
  func.return %y : tensor<?x4xf32>
}"""


def test_the_callee_is_named():
    before, after = (parse_mlir(CALLS.replace("OPERATOR", name)) for name in ("silu", "relu"))
    assert found(after, before).function == "inner"
    assert check_equivalent(before, before) is None


def test_a_fault_of_rounding_size_is_no_difference():
    text = """
    func.func @f(%x : tensor<?x4xf32>) -> tensor<?x4xf32> {
      %a = coda.FIRST %x : (tensor<?x4xf32>) -> tensor<?x4xf32>
      %b = coda.SECOND %a : (tensor<?x4xf32>) -> tensor<?x4xf32>
      func.return %b : tensor<?x4xf32>
    }"""
    names = (("exp", "log"), ("neg", "neg"))
    before, after = (parse_mlir(text.replace("FIRST", a).replace("SECOND", b)) for a, b in names)
    assert check_equivalent(before, after) is None


def test_saved_inputs_are_those_of_the_function(tmp_path: Path):
    counterexample = found(norm("1.0e-6", "1.0e-3"))
    counterexample.save(tmp_path / "inputs.safetensors")
    stored = read_tensors(tmp_path / "inputs.safetensors")
    assert counterexample.arguments is not None
    assert stored.keys() == counterexample.arguments.keys() == {"x", "w"}
    assert all(torch.equal(stored[name], x) for name, x in counterexample.arguments.items())


RANDOM = """
func.func @f(%x : tensor<?x64xf32> {coda.dims = ["M", 64]}) -> tensor<?x64xf32> {
  %a = torch.call "aten.dropout.default"(%x) {arguments = "{0}, 0.5, True", random}
    : (tensor<?x64xf32>) -> tensor<?x64xf32>
  %b = coda.OPERATOR %a : (tensor<?x64xf32>) -> tensor<?x64xf32>
  func.return %b : tensor<?x64xf32>
}"""


def test_random_numbers_are_the_same_before_and_after():
    module, other = (parse_mlir(RANDOM.replace("OPERATOR", name)) for name in ("silu", "relu"))
    state = torch.get_rng_state()
    assert check_equivalent(module, module.clone()) is None
    assert torch.equal(state, torch.get_rng_state())
    found(module, other)
