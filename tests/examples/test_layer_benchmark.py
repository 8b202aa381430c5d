"""The benchmark of the layer, small and on the CPU."""

import json
from pathlib import Path
from types import SimpleNamespace

import layer
import pytest
from harness import Budget, Queued, do_bench

SMALL = ["--sizes", "32", "--batch", "1", "--time", "8", "--head-dim", "8"]


@pytest.mark.slow
def test_results_are_as_exact_as_eager(tmp_path: Path):
    path = tmp_path / "layer.json"
    options = ["--variants", "coda,eager", "--rounds", "1", "--json", str(path)]
    layer.main([*SMALL, *options])
    written = json.loads(path.read_text())
    errors = written["errors"]["D = 32"]
    for what, count in {"results": 4, "gradients": 8}.items():
        coda, eager = (errors[what][name] for name in ("coda", "eager"))
        assert len(coda) == count
        assert all(coda[name] <= 1.25 * eager[name] for name in eager)
    times = written["milliseconds"]
    assert set(times["forward, D = 32"]) == {"4 cuBLAS GEMMs", "coda", "eager"}
    assert set(times["backward, D = 32"]) == {"8 cuBLAS GEMMs", "coda", "eager"}
    assert set(written["host_us"]["D = 32"]) == {"coda", "eager"}
    assert set(times["forward + backward, D = 32"]) == {"12 cuBLAS GEMMs", "coda", "eager"}


def test_calls_in_a_queue_of_their_own():
    """The time of one of them, where the last one is waited for."""
    done: list[str] = []
    clock = iter(range(1000))
    candidate = Queued(lambda: done.append("call"), lambda _: done.append("wait"), count=3)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("time.perf_counter", lambda: 0.012 * next(clock))
        assert do_bench(candidate, warmup=0, rep=1) == pytest.approx(4.0)
    assert done == ["call", "call", "call", "wait"]


def test_no_part_begins_that_would_not_fit(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr("time.monotonic", lambda: clock.now)
    budget = Budget(100.0)
    assert budget.allows("the first")
    with budget.part():
        clock.now = 60.0
    assert not budget.allows("the second")
    assert "without the second: 60 of 100 s" in capsys.readouterr().out
