"""Dialect `gemm`: GEMMs with an epilogue region, typed ports and tile partials.

This is the level on which the legality of fusion is decided.
"""

from xdsl.ir import Dialect

from coda_ir.dialects.gemm.attention import (
    AttentionDkvOp,
    AttentionDqOp,
    AttentionGradSumOp,
    AttentionSumOp,
    FusedAttentionOp,
)
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
    SegmentAttr,
)
from coda_ir.dialects.gemm.constants import exact_number
from coda_ir.dialects.gemm.dependent import DEPENDENT_ATTRIBUTE
from coda_ir.dialects.gemm.library_op import LibraryOp
from coda_ir.dialects.gemm.numerics import (
    NUMERICS_ATTRIBUTE,
    NumericsAttr,
    NumericsMode,
    OrderAttr,
    numerics_mode,
    promotes_sums,
)
from coda_ir.dialects.gemm.ops import FinalizeOp, FusedOp, MapOp
from coda_ir.dialects.gemm.places import PlaceAttr
from coda_ir.dialects.gemm.region_ops import (
    CheckedIndexOp,
    ColumnOp,
    FloorDivideOp,
    GroupReduceOp,
    RemainderOp,
    YieldOp,
)
from coda_ir.dialects.gemm.scalars import RotationTypes, ScalarBuilder
from coda_ir.dialects.gemm.schedules import ScheduleAttr, is_power_of_two
from coda_ir.dialects.gemm.segment import (
    DomainSegment,
    Port,
    Result,
    Segment,
    is_wide_partial,
    kept_dims,
    partial_arguments,
    partial_type,
    region_type,
)
from coda_ir.dialects.gemm.tuned import TUNED_ATTRIBUTE, TunedAttr
from coda_ir.dialects.gemm.weight_ops import PackWeightOp, ScaleWeightOp

Gemm = Dialect(
    "gemm",
    [
        FusedOp,
        MapOp,
        FinalizeOp,
        FusedAttentionOp,
        AttentionDqOp,
        AttentionDkvOp,
        LibraryOp,
        PackWeightOp,
        ScaleWeightOp,
        GroupReduceOp,
        CheckedIndexOp,
        ColumnOp,
        FloorDivideOp,
        RemainderOp,
        YieldOp,
    ],
    [
        PortKindAttr,
        CombinerAttr,
        LayoutAttr,
        ResultKindAttr,
        ResultPortAttr,
        PairingAttr,
        PlaceAttr,
        SegmentAttr,
        ScheduleAttr,
        NumericsAttr,
        OrderAttr,
        TunedAttr,
    ],
)

__all__ = [
    "DEPENDENT_ATTRIBUTE",
    "NUMERICS_ATTRIBUTE",
    "TUNED_ATTRIBUTE",
    "AttentionDkvOp",
    "AttentionDqOp",
    "AttentionGradSumOp",
    "AttentionSumOp",
    "CheckedIndexOp",
    "ColumnOp",
    "Combiner",
    "CombinerAttr",
    "DomainSegment",
    "FinalizeOp",
    "FloorDivideOp",
    "FusedAttentionOp",
    "FusedOp",
    "Gemm",
    "GroupReduceOp",
    "Layout",
    "LayoutAttr",
    "LibraryOp",
    "MapOp",
    "NumericsAttr",
    "NumericsMode",
    "OrderAttr",
    "PackWeightOp",
    "PairingAttr",
    "PlaceAttr",
    "Port",
    "PortKind",
    "PortKindAttr",
    "RemainderOp",
    "Result",
    "ResultKind",
    "ResultKindAttr",
    "ResultPortAttr",
    "RotationTypes",
    "ScalarBuilder",
    "ScaleWeightOp",
    "ScheduleAttr",
    "Segment",
    "SegmentAttr",
    "TunedAttr",
    "YieldOp",
    "exact_number",
    "is_power_of_two",
    "is_wide_partial",
    "kept_dims",
    "numerics_mode",
    "partial_arguments",
    "partial_type",
    "promotes_sums",
    "region_type",
]
