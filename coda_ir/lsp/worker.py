"""A thread that does one piece of work after the other for the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from threading import Thread
from typing import TypeVar

Result = TypeVar("Result")


class Worker:
    """Runs work in order. Its thread does not keep the process alive, unlike those of an executor:
    an editor that quits does not wait for a compilation.
    """

    def __init__(self, name: str):
        self._queue = SimpleQueue[Callable[[], None]]()
        Thread(target=self._serve, name=name, daemon=True).start()

    async def run(self, work: Callable[[], Result]) -> Result:
        """The result of `work`, which runs in the thread and must not raise."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Result] = loop.create_future()

        def call() -> None:
            result = work()
            # The loop is closed where the server has ended meanwhile.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(_finish, future, result)

        self._queue.put(call)
        return await future

    def _serve(self) -> None:
        while True:
            self._queue.get()()


def _finish(future: asyncio.Future[Result], result: Result) -> None:
    if not future.cancelled():
        future.set_result(result)
