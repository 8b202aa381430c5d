"""The origin of a block-level program: its key in the cache, and how it is made on demand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from coda_ir.diagnostics import CodaError
from coda_ir.sources import read_source

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp


@dataclass
class Origin:
    """A program that is made on demand.

    `identity` is plain data that decides the program, but for the files that it imports.
    """

    identity: Mapping[str, Any]
    make: Callable[[Origin], ModuleOp]
    """Makes the program; reads imported files through `read`."""
    files: dict[str, str] = field(default_factory=dict[str, str])
    """The texts of the imported files by path, those that the program was made from."""

    def module(self) -> ModuleOp:
        """The program. Raises CodaError if it is wrong."""
        return self.make(self)

    def read(self, path: str) -> str:
        """Return an imported file's text, always the same. Raises CodaError like `read_source`."""
        if path not in self.files:
            self.files[path] = read_source(path)
        return self.files[path]

    def adopt(self, files: Mapping[str, str]) -> bool:
        """Return whether the imported files equal `files`, which then need not be read again."""
        for path, text in files.items():
            try:
                if read_source(path) != text:
                    return False
            except CodaError:
                return False
        self.files.update(files)
        return True
