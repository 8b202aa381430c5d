"""The versions of everything that a compiled program depends on."""

import os
import time
from collections.abc import Iterator, Mapping
from functools import cache
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import coda_ir

IMPORTED = time.time_ns()

PACKAGES = ("xdsl", "triton", "torch")


@cache
def toolchain() -> Mapping[str, str] | None:
    """Return the versions of CODA IR and of the packages that it compiles with.

    That of CODA IR has a hash of its sources, which change more often than its version. None
    where they have changed since this process read them: what it makes fits neither.
    """
    root = Path(coda_ir.__file__).parent
    sources = list(_source_files(root))
    now = time.time_ns()
    # A time in the future says nothing: the file came from elsewhere.
    if any(IMPORTED < path.stat().st_mtime_ns <= now for path in sources):
        return None
    digest = sha256()
    for path in sources:
        digest.update(
            path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes() + b"\0"
        )
    own = f"{coda_ir.__version__}+{digest.hexdigest()[:16]}"
    return {"coda_ir": own} | {name: package_version(name) for name in PACKAGES}


@cache
def package_version(package: str) -> str:
    """Return a version such as `3.6.0`; `unknown` if no package of this name is installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return "unknown"


def _source_files(root: Path) -> Iterator[Path]:
    """Yield the files that determine the emitted code. A checkout's package folders are links."""
    for folder, folders, names in os.walk(root, followlinks=True):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        for name in sorted(names):
            if name.endswith((".py", ".lark")):
                yield Path(folder, name)
