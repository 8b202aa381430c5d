"""Attention as models write it, with masks, windows, ALiBi and sinks: raised, and as exact."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from support.emitted import assert_as_accurate
from torch import nn

import coda_ir
from coda_ir.api import find_entry
from coda_ir.backends.reference import run_function
from coda_ir.dialects import coda
from coda_ir.float64 import computing_in_float64
from coda_ir.frontends.torch import export

HEADS, WIDTH = 2, 8
Heads = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
Decomposition = Callable[[nn.Module, Heads, torch.Tensor], torch.Tensor]


def least(x: torch.Tensor) -> float:
    return torch.finfo(x.dtype).min


def positions(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    rows = torch.arange(x.shape[-2])
    return rows[:, None], rows[None, :]


def split_heads(x: torch.Tensor) -> torch.Tensor:
    return x.reshape(*x.shape[:2], HEADS, WIDTH).transpose(1, 2)


def scores_of(q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    return q @ k.transpose(-1, -2) * WIDTH**-0.5


def bert(model: Any, heads: Heads, padding: torch.Tensor) -> torch.Tensor:
    """(1 − m) · min, added."""
    q, k, v = heads
    bias = (1.0 - padding[:, None, None, :].to(q.dtype)) * least(q)
    return torch.softmax(scores_of(q, k) + bias, -1) @ v


def padded_kernel(model: Any, heads: Heads, padding: torch.Tensor) -> torch.Tensor:
    """Truth values of padding and positions, given to PyTorch's attention."""
    q, k, v = heads
    i, j = positions(q)
    mask = (j <= i) & (padding[:, None, None, :] != 0)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


def window(model: Any, heads: Heads, padding: torch.Tensor) -> torch.Tensor:
    q, k, v = heads
    i, j = positions(q)
    mask = (j <= i) & (j > i - 3)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


def alibi(model: Any, heads: Heads, padding: torch.Tensor) -> torch.Tensor:
    """Batch and heads in one dimension; the bias is part of the product."""
    q, k, v = (x.reshape(-1, *x.shape[-2:]) for x in heads)
    batch, length = heads[0].shape[0], q.shape[-2]
    slopes = (model.slopes[:, None] * torch.arange(length)).to(q.dtype)
    bias = slopes.repeat(batch, 1)[:, None, :]
    scores = torch.baddbmm(bias, q, k.transpose(-1, -2), alpha=WIDTH**-0.5)
    i, j = positions(q)
    weights = torch.softmax(scores.masked_fill(j > i, least(q)), -1)
    return torch.bmm(weights, v).view(heads[0].shape)


def sinks(model: Any, heads: Heads, padding: torch.Tensor) -> torch.Tensor:
    q, k, v = heads
    i, j = positions(q)
    hidden = torch.where(j <= i, 0.0, least(q)).to(q.dtype)
    column = model.sinks.view(1, HEADS, 1, 1).expand(q.shape[0], -1, q.shape[-2], -1)
    scores = torch.cat([scores_of(q, k) + hidden, column], -1)
    scores = scores - scores.max(-1, keepdim=True).values
    return torch.softmax(scores, -1)[..., :-1] @ v


def added_triangles(model: Any, heads: Heads, padding: torch.Tensor) -> torch.Tensor:
    """Minus infinity above the diagonal, and beyond a window below it."""
    q, k, v = heads
    infinite = q.new_full((q.shape[-2], q.shape[-2]), -float("inf"))
    hidden = torch.triu(infinite, diagonal=1) + torch.tril(infinite, diagonal=-3)
    return torch.softmax(scores_of(q, k) + hidden[None, None], -1) @ v


def triangle_of_ones(model: Any, heads: Heads, padding: torch.Tensor) -> torch.Tensor:
    q, k, v = heads
    hidden = torch.tril(torch.ones(q.shape[-2], q.shape[-2])) == 0
    return torch.softmax(scores_of(q, k).masked_fill(hidden, -float("inf")), -1) @ v


def groups(model: Any, heads: Heads, padding: torch.Tensor) -> torch.Tensor:
    """Sums over indices, in which queries share the first head of keys; a score for each head."""
    q, k, v = heads
    hidden = torch.ones(q.shape[-2], q.shape[-2]).triu(1).bool()
    scores = torch.einsum("bkgqd,bksd->bkgqs", q[:, None] * WIDTH**-0.5, k[:, :1])
    scores = scores.masked_fill(hidden, -float("inf"))
    column = model.sinks.view(1, 1, HEADS, 1, 1).expand(q.shape[0], -1, -1, q.shape[-2], -1)
    weights = torch.softmax(torch.cat([scores, column], -1), -1)[..., :-1]
    return torch.einsum("bkgqs,bksd->bqkgd", weights, v[:, :1]).squeeze(2).transpose(1, 2)


EXPECTED: dict[Decomposition, dict[str, Any]] = {
    bert: {"causal": False, "mask": True},
    padded_kernel: {"causal": True, "mask": True},
    window: {"causal": True, "window": 3},
    alibi: {"causal": True, "mask": True},
    sinks: {"causal": True, "sinks": True},
    added_triangles: {"causal": True, "window": 3},
    triangle_of_ones: {"causal": True},
    groups: {"causal": True, "sinks": True},
}


class Attention(nn.Module):
    """All decompositions, of the same operands."""

    def __init__(self):
        super().__init__()
        self.slopes = nn.Parameter(torch.tensor([0.5, 0.0625]))
        self.sinks = nn.Parameter(torch.tensor([0.3, -0.7]))

    def forward(self, qkv: torch.Tensor, padding: torch.Tensor) -> list[torch.Tensor]:
        q, k, v = map(split_heads, qkv.chunk(3, -1))
        results = [decomposition(self, (q, k, v), padding) for decomposition in EXPECTED]
        return [result.transpose(1, 2).flatten(2) for result in results]


def features(op: coda.AttentionOp) -> dict[str, Any]:
    found: dict[str, Any] = {"causal": bool(op.causal.value.data)}
    if op.window is not None:
        found["window"] = op.window.value.data
    tensors = {"mask": op.mask, "sinks": op.sinks}
    return found | {name: True for name, value in tensors.items() if value is not None}


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_decompositions(dtype: torch.dtype):
    """Dynamic batch and length in float32, none in bfloat16."""
    auto: Any = torch.export.Dim.DYNAMIC
    shapes = ({0: auto, 1: auto}, {0: auto, 1: auto}) if dtype == torch.float32 else None
    # As many numbers as make the error of float32 much the same in each draw.
    padding = torch.ones(2, 48, dtype=torch.int64)
    padding[0, 4:] = 0
    model = Attention().to(dtype).requires_grad_(False)
    qkv = torch.randn(2, 48, 3 * HEADS * WIDTH).to(dtype)
    exported = export(model, (qkv, padding), dynamic_shapes=shapes)
    ops = [op for op in exported.module.walk() if isinstance(op, coda.AttentionOp)]
    assert list(map(features, ops)) == list(EXPECTED.values())
    with computing_in_float64():
        exact = copy.deepcopy(model).double()(qkv.double(), padding)
    eager, tensors = model(qkv, padding), exported.arguments(qkv, padding)
    stated = run_function(find_entry(exported.module), tensors, "stated")
    compiled = coda_ir.compile(exported.module, target="triton", device="cpu")
    for results in (stated, compiled.unchecked(*tensors)):
        for result, plain, wanted in zip(results, eager, exact, strict=True):
            assert_as_accurate(result, plain, wanted)
