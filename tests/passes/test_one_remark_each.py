"""Each operator that `coda-to-gemm` leaves outside of GEMMs has one remark, and no other has."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
import torch
from support.goldens import EXAMPLES
from torch import nn
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

import coda_ir
from coda_ir.context import make_context
from coda_ir.dialects import coda, gemm
from coda_ir.passes.pipelines.coda_to_gemm import CodaToGemmPass
from coda_ir.passes.pipelines.differentiate import DifferentiatePass
from coda_ir.remarks import Remark, collect_remarks
from coda_ir.storage import is_filled_in_place, is_looked_up_where_read
from coda_ir.traffic import NOT_EXECUTED

WITH_EPILOGUES = (gemm.FusedOp, gemm.FinalizeOp, gemm.AttentionSumOp)
VIEWS = (coda.SliceOp, coda.TransposeOp)
NOT_TRAINED = ("custom_epilogue",)
"""Own epilogues have no derivative."""


def outside(module: ModuleOp) -> Iterator[Operation]:
    """The operators that run outside of GEMMs and of the attention's backward."""
    functions = [op for op in module.ops if isinstance(op, FuncOp)]
    for op in (op for function in functions for op in function.body.block.ops):
        is_copy = not (isinstance(op, coda.ConcatOp) and is_filled_in_place(op))
        is_copy &= not is_looked_up_where_read(op)
        if is_copy and not isinstance(op, (*WITH_EPILOGUES, *VIEWS, *NOT_EXECUTED)):
            yield op


def missed_by(module: ModuleOp) -> list[Remark]:
    with collect_remarks() as remarks:
        CodaToGemmPass().apply(make_context(), module)
    return [remark for remark in remarks if remark.kind == "missed"]


def assert_one_each(module: ModuleOp) -> Sequence[Remark]:
    missed, left = missed_by(module), list(outside(module))
    assert len(missed) == len(left), "\n".join(map(str, (*missed, *left)))
    return missed


def stem(path: Path) -> str:
    return path.stem


@pytest.mark.slow
@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.coda")), ids=stem)
@pytest.mark.parametrize("training", [False, True])
def test_example(path: Path, training: bool):
    module = coda_ir.parse(path)
    if training and path.stem not in NOT_TRAINED:
        DifferentiatePass().apply(make_context(), module)
    assert_one_each(module)


class PostNorm(nn.Module):
    """A norm that the residual stream goes through."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(11, 32)
        self.up, self.down = nn.Linear(32, 64), nn.Linear(64, 32)
        self.norm = nn.LayerNorm(32)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.table(ids) * 2
        x = self.norm(x + self.down(torch.relu(self.up(x))))
        return torch.softmax(x.cumsum(-1) + x.mean(1, keepdim=True), -1)


class Attention(nn.Module):
    """Rotated queries that no projection computes, and a mask that does not train."""

    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(32, 96), nn.Linear(32, 32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        heads = self.qkv(x).unflatten(-1, (3, 4, 8)).permute(2, 0, 3, 1, 4)
        q, k, v = heads.unbind()
        angles = torch.arange(x.shape[1])[:, None] / torch.arange(1, 5).repeat(2)
        half = torch.cat((-q[..., 4:], q[..., :4]), -1)
        q = q * angles.cos() + half * angles.sin()
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + self.out(y.transpose(1, 2).flatten(-2))


MODELS: dict[str, Callable[[], tuple[nn.Module, torch.Tensor]]] = {
    "post-norm": lambda: (PostNorm(), torch.randint(11, (2, 7))),
    "attention": lambda: (Attention(), torch.randn(2, 7, 32)),
}


@pytest.mark.parametrize("name", MODELS)
def test_model(name: str):
    model, example = MODELS[name]()
    assert_one_each(coda_ir.export(model, (example,)).module)


def test_constants_cost_nothing():
    (remark,) = missed_by(coda_ir.parse("fn f(w: f32[8, 16]) { return 1 + w }"))
    assert str(remark.bytes) == str(2 * 8 * 16 * 4)
