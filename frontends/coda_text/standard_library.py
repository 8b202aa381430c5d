"""Where imports are: beside the importing file, or in the standard library."""

from __future__ import annotations

import os

PREFIX = "std/"
"""How the paths of imports from the standard library begin."""

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "std")

PATHS_ARE_RELATIVE = "paths are relative to the folder of this file"


def import_path(importer: str, target: str) -> str:
    """The file that `target` names in an import of the file `importer`.

    Paths that begin with `std/` are files of the package, wherever the importing file is.
    """
    if target.startswith(PREFIX):
        return os.path.normpath(os.path.join(FOLDER, target.removeprefix(PREFIX)))
    return os.path.normpath(os.path.join(os.path.dirname(importer), target))


def missing_remedy(target: str) -> str:
    """The remedy for an import of a file that does not exist."""
    if not target.startswith(PREFIX):
        return PATHS_ARE_RELATIVE
    files = ", ".join(f"{PREFIX}{name}" for name in files_of_library())
    return f"its files are {files}; ./std/ is a folder beside this file"


def missing_message(target: str, reason: str) -> str:
    """The message for an import of a file that cannot be read."""
    if target.startswith(PREFIX):
        return f"the standard library has no '{target}'"
    return f"cannot import: {reason}"


def files_of_library() -> list[str]:
    """The names of the files of the standard library."""
    return sorted(name for name in os.listdir(FOLDER) if name.endswith(".coda"))
