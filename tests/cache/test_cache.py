"""The cache of generated modules."""

import inspect
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from coda_ir.cache import load_source
from coda_ir.cache.folder import cache_directory


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CODA_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("CODA_CACHE_LIMIT")
    return tmp_path


@pytest.mark.parametrize(
    "base, expected",
    [
        (None, Path.home() / ".cache"),
        ("/var/cache", Path("/var/cache")),
        ("rel", Path.home() / ".cache"),
    ],
)
def test_default_directory(monkeypatch: pytest.MonkeyPatch, base: str | None, expected: Path):
    monkeypatch.delenv("CODA_CACHE_DIR")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    if base is not None:
        monkeypatch.setenv("XDG_CACHE_HOME", base)
    assert cache_directory() == expected / "coda_ir"


def test_the_module_has_a_source_file(cache: Path):
    module = load_source("answer = 41\n", "answer")
    assert module.answer == 41
    assert [file.name for file in cache.glob("modules/*.py")] == [Path(module.__file__ or "").name]
    assert Path(module.__file__ or "").name.startswith("answer_")


def test_the_same_source_is_the_same_module(cache: Path):
    assert load_source("a = 1\n", "m") is load_source("a = 1\n", "m")
    assert load_source("a = 1\n", "m") is not load_source("a = 2\n", "m")


def test_threads_see_whole_modules(cache: Path):
    source = "import time\ntime.sleep(0.05)\nanswer = 42\n"
    with ThreadPoolExecutor(4) as pool:
        modules = list(pool.map(load_source, [source] * 4, ["m"] * 4))
        assert [module.answer for module in modules] == [42] * 4
    assert len(set(map(id, modules))) == 1


def test_a_damaged_file_is_written_again(cache: Path):
    path = Path(load_source("value = 'right'\n", "m").__file__ or "")
    path.write_text("value = 'wrong'\n")
    del sys.modules[f"coda_ir_cache.{path.stem}"]
    assert load_source("value = 'right'\n", "m").value == "right"


def test_damaged_byte_code_is_not_used(cache: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.setattr(sys, "pycache_prefix", None)
    for kept in (16, 20, 0, 10_000):
        load_source("value = [1, 2]\n", "m")
        (compiled,) = cache.glob("modules/__pycache__/*.pyc")
        compiled.write_bytes(compiled.read_bytes()[:kept])
        del sys.modules[f"coda_ir_cache.{compiled.name.partition('.')[0]}"]
        assert load_source("value = [1, 2]\n", "m").value == [1, 2]
        del sys.modules[f"coda_ir_cache.{compiled.name.partition('.')[0]}"]


def test_a_module_that_fails_leaves_nothing_behind(cache: Path):
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            load_source("1 / 0\n", "broken")
    assert not [name for name in sys.modules if name.startswith("coda_ir_cache.broken")]


def test_a_directory_that_cannot_be_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    occupied = tmp_path / "file"
    occupied.write_text("")
    monkeypatch.setenv("CODA_CACHE_DIR", str(occupied))
    module = load_source("def f():\n    return 1\n", "m")
    assert module.f() == 1
    assert inspect.getsource(module.f) == "def f():\n    return 1\n"
