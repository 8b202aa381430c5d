"""Dialect `coda`: the named operators of a Transformer block on tensors.

No algorithmic choice is made at this level; both frontends produce it.
"""

from xdsl.ir import Dialect

from coda_ir.dialects.coda import canonicalization as canonicalization
from coda_ir.dialects.coda.arithmetic import Term as Term
from coda_ir.dialects.coda.attention import (
    DECOMPOSED as DECOMPOSED,
    AttentionGradOp as AttentionGradOp,
    AttentionLike as AttentionLike,
    AttentionOp as AttentionOp,
)
from coda_ir.dialects.coda.base import CodaOp
from coda_ir.dialects.coda.block import (
    LOSS_REDUCTIONS as LOSS_REDUCTIONS,
    ROPE_LAYOUTS as ROPE_LAYOUTS,
    CrossEntropyOp as CrossEntropyOp,
    EmbeddingOp as EmbeddingOp,
    GluOp as GluOp,
    RopeOp as RopeOp,
)
from coda_ir.dialects.coda.casts import CastOp as CastOp, ConstantOp as ConstantOp
from coda_ir.dialects.coda.convolution import (
    MAX_TAPS as MAX_TAPS,
    shifted_convolution as shifted_convolution,
)
from coda_ir.dialects.coda.delta_rule import (
    DeltaRuleGradOp as DeltaRuleGradOp,
    DeltaRuleLike as DeltaRuleLike,
    DeltaRuleOp as DeltaRuleOp,
)
from coda_ir.dialects.coda.elementwise import (
    ACTIVATIONS as ACTIVATIONS,
    BY_OVERLOAD as BY_OVERLOAD,
    ELEMENTWISE_OPS as ELEMENTWISE_OPS,
    FUNCTIONS_OF_TWO as FUNCTIONS_OF_TWO,
    GATES as GATES,
    REAL_FUNCTIONS as REAL_FUNCTIONS,
    SELECTIONS as SELECTIONS,
    AbsOp as AbsOp,
    AddOp as AddOp,
    CompareOp as CompareOp,
    DetachOp as DetachOp,
    DivOp as DivOp,
    EluOp as EluOp,
    ExpOp as ExpOp,
    GeluOp as GeluOp,
    GeluTanhOp as GeluTanhOp,
    LogicalAndOp as LogicalAndOp,
    LogicalNotOp as LogicalNotOp,
    LogicalOrOp as LogicalOrOp,
    LogOp as LogOp,
    MaximumOp as MaximumOp,
    MinimumOp as MinimumOp,
    MulOp as MulOp,
    NegOp as NegOp,
    PowOp as PowOp,
    Relu2Op as Relu2Op,
    ReluOp as ReluOp,
    RsqrtOp as RsqrtOp,
    SigmoidOp as SigmoidOp,
    SignOp as SignOp,
    SiluOp as SiluOp,
    SoftcapOp as SoftcapOp,
    SqrtOp as SqrtOp,
    StoredOp as StoredOp,
    SubOp as SubOp,
    TanhOp as TanhOp,
    WhereOp as WhereOp,
)
from coda_ir.dialects.coda.elementwise_op import (
    BinaryOp as BinaryOp,
    Elements as Elements,
    ElementwiseOp as ElementwiseOp,
    Formula as Formula,
    FunctionOfTwo as FunctionOfTwo,
    Predicate as Predicate,
    RealFunction as RealFunction,
    Selection as Selection,
    UnaryOp as UnaryOp,
)
from coda_ir.dialects.coda.extension import BroadcastOp as BroadcastOp, PadOp as PadOp
from coda_ir.dialects.coda.gradients import (
    DERIVED_FROM_RESULT as DERIVED_FROM_RESULT,
    ActivationGradOp as ActivationGradOp,
    CrossEntropyGradOp as CrossEntropyGradOp,
    EmbeddingGradOp as EmbeddingGradOp,
    GroupedWeightGradientOp as GroupedWeightGradientOp,
    MaximumGradOp as MaximumGradOp,
    SumToOp as SumToOp,
    WeightGradientOp as WeightGradientOp,
)
from coda_ir.dialects.coda.library import (
    ConvolutionOp as ConvolutionOp,
    CumsumOp as CumsumOp,
    GatherOp as GatherOp,
    GroupNormOp as GroupNormOp,
    IndexOp as IndexOp,
    OneHotOp as OneHotOp,
    ScatterOp as ScatterOp,
    SortOp as SortOp,
    TopkOp as TopkOp,
)
from coda_ir.dialects.coda.library_call import LibraryCallOp as LibraryCallOp
from coda_ir.dialects.coda.linear import (
    MAX_GROUPS as MAX_GROUPS,
    PATCHES as PATCHES,
    GroupedLinearMap as GroupedLinearMap,
    GroupedLinearOp as GroupedLinearOp,
    GroupedMatmulOp as GroupedMatmulOp,
    GroupOrderOp as GroupOrderOp,
    LinearOp as LinearOp,
    MatmulOp as MatmulOp,
)
from coda_ir.dialects.coda.low_bit_linear import (
    LowBitLinearOp as LowBitLinearOp,
    QuantizedAttr as QuantizedAttr,
)
from coda_ir.dialects.coda.positions import (
    ExtentOp as ExtentOp,
    PositionsOp as PositionsOp,
    extent_in as extent_in,
    is_of_extents as is_of_extents,
    positions_in as positions_in,
)
from coda_ir.dialects.coda.reductions import (
    LayerNormOp as LayerNormOp,
    NormStatsOp as NormStatsOp,
    ReduceOp as ReduceOp,
    RMSNormOp as RMSNormOp,
    SoftmaxOp as SoftmaxOp,
)
from coda_ir.dialects.coda.scaled_linear import (
    LEAST_DEPTH as LEAST_DEPTH,
    BlocksAttr as BlocksAttr,
    QuantizedLinearOp as QuantizedLinearOp,
    ScaledLinearOp as ScaledLinearOp,
)
from coda_ir.dialects.coda.scan import (
    SelectiveScanGradOp as SelectiveScanGradOp,
    SelectiveScanOp as SelectiveScanOp,
    SSDGradOp as SSDGradOp,
    SSDLike as SSDLike,
    SSDOp as SSDOp,
)
from coda_ir.dialects.coda.shape import (
    BarrierOp as BarrierOp,
    ConcatOp as ConcatOp,
    ReshapeOp as ReshapeOp,
    ShiftOp as ShiftOp,
    SliceOp as SliceOp,
    TransposeOp as TransposeOp,
)

Coda = Dialect("coda", list(dict.fromkeys(CodaOp.operators())), [BlocksAttr, QuantizedAttr])
