"""A limit to the time that the code of a block may take on the processor."""

import signal
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def processor_time_limit(seconds: float, error: BaseException) -> Generator[None]:
    """Raise `error` after so many seconds on the processor: other processes do not count.

    For the main thread of a process.
    """

    def stop(_signal: int, _frame: FrameType | None) -> None:
        raise error

    previous = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, previous)
