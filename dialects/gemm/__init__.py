"""Dialect `gemm`: GEMMs with an epilogue region, typed ports and tile partials."""

from xdsl.ir import Dialect

from coda_ir.dialects.gemm.attention import (
    AttentionDkvOp as AttentionDkvOp,
    AttentionDmaskOp as AttentionDmaskOp,
    AttentionDqOp as AttentionDqOp,
    AttentionGradSumOp as AttentionGradSumOp,
    AttentionSumOp as AttentionSumOp,
    FusedAttentionOp as FusedAttentionOp,
)
from coda_ir.dialects.gemm.attrs import (
    Combiner as Combiner,
    CombinerAttr as CombinerAttr,
    Layout as Layout,
    LayoutAttr as LayoutAttr,
    PairingAttr as PairingAttr,
    PortKind as PortKind,
    PortKindAttr as PortKindAttr,
    ResultKind as ResultKind,
    ResultKindAttr as ResultKindAttr,
    ResultPortAttr as ResultPortAttr,
    SegmentAttr as SegmentAttr,
)
from coda_ir.dialects.gemm.constants import exact_number as exact_number
from coda_ir.dialects.gemm.library_op import LibraryOp as LibraryOp
from coda_ir.dialects.gemm.numerics import (
    NUMERICS_ATTRIBUTE as NUMERICS_ATTRIBUTE,
    NumericsAttr as NumericsAttr,
    NumericsMode as NumericsMode,
    OrderAttr as OrderAttr,
    numerics_mode as numerics_mode,
    promotes_sums as promotes_sums,
)
from coda_ir.dialects.gemm.ops import FinalizeOp as FinalizeOp, FusedOp as FusedOp, MapOp as MapOp
from coda_ir.dialects.gemm.places import PlaceAttr as PlaceAttr
from coda_ir.dialects.gemm.region_ops import (
    CheckedIndexOp as CheckedIndexOp,
    ColumnOp as ColumnOp,
    FloorDivideOp as FloorDivideOp,
    GroupReduceOp as GroupReduceOp,
    NormalCdfOp as NormalCdfOp,
    RemainderOp as RemainderOp,
    SoftplusOp as SoftplusOp,
    YieldOp as YieldOp,
    unchanged_region as unchanged_region,
)
from coda_ir.dialects.gemm.scalars import (
    RotationTypes as RotationTypes,
    ScalarBuilder as ScalarBuilder,
)
from coda_ir.dialects.gemm.schedules import (
    AHEAD_ATTRIBUTE as AHEAD_ATTRIBUTE,
    DEPENDENT_ATTRIBUTE as DEPENDENT_ATTRIBUTE,
    ScheduleAttr as ScheduleAttr,
    is_power_of_two as is_power_of_two,
)
from coda_ir.dialects.gemm.segment import (
    DomainSegment as DomainSegment,
    Port as Port,
    Result as Result,
    Segment as Segment,
    is_wide_partial as is_wide_partial,
    kept_dims as kept_dims,
    partial_arguments as partial_arguments,
    partial_type as partial_type,
    region_type as region_type,
)
from coda_ir.dialects.gemm.tuned import TUNED_ATTRIBUTE as TUNED_ATTRIBUTE, TunedAttr as TunedAttr
from coda_ir.dialects.gemm.weight_ops import (
    PackWeightOp as PackWeightOp,
    ScaleWeightOp as ScaleWeightOp,
)

Gemm = Dialect(
    "gemm",
    [
        FusedOp,
        MapOp,
        FinalizeOp,
        FusedAttentionOp,
        AttentionDqOp,
        AttentionDkvOp,
        AttentionDmaskOp,
        LibraryOp,
        PackWeightOp,
        ScaleWeightOp,
        GroupReduceOp,
        CheckedIndexOp,
        ColumnOp,
        FloorDivideOp,
        NormalCdfOp,
        RemainderOp,
        SoftplusOp,
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
