"""Work in processes of their own, so that a crash or a hang costs one result."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable
from typing import Any, Generic, Literal, TypeVar

ResultT = TypeVar("ResultT")


class Job(Generic[ResultT]):
    """A call `work(*arguments, results)`, which sends what it finds through `results`."""

    def __init__(
        self,
        method: Literal["fork", "spawn"],
        work: Callable[..., None],
        arguments: tuple[Any, ...],
        failed: Callable[[str], ResultT],
    ):
        context: Any = multiprocessing.get_context(method)
        self._results, sender = context.Pipe(duplex=False)
        self._failed = failed
        self._process = context.Process(target=work, args=(*arguments, sender), daemon=True)
        self._process.start()
        sender.close()

    def poll(self, until: float) -> ResultT | None:
        """The result, once there is one; at the time `until` the process is ended."""
        if self._results.poll():
            try:
                result: ResultT = self._results.recv()
            except EOFError:
                result = self._ended()
        elif time.monotonic() > until:
            self._process.kill()
            result = self._failed("took too long")
        elif not self._process.is_alive() and not self._results.poll():
            result = self._ended()
        else:
            return None
        self._process.join()
        return result

    def _ended(self) -> ResultT:
        self._process.join()
        return self._failed(f"the process ended with {self._process.exitcode}")
