"""What Triton does once in a process, done beside the lowering of a program.

It hashes its own files, and makes the library that it calls the driver through, the first time
with a C compiler: about a second, without Python's lock.
"""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import cache
from importlib import import_module


@cache
def start_triton() -> Future[None]:
    """Begin with it, in a thread. Triton is imported here: imports are not for several threads."""
    import_module("triton.runtime")
    pool = ThreadPoolExecutor(1, thread_name_prefix="coda-triton")
    future = pool.submit(_start)
    pool.shutdown(wait=False)
    return future


def wait_for_triton() -> None:
    """Return when it is done. What failed, Triton tries again when it needs it, and says why."""
    wait([start_triton()])


def _start() -> None:
    find_key = getattr(import_module("triton.runtime.cache"), "triton_key", None)
    if find_key is not None:
        find_key()
    _ = import_module("triton.runtime").driver.active
