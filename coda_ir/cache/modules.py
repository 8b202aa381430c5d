"""Generated Python modules as files, because Triton reads the source of a kernel from a file."""

import os
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from hashlib import sha256
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import module_from_spec
from pathlib import Path
from threading import RLock
from types import CodeType, ModuleType
from typing import Any

from coda_ir.cache import folder

_LOADING = RLock()
"""No thread finds a module that another one is still executing."""


def load_source(source: str, stem: str) -> ModuleType:
    """Import `source` from a file of the cache whose name consists of `stem` and a hash of its
    content.

    The same source gives the same module object. Where the cache is off or cannot be written, the
    module is made without a file.
    """
    name = module_name(source, stem)
    full_name = f"coda_ir_cache.{name}"
    with _LOADING:
        if full_name in sys.modules:
            return sys.modules[full_name]
        path = folder.cache_directory() / folder.MODULES / f"{name}.py"
        spec = ModuleSpec(full_name, _Loader(full_name, str(path), source), origin=str(path))
        spec.has_location = True
        return _import(spec)


def module_name(source: str, stem: str) -> str:
    """Return the name of the file of a module, without suffix."""
    return f"{stem}_{sha256(source.encode()).hexdigest()[:16]}"


class _Loader(SourceFileLoader):
    """A loader of known source, from a file that is made equal to it if possible.

    The file is what tracebacks, profilers and debuggers show, and Python keeps its byte code.
    """

    def __init__(self, fullname: str, path: str, source: str):
        super().__init__(fullname, path)
        self._data = source.encode()

    def get_data(self, path: str | bytes | os.PathLike[str] | os.PathLike[bytes]) -> bytes:
        return self._data if path == self.path else super().get_data(os.fsdecode(path))

    def path_stats(self, path: str) -> Mapping[str, Any]:
        """Return what Python compares with bytecode; the file's time says when it was last used."""
        if path != self.path:
            return super().path_stats(path)
        return {"mtime": 0, "size": len(self._data)}

    def get_code(self, fullname: str) -> CodeType:
        """Return the bytecode of the file if Python has it. Damaged bytecode is not used."""
        if not folder.size_limit():
            return self.source_to_code(self._data, self.path)
        try:
            _write_unless_equal(Path(self.path), self._data)
            code = super().get_code(fullname)
            assert code is not None
            return code
        except (OSError, EOFError, ValueError, TypeError):
            return self.source_to_code(self._data, self.path)


def _write_unless_equal(path: Path, data: bytes) -> None:
    """Replace a file whose content does not match its name, so that damaged code never runs.

    Raises OSError where it cannot be.
    """
    if path.is_file() and path.read_bytes() == data:
        folder.mark_used(path)
    else:
        folder.write_whole(path, data)
        folder.prune_to_limit()


def _import(spec: ModuleSpec) -> ModuleType:
    module = module_from_spec(spec)
    sys.modules[spec.name] = module
    with ExitStack() as undo:
        undo.callback(sys.modules.pop, spec.name)
        assert spec.loader is not None
        spec.loader.exec_module(module)
        undo.pop_all()
    return module
