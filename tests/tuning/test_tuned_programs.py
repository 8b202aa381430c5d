"""Programs that are tuned with made-up times: results, what is stored, what is measured again."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from support.compile_cache import use_cache
from support.fake_measurer import FakeMeasurer

import coda_ir
from coda_ir.cache import tuned as store
from coda_ir.cache.decision import Configured
from coda_ir.cache.folder import cached_files, tuning_path
from coda_ir.diagnostics import CodaError
from coda_ir.dialects.gemm import TUNED_ATTRIBUTE, FusedOp, TunedAttr
from coda_ir.float64 import relative_error
from coda_ir.frontends.torch import export
from coda_ir.tuning import candidates
from coda_ir.tuning.context import use_measurer

PROGRAM = """
fn mlp(x: f32[B, T, 64], up: f32[96, 64], down: f32[64, 96]) {
    return x + linear(silu(linear(x, up)), down)
}
"""


@pytest.fixture(autouse=True)
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    use_cache(monkeypatch, tmp_path)
    forget()
    yield
    forget()


def forget() -> None:
    """Forget what the process remembers beside the files."""
    vars(store)["_kept"].clear()


def grouped_is_fast(configured: Configured) -> float:
    return 40.0 if configured.group_m == 16 else 100.0


def measurer() -> FakeMeasurer:
    return FakeMeasurer(grouped_is_fast)


def inputs(batch: int, time: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    shapes = ((batch, time, 64), (96, 64), (64, 96))
    return [torch.randn(shape, generator=generator) for shape in shapes]


def tuned_gemms(function: coda_ir.CompiledFunction) -> list[FusedOp]:
    return [op for op in function.module("scheduled").walk() if isinstance(op, FusedOp)]


def test_a_tuned_program_is_right_and_says_what_was_decided():
    fake = measurer()
    with use_measurer(fake):
        function = coda_ir.compile(PROGRAM, device="cpu", tune=True)
        tensors = inputs(2, 9)
        result = function(*tensors)
    expected = function.reference(tensors)
    assert relative_error(result, expected) < 1e-6
    for op in tuned_gemms(function):
        found = op.attributes[TUNED_ATTRIBUTE]
        assert isinstance(found, TunedAttr) and op.schedule is not None
        assert op.schedule.group_m.data == 16
        assert found.measured.data == 40_000 and found.rows.data == 2 * 12
        assert not found.is_partial
    texts = [str(remark) for remark in function.remarks if "tuned on Fake GPU" in str(remark)]
    assert len(texts) == 2
    assert all(
        "40.0 us measured" in text and "2.50 x as fast as the model's" in text for text in texts
    )


@pytest.mark.parametrize("form", ["library", "unfused"])
def test_a_form_that_is_faster_is_taken_and_recorded(form: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(candidates, "UNLIKELY", 1e9)
    with use_measurer(FakeMeasurer(lambda c: 50.0 if c.form == form else 100.0)):
        function = coda_ir.compile(PROGRAM, device="cpu", tune=True)
        tensors = inputs(2, 9)
        result = function(*tensors)
    assert relative_error(result, function.reference(tensors)) < 1e-6
    gemms = [op for op in function.module("scheduled").walk() if TUNED_ATTRIBUTE in op.attributes]
    assert {op.name for op in gemms} == {"gemm.library" if form == "library" else "gemm.fused"}
    assert function.operators["gemm.map"] == len(gemms) == 2
    texts = [str(remark) for remark in function.remarks if "tuned on Fake GPU" in str(remark)]
    assert len(texts) == 2 and all("2.00 x as fast as the model's" in text for text in texts)
    assert all("library is 2.00" in text for text in texts) is (form == "library")
    forget()
    other = FakeMeasurer(lambda _: 100.0)
    with use_measurer(other):  # the program itself is in the cache
        again = coda_ir.compile(PROGRAM, device="cpu", tune=True)
        assert torch.equal(again(*tensors), result)
        assert again.ir("scheduled") == function.ir("scheduled")
    assert not other.compiled


def test_options_say_which_forms_are_measured():
    fake = FakeMeasurer(lambda c: 100.0 if c.form == "fused" else 1.0)
    with use_measurer(fake):
        options = "target=interpreter gemms=fused"
        function = coda_ir.compile(PROGRAM, device="cpu", schedule=options, tune=True)
        function(*inputs(2, 9))
    assert {configured.form for configured in fake.measured} == {"fused"}
    assert len(tuned_gemms(function)) == 2


def test_nothing_is_measured_while_a_cuda_graph_is_captured(monkeypatch: pytest.MonkeyPatch):
    fake, tensors = measurer(), inputs(2, 9)
    with use_measurer(fake):
        function = coda_ir.compile(PROGRAM, device="cpu", tune=True)
        with monkeypatch.context() as capture:
            capture.setattr("coda_ir.tuned._is_capturing", lambda: True)
            assert relative_error(function(*tensors), function.reference(tensors)) < 1e-6
            assert not fake.measured
        function(*tensors)
    assert fake.measured


def test_an_exported_model_is_tuned():
    model = torch.nn.Sequential(torch.nn.Linear(64, 96), torch.nn.SiLU(), torch.nn.Linear(96, 64))
    x, fake = inputs(2, 9)[0], measurer()
    with use_measurer(fake), torch.no_grad():
        compiled = export(model, (x,)).compile(device="cpu", tune=True)
        assert relative_error(compiled(x), model(x).double()) < 1e-6
    assert fake.measured and compiled.function.operators["gemm.fused"] == 2


def test_a_new_length_of_the_same_bucket_tunes_nothing():
    fake = measurer()
    with use_measurer(fake):
        function = coda_ir.compile(PROGRAM, device="cpu", tune=True)
        for time in (9, 12, 10, 11):
            tensors = inputs(2, time)
            assert relative_error(function(*tensors), function.reference(tensors)) < 1e-6
        count = len(fake.measured)
        function(*inputs(2, 13))
        assert len(fake.measured) > count > 0


def test_another_program_finds_what_is_stored_for_its_gemms():
    with use_measurer(measurer()):
        coda_ir.compile(PROGRAM, device="cpu", tune=True)(*inputs(2, 9))
    forget()
    renamed = PROGRAM.replace("mlp", "block").replace("up", "rise").replace("B, T", "N, L")
    second = measurer()
    with use_measurer(second):
        function = coda_ir.compile(renamed, device="cpu", tune=True)
        function(*inputs(2, 9))
    assert not second.measured
    assert all(TUNED_ATTRIBUTE in op.attributes for op in tuned_gemms(function))


def test_stored_results_are_used_without_measuring():
    with use_measurer(measurer()):
        coda_ir.compile(PROGRAM, device="cpu", tune=True)(*inputs(2, 9))
    forget()
    other = FakeMeasurer(lambda _: 1.0, device="Other GPU")
    for fake, is_tuned in ((measurer(), True), (other, False)):
        with use_measurer(fake):
            function = coda_ir.compile(PROGRAM, device="cpu", tune="stored")
            function(*inputs(2, 9))
            gemms = tuned_gemms(function)
        assert not fake.measured and not fake.compiled
        assert all((TUNED_ATTRIBUTE in op.attributes) is is_tuned for op in gemms)
    assert any("nothing is stored for Other GPU" in str(remark) for remark in function.remarks)


def test_the_environment_forbids_to_measure(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("CODA_NO_TUNE", "1")
    fake = measurer()
    with use_measurer(fake):
        coda_ir.compile(PROGRAM, device="cpu", tune=True)(*inputs(2, 9))
    assert not fake.measured


def test_equal_gemms_are_tuned_once():
    program = """
fn twice(x: f32[M, 64], a: f32[64, 64], b: f32[64, 64]) {
    return silu(linear(silu(linear(x, a)), b))
}"""
    fake = measurer()
    with use_measurer(fake):
        function = coda_ir.compile(program, device="cpu", tune=True)
        function(*(torch.randn(shape) for shape in ((8, 64), (64, 64), (64, 64))))
        gemms = tuned_gemms(function)
    assert len(gemms) == 2 and all(TUNED_ATTRIBUTE in op.attributes for op in gemms)
    assert len(set(fake.compiled)) == len(fake.compiled)
    assert len([file for file in cached_files() if file.is_tuning]) == 1


def test_a_spent_budget_keeps_the_models_choice_and_goes_on_later():
    slow = FakeMeasurer(grouped_is_fast, compile_s=1.0)
    with use_measurer(slow):
        function = coda_ir.compile(PROGRAM, device="cpu", tune=4.0)
        function(*inputs(2, 9))
    assert len(slow.compiled) == 2  # of each GEMM the model's choice
    found = [op.attributes[TUNED_ATTRIBUTE] for op in tuned_gemms(function)]
    assert all(isinstance(each, TunedAttr) and each.is_partial for each in found)
    forget()
    with use_measurer(measurer()):
        again = coda_ir.compile(PROGRAM, device="cpu", tune=True)
        again(*inputs(2, 9))
    found = [op.attributes[TUNED_ATTRIBUTE] for op in tuned_gemms(again)]
    assert all(isinstance(each, TunedAttr) and not each.is_partial for each in found)


def test_failing_candidates_are_told():
    fake = FakeMeasurer(
        grouped_is_fast,
        compile_failures=lambda c: "PTXASError: spills" if c.group_m == 16 else None,
    )
    with use_measurer(fake):
        function = coda_ir.compile(PROGRAM, device="cpu", tune=True)
        function(*inputs(2, 9))
    skipped = [str(remark) for remark in function.remarks if "is skipped" in str(remark)]
    assert skipped and all("PTXASError: spills" in text for text in skipped)


@pytest.mark.slow
@pytest.mark.parametrize("damage", [b"", b"junk", b"coda-ir-tuning 1 0\n{}\n"])
def test_a_damaged_entry_is_measured_again(damage: bytes):
    with use_measurer(measurer()):
        coda_ir.compile(PROGRAM, device="cpu", tune=True)(*inputs(2, 9))
    entries = [file.path for file in cached_files() if file.is_tuning]
    assert len(entries) == 2
    for file in cached_files():
        if file.is_program:
            file.path.unlink()
    entries[0].write_bytes(damage)
    forget()
    fake = measurer()
    with use_measurer(fake):
        coda_ir.compile(PROGRAM, device="cpu", tune=True)(*inputs(2, 9))
    assert fake.measured
    assert store.read(entries[0]).decision.is_complete


def test_a_cache_that_cannot_be_written_tunes_once_a_process(tmp_path: Path):
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "tuning").write_text("in the way")
    for expected in (True, False):
        fake = measurer()
        with use_measurer(fake):
            function = coda_ir.compile(PROGRAM, device="cpu", tune=True)
            function(*inputs(2, 9))
        assert bool(fake.measured) is expected
        if expected:
            assert any("not stored: " in str(remark) for remark in function.remarks)


def test_a_tuned_program_is_found_without_lowering():
    with use_measurer(measurer()):
        coda_ir.compile(PROGRAM, device="cpu", tune=True)(*inputs(2, 9))
        forget()
        for file in cached_files():
            if file.is_tuning:
                file.path.unlink()
        again = coda_ir.compile(PROGRAM, device="cpu", tune=True)
        again(*inputs(2, 9))
    assert any("tuned on Fake GPU" in str(remark) for remark in again.remarks)


TWO_PROCESSES = """
import sys, torch
sys.path.insert(0, sys.argv[1])
from support.compile_cache import use_cache
from support.fake_measurer import FakeMeasurer
import coda_ir
from coda_ir.tuning.context import use_measurer
with use_measurer(FakeMeasurer(lambda c: 40.0 if c.group_m == 16 else 100.0)):
    f = coda_ir.compile(sys.argv[2], device="cpu", tune=True)
    f(torch.ones(2, 9, 64), torch.ones(96, 64), torch.ones(64, 96))
    print(f.ir("scheduled"))
"""


@pytest.mark.slow
def test_two_processes_at_once():
    command = [sys.executable, "-c", TWO_PROCESSES, str(Path(__file__).parents[1]), PROGRAM]
    environment = os.environ | {"TRITON_INTERPRET": "1"}
    running = [
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
        for _ in range(2)
    ]
    texts = [process.communicate(timeout=120)[0] for process in running]
    assert [process.returncode for process in running] == [0, 0]
    assert texts[0] == texts[1] and "coda.tuned" in texts[0]
    entries = [store.read(file.path) for file in cached_files() if file.is_tuning]
    assert len(entries) == 2
    assert not [file for file in cached_files() if file.is_temporary]
    assert all(tuning_path(entry.key).exists() for entry in entries)


def test_an_entry_is_what_was_stored():
    with use_measurer(measurer()):
        coda_ir.compile(PROGRAM, device="cpu", tune=True)(*inputs(2, 9))
    for file in cached_files():
        if file.is_tuning:
            entry = store.read(file.path)
            assert entry.device == "Fake GPU" and entry.bucket == 24


def test_sizes_can_be_tuned_ahead_of_calls():
    with use_measurer(measurer()) as _:
        function = coda_ir.compile(PROGRAM, device="cpu", tune=True)
        untuned = function.source
        function.prepare({"B": 2})
        assert function.source == untuned
        function.prepare({"B": 2, "T": 9})
        text, tuned = function.ir("scheduled"), function.source
        function.prepare({"B": 2, "T": 11})
        assert function.source is tuned and function.ir("scheduled") == text


@pytest.mark.parametrize(
    "options, message",
    [
        ({"tune": "always"}, "tune is 'always'"),
        ({"tune": True, "target": "reference"}, "not for reference"),
    ],
)
def test_what_cannot_be_tuned_is_refused(options: dict[str, object], message: str):
    with pytest.raises(CodaError, match=message):
        coda_ir.compile(PROGRAM, device="cpu", **options)  # pyright: ignore[reportCallIssue, reportArgumentType]


def test_without_a_gpu_nothing_can_be_measured():
    function = coda_ir.compile(PROGRAM, device="cpu", tune=True)
    with pytest.raises(CodaError, match="there is no GPU"):
        function(*inputs(2, 9))
    stored = coda_ir.compile(PROGRAM, device="cpu", tune="stored")
    tensors = inputs(2, 9)
    assert relative_error(stored(*tensors), stored.reference(tensors)) < 1e-6
