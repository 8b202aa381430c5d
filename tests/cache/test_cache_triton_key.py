"""Triton's key of its installation, which one process finds and the next ones are given."""

import builtins
import os
import sys
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from coda_ir.cache import triton_key
from coda_ir.cache.folder import TOOLCHAIN, cached_files, prune


class Process:
    """What a new process has of Triton: a function that has not been called yet."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, key: str):
        self.hashed = 0

        @cache
        def found() -> str:
            self.hashed += 1
            return key

        self.modules = [ModuleType(name) for name in triton_key.HOLDERS]
        for module in self.modules:
            monkeypatch.setitem(vars(module), "triton_key", found)
            monkeypatch.setitem(sys.modules, module.__name__, module)

    def keys(self) -> set[str]:
        """What the modules of Triton find."""
        return {vars(module)["triton_key"]() for module in self.modules}


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installation of Triton, and an empty cache."""
    monkeypatch.setenv("CODA_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("CODA_CACHE_LIMIT", "1GiB")
    folder = tmp_path / "triton"
    (folder / "_C").mkdir(parents=True)
    (folder / "_C" / "libtriton.so").write_bytes(b"library")
    (folder / "version.py").write_text("3")
    monkeypatch.setattr(triton_key, "_package", lambda: folder)
    return folder


def start(monkeypatch: pytest.MonkeyPatch, key: str) -> Process:
    """A process that has recalled the key; `key` is what it would find itself."""
    process = Process(monkeypatch, key)
    triton_key.recall_triton_key()
    return process


def entries() -> list[Path]:
    return [file.path for file in cached_files() if file.path.parent.name == TOOLCHAIN]


def test_only_the_first_process_looks_for_it(package: Path, monkeypatch: pytest.MonkeyPatch):
    first = start(monkeypatch, "key")
    assert first.keys() == {"key"} and first.hashed == 1
    for _ in range(2):
        later = start(monkeypatch, "never asked for")
        assert later.keys() == {"key"} and later.hashed == 0
    assert len(entries()) == 1


@pytest.mark.parametrize("change", ["content", "time", "another file", "replaced"])
def test_another_installation(package: Path, monkeypatch: pytest.MonkeyPatch, change: str):
    start(monkeypatch, "before")
    library = package / "_C" / "libtriton.so"
    status = library.stat()
    if change == "content":
        library.write_bytes(b"librarY")
        os.utime(library, ns=(status.st_atime_ns, status.st_mtime_ns))
    elif change == "time":
        os.utime(library, ns=(status.st_atime_ns, status.st_mtime_ns + 1))
    elif change == "another file":
        (package / "more.py").touch()
    else:
        other = package / "other"
        other.write_bytes(b"library")
        other.replace(library)
    assert start(monkeypatch, "after").keys() == {"after"}


def test_byte_code_does_not_matter(package: Path, monkeypatch: pytest.MonkeyPatch):
    start(monkeypatch, "before")
    (package / "__pycache__").mkdir()
    (package / "__pycache__" / "version.pyc").touch()
    assert start(monkeypatch, "after").keys() == {"before"}


@pytest.mark.parametrize("damage", [b"", b"coda-ir-triton-key 1 0\nkey", None])
def test_a_damaged_entry_is_replaced(
    package: Path, monkeypatch: pytest.MonkeyPatch, damage: bytes | None
):
    start(monkeypatch, "key")
    (entry,) = entries()
    entry.write_bytes(entry.read_bytes() + b"!" if damage is None else damage)
    assert start(monkeypatch, "new").keys() == {"new"}
    assert start(monkeypatch, "never asked for").keys() == {"new"}


def test_a_cache_that_is_off_or_cannot_be_written(
    package: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setenv("CODA_CACHE_LIMIT", "0")
    assert start(monkeypatch, "a").hashed == 0
    monkeypatch.setenv("CODA_CACHE_LIMIT", "1GiB")
    (tmp_path / "file").touch()
    monkeypatch.setenv("CODA_CACHE_DIR", str(tmp_path / "file" / "cache"))
    assert start(monkeypatch, "b").keys() == {"b"}
    assert start(monkeypatch, "c").keys() == {"c"}


def test_a_process_that_knows_it_already(package: Path, monkeypatch: pytest.MonkeyPatch):
    start(monkeypatch, "key")
    process = Process(monkeypatch, "own")
    assert process.keys() == {"own"}
    triton_key.recall_triton_key()
    assert process.keys() == {"own"} and process.hashed == 1


def test_a_triton_without_such_a_function(package: Path, monkeypatch: pytest.MonkeyPatch):
    process = Process(monkeypatch, "key")
    for other in (None, lambda: "key"):
        monkeypatch.setitem(vars(process.modules[0]), "triton_key", other)
        triton_key.recall_triton_key()
        assert vars(process.modules[0])["triton_key"] is other
    assert not entries()


def test_it_is_pruned(package: Path, monkeypatch: pytest.MonkeyPatch):
    start(monkeypatch, "key")
    prune(everything=True)
    assert not entries()


def test_all_files_that_triton_hashes_count(monkeypatch: pytest.MonkeyPatch):
    """Of the Triton that is installed."""
    module: Any = import_module("triton.runtime.cache")
    opened: set[Path] = set()
    open: Any = builtins.open

    def recording(path: str, *arguments: Any) -> Any:
        opened.add(Path(path))
        return open(path, *arguments)

    monkeypatch.setattr(module, "open", recording, raising=False)
    module.triton_key.__wrapped__()
    package = Path(module.__file__).parents[1]
    files = triton_key._files(package)  # pyright: ignore[reportPrivateUsage]
    assert opened and opened <= set(files)
