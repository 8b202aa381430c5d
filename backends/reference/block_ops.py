"""The operators of the block level (dialect `coda`), each as a small function on tensors.

Every function takes the operator, its operands ready to compute with and the numerics, and
returns the results before they are rounded to their stated types.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import isnan

import torch
import torch.nn.functional as F
from xdsl.ir import Operation

from coda_ir.backends.reference.attention import attention
from coda_ir.backends.reference.numerics import (
    ELEMENTWISE,
    Handler,
    Handlers,
    Numerics,
    check_index,
    dequantized,
    grouped_product_of,
    place,
    product_of,
    rounded_and_rest,
    rounded_once,
    rounded_to_float8,
    scaled_product_of,
    split_columns,
    vectors_of_rows,
)
from coda_ir.diagnostics import IndexOutOfRangeError, NoElementsError
from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import element_type_of, shape_of
from coda_ir.dialects.gemm import NumericsMode, RotationTypes
from coda_ir.signatures import stated_dtype

Tensors = Sequence[torch.Tensor]
Function = Callable[[torch.Tensor], torch.Tensor]


def _computed(
    formula: coda.Formula,
    x: torch.Tensor,
    *numbers: float,
    step: Callable[[torch.Tensor], torch.Tensor] = lambda value: value,
) -> torch.Tensor:
    """Compute a formula by the functions of PyTorch; `step` rounds the result of each."""

    def apply(operator: type[coda.ElementwiseOp], *values: torch.Tensor | float) -> torch.Tensor:
        return step(ELEMENTWISE[operator](*values))

    return formula(coda.Term(x, apply), *numbers).value


def _of_formula(formula: coda.Formula) -> Handler:
    def handle(op: coda.RealFunction, operands: Tensors, numerics: Numerics) -> Tensors:
        if op.ATEN is not None:
            return [_computed(formula, operands[0], *op.numbers)]
        step = partial(numerics.step, type=op.result.type)
        return [_computed(formula, operands[0], *op.numbers, step=step)]

    return handle


def activation(name: str, x: torch.Tensor) -> torch.Tensor:
    """Apply one of `coda.ACTIVATIONS`, in steps of its formula where it has one: PyTorch's GELU
    makes +inf NaN on CPUs and leaves it +inf on GPUs.
    """
    if name == "identity":
        return x
    operator = coda.GATES[name]
    return ELEMENTWISE[operator](x) if operator.FORMULA is None else _computed(operator.FORMULA, x)


def _elementwise(function: Callable[..., torch.Tensor]) -> Handler:
    return of_operator(lambda op, *operands: function(*operands, *op.numbers))


def of_operator(function: Callable[..., torch.Tensor]) -> Handler:
    """Return a handler that computes the result from the operator and its operands alone."""

    def handle(op: Operation, operands: Tensors, numerics: Numerics) -> Tensors:
        return [function(op, *operands)]

    return handle


_FUNCTIONS: Mapping[type, Callable[..., torch.Tensor]] = {
    coda.CastOp: lambda _, x: x,
    coda.CompareOp: lambda op, a, b: getattr(torch, op.relation.data)(a, b),
    coda.MatmulOp: lambda _, x, weight: product_of(x, weight),
    coda.ConcatOp: lambda op, *parts: torch.cat(parts, op.dim.value.data),
    coda.BarrierOp: lambda _, x, *_others: x,
    coda.SoftmaxOp: lambda _, x: torch.softmax(x, -1),
    coda.TransposeOp: lambda op, x: x.permute(op.permutation),
}
"""The result of an operator, computed from its operands and its properties."""


def stored(op: coda.StoredOp, operands: Tensors, numerics: Numerics) -> Tensors:
    """Round x. In a graph, invert its bits twice, as integers: Inductor drops mere conversions."""
    (x,), dtype = operands, stated_dtype(op.result.type)
    if numerics.device is None or dtype.itemsize != 2:
        return [x]
    return [x.to(dtype).view(torch.int16).bitwise_not().bitwise_not().view(dtype)]


def extremum(op: coda.MaximumOp | coda.MinimumOp, operands: Tensors, numerics: Numerics) -> Tensors:
    """The minimum or maximum. For a number as bound, the derivative is 1 at the bound."""
    is_maximum = isinstance(op, coda.MaximumOp)
    for bound, x in ((op.lhs, operands[1]), (op.rhs, operands[0])):
        # Older versions of PyTorch ignore a bound of NaN (pytorch/pytorch#172200).
        if isinstance(bound.owner, coda.ConstantOp) and not isnan(bound.owner.number):
            number = bound.owner.number
            return [torch.clamp(x, min=number) if is_maximum else torch.clamp(x, max=number)]
    return [(torch.maximum if is_maximum else torch.minimum)(*operands)]


def div(op: coda.DivOp, operands: Tensors, numerics: Numerics) -> Tensors:
    number, x = operands
    if numerics.mode == NumericsMode.EAGER_EXACT and isinstance(op.lhs.owner, coda.ConstantOp):
        # PyTorch computes a number over a tensor as the tensor's reciprocal times the number.
        return [numerics.step(1 / x, op.result.type) * number]
    return [number / x]


def constant(op: coda.ConstantOp, operands: Tensors, numerics: Numerics) -> Tensors:
    dtype = torch.float64 if isinstance(op.number, float) else torch.int64
    return [torch.full((), op.number, dtype=dtype, device=numerics.device)]


def positions(op: coda.PositionsOp, operands: Tensors, numerics: Numerics) -> Tensors:
    (extent,), (start, step) = shape_of(op.result), op.first_and_step
    if op.dim is not None:
        extent = operands[0].shape[op.dim.value.data]
    return [start + step * torch.arange(extent, device=numerics.device)]


def extent(op: coda.ExtentOp, operands: Tensors, numerics: Numerics) -> Tensors:
    return [torch.full((), operands[0].shape[op.axis], device=numerics.device)]


def linear(op: coda.LinearOp, operands: Tensors, numerics: Numerics) -> Tensors:
    x, weight, *bias = operands
    if numerics.device is not None:
        return [F.linear(x, weight, *bias)]
    product = product_of(x, weight.T)
    return [product + bias[0] if bias else product]


def grouped(op: coda.GroupedLinearMap, operands: Tensors, numerics: Numerics) -> Tensors:
    x, weight, ends, *bias = operands
    if isinstance(op, coda.GroupedLinearOp):
        weight = weight.mT
    if numerics.device is None:
        product = grouped_product_of(x, weight, ends)
    else:
        product = F.grouped_mm(x, weight, offs=ends)
    return [product + vectors_of_rows(bias[0], ends, x.shape[0]) if bias else product]


def scaled(op: coda.ScaledLinearOp, operands: Tensors, numerics: Numerics) -> Tensors:
    x, weight, x_scales, weight_scales = operands
    rows = x.reshape(-1, x.shape[-1])
    per_row = x_scales.reshape(rows.shape[0], x_scales.shape[-1])
    product = scaled_product_of((rows, weight, per_row, weight_scales), op.blocks)
    return [product.reshape(*x.shape[:-1], weight.shape[0])]


def low_bits(op: coda.LowBitLinearOp, operands: Tensors, numerics: Numerics) -> Tensors:
    x, *of_weight = operands
    weight = dequantized(of_weight, op.scheme, x.shape[-1], kn=op.is_kn)
    return [rounded_once(lambda wide: wide @ weight.T, x)]


def quantized(op: coda.QuantizedLinearOp, operands: Tensors, numerics: Numerics) -> Tensors:
    x, weight = operands
    if not numerics.exact:
        depth, columns = (x.shape[-1], 1)
        if op.blocks is not None:
            depth, columns = op.blocks.depth.data, op.blocks.columns.data
        x = rounded_to_float8(x.reshape(-1, x.shape[-1]), 1, depth).reshape(x.shape)
        weight = rounded_to_float8(weight, columns, depth)
    return [product_of(x, weight.T)]


def _mean(x: torch.Tensor, numerics: Numerics) -> torch.Tensor:
    """Return the mean over the last dimension, which is kept with extent 1."""
    return numerics.rounded_once(lambda x: x.mean(-1, keepdim=True), x)


def rms_rstd(x: torch.Tensor, eps: float, numerics: Numerics) -> torch.Tensor:
    """Return 1 / sqrt(mean(x²) + eps) over the last dimension, which is kept with extent 1."""
    return torch.rsqrt(_mean(x.square(), numerics) + eps)


def layer_stats(
    x: torch.Tensor, eps: float, numerics: Numerics
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return 1 / sqrt(var(x) + eps) and mean(x) over the last dimension, kept with extent 1."""
    mean = _mean(x, numerics)
    variance = _mean((x - mean).square(), numerics)
    return torch.rsqrt(variance + eps), mean


def rms_norm(op: coda.RMSNormOp, operands: Tensors, numerics: Numerics) -> Tensors:
    x, *weight = operands
    grouped = x if op.group is None else split_columns(x, op.group.value.data)
    normed = grouped * rms_rstd(grouped, op.eps.value.data, numerics)
    return [(normed * weight[0] if weight else normed).reshape(x.shape)]


def layer_norm(op: coda.LayerNormOp, operands: Tensors, numerics: Numerics) -> Tensors:
    x, *params = operands
    rstd, mean = layer_stats(x, op.eps.value.data, numerics)
    normed = (x - mean) * rstd
    if op.weight is not None:
        normed = normed * params[0]
    return [normed if op.bias is None else normed + params[-1]]


def norm_stats(op: coda.NormStatsOp, operands: Tensors, numerics: Numerics) -> Tensors:
    eps = op.eps.value.data
    if op.kind.data == "rms":
        return [rms_rstd(operands[0], eps, numerics)]
    return layer_stats(operands[0], eps, numerics)


_REDUCTIONS: dict[str, Function] = {
    "sum": lambda x: x.sum(-1, keepdim=True),
    "mean": lambda x: x.mean(-1, keepdim=True),
    "max": lambda x: x.amax(-1, keepdim=True),
    "lse": lambda x: torch.logsumexp(x, -1, keepdim=True),
}


def reduce(op: coda.ReduceOp, operands: Tensors, numerics: Numerics) -> Tensors:
    (x,) = operands
    if op.kind.data == "max" and not x.shape[-1]:
        raise NoElementsError(
            f"{op.name}{place(op)}: the maximum of no elements has no value",
            "pass at least one element along the dimension that is reduced",
        )
    return [numerics.rounded_once(_REDUCTIONS[op.kind.data], *operands)]


def glu(op: coda.GluOp, operands: Tensors, numerics: Numerics) -> Tensors:
    (x,) = operands
    gate, up = (x[..., ::2], x[..., 1::2]) if op.is_adjacent else x.chunk(2, -1)
    return [numerics.step(activation(op.activation.data, gate), op.result.type) * up]


def rope(op: coda.RopeOp, operands: Tensors, numerics: Numerics) -> Tensors:
    x, cos, sin = operands
    half_split = op.layout.data == "half_split"
    # (..., periods, heads, 2, head_dim/2), or with the last two dimensions swapped where pairs are
    # adjacent; the tables are (..., 1, heads, head_dim/2), for both columns of a pair.
    pair_dim, half = -2 if half_split else -1, op.head_dim.value.data // 2
    pairs = (2, half) if half_split else (half, 2)
    first, second = split_columns(x, op.heads_of_tables, *pairs).unbind(pair_dim)

    def of_pairs(table: torch.Tensor) -> Sequence[torch.Tensor]:
        if op.is_per_column:
            return split_columns(table, *pairs).unsqueeze(-4).unbind(pair_dim)
        return [split_columns(table, half).unsqueeze(-3)] * 2

    (cos_a, cos_b), (sin_a, sin_b) = of_pairs(cos), of_pairs(sin)
    product = RotationTypes.of(element_type_of(op.x), element_type_of(op.cos)).product

    def times(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return numerics.step(a * b, product)

    if op.transposed is not None:
        sin_a, sin_b = -sin_b, -sin_a
    rotated = (
        times(first, cos_a) - times(second, sin_a),
        times(second, cos_b) + times(first, sin_b),
    )
    return [torch.stack(rotated, pair_dim).reshape(x.shape)]


def cross_entropy(op: coda.CrossEntropyOp, operands: Tensors, numerics: Numerics) -> Tensors:
    logits, target = operands
    check_index(op, op.target, target, logits.shape[-1], op.ignore_index.value.data)
    loss = F.cross_entropy(
        logits.reshape(-1, logits.shape[-1]),
        target.reshape(-1).long(),
        ignore_index=op.ignore_index.value.data,
        reduction=op.reduction.data,
    )
    loss = loss.reshape(target.shape) if op.reduction.data == "none" else loss
    if not op.row_lse:
        return [loss]
    return [loss, *rounded_and_rest(_REDUCTIONS["lse"](logits.double()), numerics)]


def embedding(op: coda.EmbeddingOp, operands: Tensors, numerics: Numerics) -> Tensors:
    ids, table = operands
    if numerics.device is None:
        check_index(op, op.ids, ids, table.shape[0])
    # Autograd gives the padding row no gradient; a table may be too short to have it.
    has_padding = op.padding is not None and op.padding < table.shape[0]
    return [F.embedding(ids, table, op.padding if has_padding else None)]


def group_order(op: coda.GroupOrderOp, operands: Tensors, numerics: Numerics) -> Tensors:
    (ids,), groups = operands, op.given["groups"]
    sorted_ids, order = ids.sort(stable=True)
    numbers = torch.arange(groups, device=ids.device)
    return [order, torch.searchsorted(sorted_ids, numbers, right=True, out_int32=True)]


def slice_(op: coda.SliceOp, operands: Tensors, numerics: Numerics) -> Tensors:
    (x,), (dim, start, stop) = operands, op.range
    if x.shape[dim] < stop:
        raise IndexOutOfRangeError(
            f"{op.name}{place(op)}: dimension {dim} has {x.shape[dim]} elements, expected at least "
            f"{stop}"
        )
    return [x.narrow(dim, start, stop - start)]


def shift(op: coda.ShiftOp, operands: Tensors, numerics: Numerics) -> Tensors:
    (x,), by = operands, op.distance
    longer = F.pad(x, (0, 0, max(0, by), max(0, -by)))
    return [longer.narrow(-2, max(0, -by), x.shape[-2])]


BLOCK_HANDLERS: Handlers = {
    **{op: _elementwise(function) for op, function in ELEMENTWISE.items()},
    **{op: _of_formula(op.FORMULA) for op in coda.ELEMENTWISE_OPS if op.FORMULA is not None},
    coda.DivOp: div,
    coda.MaximumOp: extremum,
    coda.MinimumOp: extremum,
    **{op: of_operator(function) for op, function in _FUNCTIONS.items()},
    coda.StoredOp: stored,
    coda.ConstantOp: constant,
    coda.PositionsOp: positions,
    coda.ExtentOp: extent,
    coda.LinearOp: linear,
    coda.GroupedLinearOp: grouped,
    coda.GroupedMatmulOp: grouped,
    coda.GroupOrderOp: group_order,
    coda.ScaledLinearOp: scaled,
    coda.LowBitLinearOp: low_bits,
    coda.QuantizedLinearOp: quantized,
    coda.RMSNormOp: rms_norm,
    coda.LayerNormOp: layer_norm,
    coda.NormStatsOp: norm_stats,
    coda.ReduceOp: reduce,
    coda.GluOp: glu,
    coda.RopeOp: rope,
    coda.AttentionOp: attention,
    coda.CrossEntropyOp: cross_entropy,
    coda.EmbeddingOp: embedding,
    coda.SliceOp: slice_,
    coda.ShiftOp: shift,
}
