"""Reading source files."""

from pathlib import Path

from coda_ir.diagnostics import CodaError


def read_source(path: Path) -> str:
    """The text of a file. Raises CodaError where it cannot be read or is not UTF-8."""
    try:
        return decode(path.read_bytes(), str(path))
    except OSError as error:
        raise CodaError(
            f"cannot read {path}: {error.strerror}", "check the path and its permissions"
        ) from error


def decode(data: bytes, name: str) -> str:
    """The text of a source file. Raises CodaError where it is not UTF-8."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise CodaError(
            f"{name}:{line}: the file is not UTF-8: byte 0x{data[error.start]:02x} at offset "
            f"{error.start}",
            "save the file as UTF-8",
        ) from error
