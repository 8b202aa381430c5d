"""A model of PyTorch for each operator that the exporter looks for."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from coda_ir.backends.reference.numerics import ELEMENTWISE
from coda_ir.dialects import coda
from coda_ir.frontends.torch.types import tensors_in
from support.function_numbers import some_numbers

ROWS, COLUMNS = 6, 16


class Values(NamedTuple):
    """Inputs of a model, a square weight, a row, and three taps of each column."""

    x: Tensor
    y: Tensor
    keep: Tensor
    ids: Tensor
    w: Tensor
    row: Tensor
    taps: Tensor


Function: TypeAlias = Callable[[Values], Any]


class Model(nn.Module):
    """The functions of all operators: what they compute is looked at result by result."""

    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.randn(COLUMNS, COLUMNS))
        self.row = nn.Parameter(torch.randn(COLUMNS))
        self.taps = nn.Parameter(torch.randn(COLUMNS, 1, 3))

    def forward(self, x: Tensor, y: Tensor, keep: Tensor, ids: Tensor) -> Any:
        values = Values(x, y, keep, ids, self.w, self.row, self.taps)
        return [next(iter(tensors_in(function(values)))) for function in MODELS.values()]


def rotated(v: Values) -> Tensor:
    angles = torch.arange(ROWS)[:, None] * torch.linspace(1, 0.1, 4)
    cos, sin = (torch.cat([each, each], -1) for each in (angles.cos(), angles.sin()))
    heads = v.x.reshape(1, ROWS, 2, 8).transpose(1, 2)
    half = torch.cat([-heads[..., 4:], heads[..., :4]], -1)
    return (heads * cos + half * sin).transpose(1, 2).reshape(1, ROWS, COLUMNS)


def attended(v: Values) -> Tensor:
    q, k, values = (each.reshape(1, ROWS, 2, 8).transpose(1, 2) for each in (v.x, v.y, v.x + v.y))
    return F.scaled_dot_product_attention(q, k, values).transpose(1, 2).reshape(1, ROWS, COLUMNS)


def convolved(v: Values) -> Tensor:
    return F.conv1d(v.x.T[None], torch.ones(4, COLUMNS, 3), stride=2)


def moved(v: Values) -> Tensor:
    columns = v.x[None].transpose(1, 2)
    return F.conv1d(columns, v.taps, padding=2, groups=COLUMNS)[..., :ROWS].transpose(1, 2)


def operands(operator: type[coda.ElementwiseOp], v: Values) -> tuple[Tensor, ...]:
    """Return what an overload of ATen takes that computes an elementwise operator."""
    if issubclass(operator, coda.Selection):
        return v.keep, v.x, v.y
    given = (v.keep, v.x > v.y) if operator.ELEMENTS == coda.Elements.BOOLEANS else (v.x, v.y)
    return given[: 1 if issubclass(operator, coda.UnaryOp) else 2]


def of_overload(operator: type[coda.ElementwiseOp]) -> Function:
    assert operator.ATEN is not None
    name, _, overload = operator.ATEN.partition(".")
    function = getattr(getattr(torch.ops.aten, name), overload)
    numbers = some_numbers(operator)
    return lambda v: function(*operands(operator, v), *numbers, **operator.ATEN_OPTIONS)


def of_formula(operator: type[coda.ElementwiseOp], v: Values) -> Tensor:
    assert operator.FORMULA is not None

    def apply(each: type[coda.ElementwiseOp], *values: Tensor | float) -> Tensor:
        return ELEMENTWISE[each](*values)

    return operator.FORMULA(coda.Term(v.x, apply), *some_numbers(operator)).value


MODELS: Mapping[type, Function] = {
    **{op: partial(of_formula, op) for op in coda.ELEMENTWISE_OPS if op.FORMULA is not None},
    **{op: of_overload(op) for op in coda.ELEMENTWISE_OPS if op.ATEN is not None},
    coda.CompareOp: lambda v: v.x < v.y,
    coda.CastOp: lambda v: v.x.bfloat16(),
    coda.ConstantOp: lambda v: v.x + 0.5,
    coda.LinearOp: lambda v: F.linear(v.x, v.w, v.row),
    coda.MatmulOp: lambda v: v.x @ v.w,
    coda.EmbeddingOp: lambda v: F.embedding(v.ids, v.w),
    coda.RMSNormOp: lambda v: F.rms_norm(v.x, (COLUMNS,), v.row, 1e-5),
    coda.LayerNormOp: lambda v: F.layer_norm(v.x, (COLUMNS,), v.row, v.row),
    coda.SoftmaxOp: lambda v: v.x.softmax(-1),
    coda.ReduceOp: lambda v: v.x.amax(-1, keepdim=True),
    coda.RopeOp: rotated,
    coda.AttentionOp: attended,
    coda.CrossEntropyOp: lambda v: F.cross_entropy(v.x, v.ids),
    coda.ReshapeOp: lambda v: v.x.reshape(ROWS, 2, 8),
    coda.TransposeOp: lambda v: v.x.T,
    coda.SliceOp: lambda v: v.x[:, 2:8],
    coda.ConcatOp: lambda v: torch.cat([v.x, v.y], -1),
    coda.PadOp: lambda v: F.pad(v.x, (1, 2)),
    coda.PositionsOp: lambda v: v.x + torch.arange(COLUMNS),
    coda.ShiftOp: moved,
    coda.IndexOp: lambda v: v.x[v.ids],
    coda.GatherOp: lambda v: v.x.gather(1, v.ids[:, None]),
    coda.ScatterOp: lambda v: v.x.scatter(1, v.ids[:, None], v.y[:, :1]),
    coda.TopkOp: lambda v: v.x.topk(3),
    coda.SortOp: lambda v: v.x.sort(),
    coda.CumsumOp: lambda v: v.x.cumsum(-1),
    coda.GroupNormOp: lambda v: F.group_norm(v.x, 4),
    coda.ConvolutionOp: convolved,
}
"""For each operator, a computation by functions of PyTorch that are raised to it."""
