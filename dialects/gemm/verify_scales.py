"""Verification of GEMMs whose operands have scales of blocks."""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING

from xdsl.utils.exceptions import VerifyException

from coda_ir.dialects.coda import BlocksAttr
from coda_ir.dialects.gemm.attrs import Layout

if TYPE_CHECKING:
    from coda_ir.dialects.gemm.ops import FusedOp


def verify_scales(op: FusedOp) -> None:
    """Check that operands with block scales are M x K and N x K, with a scale for each block.

    Quantized weights alone have scales, and may be K x N.
    """
    blocks, x_scales = op.blocks, op.x_scales
    if isinstance(blocks, BlocksAttr) != (x_scales is not None):
        raise VerifyException("blocks and scales of x, expected both or neither")
    expected = 0 if blocks is None else len(op.weights)
    if len(op.weight_scales) != expected:
        raise VerifyException(
            f"{len(op.weight_scales)} scales of weights, expected {expected}, one for each weight "
            "where x has scales"
        )
    if len(op.weight_zeros) not in (0, 0 if op.quantized is None else expected):
        raise VerifyException(
            f"{len(op.weight_zeros)} zero points, expected one for each quantized weight, or none"
        )
    if blocks is None:
        return
    others = {
        "is transposed": op.is_transposed,
        "has several inputs": len(op.inputs) > 1,
        "has rows in groups": op.groups is not None,
        "gathers or scatters rows": op.gather is not None or op.scatter is not None,
        "has weights of K x N": op.quantized is None
        and any(s.layout == Layout.KN for s in op.segments()),
    }
    for what, is_so in others.items():
        if is_so:
            raise VerifyException(f"a product with scales of blocks {what}, expected M x K · N x K")
    if op.order is not None and op.order["depth"] > blocks.depth.data:
        raise VerifyException(
            f"order: depth is {op.order['depth']}, expected at most {blocks.depth.data}, K of a "
            "block"
        )
    if isinstance(blocks, BlocksAttr):
        assert x_scales is not None, "both are given"
        for weight, scales in zip(op.weights, op.weight_scales, strict=True):
            blocks.verify_scales(op.x, weight, x_scales, scales)
        return
    for segment in op.segments():
        operands = zip_longest(segment.weights, segment.scales, segment.zeros)
        for weight, scales, zeros in operands:
            blocks.verify_operands(op.x, weight, scales, zeros, kn=segment.layout == Layout.KN)
