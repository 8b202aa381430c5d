"""Pass `split-queries`: run attention separately for each part of its result that is read."""

from collections.abc import Sequence
from itertools import accumulate, pairwise

from xdsl.dialects.builtin import DYNAMIC_INDEX
from xdsl.ir import SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import shape_of
from coda_ir.passes.support.function_pass import FunctionPass, FunctionRewriter, OpInserter, Refusal
from coda_ir.passes.support.legality import name_of
from coda_ir.passes.support.matching import defined_by


class SplitQueriesPass(FunctionPass):
    """Computes attention separately for each range of rows that is read.

        %q = coda.concat %q1, %q2 {dim = 1}
        %y = coda.attention %q, %k, %v          ->    %a = coda.attention %q1, %k, %v
        %a, %b = slices of the rows of %y             %b = coda.attention %q2, %k, %v

    Each query has its own softmax, so the queries of two streams over shared keys, as in the joint
    attention of text and images (arXiv 2403.03206), need not be one tensor. Without the
    concatenation, neither the queries nor the rows for the next GEMM are copied, and unused rows
    are not computed.

    Legal iff only slices read the result, and the keys that a query attends to do not depend on its
    position: there is neither a causal mask nor a window, and a mask is the same for all queries.
    Not worth it if slices overlap, because the common rows would be computed twice.
    """

    def run_on_function(self, rewriter: FunctionRewriter) -> None:
        for op in rewriter.ops:
            if isinstance(op, coda.AttentionOp) and (slices := _slices_of_rows(op)):
                ranges = " and ".join("{1}:{2}".format(*part.range) for part in slices)
                message = f"runs separately for queries {ranges}"
                if rewriter.accepts(op, _check(op, slices), message):
                    for part in slices:
                        _attend(op, part, rewriter)
                    rewriter.order.erase(op)


def _slices_of_rows(op: coda.AttentionOp) -> list[coda.SliceOp]:
    """Return the slices of rows of the result by their first rows; none if it is read whole."""
    users = [use.operation for use in op.result.uses]
    rows = len(shape_of(op.result)) - 2
    slices = [user for user in users if isinstance(user, coda.SliceOp) and user.range[0] == rows]
    return sorted(slices, key=_first) if len(slices) == len(users) else []


def _first(part: coda.SliceOp) -> int:
    return part.start.value.data


def _check(op: coda.AttentionOp, slices: Sequence[coda.SliceOp]) -> Refusal | None:
    if op.lse is not None:
        return Refusal(
            "only the rows that attention returns are used",
            f"the logsumexp of {name_of(op.result)} covers all queries",
        )
    is_by_query = op.mask is not None and shape_of(op.mask)[-2] != 1
    if op.causal.value.data or op.window is not None or is_by_query:
        return Refusal(
            "every query sees the same keys",
            f"the keys that a query of {name_of(op.q)} sees depend on its position",
        )
    if any(first.stop.value.data > _first(second) for first, second in pairwise(slices)):
        return Refusal(
            "every row is read once",
            f"slices of {name_of(op.result)} overlap: the common rows would be computed twice",
        )
    return None


def _attend(op: coda.AttentionOp, part: coda.SliceOp, rewriter: FunctionRewriter) -> None:
    """Replace a slice of the result's rows by attention of the queries for these rows."""
    insert = rewriter.before(op)
    q = _part_of(op.q, part, insert)
    attention = insert.again(op, [q, *op.operands[1:]], shape_of(part.result))
    rewriter.replace(part, attention)


def _part_of(q: SSAValue, part: coda.SliceOp, insert: OpInserter) -> SSAValue:
    """Return the queries of a part: a part of a concatenation, or a slice."""
    dim, start, stop = part.range
    joined = defined_by(q, coda.ConcatOp)
    if joined is not None and joined.dim.value.data == dim:
        extents = [shape_of(each)[dim] for each in joined.parts]
        if DYNAMIC_INDEX not in extents:
            ranges = pairwise(accumulate(extents, initial=0))
            for each, found in zip(joined.parts, ranges, strict=True):
                if found == (start, stop):
                    return each
    return insert.insert(coda.SliceOp(q, dim, start, stop))
