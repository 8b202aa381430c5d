"""The products of the GEMM level: the accumulators of segments before their epilogues."""

from collections.abc import Mapping, Sequence
from math import prod

import torch
from xdsl.ir import SSAValue

from coda_ir.backends.reference.numerics import Numerics, dequantized, scaled_product_of
from coda_ir.dialects.coda import BlocksAttr, QuantizedAttr
from coda_ir.dialects.gemm import FusedOp, Layout, LibraryOp, OrderAttr, Segment
from coda_ir.float64 import grouped_mm, slices_of_groups


def product(
    op: FusedOp | LibraryOp,
    segment: Segment,
    value_of: Mapping[SSAValue, torch.Tensor],
    order: OrderAttr | None,
    numerics: Numerics,
) -> torch.Tensor:
    """Return the M x N accumulator of a segment; those of summed groups lie below one another."""
    if isinstance(op, FusedOp) and op.is_numbered:
        return _numbered_product(op, segment, value_of)
    terms = _terms(op, segment, value_of)
    ends = None if op.groups is None else value_of[op.groups]
    if ends is None or not op.is_transposed:
        return _multiply(terms, order, numerics, ends)
    ((x, weights),) = terms
    groups = slices_of_groups(ends)
    parts = [_multiply([(x[:, rows], weights[rows])], order, numerics) for rows in groups]
    return torch.cat(parts)


def _numbered_product(
    op: FusedOp, segment: Segment, value_of: Mapping[SSAValue, torch.Tensor]
) -> torch.Tensor:
    """Return rows times the weights of the groups that they name; rows side by side are added."""
    assert op.groups is not None
    weights = _joined(segment.weights, segment, value_of, is_grouped=True)
    summed, x = op.summed_rows, value_of[op.x]
    rows = x.reshape(-1, weights.shape[1]).double()
    rows = rows.repeat_interleave(op.numbers_of_row // summed, 0)
    of_rows = weights[value_of[op.groups].long()].double()
    found = (rows[:, None] @ of_rows).reshape(-1, summed, weights.shape[-1])
    return found.sum(1).to(x.dtype)


def scaled_product(
    op: FusedOp,
    segment: Segment,
    value_of: Mapping[SSAValue, torch.Tensor],
    order: OrderAttr | None,
    numerics: Numerics,
) -> torch.Tensor:
    """Return the accumulator of a segment whose operands have block scales."""
    if op.quantized is not None:
        x = _rows_of(value_of[op.x], transposed=False)
        weight = _dequantized(op.quantized, segment, value_of, x.shape[-1])
        return _multiply([(x, weight.T)], order, numerics)
    assert isinstance(op.blocks, BlocksAttr) and op.x_scales is not None
    step = None if order is None or numerics.exact else order["depth"]
    rows = [_rows_of(value_of[value], transposed=False) for value in (op.x, op.x_scales)]
    parts = [
        scaled_product_of((rows[0], value_of[weight], rows[1], value_of[scales]), op.blocks, step)
        for weight, scales in zip(segment.weights, segment.scales, strict=True)
    ]
    return torch.cat(parts, -1)


def _dequantized(
    scheme: QuantizedAttr, segment: Segment, value_of: Mapping[SSAValue, torch.Tensor], k: int
) -> torch.Tensor:
    """Dequantize the weights of a segment and stack them: N x K."""
    operands = zip(*filter(None, (segment.weights, segment.scales, segment.zeros)), strict=True)
    is_kn = segment.layout == Layout.KN
    return torch.cat(
        [dequantized([value_of[v] for v in values], scheme, k, kn=is_kn) for values in operands]
    )


def _terms(
    op: FusedOp | LibraryOp, segment: Segment, value_of: Mapping[SSAValue, torch.Tensor]
) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Return the inputs as M x K and their weights as K x N, for each group of rows."""
    ids = None if op.gather_weights is None else value_of[op.gather_weights].long()
    is_grouped = op.groups is not None and not op.is_transposed
    weights = [_joined(part, segment, value_of, is_grouped=is_grouped) for part in segment.terms]
    if ids is not None:
        weights = [weight[ids] for weight in weights]
    inputs = (_input(op, x, value_of) for x in op.inputs)
    return list(zip(inputs, weights, strict=True))


def _input(
    op: FusedOp | LibraryOp, x: SSAValue, value_of: Mapping[SSAValue, torch.Tensor]
) -> torch.Tensor:
    rows = value_of[x] if op.gather is None else value_of[x][value_of[op.gather].long()]
    return _rows_of(rows, transposed=op.is_transposed)


def _rows_of(x: torch.Tensor, *, transposed: bool) -> torch.Tensor:
    """Return an input as M x K."""
    rows = x.reshape(prod(x.shape[:-1]), x.shape[-1])
    return rows.T if transposed else rows


def _joined(
    weights: Sequence[SSAValue],
    segment: Segment,
    value_of: Mapping[SSAValue, torch.Tensor],
    *,
    is_grouped: bool,
) -> torch.Tensor:
    """Put all weights side by side: K x N."""
    parts = [value_of[weight] for weight in weights]
    if segment.layout == Layout.NK:
        return torch.cat([weight.mT for weight in parts], -1)
    if not is_grouped:
        parts = [_rows_of(weight, transposed=False) for weight in parts]
    return torch.cat(parts, -1)


def _multiply(
    terms: Sequence[tuple[torch.Tensor, torch.Tensor]],
    order: OrderAttr | None,
    numerics: Numerics,
    ends: torch.Tensor | None = None,
) -> torch.Tensor:
    """Sum the products of (M x K) and (K x N) to M x N, in steps of K if an order is stated.

    A step, or else the whole sum, is rounded once. `ends` are those of groups of rows, each of
    which has its own matrices.
    """
    x, weights = terms[0]
    if order is None or numerics.exact:
        total, *others = (_exact_product(x, weights, ends) for x, weights in terms)
        return sum(others, total).to(x.dtype)
    total = x.new_zeros(x.shape[0], weights.shape[-1])
    for x, weights in terms:
        for start in range(0, x.shape[-1], order["depth"]):
            stop = start + order["depth"]
            # A step is summed up exactly, so that the order inside of it does not matter.
            step = _exact_product(x[:, start:stop], weights[..., start:stop, :], ends)
            total = (total.double() + step).to(total.dtype)
    return total


def _exact_product(
    x: torch.Tensor, weights: torch.Tensor, ends: torch.Tensor | None
) -> torch.Tensor:
    """Return x · W in float64; rows in groups are multiplied by the matrix of their group."""
    x, weights = x.double(), weights.double()
    return x @ weights if ends is None else grouped_mm(x, weights, ends)
