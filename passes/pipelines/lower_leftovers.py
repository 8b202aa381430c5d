"""Pass `lower-leftovers`: turn leftovers into kernels, or leave them in a graph of programs."""

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.passes import ModulePass, PassPipeline
from xdsl.transforms.canonicalize import CanonicalizePass
from xdsl.transforms.common_subexpression_elimination import CommonSubexpressionElimination
from xdsl.transforms.dead_code_elimination import DeadCodeElimination

from coda_ir.passes.block.drop_barriers import DropBarriersPass
from coda_ir.passes.block.drop_unused_results import DropUnusedResultsPass
from coda_ir.passes.fusion.convert_attention_to_gemm import ConvertAttentionToGemmPass
from coda_ir.passes.fusion.fuse_attention import FuseAttentionPass
from coda_ir.passes.fusion.fuse_embedding import FuseEmbeddingPass
from coda_ir.passes.fusion.fuse_finalize import FuseFinalizePass
from coda_ir.passes.fusion.fuse_groups import FuseGroupsPass
from coda_ir.passes.fusion.fuse_qk_norm import FuseQkNormPass
from coda_ir.passes.fusion.merge_sibling_gemms import MergeSiblingGemmsPass
from coda_ir.passes.fusion.outline_pointwise import OutlinePointwisePass
from coda_ir.passes.fusion.reduce_columns import ReduceColumnsPass
from coda_ir.passes.fusion.repeat_columns import RepeatColumnsPass
from coda_ir.passes.fusion.report_unfused import ReportUnfusedPass
from coda_ir.passes.fusion.split_reductions import SplitReductionsPass
from coda_ir.passes.layout.accumulate_in_place import AccumulateInPlacePass
from coda_ir.passes.layout.leave_plain_gemms import LeavePlainGemmsPass
from coda_ir.passes.layout.leftover_cost import call_us
from coda_ir.passes.layout.outline_programs import OutlineProgramsPass, why_no_graph
from coda_ir.passes.layout.own_results import OwnResultsPass
from coda_ir.passes.layout.place_parts import PlacePartsPass
from coda_ir.passes.layout.state_reduction_order import StateReductionOrderPass
from coda_ir.passes.support.function_pass import FunctionRewriter, NamedPass

_POINTWISE: tuple[ModulePass, ...] = (
    FuseGroupsPass(),
    # Kernels for groups hold what pointwise code computes.
    ReduceColumnsPass(),
    OutlinePointwisePass(statistics=False),
    FuseQkNormPass(maps_only=True),
    # The kernel that looks up rows adds up the statistics of their norm.
    FuseEmbeddingPass(),
    SplitReductionsPass(),
    FuseFinalizePass(),
    RepeatColumnsPass(),
    OutlinePointwisePass(),
)

_MERGE: tuple[ModulePass, ...] = (
    # The backward of attention takes the kernels that read its gradients as epilogues.
    ConvertAttentionToGemmPass(),
    FuseAttentionPass(),
    MergeSiblingGemmsPass(),
    # Nothing moves any more.
    DropBarriersPass(),
    DeadCodeElimination(),
    DropUnusedResultsPass(),
    CanonicalizePass(),
    CommonSubexpressionElimination(),
)

KERNELS: tuple[ModulePass, ...] = (
    *_POINTWISE,
    *_MERGE,
    OwnResultsPass(),
    AccumulateInPlacePass(),
    PlacePartsPass(),
    StateReductionOrderPass(),
    ReportUnfusedPass(),
)
"""The passes for a function whose leftovers become kernels."""

GRAPH: tuple[ModulePass, ...] = (
    *_MERGE,
    ReportUnfusedPass(graph=True),
    OwnResultsPass(),
    LeavePlainGemmsPass(),
    OutlineProgramsPass(),
    # Memory is reused inside of programs only.
    AccumulateInPlacePass(),
)
"""The passes for a function that becomes a graph, which calls programs."""


class LowerLeftoversPass(NamedPass):
    """Turns each function whose leftovers are expensive into a graph of programs, and the others
    into kernels.

        %h = gemm.fused %x ... {gelu}              %h  = func.call @f_program(%x, %w)
        %c = coda.concat %h, %z            ->      %c  = coda.concat %h, %z
        %s = coda.add %c, %row                     %s  = coda.add %c, %row

    A compiler such as Inductor turns connected leftovers into one kernel, where this compiler and
    PyTorch need several. A graph is worth it iff this saves more time than the calls of its
    programs take, as estimated from kernels and bytes; `always` makes a graph wherever it is legal.
    Legal iff the program leaves rounding between operators to the compiler (`fp32-epilogue`), does
    not overwrite its arguments, and its sizes follow from the arguments; see `outline-programs`.
    """

    always: bool = False

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for func in list(op.ops):
            steps: tuple[ModulePass, ...] = ()
            if isinstance(func, FuncOp) and not func.is_declaration:
                steps = self._steps(func)
            func.detach()
            alone = ModuleOp([func])
            PassPipeline(steps).apply(ctx, alone)
            for lowered in list(alone.ops):
                lowered.detach()
                op.body.block.add_op(lowered)

    def _steps(self, func: FuncOp) -> tuple[ModulePass, ...]:
        rewriter = FunctionRewriter(self.name, func)
        refusal = why_no_graph(rewriter, call_us(func), always=self.always)
        if refusal is None:
            rewriter.passed(func, "becomes a graph that calls programs")
            return GRAPH
        if refusal.suggestion is None:
            rewriter.analysis(func, f"is emitted as kernels without a graph: {refusal.found}")
        else:
            rewriter.missed(func, refusal)
        return KERNELS
