"""The number of kernels that are compiled at a time."""

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

from coda_ir.diagnostics import OptionError

SETTING = "CODA_COMPILE_JOBS"
"""Environment variable."""

_chosen: ContextVar[int | None] = ContextVar("coda_compile_jobs", default=None)


def compile_jobs(chosen: int | None = None) -> int:
    """Return `chosen`, else the number of `use_jobs`, else CODA_COMPILE_JOBS, else the number of
    cores.

    Raises CodaError for less than 1.
    """
    chosen = _chosen.get() if chosen is None else chosen
    if chosen is not None:
        return _checked(chosen, "jobs", repr(chosen))
    value = os.environ.get(SETTING, "")
    if not value:
        return available_cores()
    return _checked(int(value) if value.isdecimal() else 0, SETTING, f"'{value}'")


@contextmanager
def use_jobs(jobs: int | None) -> Generator[None]:
    """Within the context, compile this many kernels at a time; None does not set a number."""
    token = _chosen.set(jobs)
    try:
        yield
    finally:
        _chosen.reset(token)


def available_cores() -> int:
    """Return the number of cores that this process may use."""
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _checked(jobs: object, name: str, written: str) -> int:
    if not isinstance(jobs, int) or jobs < 1:
        raise OptionError(f"{name} is {written}", "use the number of kernels to compile at a time")
    return jobs
