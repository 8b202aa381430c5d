"""The cache as one file: programs and the kernels that Triton compiled for them, as a zip archive.

An archive holds code: who imports it trusts who made it. It is checked as a whole before anything
is written.
"""

from __future__ import annotations

import json
import re
import zlib
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, BadZipFile, ZipFile

from coda_ir.cache.folder import (
    PROGRAM_SUFFIX,
    PROGRAMS,
    TUNING,
    cached_files,
    format_size,
    program_path,
    prune_to_limit,
    size_limit,
    tuning_path,
    whole_file,
    write_whole,
)
from coda_ir.cache.programs import Entry
from coda_ir.cache.sealed import DamagedEntryError
from coda_ir.cache.toolchain import toolchain
from coda_ir.cache.triton_files import (
    FILE_NAME,
    FOLDER_NAME,
    GROUP,
    kernel_folders,
    library_folders,
    moved_group,
    triton_cache_directory,
)
from coda_ir.cache.tuned import TunedEntry
from coda_ir.diagnostics import CodaError

FORMAT = 1
MANIFEST = "coda-ir-cache.json"
KERNELS = "triton"

LARGEST = 8 << 30
"""Bytes that the files of an archive may have together."""

_PROGRAM_NAME = re.compile(rf"{PROGRAMS}/([0-9a-f]{{64}}){re.escape(PROGRAM_SUFFIX)}")
_TUNING_NAME = re.compile(rf"{TUNING}/([0-9a-f]{{64}}){re.escape(PROGRAM_SUFFIX)}")
_KERNEL_NAME = re.compile(rf"{KERNELS}/({FOLDER_NAME.pattern})/({FILE_NAME.pattern})")


class ArchiveError(CodaError):
    """A file that is not an archive of the cache, or not a safe one."""


@dataclass(frozen=True)
class Contents:
    """What an archive got or gave."""

    programs: int
    kernels: int
    """Folders of Triton's cache, those of launchers included."""
    outdated: int = 0
    """Programs that other versions made, which are not imported."""
    tuned: int = 0
    """Results of tuning."""


def export_cache(
    path: Path,
    functions: Collection[str] = (),
    *,
    with_kernels: bool = True,
    with_tuning: bool = True,
) -> Contents:
    """Write the programs of `functions`, by default all, to an archive.

    `with_kernels` adds what Triton has compiled for them, `with_tuning` all results of tuning.
    Damaged entries are left out. Raises ArchiveError where there is no such program, and OSError
    where the file cannot be written.
    """
    entries = [entry for entry in _entries() if not functions or _name(entry) in functions]
    tuned = _tuned_entries() if with_tuning else []
    missing = sorted(set(functions) - set(map(_name, entries)))
    if missing or not (entries or tuned):
        known = ", ".join(sorted(set(map(_name, _entries())))) or "none"
        what = f"no program '{missing[0]}'" if missing else "no programs"
        raise ArchiveError(f"the cache has {what}", f"its programs are: {known}")
    folders: list[Path] = []
    if with_kernels:
        names = {name for entry in entries for name in entry.artifact.kernels}
        folders = [*kernel_folders(names), *library_folders()]
    with whole_file(path) as file, ZipFile(file, "w", ZIP_DEFLATED) as archive:
        archive.writestr(MANIFEST, json.dumps({"format": FORMAT, "toolchain": toolchain()}))
        for entry in entries:
            name = f"{PROGRAMS}/{entry.header.key}{PROGRAM_SUFFIX}"
            archive.writestr(name, entry.to_bytes())
        for result in tuned:
            archive.writestr(f"{TUNING}/{result.key}{PROGRAM_SUFFIX}", result.to_bytes())
        for file_path in _files_of(folders):
            name = f"{KERNELS}/{file_path.parent.name}/{file_path.name}"
            archive.writestr(name, file_path.read_bytes())
    return Contents(len(entries), len(folders), tuned=len(tuned))


def _entries() -> Iterator[Entry]:
    for file in cached_files():
        if file.is_program:
            try:
                yield Entry.from_bytes(file.path.read_bytes())
            except (DamagedEntryError, FileNotFoundError):
                continue


def _tuned_entries() -> list[TunedEntry]:
    found: list[TunedEntry] = []
    for file in cached_files():
        if file.is_tuning:
            with suppress(DamagedEntryError, FileNotFoundError):
                found.append(TunedEntry.from_bytes(file.path.read_bytes()))
    return found


def _name(entry: Entry) -> str:
    return entry.header.function


def _files_of(folders: Iterable[Path]) -> Iterator[Path]:
    for folder in folders:
        files = sorted(path for path in folder.iterdir() if path.is_file())
        yield from (path for path in files if FILE_NAME.fullmatch(path.name))


def import_cache(path: Path) -> Contents:
    """Add the programs of an archive to the cache, and its kernels to Triton's.

    Kernels that Triton has already stay as they are. Raises ArchiveError for a file that is not an
    archive, is damaged, or has names that are not safe, and OSError where it cannot be read or the
    cache cannot be written.
    """
    if not size_limit():
        raise CodaError("the cache is switched off", "unset CODA_CACHE_LIMIT, which is 0")
    try:
        with ZipFile(path) as archive:
            return _import(archive, path)
    except (BadZipFile, NotImplementedError, RuntimeError, EOFError, zlib.error) as error:
        raise ArchiveError(f"{path}: not an archive of the cache: {error}", _HOW) from error


_HOW = "make one with coda-cache export"


def _import(archive: ZipFile, path: Path) -> Contents:
    _check_manifest(archive, path)
    names = _sorted_names(archive, path)
    entries = [_checked_entry(archive.read(n), key, path) for key, n in names.programs.items()]
    results = [_checked_result(archive.read(n), key, path) for key, n in names.tuned.items()]
    versions = toolchain()
    current = [entry for entry in entries if entry.header.toolchain == versions]
    tuned = [result for result in results if result.toolchain == versions]
    folders = {
        triton_cache_directory() / folder: _checked_kernel(archive, folder, files, path)
        for folder, files in names.kernels.items()
    }
    for entry in current:
        write_whole(program_path(entry.header.key), entry.to_bytes())
    for result in tuned:
        write_whole(tuning_path(result.key), result.to_bytes())
    for folder, files in folders.items():
        _write_kernel(folder, files)
    prune_to_limit()
    return Contents(len(current), len(folders), len(entries) - len(current), len(tuned))


def _check_manifest(archive: ZipFile, path: Path) -> None:
    try:
        manifest: Any = json.loads(archive.read(MANIFEST))
        version = manifest["format"]
    except (KeyError, ValueError, TypeError) as error:
        raise ArchiveError(f"{path}: not an archive of the cache: no {MANIFEST}", _HOW) from error
    if version != FORMAT:
        raise ArchiveError(
            f"{path}: an archive of format {version}, expected {FORMAT}",
            "export it again with this version of CODA IR",
        )


@dataclass(frozen=True)
class _Names:
    """The names in an archive: of programs and results by key, of the files of each kernel."""

    programs: dict[str, str]
    tuned: dict[str, str]
    kernels: defaultdict[str, list[str]]


def _sorted_names(archive: ZipFile, path: Path) -> _Names:
    found = _Names({}, {}, defaultdict(list))
    total = 0
    for info in archive.infolist():
        name, total = info.filename, total + info.file_size
        if program := _PROGRAM_NAME.fullmatch(name):
            found.programs[program[1]] = name
        elif result := _TUNING_NAME.fullmatch(name):
            found.tuned[result[1]] = name
        elif kernel := _KERNEL_NAME.fullmatch(name):
            found.kernels[kernel[1]].append(kernel[2])
        elif name != MANIFEST:
            raise ArchiveError(f"{path}: unsafe or unknown name {name!r}", _HOW)
    if total > LARGEST:
        raise ArchiveError(f"{path}: has {format_size(total)}, at most {format_size(LARGEST)}")
    return found


def _checked_entry(data: bytes, key: str, path: Path) -> Entry:
    try:
        entry = Entry.from_bytes(data)
    except DamagedEntryError as error:
        raise ArchiveError(f"{path}: program {key[:12]}: {error.message}", _HOW) from error
    if entry.header.key != key:
        raise ArchiveError(f"{path}: program {key[:12]} is {entry.header.key[:12]}", _HOW)
    return entry


def _checked_result(data: bytes, key: str, path: Path) -> TunedEntry:
    try:
        result = TunedEntry.from_bytes(data)
    except DamagedEntryError as error:
        raise ArchiveError(f"{path}: tuning {key[:12]}: {error.message}", _HOW) from error
    if result.key != key:
        raise ArchiveError(f"{path}: tuning {key[:12]} is {result.key[:12]}", _HOW)
    return result


def _checked_kernel(
    archive: ZipFile, folder: str, names: list[str], path: Path
) -> Mapping[str, bytes]:
    """The files of a kernel, those that list the others last: Triton looks for these first."""
    files: dict[str, bytes] = {}
    for name in sorted(names, key=lambda name: name.startswith(GROUP)):
        data = archive.read(f"{KERNELS}/{folder}/{name}")
        if name.startswith(GROUP):
            try:
                data = moved_group(data, triton_cache_directory() / folder, names)
            except ValueError as error:
                raise ArchiveError(f"{path}: {folder}/{name}: {error}", _HOW) from error
        files[name] = data
    return files


def _write_kernel(folder: Path, files: Mapping[str, bytes]) -> None:
    for name, data in files.items():
        if not (folder / name).exists():
            write_whole(folder / name, data)
