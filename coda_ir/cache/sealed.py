"""Files of the cache that tell whether they are what was written: a line with the kind of file and
a checksum of the rest.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from hashlib import sha256

from coda_ir.diagnostics import CodaError


class DamagedEntryError(CodaError):
    """A file of the cache that is not what was written."""


def seal(kind: str, content: bytes) -> bytes:
    """The bytes of a file of a kind."""
    return f"{kind} {sha256(content).hexdigest()}\n".encode() + content


def unseal(kind: str, data: bytes) -> bytes:
    """The content that was sealed as `kind`. Raises DamagedEntryError for anything else."""
    first, _, content = data.partition(b"\n")
    if first != f"{kind} {sha256(content).hexdigest()}".encode():
        raise DamagedEntryError("the checksum is wrong")
    return content


@contextmanager
def reading_entry() -> Generator[None]:
    """Content that is read inside and has another form than was written is a DamagedEntryError."""
    try:
        yield
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DamagedEntryError(f"not an entry: {error!r}") from error
