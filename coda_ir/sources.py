"""Reading source files."""

from pathlib import Path

from coda_ir.diagnostics import CodaError


def read_source(path: str) -> str:
    """The text of a file. Raises CodaError where it cannot be read or is not UTF-8."""
    try:
        data = Path(path).read_bytes()
    except IsADirectoryError as error:
        raise CodaError(f"{path}: this is a directory", "name a file") from error
    except OSError as error:
        reason = error.strerror or str(error)
        raise CodaError(f"{path}: cannot read the file: {reason}", "check the path") from error
    except ValueError as error:
        raise CodaError(f"{path!r}: not a path: {error}", "check the path") from error
    return decode_source(data, path)


def decode_source(data: bytes, path: str) -> str:
    """The text of a source file, without a byte order mark. Raises CodaError if not UTF-8."""
    try:
        return data.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        start = data.rfind(b"\n", 0, error.start) + 1
        line = data.count(b"\n", 0, error.start) + 1
        column = len(data[start : error.start].decode("utf-8")) + 1
        raise CodaError(
            f"{path}:{line}:{column}: not UTF-8: byte 0x{data[error.start]:02x} at offset "
            f"{error.start}",
            "save the file as UTF-8",
        ) from error
