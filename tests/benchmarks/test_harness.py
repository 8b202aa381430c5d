"""The harness that times benchmarks, on the CPU."""

import pytest
from harness import Queued, do_bench


def test_calls_in_a_queue_of_their_own():
    """The time of one of them, where the last one is waited for."""
    done: list[str] = []
    clock = iter(range(1000))
    candidate = Queued(lambda: done.append("call"), lambda _: done.append("wait"), count=3)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("time.perf_counter", lambda: 0.012 * next(clock))
        assert do_bench(candidate, warmup=0, rep=1) == pytest.approx(4.0)
    assert done == ["call", "call", "call", "wait"]
