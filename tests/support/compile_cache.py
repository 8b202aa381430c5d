"""A cache of compiled programs for one test."""

from collections.abc import Callable
from pathlib import Path

import pytest

from coda_ir.cache import programs, tuned
from coda_ir.lowering import Lowering
from coda_ir.tools import coda_cache

VERSIONS = {"coda_ir": "1", "xdsl": "1", "triton": "1", "torch": "1"}

PROGRAM = """
const D = 16

fn layer(x: f32[M, D], r: f32[M, D], weight w: f32[D, D], weight g: f32[D]) -> f32[M, D] {
    return rms_norm(r + linear(x, w), g, eps=1e-5)
}
"""


def use_cache(monkeypatch: pytest.MonkeyPatch, folder: Path) -> Path:
    """The folder of a cache that is on, with versions that do not depend on the sources."""
    monkeypatch.setenv("CODA_CACHE_DIR", str(folder / "cache"))
    monkeypatch.setenv("CODA_CACHE_LIMIT", "10MB")
    monkeypatch.setenv("TRITON_CACHE_DIR", str(folder / "triton"))
    set_versions(monkeypatch, VERSIONS)
    return folder / "cache"


def set_versions(monkeypatch: pytest.MonkeyPatch, versions: dict[str, str] | None) -> None:
    for module in (coda_cache, programs, tuned):
        monkeypatch.setattr(module, "toolchain", lambda: versions)


def count_lowered(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """Return how many functions were lowered and emitted since."""
    count, emit = 0, getattr(Lowering, "_emit")  # noqa: B009

    def counting(lowering: Lowering, function: str | None) -> object:
        nonlocal count
        count += 1
        return emit(lowering, function)

    monkeypatch.setattr(Lowering, "_emit", counting)
    return lambda: count
