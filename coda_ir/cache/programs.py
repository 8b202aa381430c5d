"""Compiled programs on disk, keyed by a hash of everything that determines them.

An entry is one file: a line with the type of the file and a checksum of the rest, a line of JSON
that describes the entry, and the pickled entry. If an entry is corrupt, the program is compiled
again and the entry replaced.
"""

from __future__ import annotations

import json
import pickle
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from coda_ir.cache import folder
from coda_ir.cache.artifact import Artifact
from coda_ir.cache.origin import Origin
from coda_ir.cache.toolchain import toolchain

FORMAT = 5
MAGIC = f"coda-ir-program {FORMAT}"


@dataclass(frozen=True)
class Header:
    """The header of an entry, which describes it."""

    key: str
    function: str
    architecture: str
    """The architecture that the program was compiled for, such as `sm_90` or `cpu`."""
    toolchain: Mapping[str, str]
    created: float
    """Seconds since 1970."""


@dataclass(frozen=True)
class Entry:
    header: Header
    artifact: Artifact
    files: Mapping[str, str]
    """The texts of the files that the program imports, by path."""

    def to_bytes(self) -> bytes:
        header = f"{json.dumps(vars(self.header))}\n".encode()
        return folder.seal(MAGIC, header + pickle.dumps(self))

    @staticmethod
    def from_bytes(data: bytes) -> Entry:
        """Read what `to_bytes` returns. Raises DamagedEntryError for anything else."""
        return folder.unpickled(folder.unseal(MAGIC, data).partition(b"\n")[2], Entry)


@dataclass(frozen=True)
class Request:
    """The source and the target of a compilation."""

    origin: Origin
    function: str | None
    """The function of the program, None for the only one."""
    architecture: str
    options: Mapping[str, Any]
    """Plain data: the passes with their options."""

    def key(self) -> str | None:
        """The key, 64 hexadecimal digits; None if the program must not be looked up."""
        versions = toolchain()
        if versions is None or not folder.size_limit():
            return None
        parts = {
            "format": FORMAT,
            "toolchain": versions,
            "program": self.origin.identity,
            "function": self.function,
            "architecture": self.architecture,
            "options": self.options,
        }
        return sha256(json.dumps(parts, sort_keys=True, default=repr).encode()).hexdigest()


def fetch(
    request: Request, make: Callable[[], Artifact], is_final: Callable[[], bool] = lambda: True
) -> Artifact:
    """Return the program from the cache, or make it; store the new one if it `is_final`.

    Remarks of the artifact say where the cache was of no use. Raises what `make` raises.
    """
    key = request.key()
    if key is None:
        return make()
    path, notes = folder.program_path(key), list[str]()
    try:
        found = _unstored.get(path) or load(key)
    except folder.DamagedEntryError as error:
        found, notes = None, [f"a damaged entry is replaced: {error.message}"]
    except OSError as error:
        found, notes = None, [f"an entry cannot be read: {error.strerror}"]
    if found is not None and request.origin.adopt(found.files):
        folder.mark_used(path)
        return found.artifact
    made = make()
    return _store(key, request, made, *notes) if is_final() else made


def load(key: str) -> Entry | None:
    """Return the entry, or None if there is none.

    Raises DamagedEntryError for one that is damaged, and OSError where it cannot be read.
    """
    try:
        entry = Entry.from_bytes(folder.program_path(key).read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return None
    if entry.header.key != key:
        raise folder.DamagedEntryError(f"it is the entry {entry.header.key}")
    return entry


def read_header(path: Path) -> Header | None:
    """Read the header of an entry without the rest; None if it is damaged."""
    try:
        with path.open("rb") as file:
            magic = file.readline(len(MAGIC) + 80)
            header = Header(**json.loads(file.readline(1 << 16)))
    except (OSError, ValueError, TypeError):
        return None
    return header if magic.startswith(f"{MAGIC} ".encode()) else None


_unstored: dict[Path, Entry] = {}
"""Entries of this process that could not be written, the latest MAX_UNSTORED of them."""

MAX_UNSTORED = 64


def _store(key: str, request: Request, artifact: Artifact, *notes: str) -> Artifact:
    """Write an entry if possible; return the artifact, with remarks about the cache."""
    versions, path = toolchain(), folder.program_path(key)
    assert versions is not None, "there is no key without versions"
    header = Header(key, artifact.signature.name, request.architecture, versions, time.time())
    entry = Entry(header, artifact, dict(request.origin.files))
    try:
        folder.write_whole(path, entry.to_bytes())
        folder.prune_to_limit()
    except OSError as error:
        reason = error.strerror or str(error)
        notes = (*notes, f"the program is not stored in {path.parent}: {reason}")
        noted = _with_notes(artifact, notes)
        _unstored[path] = replace(entry, artifact=noted)
        while len(_unstored) > MAX_UNSTORED:
            del _unstored[next(iter(_unstored))]
        return noted
    _unstored.pop(path, None)
    return _with_notes(artifact, notes)


def _with_notes(artifact: Artifact, notes: Sequence[str]) -> Artifact:
    return replace(artifact, notes=(*artifact.notes, *notes))
