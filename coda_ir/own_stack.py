"""Work on a stack of its own, which does not depend on how deep the caller is.

CPython keeps the frames of calls in pieces of memory, and maps and unmaps the next piece whenever a
call crosses the end of one. Work whose calls cross it all the time, as TorchDynamo's compilers may,
takes three times as long. A new thread begins with an empty piece.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar, copy_context
from typing import TypeVar

R = TypeVar("R")

_is_inside: ContextVar[bool] = ContextVar("coda_own_stack", default=False)


def on_own_stack(work: Callable[[], R]) -> R:
    """The result of `work`, which runs in a thread of its own, with the context variables of this
    one. Work inside of such work stays in its thread. Raises what `work` raises.

    What PyTorch keeps for each thread, such as the current device, has its defaults there.
    """
    if _is_inside.get():
        return work()
    context = copy_context()
    context.run(_is_inside.set, True)
    with ThreadPoolExecutor(1, thread_name_prefix="coda-stack") as pool:
        return pool.submit(context.run, work).result()
