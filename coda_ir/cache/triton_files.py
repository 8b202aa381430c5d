"""Triton's own cache of compiled kernels: which of its folders belong to generated modules.

Triton keeps one folder per kernel, named after a hash of the kernel's text, its options, the GPU
and the versions of Triton, but not of the path of the module. A file `__grp__*.json` in it lists
the others by their full paths. Launchers, which are shared libraries, have folders of their own.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

FOLDER_NAME = re.compile(r"[A-Z2-7]{16,64}")
FILE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,240}")

GROUP = "__grp__"

LIBRARIES = ("__triton_launcher", "cuda_utils", "hip_utils")
"""Shared libraries that Triton makes with a C compiler, which takes longer than anything else."""

_GENERATED_MODULE = re.compile(rb"\w_[0-9a-f]{16}\.py\b")


def triton_cache_directory() -> Path:
    """Where Triton keeps compiled kernels: `$TRITON_CACHE_DIR`, else below `$TRITON_HOME`."""
    configured = os.environ.get("TRITON_CACHE_DIR")
    if configured:
        return Path(configured)
    home = os.environ.get("TRITON_HOME") or os.path.expanduser("~/")
    return Path(home) / ".triton" / "cache"


def kernel_folders(kernels: Collection[str]) -> Iterator[Path]:
    """The folders of kernels of these names that were compiled from generated modules."""
    for folder in _folders():
        names = _names(folder)
        compiled = {name.removeprefix(GROUP) for name in names if name.startswith(GROUP)}
        if any(name.removesuffix(".json") in kernels for name in compiled) and any(
            _GENERATED_MODULE.search((folder / name).read_bytes()) for name in names
        ):
            yield folder


def library_folders() -> Iterator[Path]:
    """The folders of what Triton calls kernels through, whatever they belong to."""
    for folder in _folders():
        names = _names(folder)
        if names and all(name.startswith(LIBRARIES) for name in names):
            yield folder


def _folders() -> list[Path]:
    root = triton_cache_directory()
    if not root.is_dir():
        return []
    return sorted(p for p in root.iterdir() if FOLDER_NAME.fullmatch(p.name) and p.is_dir())


def _names(folder: Path) -> list[str]:
    """The files of a folder, without those that are being written."""
    return sorted(path.name for path in folder.iterdir() if path.is_file())


def moved_group(data: bytes, folder: Path, names: Collection[str]) -> bytes:
    """The list of files of a kernel for another folder, which has the files `names`.

    Raises ValueError for data that Triton does not write.
    """
    try:
        content: Any = json.loads(data)
        listed = set[str](content["child_paths"])
    except (KeyError, TypeError) as error:
        raise ValueError("no list of the files of a kernel") from error
    paths = {name: str(folder / name) for name in names if name in listed}
    return json.dumps({"child_paths": paths}).encode()
