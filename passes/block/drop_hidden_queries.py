"""Pass `drop-hidden-queries`: read fully masked queries unchanged where no gradient is needed."""

from xdsl.ir import SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import shape_of
from coda_ir.dialects.torch import CallOp
from coda_ir.passes.support.function_pass import FunctionPass, FunctionRewriter, Refusal
from coda_ir.passes.support.heads import HEADS_FIRST
from coda_ir.passes.support.matching import FAR, defined_by, number_of
from coda_ir.symbolic_shapes import Dim, Dims

ANY, LAST = "aten.any.dim", "{0}, -1, True"

NEAR = Refusal(
    "the number that masks keys absorbs any score that is added to it",
    "queries without keys are set to zero: their scores, added to the number, would change it",
)
OTHER = Refusal(
    "the queries that are set to zero are those whose keys are all masked by a number",
    "a different mask sets queries to zero",
)


class DropHiddenQueriesPass(FunctionPass):
    """Removes the zeros with which `raise-attention` replaces queries whose keys are all masked.

        %any = torch.call "aten.any.dim"(%keep)
        %mask = coda.where %keep, 0, -1e38
        %q0 = coda.where %any, %q, 0
        %y = coda.attention %q0, %k, %v mask(%mask)    ->    %y = coda.attention %q, %k, %v ...

    The zeros stop gradients through the scores of these queries, so the pass runs after
    `differentiate`. Legal iff the masking number is so negative that adding a score does not change
    it.
    """

    def run_on_function(self, rewriter: FunctionRewriter) -> None:
        for op in rewriter.ops:
            if isinstance(op, coda.AttentionOp) and (chosen := _chosen(op)) is not None:
                found = rewriter.allowed(op, _queries(op, chosen, rewriter))
                if found is not None:
                    rewriter.passed(op, "reads fully masked queries unchanged")
                    op.operands[0] = found


def _chosen(op: coda.AttentionOp) -> coda.WhereOp | None:
    """Return the choice between query heads and zero that the queries of `op` come from."""
    columns = defined_by(op.q, coda.ReshapeOp)
    chosen = defined_by(columns.x, coda.WhereOp) if columns else None
    return chosen if chosen is not None and number_of(chosen.rhs) == 0 else None


def _queries(
    op: coda.AttentionOp, chosen: coda.WhereOp, rewriter: FunctionRewriter
) -> SSAValue | Refusal:
    """Return the queries before some became zero."""
    heads = defined_by(chosen.lhs, coda.ReshapeOp)
    seen = _keys_of(chosen.condition, rewriter)
    hiding = defined_by(op.mask, coda.WhereOp) if op.mask is not None else None
    if heads is None or seen is None or hiding is None or heads.x.type != op.q.type:
        return OTHER
    if shape_of(chosen.lhs)[-2:] != (op.heads, op.head_dim.value.data):
        return OTHER
    (keep, is_kept), (condition, is_condition) = _plain(seen), _plain(hiding.condition)
    numbers = (hiding.rhs, hiding.lhs) if is_kept == is_condition else (hiding.lhs, hiding.rhs)
    number, other = map(number_of, numbers)
    if keep is not condition or number is None or other != 0:
        return OTHER
    return NEAR if number > FAR else heads.x


def _plain(truth: SSAValue) -> tuple[SSAValue, bool]:
    """Return `truth` without negations, and whether their number is even."""
    is_even = True
    while isinstance(truth.owner, coda.LogicalNotOp):
        truth, is_even = truth.owner.operand, not is_even
    return truth, is_even


def _keys_of(found: SSAValue, rewriter: FunctionRewriter) -> SSAValue | None:
    """Return the keys (B x heads x T x S) whose disjunction is `found` (B x T x heads x 1)."""
    dims, swaps, queries = rewriter.shapes.dims, 0, found
    while isinstance(op := found.owner, coda.ReshapeOp | coda.TransposeOp):
        is_swap = isinstance(op, coda.TransposeOp)
        if op.permutation != HEADS_FIRST if is_swap else _long(dims(op.x)) != _long(dims(found)):
            return None
        found, swaps = op.x, swaps + is_swap
    if not isinstance(op, CallOp) or op.callee.data != ANY or op.arguments.data != LAST:
        return None
    heads_first = _four(dims(found))
    swapped = tuple(heads_first[axis] for axis in HEADS_FIRST)
    is_swapped = swaps == 1 or (swaps == 0 and 1 in heads_first[1:3])
    return op.inputs[0] if is_swapped and swapped == _four(dims(queries)) else None


def _long(dims: Dims) -> list[Dim]:
    return [dim for dim in dims if dim != 1]


def _four(dims: Dims) -> Dims:
    return (1,) * (4 - len(dims)) + tuple(dims)
