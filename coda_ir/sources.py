"""Source files."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from coda_ir.diagnostics import CodaError, FileError


def read_source(path: str) -> str:
    """Read the text of a file. Raises CodaError if it cannot be read or is not UTF-8."""
    try:
        data = Path(path).read_bytes()
    except IsADirectoryError as error:
        raise FileError(f"{path}: this is a directory", "name a file") from error
    except OSError as error:
        reason = error.strerror or str(error)
        raise FileError(f"{path}: cannot read the file: {reason}", "check the path") from error
    except ValueError as error:
        raise FileError(f"{path!r}: not a path: {error}", "check the path") from error
    return decode_source(data, path)


def write_file(path: str | Path, data: bytes) -> None:
    """Write a file. Raises CodaError if it cannot be written."""
    try:
        Path(path).write_bytes(data)
    except OSError as error:
        raise FileError(f"{path}: cannot write the file: {error.strerror}") from error


def check_folder(path: Path) -> None:
    """Raise CodaError for a file in a folder that does not exist."""
    if not path.parent.is_dir():
        raise FileError(
            f"{path}: cannot write the file: there is no folder {path.parent}",
            "create it, or choose another path",
        )


def decode_source(data: bytes, path: str) -> str:
    """Decode a source file, without a byte order mark. Raises CodaError if it is not UTF-8."""
    try:
        return data.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        start = data.rfind(b"\n", 0, error.start) + 1
        line = data.count(b"\n", 0, error.start) + 1
        column = len(data[start : error.start].decode("utf-8")) + 1
        raise FileError(
            f"{path}:{line}:{column}: not UTF-8: byte 0x{data[error.start]:02x} at offset "
            f"{error.start}",
            "save the file as UTF-8",
        ) from error


class Sources(Mapping[str, str]):
    """The texts of source files by name, for excerpts in messages.

    Texts that are not given are read from the file of that name when they are asked for; a file
    that cannot be read is not in the mapping.
    """

    def __init__(self, known: Mapping[str, str] | None = None):
        self._texts: dict[str, str | None] = dict(known or {})

    def __getitem__(self, name: str) -> str:
        if name not in self._texts:
            try:
                self._texts[name] = read_source(name)
            except CodaError:
                self._texts[name] = None
        text = self._texts[name]
        if text is None:
            raise KeyError(name)
        return text

    def __iter__(self) -> Iterator[str]:
        return (name for name, text in self._texts.items() if text is not None)

    def __len__(self) -> int:
        return sum(1 for _ in self)
