"""Control of Python's garbage collector."""

import gc
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def collector_paused() -> Generator[None]:
    """Pause the garbage collector while a program is traced, parsed or lowered, or its kernels are
    loaded.

    Graphs, trees and IR live to the end of that work, so collections find nothing: they take 40 %
    of the time of parsing a large program, and a full one, which visits all objects of TorchDynamo
    as well, takes 0.3 s.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
