"""Verification of GEMMs whose operands have scales of blocks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.utils.exceptions import VerifyException

from coda_ir.dialects.gemm.attrs import Layout

if TYPE_CHECKING:
    from coda_ir.dialects.gemm.ops import FusedOp


def verify_scales(op: FusedOp) -> None:
    """Operands with scales of blocks are M x K and N x K, with a scale for each block of both."""
    if (op.blocks is None) != (op.x_scales is None):
        raise VerifyException("blocks and scales of x, expected both or neither")
    expected = 0 if op.blocks is None else len(op.weights)
    if len(op.weight_scales) != expected:
        raise VerifyException(
            f"{len(op.weight_scales)} scales of weights, expected {expected}, one for each weight "
            "where x has scales"
        )
    if op.blocks is None or op.x_scales is None:
        return
    others = {
        "is transposed": op.is_transposed,
        "has several inputs": len(op.inputs) > 1,
        "has rows in groups": op.groups is not None,
        "gathers or scatters rows": op.gather is not None or op.scatter is not None,
        "has weights of K x N": any(s.layout == Layout.KN for s in op.segments()),
    }
    for what, is_so in others.items():
        if is_so:
            raise VerifyException(f"a product with scales of blocks {what}, expected M x K · N x K")
    if op.order is not None and op.order["depth"] > op.blocks.depth.data:
        raise VerifyException(
            f"order: depth is {op.order['depth']}, expected at most {op.blocks.depth.data}, K of a "
            "block"
        )
    for weight, scales in zip(op.weights, op.weight_scales, strict=True):
        op.blocks.verify_scales(op.x, weight, op.x_scales, scales)
