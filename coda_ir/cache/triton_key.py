"""The key of Triton's installation, as an earlier process found it.

For its cache, Triton hashes its own files in every process: 400 MB, half of the time of a warm
first call. What it finds is kept, under a hash of names, sizes and times of these files, and given
to Triton by the next process, so that the keys of its cache are what they would have been.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from coda_ir.cache.folder import (
    TOOLCHAIN,
    cache_directory,
    mark_used,
    prune_to_limit,
    size_limit,
    write_whole,
)
from coda_ir.cache.sealed import DamagedEntryError, seal, unseal

MAGIC = "coda-ir-triton-key 1"

HOLDERS = ("triton.runtime.cache", "triton.runtime.autotuner", "triton.compiler.compiler")
"""Modules of Triton that may have the function."""


def recall_triton_key() -> None:
    """Give Triton the key that an earlier process found, or keep what it finds now.

    Does nothing where Triton has its key already, where this version of it has another function
    for it, and where the cache is off.
    """
    function: Any = getattr(import_module("triton.runtime.cache"), "triton_key", None)
    is_known = getattr(function, "cache_info", None)
    if is_known is None or is_known().currsize or not size_limit():
        return
    try:
        path = cache_directory() / TOOLCHAIN / f"triton_{fingerprint(_package())}"
    except OSError:  # Triton says what is wrong with its files, should it need them
        return
    key = _read(path)
    if key is not None:
        mark_used(path)
        _give(function, key)
        return
    data = seal(MAGIC, function().encode())
    with suppress(OSError):  # the next process has to look again
        write_whole(path, data)
        prune_to_limit()


def fingerprint(package: Path) -> str:
    """A hash that changes whenever a file of the package is written or replaced."""
    digest = sha256()
    for path in _files(package):
        s = path.stat()
        digest.update(f"{path}\0{s.st_size} {s.st_mtime_ns} {s.st_ctime_ns} {s.st_ino}\n".encode())
    return digest.hexdigest()[:32]


def _package() -> Path:
    file = import_module("triton").__file__
    assert file is not None, "triton is a package with a file"
    return Path(file).parent


def _files(package: Path) -> Iterator[Path]:
    for folder, folders, names in os.walk(package, followlinks=True):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        for name in sorted(names):
            yield Path(folder, name)


def _read(path: Path) -> str | None:
    """The key in a file; None where there is none, or not what was written."""
    try:
        return unseal(MAGIC, path.read_bytes()).decode()
    except (OSError, DamagedEntryError):
        return None


def _give(function: Callable[[], str], key: str) -> None:
    """Put a function that knows the key in the place of the one that looks for it."""

    @cache
    def triton_key() -> str:
        return key

    triton_key()
    for name in HOLDERS:
        module: ModuleType | None = sys.modules.get(name)
        if module is not None and vars(module).get("triton_key") is function:
            vars(module)["triton_key"] = triton_key
