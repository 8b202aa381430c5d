"""Pass `report-unfused`: emit a remark for every operator that runs outside of a GEMM by design."""

from collections.abc import Collection
from dataclasses import replace

from xdsl.dialects.builtin import LocationAttr
from xdsl.ir import Block, Operation, SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.coda.library import has_short_rows
from coda_ir.dialects.coda.shapes import element_type_of
from coda_ir.dialects.gemm import FinalizeOp, FusedOp, MapOp, ResultKind
from coda_ir.dialects.gemm.scalar_code import is_pointwise, is_scalar
from coda_ir.dialects.gemm.tiling import group_sizes
from coda_ir.dialects.torch import (
    COPY,
    PRODUCTS,
    AnyCall,
    CallOp,
    Determinism,
    VjpOp,
    determinism_of,
)
from coda_ir.numbered_elements import has_kernel
from coda_ir.one_query_attention import OneQueryAttention
from coda_ir.passes.support.editing import Site
from coda_ir.passes.support.function_pass import FunctionPass, FunctionRewriter, Refusal
from coda_ir.passes.support.group_legality import check_group_code
from coda_ir.passes.support.groups import MAX_GROUP, find_group_code, find_row_code
from coda_ir.passes.support.legality import (
    NO_PRODUCER,
    check_rotation,
    find_site,
    name_of,
)
from coda_ir.passes.support.matching import is_float64
from coda_ir.passes.support.order import BlockOrder
from coda_ir.remarks import leaf_locations, missed_places
from coda_ir.small_products import SmallProduct
from coda_ir.storage import (
    is_filled_in_place,
    is_looked_up_where_read,
    is_shifted_where_read,
    is_stored_by_kernel,
    is_view,
)

_REASONS: dict[type[Operation], Refusal] = {
    coda.AttentionOp: Refusal(
        "a row does not depend on other rows of the sequence",
        "runs as PyTorch's scaled dot-product attention",
    ),
    **dict.fromkeys(
        (coda.SelectiveScanOp, coda.SSDOp, coda.DeltaRuleOp),
        Refusal(
            "a row does not depend on other rows of the sequence",
            "runs as separate kernels over chunks of the sequence",
        ),
    ),
    **dict.fromkeys(
        (coda.SelectiveScanGradOp, coda.SSDGradOp, coda.DeltaRuleGradOp),
        Refusal(
            "a row does not depend on other rows of the sequence",
            "runs as separate kernels, which recompute the states",
        ),
    ),
    coda.EmbeddingOp: Refusal(
        "its rows are computed, not looked up in a table", "runs as PyTorch's embedding"
    ),
    coda.SoftmaxOp: Refusal(
        "the whole row is on chip", "softmax runs as a separate kernel over whole rows"
    ),
    CallOp: Refusal("an operator of the dialect coda computes it", "runs in eager PyTorch"),
    VjpOp: Refusal(
        "an operator of the dialect coda computes it",
        "is differentiated by autograd, which recomputes it",
    ),
    coda.CrossEntropyGradOp: Refusal(
        "the epilogue knows the index of its column",
        "runs as a separate kernel, which reads the logits once",
    ),
    coda.EmbeddingGradOp: Refusal(
        "the destination of a row is known before its id is read",
        "adds up rows in a separate kernel, in the order of the sorted ids",
    ),
    coda.GroupOrderOp: Refusal(
        "the position of a row does not depend on other rows",
        "sorts and counts rows by group in separate kernels",
    ),
    coda.PadOp: Refusal("the operand is written in place", "copies its operand"),
    coda.ShiftOp: Refusal("only pointwise kernels read the rows", "copies its operand"),
    coda.ConcatOp: Refusal("the parts are read in place", "copies its parts"),
}


BY_NUMBER = (coda.GatherOp, coda.ScatterOp, coda.IndexOp)

ONE_QUERY = Refusal(
    "a row does not depend on other rows of the sequence",
    "attention with one query per head runs as a separate kernel",
)

NOT_A_TILE = Refusal(
    "the operand is a tile of a kernel in the same function",
    "the reduction runs as a separate kernel",
)

IN_GRAPH = "is compiled by Inductor, in the graph between the programs"

WIDE = Refusal(
    "float32 can represent every value",
    "runs in eager PyTorch: it computes in f64",
    "convert to float32 first, if its precision is sufficient",
)

NOT_DETERMINISTIC = (
    "is not deterministic on GPUs: PyTorch has no algorithm with a fixed order, and warns when "
    "it runs"
)


class ReportUnfusedPass(FunctionPass):
    """Reports attention, embedding, softmax, copies and pointwise code; changes nothing.

    If another pass refused to fuse an operator, that pass has already reported it, together with
    the kernel that remains, such as one that applies the statistics of a norm. Operators in one
    pointwise kernel share a remark. A pass leaves the remark to this one if a later pass may still
    fuse the operator. With `graph`, the reported operators remain in a graph that calls programs.
    """

    graph: bool = False

    def run_on_function(self, rewriter: FunctionRewriter) -> None:
        in_groups = _group_refusals(rewriter)
        for op in rewriter.ops:
            refusal = in_groups.get(op) or _reason(op, rewriter)
            if refusal is not None:
                rewriter.missed(op, replace(refusal, found=IN_GRAPH) if self.graph else refusal)
            if not isinstance(op, AnyCall) or refusal is ONE_QUERY:
                continue
            if determinism_of(op) == Determinism.MISSING:
                rewriter.analysis(op, f"{op.callee.data} {NOT_DETERMINISTIC}")


def _reason(op: Operation, rewriter: FunctionRewriter) -> Refusal | None:
    """Return why `op` is a separate kernel or call; None if neither, or another pass said why."""
    reason, order = _REASONS.get(type(op)), rewriter.order
    if isinstance(op, coda.TopkOp) and has_short_rows(op):
        return Refusal(op.FUSES_IF, "topk runs as a separate kernel over whole rows", op.REMEDY)
    if isinstance(op, BY_NUMBER) and has_kernel(op, rewriter.shapes):
        found = f"{op.name.removeprefix('coda.')} runs as a separate kernel"
        return Refusal(op.FUSES_IF, found, op.REMEDY)
    if isinstance(op, coda.LibraryCallOp):
        if _is_reported(op.location, (op.name,), rewriter):
            return None
        name = op.ATEN.partition(".")[0]
        return Refusal(op.FUSES_IF, f"runs as a library call: PyTorch's {name}", op.REMEDY)
    if OneQueryAttention.of(op, rewriter.shapes) is not None:
        return ONE_QUERY
    if reason is not None:
        return _by_design(op, reason, rewriter)
    match op:
        case MapOp():
            is_explained = not op.results or _is_left_of_reported(op, rewriter)
            return None if is_explained else _why_pointwise(op, order)
        case coda.RopeOp():
            verdict = check_rotation(op, order)
            return verdict if isinstance(verdict, Refusal) else None
        case coda.ElementwiseOp() | coda.CastOp():
            return _why_not_float32(op) or _why_no_kernel(op, order)
        case coda.NormStatsOp() | coda.ReduceOp() | coda.SumToOp():
            return NOT_A_TILE if Site.of(op.x) is None else None
        case _:
            return None


def _by_design(op: Operation, reason: Refusal, rewriter: FunctionRewriter) -> Refusal | None:
    match op:
        case CallOp() if op.callee.data == COPY or is_stored_by_kernel(op) or is_view(op):
            return None  # own-results has said why a tensor is copied
        case CallOp() if op.callee.data in PRODUCTS:
            is_own = SmallProduct.of(op, rewriter.shapes) is not None
            where = "runs as a separate kernel" if is_own else "is a library call"
            return Refusal("an operand is a weight, K x N", f"a product of activations {where}")
        case CallOp() if op.stored_row and _is_reported(op.location, (op.name,), rewriter):
            return None
        case CallOp() | VjpOp():
            reason = WIDE if is_float64(op) else reason
            callee = op.callee.data
            return replace(reason, found=f"{callee} {reason.found}")
        case coda.ConcatOp() if is_filled_in_place(op):
            return None
        case coda.ShiftOp() if is_shifted_where_read(op):
            return None
        case coda.EmbeddingOp() if is_looked_up_where_read(op):
            return None
        case coda.AttentionOp() | coda.ConcatOp() | coda.CrossEntropyGradOp() | coda.EmbeddingOp():
            return None if _is_reported(op.location, (op.name,), rewriter) else reason
        case _:
            return reason


def _is_reported(
    location: LocationAttr, operators: Collection[str], rewriter: FunctionRewriter
) -> bool:
    """Return whether another pass has refused to rewrite one of `operators` at `location`."""
    reported = missed_places(rewriter.func.sym_name.data, operators)
    return not reported.isdisjoint(leaf_locations(location))


def _group_refusals(rewriter: FunctionRewriter) -> dict[Operation, Refusal]:
    """Return reductions over groups of columns, or rows, that `fuse-groups` refused, and why."""
    refusals: dict[Operation, Refusal] = {}
    for code in (*find_group_code(rewriter.ops), *find_row_code(rewriter.order)):
        refusal = check_group_code(code, rewriter.order)
        if refusal is not None:
            refusals |= dict.fromkeys(code.reductions, refusal)
    return refusals


def _why_not_float32(op: Operation) -> Refusal | None:
    """Return the reason if a type keeps a pointwise operator out of kernels."""
    types = map(element_type_of, (*op.operands, *op.results))
    wide = [type for type in types if not is_scalar(type)]
    if not wide:
        return None
    return replace(WIDE, found=f"runs in eager PyTorch: it computes in {wide[0]}")


def _why_no_kernel(op: Operation, order: BlockOrder) -> Refusal | None:
    """Return why pointwise code is neither fused nor a pointwise kernel with ports."""
    if not is_pointwise(op):
        return None
    verdict = find_site(op, order)
    return verdict if isinstance(verdict, Refusal) else None


def _statistics(op: MapOp) -> list[SSAValue]:
    """Return the row statistics that a pointwise kernel reads."""
    values = [port.value for port in op.segment().ports]
    return [value for value in values if isinstance(value.owner, FinalizeOp)]


def _is_left_of_reported(op: MapOp, rewriter: FunctionRewriter) -> bool:
    """Return whether the kernel is a scale, or applies statistics of a norm, with a remark."""
    norms = (coda.RMSNormOp.name, coda.LayerNormOp.name)
    makers = (value.owner for value in _statistics(op))
    return _is_reported(op.location, (coda.MulOp.name,), rewriter) or any(
        isinstance(maker, FinalizeOp) and _is_reported(maker.location, norms, rewriter)
        for maker in makers
    )


def _is_gemm_tile(value: SSAValue) -> bool:
    site = Site.of(value)
    return site is not None and isinstance(site.op, FusedOp)


def _why_pointwise(op: MapOp, order: BlockOrder) -> Refusal:
    """Return why a pointwise kernel is not part of the epilogue of a GEMM."""
    segment, statistics = op.segment(), _statistics(op)
    if statistics:
        statistic = name_of(statistics[0]) if statistics[0].name_hint else "a statistic"
        found = f"needs {statistic} of whole rows, which is known only after the GEMM"
        return Refusal(
            "the tile holds everything that the epilogue needs", f"a pointwise kernel {found}"
        )
    widest = max(group_sizes(segment), default=1)
    if widest > 1 and any(_is_gemm_tile(port.value) for port in segment.ports):
        return Refusal(
            f"a tile of the GEMM holds whole groups, of at most {MAX_GROUP} columns",
            f"a pointwise kernel reduces groups of {widest} columns",
        )
    if segment.results[0].port.kind.data == ResultKind.TILE:
        verdict = find_site(op, order)
        if isinstance(verdict, Refusal) and verdict is not NO_PRODUCER:
            return verdict
    makers = [port.value.owner for port in segment.ports]
    names = sorted({maker.name for maker in makers if isinstance(maker, Operation)})
    sources = [f"results of {', '.join(names)}"] if names else []
    if not names or any(isinstance(maker, Block) for maker in makers):
        sources.insert(0, "arguments")
    found = f"a pointwise kernel reads only {' and '.join(sources)}"
    return Refusal("an operand is the tile of a GEMM", found)
