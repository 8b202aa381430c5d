"""`EquivalenceCheck` and `coda-opt --check-equivalence`."""

from pathlib import Path

import pytest
from support.goldens import EXAMPLES
from support.programs import parse_mlir
from xdsl.ir import SSAValue

from coda_ir.context import make_context
from coda_ir.equivalence import EquivalenceCheck, NotEquivalentError
from coda_ir.passes.algebra import defer_norms
from coda_ir.passes.pipelines.coda_to_gemm import CodaToGemmPass
from coda_ir.passes.support.function_pass import OpInserter
from coda_ir.pipeline import PassManager, parse_pipeline
from coda_ir.registry import get_all_passes
from coda_ir.tools.coda_opt import main

LLAMA = [
    str(EXAMPLES / "llama_layer.coda"),
    *(
        word
        for constant in ("D=32", "F=48", "HEAD=8", "HEADS=4", "KV_HEADS=2")
        for word in ("--const", constant)
    ),
    *("-p", "cse,coda-to-gemm{fold-weights=true},schedule", "-o", "/dev/null"),
]

SMALL = """
func.func @f(%x : tensor<?x8xbf16>, %w : tensor<8x8xbf16>) -> tensor<?x8xbf16> {
  %y = coda.linear %x, %w : (tensor<?x8xbf16>, tensor<8x8xbf16>) -> tensor<?x8xbf16>
  func.return %y : tensor<?x8xbf16>
}"""


def run(pipeline: str, check: EquivalenceCheck) -> None:
    manager = PassManager(parse_pipeline(pipeline, get_all_passes()))
    manager.run(make_context(), parse_mlir(SMALL), [check])


def dropped(insert: OpInserter, x: SSAValue, weight: SSAValue | None) -> SSAValue:
    return x


@pytest.fixture
def wrong_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(defer_norms, "scaled_input", dropped)


def test_passes_that_change_nothing_are_not_run():
    check = EquivalenceCheck()
    run("defer-norms,pair-rope,split-reductions", check)
    assert check.validator is not None
    assert check.validator.checked == 0
    run("convert-linear-to-gemm,pair-rope,schedule", check)
    assert check.validator.checked == 2


@pytest.mark.slow
def test_a_correct_pipeline(capsys: pytest.CaptureFixture[str]):
    assert main([*LLAMA, "--check-equivalence"]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.slow
@pytest.mark.parametrize(
    "number", ["2.3456789", "3.14159265358979", "0.70710678", "sqrt(sqrt(24.0))"]
)
@pytest.mark.parametrize("type", ["f32", "bf16"])
def test_a_constant_keeps_its_digits(number: str, type: str, tmp_path: Path):
    """Kernels compute with it in float32; in float64 it is the number that the program states."""
    path = tmp_path / "scaled.coda"
    path.write_text(
        f"fn f(x: {type}[M, 32], weight w: {type}[32, 32]) -> {type}[M, 32] {{\n"
        f"    return {number} * x + linear(x, w)\n}}\n"
    )
    pipeline = "coda-to-gemm,schedule,plan-buffers"
    assert main([str(path), "-p", pipeline, "--check-equivalence", "-o", "/dev/null"]) == 0


@pytest.mark.slow
@pytest.mark.usefixtures("wrong_pass")
def test_the_pass_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    saved = tmp_path / "inputs.safetensors"
    assert main([*LLAMA, "--check-equivalence", "--counterexample", str(saved)]) == 1
    message = capsys.readouterr().err
    passes = ["cse", *(step.name for step in CodaToGemmPass().steps())]
    number = 1 + passes.index("defer-norms")
    assert f"defer-norms (pass {number} of the pipeline, a step of coda-to-gemm)" in message
    assert "changed the meaning of @llama_layer: result " in message
    assert "llama_layer.coda:" in message
    assert "sizes: B = " in message
    assert str(saved) in message
    assert main([*LLAMA[:-4], "--run", "--inputs", str(saved)]) == 0


@pytest.mark.usefixtures("wrong_pass")
def test_without_the_option_nothing_is_checked():
    assert main(LLAMA) == 0


def test_a_function_that_cannot_be_run(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    path = tmp_path / "f.mlir"
    path.write_text(SMALL.replace("%x :", "%x : tensor<?x8xbf16>, %i : index, %j :"))
    assert main([str(path), "-p", "convert-linear-to-gemm", "--check-equivalence"]) == 1
    assert "cannot be checked" in capsys.readouterr().err


def test_options_of_the_pass_are_told(monkeypatch: pytest.MonkeyPatch):
    from coda_ir.equivalence import checker
    from coda_ir.equivalence.counterexample import Counterexample
    from coda_ir.equivalence.samples import Mismatch

    def differ(self: object, module: object) -> Counterexample:
        return Counterexample("f", Mismatch(None, "it is wrong"))

    monkeypatch.setattr(checker.Validator, "check", differ)
    with pytest.raises(NotEquivalentError) as error:
        run("schedule{target=sm_90 warps=8}", EquivalenceCheck())
    assert str(error.value) == (
        "schedule{target=sm_90 warps=8} (pass 1 of the pipeline) changed the meaning of @f: "
        "it is wrong"
    )
