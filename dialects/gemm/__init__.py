"""Dialect `gemm`: GEMMs with an epilogue region, typed ports and tile partials.

This is the level on which the legality of fusion is decided.
"""

from xdsl.ir import Dialect

from coda_ir.dialects.gemm.attrs import (
    Combiner,
    CombinerAttr,
    Layout,
    LayoutAttr,
    PairingAttr,
    PortKind,
    PortKindAttr,
    ResultKind,
    ResultKindAttr,
    ResultPortAttr,
    ScheduleAttr,
    SegmentAttr,
)
from coda_ir.dialects.gemm.ops import (
    FinalizeOp,
    FusedOp,
    GroupReduceOp,
    MapOp,
    PackWeightOp,
    ScaleWeightOp,
    YieldOp,
)
from coda_ir.dialects.gemm.scalars import ScalarBuilder
from coda_ir.dialects.gemm.segment import Port, Result, Segment, partial_type, region_type

Gemm = Dialect(
    "gemm",
    [FusedOp, MapOp, FinalizeOp, PackWeightOp, ScaleWeightOp, GroupReduceOp, YieldOp],
    [
        PortKindAttr,
        CombinerAttr,
        LayoutAttr,
        ResultKindAttr,
        ResultPortAttr,
        PairingAttr,
        SegmentAttr,
        ScheduleAttr,
    ],
)

__all__ = [
    "Combiner",
    "CombinerAttr",
    "FinalizeOp",
    "FusedOp",
    "Gemm",
    "GroupReduceOp",
    "Layout",
    "LayoutAttr",
    "MapOp",
    "PackWeightOp",
    "PairingAttr",
    "Port",
    "PortKind",
    "PortKindAttr",
    "Result",
    "ResultKind",
    "ResultKindAttr",
    "ResultPortAttr",
    "ScalarBuilder",
    "ScaleWeightOp",
    "ScheduleAttr",
    "Segment",
    "SegmentAttr",
    "YieldOp",
    "partial_type",
    "region_type",
]
