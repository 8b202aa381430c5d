"""Pass `group-head-norms`: turn a norm of each head into a grouped norm of the columns."""

from xdsl.ir import SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import computes_in_float32, element_type_of, shape_of
from coda_ir.passes.support.function_pass import FunctionPass, FunctionRewriter
from coda_ir.passes.support.heads import Heads, heads_of
from coda_ir.passes.support.matching import unwidened
from coda_ir.passes.support.norm_products import is_modulated
from coda_ir.storage import is_view


class GroupHeadNormsPass(FunctionPass):
    """Moves the norm of heads before the split of the columns into heads.

        %h = coda.reshape %q : (... x heads·D) -> (... x heads x D)
        %y = coda.rms_norm %h, %w
    ->
        %n = coda.rms_norm %q, %w {group = D}
        %y = coda.reshape %n

    Both normalize each run of D columns; the grouped norm can join the GEMM that computes %q. The
    heads may also come before the rows, transposed, or be widened first, as under autocast. Whole
    rows do not count as heads, even if the rows of a batch with one sequence have that shape.
    """

    def run_on_function(self, rewriter: FunctionRewriter) -> None:
        for op in rewriter.ops:
            if isinstance(op, coda.RMSNormOp) and op.group is None and _may_be_of_heads(op):
                heads = heads_of(unwidened(op.x), rewriter.shapes)
                if heads is None or not heads.is_whole:
                    continue
                if not _are_rows(op, heads):
                    _group(op, heads, rewriter)


def _may_be_of_heads(norm: coda.RMSNormOp) -> bool:
    """Return whether a GEMM may compute the norm's input; norms of heads are never modulated."""
    return computes_in_float32(element_type_of(norm.x)) and not is_modulated(norm)


def _are_rows(norm: coda.RMSNormOp, heads: Heads) -> bool:
    """Return whether apparent heads, one of all columns, are whole rows in a batch of one."""
    if heads.width != shape_of(heads.x)[-1]:
        return False
    is_split = len(shape_of(norm.x)) > len(shape_of(heads.x))
    return not is_split or _feeds_linear(norm.result)


def _feeds_linear(value: SSAValue) -> bool:
    """Return whether `value`, or a view of it, is the input of a linear layer."""
    for use in value.uses:
        op = use.operation
        if isinstance(op, coda.LinearOp) and use.index == 0:
            return True
        if is_view(op) and use.index == 0 and _feeds_linear(op.results[0]):
            return True
    return False


def _group(norm: coda.RMSNormOp, heads: Heads, rewriter: FunctionRewriter) -> None:
    rewriter.passed(norm, f"moved before the split into heads of {heads.width} columns")
    insert = rewriter.before(norm)
    eps = norm.eps.value.data
    columns = insert.cast(heads.columns(insert), element_type_of(norm.x))
    grouped = coda.RMSNormOp(columns, norm.weight, eps=eps, group=heads.width)
    value = insert.insert(grouped, norm.result.name_hint)
    rewriter.order.give_way(norm, [heads.of(value, insert)])
