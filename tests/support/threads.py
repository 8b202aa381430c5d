"""Work that several threads do at once."""

import threading
from collections.abc import Callable


def in_threads(work: Callable[[int], None], count: int = 4) -> None:
    """Call `work` with 0, 1, ... in a thread each; raises what one of them raised."""
    failures: list[BaseException] = []

    def guarded(index: int) -> None:
        try:
            work(index)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=guarded, args=(index,)) for index in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for failure in failures:
        raise failure
