"""How an epilogue takes a rotary embedding: which columns pair up, and what the tables are."""

from coda_ir.dialects.coda import RopeOp
from coda_ir.dialects.gemm.attrs import PairingAttr, PortKind


def pairing_of(op: RopeOp) -> PairingAttr:
    """Which columns of a head a rotation pairs up."""
    if op.layout.data == "interleaved":
        return PairingAttr.adjacent_columns()
    return PairingAttr.halves(op.head_dim.value.data)


def table_kind(op: RopeOp) -> PortKind:
    """The port of cos and of sin: an element for each column of a pair, or one for both."""
    return PortKind.TABLE if op.is_per_column else PortKind.HALF_TABLE
