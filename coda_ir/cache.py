"""The cache of generated Python modules: Triton reads a kernel's source from its file."""

from __future__ import annotations

import os
import sys
import tempfile
from contextlib import ExitStack
from hashlib import sha256
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

from coda_ir.diagnostics import CodaError


def cache_directory() -> Path:
    """`$CODA_CACHE_DIR`, by default `~/.cache/coda_ir`."""
    configured = os.environ.get("CODA_CACHE_DIR")
    return Path(configured) if configured else Path.home() / ".cache" / "coda_ir"


def load_source(source: str, stem: str) -> ModuleType:
    """Import `source` from a file of the cache that is named after `stem` and its content.

    The same source gives the same module object. Raises CodaError where the cache cannot be
    written.
    """
    module_name = f"coda_ir_cache.{_name(source, stem)}"
    if module_name in sys.modules:
        return sys.modules[module_name]
    return _import_file(module_name, write_source(source, stem))


def write_source(source: str, stem: str) -> Path:
    """The file of the cache with that source, written where it is not there yet.

    Raises CodaError where the cache cannot be written.
    """
    path = cache_directory() / f"{_name(source, stem)}.py"
    try:
        _write_unless_equal(path, source)
    except OSError as error:
        raise CodaError(
            f"cannot write the generated module {path}: {error.strerror}",
            "set CODA_CACHE_DIR to a directory that can be written",
        ) from error
    return path


def _name(source: str, stem: str) -> str:
    return f"{stem}_{sha256(source.encode()).hexdigest()[:16]}"


def _write_unless_equal(path: Path, source: str) -> None:
    """Write atomically: other processes may import the file at the same time.

    A file whose content differs from its name is replaced, so that a damaged cache never runs.
    """
    if path.is_file() and path.read_bytes() == source.encode():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(suffix=".tmp", dir=path.parent)
    with ExitStack() as undo:
        undo.callback(os.unlink, temporary)
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="") as file:
            file.write(source)
        os.replace(temporary, path)
        undo.pop_all()


def _import_file(module_name: str, path: Path) -> ModuleType:
    spec = spec_from_file_location(module_name, path)
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[module_name] = module
    with ExitStack() as undo:
        undo.callback(sys.modules.pop, module_name)
        spec.loader.exec_module(module)
        undo.pop_all()
    return module
