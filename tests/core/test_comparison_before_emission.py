"""Estimates of programs that are not emitted, and the programs that are emitted after them."""

from pathlib import Path

import pytest
import torch
from support.compile_cache import use_cache
from xdsl.dialects.builtin import ModuleOp

import coda_ir
from coda_ir import devices
from coda_ir.backends import triton
from coda_ir.cache.origin import Origin
from coda_ir.cost_model import DEVICES
from coda_ir.cost_model.comparison import Estimates, compare
from coda_ir.devices import library_rounds_float32
from coda_ir.functions import functions_of
from coda_ir.lowering import Lowering
from coda_ir.options import CompileOptions, Leftovers

EXAMPLES = Path(__file__).parents[2] / "examples"
H100 = CompileOptions(architecture="sm_90")


def options(leftovers: Leftovers) -> CompileOptions:
    return CompileOptions(architecture="sm_90", leftovers=leftovers)


@pytest.mark.slow
@pytest.mark.parametrize("leftovers", ["kernels", "inductor"])
@pytest.mark.parametrize("name", ["llama_mlp", "gpt2_block", "dit_block"])
def test_estimates_are_those_of_the_program_that_is_emitted(
    monkeypatch: pytest.MonkeyPatch, name: str, leftovers: Leftovers
):
    program = coda_ir.parse(EXAMPLES / f"{name}.coda")
    before = Lowering(program.clone(), options(leftovers))
    with monkeypatch.context() as patch:
        patch.setattr(triton, "emit_program", None)
        estimates = before.comparison()
    after = Lowering(program.clone(), options(leftovers))
    emitted = after.artifact()
    scheduled = functions_of(after.module("scheduled"))
    (function,) = functions_of(program).values()
    device = DEVICES["sm_90"]
    found = compare(function, scheduled[function.sym_name.data], scheduled, device)
    assert estimates == found
    assert before.artifact().source == emitted.source


def test_there_are_none_for_devices_whose_library_is_not_known():
    program = coda_ir.parse(EXAMPLES / "llama_mlp.coda")
    assert Lowering(program, CompileOptions(architecture="sm_80")).comparison() is None


def test_estimates_are_kept_in_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A process that leaves a program to Inductor again does not lower it again."""
    use_cache(monkeypatch, tmp_path)
    text, made = (EXAMPLES / "llama_mlp.coda").read_text(), list[Origin]()

    def make(origin: Origin) -> ModuleOp:
        made.append(origin)
        return coda_ir.parse(text)

    origin = Origin({"text": text}, make)
    first = Lowering(origin, H100).comparison()
    assert Lowering(origin, H100).comparison() == first is not None
    assert len(made) == 1
    assert Lowering(origin, H100).artifact().source


def test_the_library_may_round_float32(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """PyTorch's settings change the time of its library's products, also of kept estimates."""
    use_cache(monkeypatch, tmp_path)
    size = "f32[1024, 1024]"
    text = f"fn f(x: {size}, weight w: {size}) -> {size} {{ return silu(linear(x, w)) }}"
    found = list[Estimates]()
    for allowed in (False, True):
        monkeypatch.setattr(devices, "library_rounds_float32", lambda allowed=allowed: allowed)
        origin = Origin({"text": text}, lambda _: coda_ir.parse(text))
        estimates = Lowering(origin, H100).comparison()
        assert estimates is not None
        found.append(estimates)
    exact, rounded = found
    assert rounded.apart_gpu < exact.apart_gpu / 2
    assert rounded.fused_gpu == exact.fused_gpu


@pytest.mark.parametrize(("precision", "rounds"), [("high", True), ("highest", False)])
def test_pytorch_says_whether_its_library_rounds(precision: str, *, rounds: bool):
    torch.set_float32_matmul_precision(precision)
    try:
        assert library_rounds_float32() == rounds
    finally:
        torch.set_float32_matmul_precision("highest")
