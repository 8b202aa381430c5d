"""Rotary embeddings in epilogues: the columns that form pairs, and the ports of the tables."""

from coda_ir.dialects.coda import RopeOp
from coda_ir.dialects.gemm.attrs import PairingAttr, PortKind


def pairing_of(op: RopeOp) -> PairingAttr:
    """Return which columns of a head a rotation pairs."""
    if op.layout.data == "interleaved":
        return PairingAttr.adjacent_columns()
    return PairingAttr.halves(op.head_dim.value.data)


def table_kind(op: RopeOp) -> PortKind:
    """Return the port kind of cos and sin: an element for each column of a pair, or for both."""
    return PortKind.TABLE if op.is_per_column else PortKind.HALF_TABLE
