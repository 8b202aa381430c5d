"""The command line of coda-cache: what it prints, and its exit codes."""

import json
import re
import subprocess
import sys
import time
from os import utime
from pathlib import Path

import pytest
from support.compile_cache import PROGRAM, VERSIONS, set_versions, use_cache

import coda_ir
from coda_ir.cache import folder
from coda_ir.tools.coda_cache import main


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return use_cache(monkeypatch, tmp_path)


def compile_programs(*names: str) -> None:
    """Programs of these names, each used 100 s after the one before, the last one just now."""
    for number, name in enumerate(names):
        before = set(programs())
        coda_ir.compile(PROGRAM.replace("layer", name), device="cpu")
        (path,) = set(programs()) - before
        moment = time.time() - 100 * (len(names) - 1 - number)
        utime(path, (moment, moment))


def programs() -> list[Path]:
    return sorted(folder.cache_directory().glob("programs/*"))


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(words) == 0
    return capsys.readouterr().out


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(words) == 1
    return capsys.readouterr().err


def test_path(cache: Path, capsys: pytest.CaptureFixture[str]):
    assert printed(capsys, "path") == f"{cache}\n"


class TestList:
    def test_table(
        self, cache: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ):
        set_versions(monkeypatch, VERSIONS | {"torch": "0"})
        compile_programs("old")
        set_versions(monkeypatch, VERSIONS)
        compile_programs("layer", "newest")
        (cache / "programs" / f"{'f' * 64}.entry").write_text("garbage")
        utime(cache / "programs" / f"{'f' * 64}.entry", (1, 1))
        lines = printed(capsys, "list").splitlines()
        assert lines[0].split() == ["KEY", "FUNCTION", "TARGET", "SIZE", "USED", "VERSIONS"]
        rows = [re.split(r"\s{2,}", line) for line in lines[1:]]
        assert {tuple(row[i] for i in (1, 2, 5)) for row in rows} == {
            ("newest", "cpu", "current"),
            ("layer", "cpu", "current"),
            ("old", "cpu", "outdated"),
            ("?", "?", "damaged"),
        }
        assert rows[-1][0] == "f" * 12
        ages = {row[1]: row[4] for row in rows}
        assert ages["layer"] == "1m ago"
        assert all(re.fullmatch(r"\d+(\.\d)? (KiB|B)", row[3]) for row in rows)

    @pytest.mark.slow
    def test_json(self, cache: Path, capsys: pytest.CaptureFixture[str]):
        compile_programs("layer")
        (path,) = programs()
        data = json.loads(printed(capsys, "list", "--json"))
        assert data["key"] == path.stem
        assert data["size"] == path.stat().st_size
        assert (data["function"], data["architecture"]) == ("layer", "cpu")
        assert data["toolchain"] == VERSIONS

    def test_nothing(self, cache: Path, capsys: pytest.CaptureFixture[str]):
        assert printed(capsys, "list") == "KEY  FUNCTION  TARGET  SIZE  USED  VERSIONS\n"
        assert not cache.exists()


def test_stats(cache: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    compile_programs("layer", "statistics")
    lines = printed(capsys, "stats").splitlines()
    assert lines[0] == f"folder     {cache}"
    assert re.fullmatch(r"programs   2 \([\d.]+ KiB\), 0 of other versions", lines[1])
    assert re.fullmatch(r"modules    \d+ \([\d.]+ K?i?B\)", lines[2])
    assert lines[3] == "tuned      0 (0 B)"
    assert re.fullmatch(r"together   [\d.]+ KiB: \d% of 9.5 MiB", lines[4])
    monkeypatch.setenv("CODA_CACHE_LIMIT", "0")
    assert "the cache is off" in printed(capsys, "stats")


class TestPrune:
    def test_by_default_beyond_the_limit(
        self, cache: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ):
        compile_programs("first", "second")
        assert "removed 0 files (0 B)" in printed(capsys, "prune")
        monkeypatch.setenv("CODA_CACHE_LIMIT", "1000")
        assert "0 are left (0 B)" in printed(capsys, "prune")

    def test_by_size_and_by_age(self, cache: Path, capsys: pytest.CaptureFixture[str]):
        compile_programs("first", "second", "third")
        assert len(programs()) == 3
        printed(capsys, "prune", "--max-age", "150s")
        assert len(programs()) == 2
        printed(capsys, "prune", "--max-size", "1B")
        assert programs() == []

    def test_programs_of_other_versions(
        self, cache: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ):
        compile_programs("old")
        set_versions(monkeypatch, VERSIONS | {"xdsl": "2"})
        compile_programs("layer")
        assert printed(capsys, "prune", "--outdated").startswith("removed 1 file (")
        (path,) = programs()
        assert b'"layer"' in path.read_bytes()

    def test_everything(self, cache: Path, capsys: pytest.CaptureFixture[str]):
        compile_programs("first", "second")
        assert "0 are left (0 B)" in printed(capsys, "prune", "--all")
        assert not [path for path in cache.rglob("*") if path.is_file()]


@pytest.mark.parametrize(
    "words, message",
    [
        ([], "the following arguments are required: COMMAND"),
        (["lists"], "invalid choice: 'lists'"),
        (["list", "--yaml"], "unrecognized arguments: --yaml"),
        (
            ["prune", "--max-size", "much"],
            "'much' is not a size; write bytes, or a size such",
        ),
        (["prune", "--max-age", "old"], "'old' is not an age, such as 45m, 12h or 30d"),
    ],
)
def test_wrong_command_lines(words: list[str], message: str, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as stop:
        main(words)
    assert stop.value.code == 2
    assert message in capsys.readouterr().err


def test_a_wrong_limit(
    cache: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("CODA_CACHE_LIMIT", "all")
    assert "CODA_CACHE_LIMIT=all: not a size" in refused(capsys, "prune")


def test_a_defect(cache: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    def fail() -> Path:
        raise ZeroDivisionError("by nothing")

    monkeypatch.setattr(folder, "cache_directory", fail)
    assert main(["path"]) == 3
    said = capsys.readouterr().err
    assert said == "coda-cache: error[E1901]: internal error: ZeroDivisionError: by nothing\n"
    with pytest.raises(ZeroDivisionError):
        main(["--debug", "path"])


def test_it_starts_without_pytorch():
    script = """
import sys
from coda_ir.tools.coda_cache import main
main(["list"])
print({"torch", "xdsl", "triton"} & sys.modules.keys())
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.endswith("set()\n")
