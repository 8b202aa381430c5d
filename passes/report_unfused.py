"""Pass `report-unfused`: a remark for every operator that runs outside of a GEMM by design."""

from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects.builtin import f64
from xdsl.ir import Block, Operation

from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import computes_in_float32, element_type_of
from coda_ir.dialects.gemm import FinalizeOp, MapOp
from coda_ir.dialects.torch import CallOp, Determinism, VjpOp, determinism_of
from coda_ir.one_query_attention import OneQueryAttention
from coda_ir.passes.legality import name_of
from coda_ir.passes.support.editing import Site
from coda_ir.passes.support.function_pass import FunctionPass, FunctionRewriter, Refusal
from coda_ir.storage import is_filled_in_place

_REASONS: dict[type[Operation], Refusal] = {
    coda.AttentionOp: Refusal(
        "a row needs no other rows of the sequence",
        "runs as PyTorch's scaled dot-product attention",
    ),
    coda.EmbeddingOp: Refusal(
        "its rows are computed, not looked up in a table", "runs as PyTorch's embedding"
    ),
    coda.SoftmaxOp: Refusal(
        "the whole row is on chip", "softmax runs as a kernel of its own over whole rows"
    ),
    CallOp: Refusal("the operator has a counterpart in the dialect coda", "runs through PyTorch"),
    VjpOp: Refusal(
        "the operator has a counterpart in the dialect coda",
        "is differentiated by PyTorch, which computes it again",
    ),
    coda.CrossEntropyGradOp: Refusal(
        "the epilogue knows the number of its column",
        "runs as a kernel of its own, which reads the logits once",
    ),
    coda.EmbeddingGradOp: Refusal(
        "where a row is added is known before its id is read",
        "adds up rows in a kernel of its own, in the order that a sort of the ids gives",
    ),
    coda.PadOp: Refusal("the parts are written where they are", "copies its operand"),
    coda.ConcatOp: Refusal("the parts are read where they are", "copies its parts"),
}


ONE_QUERY = Refusal(
    "a row needs no other rows of the sequence",
    "attention of one query for each head runs as a kernel of its own",
)

WIDE = Refusal("float32 holds every value", "runs through PyTorch: it computes in f64")

NOT_DETERMINISTIC = (
    "is not deterministic on GPUs: PyTorch has no algorithm with a fixed order, and says so when "
    "it runs"
)


REDUCTIONS = (coda.NormStatsOp, coda.ReduceOp, coda.SumToOp)
"""What `split-reductions` takes apart, or reports, where the operand is a tile."""


@dataclass(frozen=True)
class ReportUnfusedPass(FunctionPass):
    """Reports attention, embedding, softmax, copies and pointwise kernels; changes nothing.

    Operators that another pass refused to fuse have been reported by that pass; what joined a
    pointwise kernel shares its reason.
    """

    name: ClassVar[str] = "report-unfused"

    def run_on_function(self, rewriter: FunctionRewriter) -> None:
        for op in rewriter.ops:
            reason = _REASONS.get(type(op))
            if OneQueryAttention.of(op, rewriter.shapes) is not None:
                rewriter.missed(op, ONE_QUERY)
            elif isinstance(op, CallOp | VjpOp) and reason is not None:
                refusal = WIDE if _is_float64(op) else reason
                found = f"{op.callee.data} {refusal.found}"
                rewriter.missed(op, Refusal(refusal.condition, found))
                if determinism_of(op) == Determinism.MISSING:
                    rewriter.analysis(op, f"{op.callee.data} {NOT_DETERMINISTIC}")
            elif isinstance(op, coda.ConcatOp) and is_filled_in_place(op):
                continue
            elif reason is not None:
                rewriter.missed(op, reason)
            elif isinstance(op, MapOp):
                rewriter.missed(op, _why_pointwise(op))
            elif isinstance(op, coda.ElementwiseOp | coda.CastOp):
                refusal = _why_not_float32(op)
                if refusal is not None:
                    rewriter.missed(op, refusal)
            elif isinstance(op, REDUCTIONS) and Site.of(op.x) is None:
                rewriter.missed(
                    op,
                    Refusal(
                        "the operand is the tile of a kernel of the same function",
                        "the reduction runs as a kernel of its own",
                    ),
                )


def _is_float64(op: Operation) -> bool:
    return any(element_type_of(value) == f64 for value in (*op.operands, *op.results))


def _why_not_float32(op: Operation) -> Refusal | None:
    """Whether a type keeps a pointwise operator out of kernels; others have been reported."""
    types = map(element_type_of, (*op.operands, *op.results))
    wide = [type for type in types if not computes_in_float32(type)]
    if not wide:
        return None
    return Refusal("float32 holds every value", f"runs through PyTorch: it computes in {wide[0]}")


def _why_pointwise(op: MapOp) -> Refusal:
    """What keeps a pointwise kernel out of the epilogue of a GEMM."""
    values = [port.value for port in op.segment().ports]
    statistics = [value for value in values if isinstance(value.owner, FinalizeOp)]
    if statistics:
        found = f"needs {name_of(statistics[0])} of whole rows, which the GEMM has only at its end"
        return Refusal("the epilogue has all it needs in its tile", f"a pointwise kernel {found}")
    makers = {"an argument" if isinstance(v.owner, Block) else v.owner.name for v in values}
    found = f"a pointwise kernel combines results of {', '.join(sorted(makers))}"
    return Refusal("an operand is the tile of a GEMM", found)
