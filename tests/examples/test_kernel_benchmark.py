"""The benchmark of kernels, small and on the CPU."""

import json
from collections.abc import Callable
from pathlib import Path

import kernels
import pytest
import torch
from launches import Gemm, Recorded, kernel_counts, label, sequence_us

import coda_ir
from coda_ir.dialects.gemm import FusedOp
from coda_ir.float64 import relative_error

SMALL = ["--sizes", "32", "--batch", "1", "--time", "8", "--head-dim", "8"]
CPU = torch.device("cpu")


@pytest.mark.slow
def test_every_kernel_is_timed(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = tmp_path / "kernels.json"
    options = ["--parts", "forward,backward", "--rounds", "1", "--profile", "--json", str(path)]
    kernels.main([*SMALL, *options])
    written = json.loads(path.read_text())
    forward, backward = (written["microseconds"][f"{p}, D = 32"] for p in ("forward", "backward"))
    assert list(forward) == ["wo", "w_gate, w_up", "w_down", "wq, wk, wv"]
    assert sorted(name[:2] for name in backward) == ["dW"] * 4 + ["dX"] * 4
    for times in (*forward.values(), *backward.values()):
        assert set(times) == {"cuBLAS", "bare", "fused"} and min(times.values()) > 0
    assert [k["name"] for k in written["other_kernels"]["forward, D = 32"]] == [
        "finalize_sum_rsqrt"
    ] * 2
    spent = written["spent_us"]["backward, D = 32"]
    together = spent.pop("together")
    assert sum(spent.values()) == pytest.approx(together)
    assert "what a call is spent on" in capsys.readouterr().out


def gemms(program: str) -> list[FusedOp]:
    function = coda_ir.compile(program, device="cpu", target="reference")
    return [op for op in function.module("scheduled").walk() if isinstance(op, FusedOp)]


PROGRAMS = {
    "fn f(x: bf16[M, 16], weight w: bf16[24, 16], weight v: bf16[24, 16], r: bf16[M, 24]) {\n"
    "    return silu(linear(x, w)) * linear(x, v) + r\n}": "w, v",
    "func.func @f("
    '%x: tensor<?x16xbf16> {coda.name = "x", coda.dims = ["M", 16]}, '
    '%y: tensor<?x8xbf16> {coda.name = "y", coda.dims = ["M", 8]}'
    ") -> tensor<8x16xf32> {\n"
    "  %d_w = coda.weight_gradient %y, %x : (tensor<?x8xbf16>, tensor<?x16xbf16>)"
    " -> tensor<8x16xf32>\n  func.return %d_w : tensor<8x16xf32>\n}": "dW w",
}


@pytest.mark.parametrize("program, expected", PROGRAMS.items())
def test_bare_gemms_multiply_what_the_library_multiplies(program: str, expected: str):
    (op,) = gemms(program)
    assert label(op) == expected
    gemm = Gemm.of(op, {"M": 40}, CPU)
    assert len(gemm.bare) == len(gemm.library) > 1  # copies, which exceed the cache
    for bare, library in list(zip(gemm.bare, gemm.library, strict=True))[:2]:
        found, wanted = bare(), library()
        assert isinstance(found, torch.Tensor) and isinstance(wanted, torch.Tensor)
        assert relative_error(found, wanted) < 1e-2


def test_calls_take_turns():
    seen: list[str] = []
    sequences = [[lambda c=c: seen.append(c) for c in text] for text in ("ab", "xy")]
    for _ in range(2):
        assert len(sequence_us(sequences, [1, 1], CPU)) == 2
    assert seen == ["a", "x", "a", "x"]


class Clock:
    """A GPU whose kernels take what their calls say."""

    def __init__(self):
        self.now = 0.0
        self.recorded: list[Recorded] = []

    def kernel(self, duration: float) -> None:
        self.recorded.append(Recorded("kernel", self.now, duration))
        self.now += duration

    def record(self, call: Callable[[], object]) -> list[Recorded]:
        self.recorded = []
        call()
        return self.recorded


def test_kernels_belong_to_the_calls_that_launch_them(monkeypatch: pytest.MonkeyPatch):
    clock, gpu = Clock(), torch.device("cuda")
    monkeypatch.setattr("launches.record_on_gpu", clock.record)
    times = iter([7.0, 9.0, 11.0] * 10)  # of one call, after those that count kernels

    def split() -> None:
        clock.kernel(2.0)
        clock.kernel(3.0)

    sequences = [[split], [lambda: clock.kernel(next(times))]]
    counts = kernel_counts([calls[0] for calls in sequences], gpu)
    assert counts == [2, 1]
    assert sequence_us(sequences, counts, gpu, repeats=3) == [5.0, 9.0]
