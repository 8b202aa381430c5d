"""`EmittedCheck`, `coda-opt --check-equivalence` of emitted Triton: faults that it finds."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from xdsl.dialects.builtin import ModuleOp

from coda_ir.api import parse
from coda_ir.backends.triton import EmittedProgram, emit_module
from coda_ir.context import make_context
from coda_ir.diagnostics import LoweringError
from coda_ir.equivalence import DRAWS, emitted
from coda_ir.equivalence.emitted import EmittedCheck
from coda_ir.passes.pipelines.coda_to_gemm import CodaToGemmPass
from coda_ir.pipeline import PassManager, parse_pipeline
from coda_ir.registry import get_all_passes
from coda_ir.tools.coda_opt import main

PASSES = "coda-to-gemm,schedule,plan-buffers"

LINEAR = """
fn f(x: f32[M, 40], weight w: f32[24, 40], b: f32[24]) -> f32[M, 24] {
    return silu(linear(x, w) + b)
}
"""

ATTENTION = """
fn f(q: bf16[B, T, 64], k: bf16[B, T, 32], v: bf16[B, T, 32]) -> bf16[B, T, 64] {
    return attention(q, k, v, head_dim=16, causal=false, softcap=50.0)
}
"""


@pytest.fixture
def program(tmp_path: Path) -> str:
    path = tmp_path / "program.coda"
    path.write_text(LINEAR)
    return str(path)


def plant(monkeypatch: pytest.MonkeyPatch, *changes: tuple[str, str]) -> None:
    """Emit other text for what has to be in the text of the module."""
    emit = emitted.emit_program

    def emit_with_fault(module: ModuleOp, entry: str | None = None) -> EmittedProgram:
        program = emit(module, entry)
        source = program.source
        for old, new in changes:
            assert old in source, source
            source = source.replace(old, new)
        return dataclasses.replace(program, source=source)

    monkeypatch.setattr(emitted, "emit_program", emit_with_fault)


Changes = tuple[tuple[str, str], ...]

NAN = "is NaN or infinite where float64, and its types, have a number"
FAULTS: dict[str, tuple[Changes, str]] = {
    "a bias that is subtracted": ((("acc + b", "acc - b"),), "has a relative error of"),
    "an epilogue without its exponential": (
        (("tl.exp(-total)", "1.0"),),
        "has a relative error of",
    ),
    "a weight that is read from the next column on": (
        (("w_ptr + column[None, :] * 40", "w_ptr + (column[None, :] + 1) * 40"),),
        NAN,
    ),
    "a sum over more than K": (
        (("mask=depth < K", "mask=depth < K + 8"),),
        NAN,
    ),
    "columns that are not stored": (
        (("& column_mask[None, :]", "& (column < 23)[None, :]"),),
        NAN,
    ),
    "rows that are stored beyond the last one": (
        (("tl.minimum(rows, M - 1)", "rows"), ("mask=row_mask[:, None] & ", "mask=")),
        "kernel gemm_bias_silu wrote outside of a buffer",
    ),
    "an argument that is stored to": (
        (("        out,\n        M,", "        x,\n        M,"),),
        "it changes argument x",
    ),
    "a call that does not exist": (
        (("    out = torch.empty(", "    out = torch.nothing("),),
        "it fails with AttributeError",
    ),
    "a kernel that fails": (
        (("tl.exp(-total)", "(1.0).to(tl.float32)"),),
        "it fails with AttributeError: 'float' object has no attribute 'to'",
    ),
}


def checked(program: str, *options: str) -> int:
    return main([program, "-p", PASSES, "--check-equivalence", "-o", "/dev/null", *options])


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_faults(
    fault: str,
    program: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
):
    changes, message = FAULTS[fault]
    plant(monkeypatch, *changes)
    reproducer = tmp_path / "reproducer.coda"
    assert checked(program, "--crash-reproducer", str(reproducer)) == 3
    error = capsys.readouterr().err
    assert "the emitted Triton of @f: " in error and message in error
    assert "sizes: M = " in error and "Traceback" not in error
    assert "--check-equivalence" in reproducer.read_text()


def test_the_result_and_the_kernel_are_named(
    program: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    plant(monkeypatch, ("acc + b", "acc - b"))
    assert checked(program) == 3
    error = capsys.readouterr().err
    assert "result 0 (result0) at " in error and "program.coda:3:" in error
    assert ", stored by kernel gemm_bias_silu, has a relative error" in error


def check(text: str, passes: str, **options: Any) -> tuple[EmittedCheck, list[str]]:
    """The check after `passes`, and its notes."""
    notes: list[str] = []
    watcher = EmittedCheck(note=notes.append, **options)
    manager = PassManager(parse_pipeline(passes, get_all_passes()))
    manager.run(make_context(), parse(text), [watcher])
    return watcher, notes


@pytest.mark.slow
@pytest.mark.parametrize("passes", ["", "coda-to-gemm", PASSES, "coda-to-gemm,schedule"])
def test_any_level_is_compared_on_every_draw(passes: str):
    watcher, notes = check(LINEAR, passes)
    assert (watcher.compared, notes) == (len(DRAWS), [])


@pytest.mark.slow
@pytest.mark.parametrize("passes", ["coda-to-gemm", "coda-to-gemm,schedule"])
def test_attention_without_gemms_is_compared(passes: str):
    watcher, notes = check(ATTENTION, passes, sizes={"B": 1, "T": 5})
    assert (watcher.compared, notes) == (len(DRAWS), [])


def test_attention_without_a_schedule_is_not_emitted():
    module = parse(ATTENTION)
    CodaToGemmPass().apply(make_context(), module)
    with pytest.raises(LoweringError, match=r"gemm\.attention has no schedule"):
        emit_module(module)


def test_any_of_equal_elements_may_be_chosen():
    """The kernels and the reference backend take the first one, PyTorch's topk takes some."""
    # More than kernels choose, and 0 where x is negative.
    text = "fn f(x: f32[M, 24]) -> i64[M, 20] {\n _, ids = topk(relu(x), 20)\n return ids\n}"
    watcher, notes = check(text, "coda-to-gemm")
    assert (watcher.compared, notes) == (len(DRAWS), [])


@pytest.mark.slow
def test_large_functions_are_run_once_or_not_at_all():
    watcher, notes = check(LINEAR, PASSES, sizes={"M": 2**15})
    assert (watcher.compared, notes) == (1, [])
    watcher, notes = check(LINEAR, PASSES, sizes={"M": 2**20})
    assert watcher.compared == 0
    assert "@f was not compared: its arguments have 41944024 elements" in notes[0]


def test_kernels_for_a_gpu_are_not_compared_without_one():
    text = LINEAR.replace("40", "64").replace("24", "128").replace("f32", "bf16")
    watcher, (note,) = check(text, "coda-to-gemm,schedule{target=sm_90 mainloop=warp_specialized}")
    assert watcher.compared == 0
    assert note.endswith("kernel gemm_bias_silu is in Gluon, which needs a GPU")


def test_what_takes_none_of_the_sizes_is_noted():
    text = """
        func.func @f(%x: tensor<?xf32> {coda.name = "x", coda.dims = ["M"]}) -> tensor<1024xf32> {
          %y = coda.reshape %x : (tensor<?xf32>) -> tensor<1024xf32>
          func.return %y : tensor<1024xf32>
        }"""
    watcher, (note,) = check(text, "")
    assert watcher.compared == 0
    assert "@f was not compared: it takes none of the sizes" in note
    watcher, notes = check(text, "", sizes={"M": 1024})
    assert (watcher.compared, notes) == (len(DRAWS), [])


def test_remarks_are_those_of_the_pipeline(program: str, capsys: pytest.CaptureFixture[str]):
    options = ("-p", "coda-to-gemm", "--remarks", "-o", "/dev/null")
    assert main([program, *options]) == 0
    expected = capsys.readouterr().err
    assert main([program, *options, "--check-equivalence"]) == 0
    assert capsys.readouterr().err == expected
