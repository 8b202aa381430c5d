"""The folder of the cache: files appear in it atomically, and the least recently used are deleted
first. No operation waits for another process.
"""

import os
import pickle
import re
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from secrets import token_hex
from typing import TypeVar

from coda_ir.diagnostics import FileError, MachineError, OptionError

Kind = TypeVar("Kind")

PROGRAMS, MODULES, TUNING = "programs", "modules", "tuning"

ENTRY_SUFFIX = ".entry"

TEMPORARY = ".tmp"

DEFAULT_LIMIT = "1GiB"

ABANDONED_AFTER = 3600.0
"""Seconds after which a temporary file is no longer written."""

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(i?)B?", re.IGNORECASE)


def cache_directory() -> Path:
    """Return `$CODA_CACHE_DIR`, by default `coda_ir` in `$XDG_CACHE_HOME` or `~/.cache`.

    Raises CodaError where there is no home directory.
    """
    configured = os.environ.get("CODA_CACHE_DIR")
    if configured:
        return Path(configured)
    base = os.environ.get("XDG_CACHE_HOME", "")
    if os.path.isabs(base):
        return Path(base) / "coda_ir"
    try:
        return Path.home() / ".cache" / "coda_ir"
    except RuntimeError as error:
        raise MachineError(
            "there is no home directory for the cache", "set CODA_CACHE_DIR"
        ) from error


def size_limit() -> int:
    """Return the maximum size of the cache in bytes: `$CODA_CACHE_LIMIT`, by default 1 GiB; 0
    disables the cache of programs. Raises CodaError for an invalid size.
    """
    text = os.environ.get("CODA_CACHE_LIMIT") or DEFAULT_LIMIT
    try:
        return parse_size(text)
    except ValueError as error:
        raise OptionError(
            f"CODA_CACHE_LIMIT={text}: not a size", "write bytes, or a size such as 500MB or 2GiB"
        ) from error


def parse_size(text: str) -> int:
    """Return the bytes of a size: `2000`, `500MB`, `1.5GiB`. Raises ValueError for other texts."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise ValueError(text)
    number, prefix, binary = match.groups()
    power = " KMGT".index(prefix.upper() or " ")
    return int(float(number) * (1024 if binary else 1000) ** power)


def format_size(size: int) -> str:
    """Format a size: `512 B`, `1.5 KiB`, `20 MiB`."""
    value, unit = float(size), "B"
    for following in ("KiB", "MiB", "GiB", "TiB"):
        if value < 1024:
            break
        value, unit = value / 1024, following
    return f"{value:.0f} {unit}" if value >= 10 or unit == "B" else f"{value:.1f} {unit}"


def program_path(key: str) -> Path:
    return cache_directory() / PROGRAMS / f"{key}{ENTRY_SUFFIX}"


def tuning_path(key: str) -> Path:
    return cache_directory() / TUNING / f"{key}{ENTRY_SUFFIX}"


def write_whole(path: Path, data: bytes) -> None:
    """Write a file atomically: others see all of it or nothing. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name[:150]}.{os.getpid()}.{token_hex(4)}{TEMPORARY}")
    try:
        with open(temporary, "xb") as file:
            file.write(data)
        os.replace(temporary, path)
    except BaseException:
        _remove(temporary)
        raise


def mark_used(path: Path) -> None:
    """Mark a file as used now, so that older ones are pruned before it; errors are ignored."""
    with suppress(OSError):
        os.utime(path)


@dataclass(frozen=True)
class CachedFile:
    """A file of the cache; `used` is when it was last read or written, in seconds since 1970."""

    path: Path
    size: int
    used: float

    @property
    def is_program(self) -> bool:
        return self.path.parent.name == PROGRAMS and self.path.suffix == ENTRY_SUFFIX

    @property
    def is_tuning(self) -> bool:
        """True if the file is a result of tuning."""
        return self.path.parent.name == TUNING and self.path.suffix == ENTRY_SUFFIX

    @property
    def is_temporary(self) -> bool:
        """True if another process is writing the file, or died while it did."""
        return self.path.name.endswith(TEMPORARY)


def cached_files() -> list[CachedFile]:
    """Return the files of the cache, the least recently used first; none if the folder does not
    exist.

    Results of tuning come last: they are small, and take longest to make again.
    """
    root = cache_directory()
    folders = (PROGRAMS, MODULES, TUNING)
    found = [file for name in folders for file in _files_in(root / name)]
    return sorted(found, key=lambda file: (file.is_tuning, file.used, file.path.name))


def _files_in(folder: Path) -> list[CachedFile]:
    """Return the files of one folder, and Python's bytecode files below it."""
    files: list[CachedFile] = []
    try:
        entries = list(os.scandir(folder))
    except OSError:
        return []
    for entry in entries:
        if entry.name == "__pycache__":
            files += _files_in(folder / entry.name)
            continue
        with suppress(OSError):  # another process has removed it
            if entry.is_file(follow_symlinks=False):
                status = entry.stat(follow_symlinks=False)
                files.append(CachedFile(Path(entry.path), status.st_size, status.st_mtime))
    return files


@dataclass(frozen=True)
class Pruned:
    """The number and bytes of the files that were removed and of those that are left."""

    removed: int
    removed_bytes: int
    left: int
    left_bytes: int


def prune(
    *, max_bytes: int | None = None, max_age: float | None = None, everything: bool = False
) -> Pruned:
    """Remove the least recently used files until at most `max_bytes` are left, and files unused for
    `max_age` seconds. Temporary files are removed if the process that wrote them has ended.
    """
    now, files = time.time(), cached_files()
    kept = sum(file.size for file in files)
    removed: list[CachedFile] = []
    for file in files:
        age = now - file.used
        if file.is_temporary:
            is_done_with = age > ABANDONED_AFTER
        else:
            too_old = max_age is not None and age > max_age
            too_many = max_bytes is not None and kept > max_bytes
            is_done_with = everything or too_old or too_many
        if is_done_with and _remove(file.path):
            kept -= file.size
            removed.append(file)
    removed_bytes = sum(file.size for file in removed)
    return Pruned(len(removed), removed_bytes, len(files) - len(removed), kept)


def prune_to_limit() -> None:
    """Remove the least recently used files beyond `size_limit`."""
    prune(max_bytes=size_limit())


def remove(files: Sequence[CachedFile]) -> list[CachedFile]:
    """Remove files and return those that are gone. Files that cannot be removed stay."""
    return [file for file in files if _remove(file.path)]


def _remove(path: Path) -> bool:
    """Return whether the file is gone; another process may have removed it."""
    try:
        path.unlink(missing_ok=True)
    except OSError:
        return False
    return True


class DamagedEntryError(FileError):
    """A file of the cache whose content is not what was written."""


def seal(kind: str, content: bytes) -> bytes:
    """Return the bytes of a file with content of a kind."""
    return f"{kind} {sha256(content).hexdigest()}\n".encode() + content


def unseal(kind: str, data: bytes) -> bytes:
    """Return the content that was sealed as `kind`. Raises DamagedEntryError for anything else."""
    first, _, content = data.partition(b"\n")
    if first != f"{kind} {sha256(content).hexdigest()}".encode():
        raise DamagedEntryError("the checksum is wrong")
    return content


def unpickled(data: bytes, kind: type[Kind]) -> Kind:
    """Return an unpickled object. Raises DamagedEntryError for anything but one of a kind."""
    try:
        found = pickle.loads(data)
    except Exception as error:
        raise DamagedEntryError(f"not an entry: {error!r}") from error
    if not isinstance(found, kind):
        raise DamagedEntryError(f"not an entry: {type(found).__name__}")
    return found
