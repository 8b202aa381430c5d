"""Results of tuning in coda-cache: listed, pruned last, moved between caches."""

import json
from pathlib import Path

import pytest
from support.compile_cache import VERSIONS, set_versions, use_cache

from coda_ir.cache import tuned as store
from coda_ir.cache.decision import Configured, Decision, Tried
from coda_ir.cache.folder import cached_files, prune, tuning_path
from coda_ir.tools.coda_cache import main
from coda_ir.tuning.measurer import configured, schedule_of

MODEL = Configured("pointer", (128, 128, 64), 8, 3, 8)
FAST = Configured("tma", (128, 256, 64), 8, 4, 16)


def decision() -> Decision:
    tried = (Tried(MODEL, 110.0, 1.0), Tried(FAST, 120.0, 0.8), Tried(FAST, 130.0, None, "spills"))
    return Decision(FAST, 120.0, 80.0, 100.0, 16384, tried, is_complete=True)


@pytest.fixture
def key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    use_cache(monkeypatch, tmp_path)
    return stored()


def stored() -> str:
    key = store.tuning_key("gemm", 16384, "NVIDIA H100", "space")
    assert store.store(key, "M x 4096 x 4096", 16384, "NVIDIA H100", decision()) is None
    return key


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    capsys.readouterr()
    assert main(words) == 0
    return capsys.readouterr().out


def test_a_schedule_as_data():
    assert configured(schedule_of(MODEL)) == MODEL


def test_a_stored_decision_is_found(key: str):
    entry = store.load(key)
    assert entry is not None and entry.decision == decision()


def test_list(key: str, capsys: pytest.CaptureFixture[str]):
    head, line = printed(capsys, "tuned").splitlines()
    assert head.split() == ["KEY", "GEMM", "ROWS", "DEVICE", "SCHEDULE", "US", "GAIN", "VERSIONS"]
    assert line.startswith(f"{key[:12]}  M x 4096 x 4096  <= 16384  NVIDIA H100  tma 128x256x64")
    assert line.split()[-3:] == ["80.0", "1.25", "current"]
    data = json.loads(printed(capsys, "tuned", "--json"))
    assert data["key"] == key and data["decision"]["chosen"]["stages"] == 4
    assert "tuned      1 (" in printed(capsys, "stats")


def test_damaged_and_outdated_results(
    key: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    tuning_path("f" * 64).write_text("garbage")
    set_versions(monkeypatch, VERSIONS | {"torch": "0"})
    lines = printed(capsys, "tuned").splitlines()[1:]
    assert sorted(line.split()[-1] for line in lines) == ["damaged", "outdated"]
    current = stored()
    printed(capsys, "prune", "--outdated")
    assert [file.path for file in cached_files()] == [tuning_path(current)]


def test_results_are_pruned_last(key: str):
    program = tuning_path(key).parents[1] / "programs" / f"{'0' * 64}.entry"
    program.parent.mkdir()
    program.write_bytes(b"x" * 5000)
    prune(max_bytes=4000)
    assert [file.path for file in cached_files()] == [tuning_path(key)]
    prune(max_bytes=10)
    assert not cached_files()
