"""Estimates of programs that are not emitted, and the programs that are emitted after them."""

from pathlib import Path

import pytest
from support.compile_cache import use_cache
from xdsl.dialects.builtin import ModuleOp

import coda_ir
from coda_ir.backends import triton
from coda_ir.cache.origin import Origin
from coda_ir.cost_model import DEVICES
from coda_ir.cost_model.comparison import compare
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
    lowering = Lowering(program, CompileOptions(architecture="sm_80"))
    assert lowering.comparison() is None


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
