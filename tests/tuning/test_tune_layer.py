"""The figures of benchmarks/tune_layer.py, and the inputs that a GPU is measured on."""

from __future__ import annotations

import pytest
import torch
from tune_layer import agreement, print_rankings, rank_of_fastest

import coda_ir
from coda_ir.cache.decision import Configured, Decision, Tried
from coda_ir.cache.tuned import TunedEntry
from coda_ir.cost_model.rows import RowCounts
from coda_ir.dialects.gemm import FusedOp
from coda_ir.lowering import Lowering
from coda_ir.tuning import Problem
from coda_ir.tuning.inputs import make_inputs

PROGRAM = """
fn f(x: bf16[M, 64], w: bf16[128, 64], r: bf16[M, 128]) {
    return linear(x, w) * r
}
"""


def decision(*figures: tuple[float, float | None]) -> Decision:
    """An entry of candidates with these predictions and ratios."""
    tried = tuple(
        Tried(Configured("tma", (128, 256, 64), 8, 3, 8 << index), predicted, ratio)
        for index, (predicted, ratio) in enumerate(figures)
    )
    return Decision(tried[0].configured, 1.0, 1.0, 1.0, 16384, tried, is_complete=True)


@pytest.mark.parametrize(
    "figures, share, rank",
    [
        ([(10, 1.0), (20, 1.1), (30, 1.2)], 1.0, 1),
        ([(10, 1.0), (20, 0.9), (30, 1.2)], 2 / 3, 2),
        ([(10, 1.0), (10, 0.9)], 0.5, 2),
        ([(20, 1.0), (10, 0.9), (5, None)], 1.0, 2),
    ],
)
def test_figures(figures: list[tuple[float, float | None]], share: float, rank: int):
    found = decision(*figures)
    assert agreement(found) == pytest.approx(share)
    assert rank_of_fastest(found) == rank


def test_the_table_is_printed(capsys: pytest.CaptureFixture[str]):
    entry = TunedEntry("0" * 64, "M x 8 x 8", "GPU", 16, {}, 0.0, decision((10, 1.0), (20, 0.9)))
    print_rankings([entry])
    printed = capsys.readouterr().out
    assert "M x 8 x 8: 1.0 us" in printed and "0.900 x" in printed and "(chosen)" in printed


def test_inputs_are_never_zeros_and_rotate():
    module = Lowering(coda_ir.parse(PROGRAM)).module("gemm")
    op = next(op for op in module.walk() if isinstance(op, FusedOp))
    problem = Problem.of(op, RowCounts({"M": 512}))
    assert problem is not None
    first, second, *more = make_inputs(problem, torch.device("cpu"))
    assert len(more) == 6
    assert [tensor.dtype for tensor in first] == [torch.bfloat16] * 3
    assert [list(tensor.shape) for tensor in first] == [[512, 64], [128, 64], [512, 128]]
    for a, b in zip(first, second, strict=True):
        assert float((a != 0).float().mean()) > 0.9 and not torch.equal(a, b)
    assert 0.1 < float(first[1].float().std()) < 0.15  # 1/sqrt(64)
