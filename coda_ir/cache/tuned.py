"""Results of tuning on disk, in the folder of the cache.

An entry is one file: a line with the type of the file and a checksum of the rest, and the pickled
entry. A corrupt entry is ignored. There are no locks: if two processes tune the same GEMM, both
store their results, and the last one remains.
"""

from __future__ import annotations

import json
import pickle
import time
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from coda_ir.cache import folder
from coda_ir.cache.decision import Decision
from coda_ir.cache.toolchain import toolchain

FORMAT = 2
MAGIC = f"coda-ir-tuning {FORMAT}"


@dataclass(frozen=True)
class TunedEntry:
    """A decision and the GEMM that it applies to."""

    key: str
    gemm: str
    """A readable name: `M x 4096 x 11008`."""
    device: str
    bucket: int
    toolchain: Mapping[str, str]
    created: float
    """Seconds since 1970."""
    decision: Decision


def tuning_key(gemm: str, bucket: int, device: str, space: str) -> str:
    """Return the key of a GEMM, 64 hexadecimal digits.

    `gemm` is the text of the GEMM alone, and `space` describes the candidates.
    """
    parts = {
        "format": FORMAT,
        "toolchain": toolchain(),
        "gemm": gemm,
        "bucket": bucket,
        "device": device,
        "space": space,
    }
    return sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


_kept: dict[Path, TunedEntry] = {}
"""The latest MAX_KEPT results of this process, for the case that nothing can be stored."""

MAX_KEPT = 256


def load(key: str) -> TunedEntry | None:
    """Return the entry; None if there is none that can be read."""
    path = folder.tuning_path(key)
    if not folder.size_limit():
        return _kept.get(path)
    try:
        entry = read(path)
    except (folder.DamagedEntryError, OSError):
        return _kept.get(path)
    folder.mark_used(path)
    return entry if entry.key == key else _kept.get(path)


def read(path: Path) -> TunedEntry:
    """Read an entry. Raises DamagedEntryError for a damaged file, OSError for an unreadable one."""
    return folder.unpickled(folder.unseal(MAGIC, path.read_bytes()), TunedEntry)


def store(key: str, gemm: str, bucket: int, device: str, decision: Decision) -> str | None:
    """Store a decision; return the reason if it could not be written."""
    versions, path = toolchain(), folder.tuning_path(key)
    entry = TunedEntry(key, gemm, device, bucket, versions or {}, time.time(), decision)
    _kept[path] = entry
    while len(_kept) > MAX_KEPT:
        del _kept[next(iter(_kept))]
    if versions is None:
        return "sources of CODA IR were edited since this process read them"
    if not folder.size_limit():
        return "the cache is switched off"
    try:
        folder.write_whole(path, folder.seal(MAGIC, pickle.dumps(entry)))
        folder.prune_to_limit()
    except OSError as error:
        return f"{path.parent}: {error.strerror or error}"
    return None
