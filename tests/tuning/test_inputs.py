"""The inputs that a GPU is measured on."""

import torch

import coda_ir
from coda_ir.cost_model.rows import RowCounts
from coda_ir.dialects.gemm import FusedOp
from coda_ir.lowering import Lowering
from coda_ir.tuning.problem import Problem, make_inputs

PROGRAM = """
fn f(x: bf16[M, 64], w: bf16[128, 64], r: bf16[M, 128]) {
    return linear(x, w) * r
}
"""


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
