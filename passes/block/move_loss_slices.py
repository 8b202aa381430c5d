"""Pass `move-loss-slices`: compute a loss of all rows of logits, not of a slice of them."""

from xdsl.dialects.builtin import DYNAMIC_INDEX, i32, i64
from xdsl.ir import BlockArgument, SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import element_type_of, shape_of
from coda_ir.passes.support.function_pass import FunctionPass, FunctionRewriter, Refusal
from coda_ir.passes.support.legality import name_of
from coda_ir.passes.support.matching import defined_by

MOST = "most rows of logits that the function computes have a loss"


class MoveLossSlicesPass(FunctionPass):
    """Moves slices of rows of logits past their loss, which ignores the other rows.

        %s = coda.slice %z {dim = 1, start = 0, stop = 511}    %p = coda.pad %t {dim = 1, value = i}
        %l = coda.cross_entropy %s, %t                      -> %a = coda.cross_entropy %z, %p
                                                               %l = coda.slice %a {dim = 1, ...}

    Language models predict the next token: their last row of logits has no loss. The slice would
    stand between the GEMM of the logits and the loss, and the backward would pad the gradient of
    the logits. A reshape that merges the sliced rows moves as well. A mean or a sum needs no slice.
    Legal iff the loss returns no logsumexp. Worth it iff the function computes the logits, and
    needs more than half of the rows.
    """

    def run_on_function(self, rewriter: FunctionRewriter) -> None:
        for op in rewriter.ops_of(coda.CrossEntropyOp):
            part = _slice_of_rows(op.logits)
            if part is None or op.row_lse or element_type_of(op.target) not in (i32, i64):
                continue
            if rewriter.accepts(
                op, _why_not(part), f"ignores the rows beside {name_of(part.result)}"
            ):
                _move(op, part, rewriter)


def _slice_of_rows(logits: SSAValue) -> coda.SliceOp | None:
    """Return the slice of rows of known extents that `logits` are, or whose rows they merge."""
    merged = defined_by(logits, coda.ReshapeOp)
    part = defined_by(logits if merged is None else merged.x, coda.SliceOp)
    if part is None or shape_of(part.result)[-1] != shape_of(logits)[-1]:
        return None
    rows = shape_of(part.x)[:-1]
    return (
        part if part.range[0] < len(rows) and DYNAMIC_INDEX not in rows[part.range[0] :] else None
    )


def _why_not(part: coda.SliceOp) -> Refusal | None:
    dim, start, stop = part.range
    extent = shape_of(part.x)[dim]
    if isinstance(part.x, BlockArgument):
        return Refusal(MOST, f"{name_of(part.x)} is an argument")
    if 2 * (stop - start) <= extent:
        return Refusal(MOST, f"{stop - start} of {extent} have one", "compute fewer logits")
    return None


def _move(op: coda.CrossEntropyOp, part: coda.SliceOp, rewriter: FunctionRewriter) -> None:
    dim, start, stop = part.range
    insert, ignored = rewriter.before(op), op.ignore_index.value.data
    rows = rewriter.shapes.dims(part.result)[:-1]
    target = insert.reshape(op.target, rows)
    padded = coda.PadOp.around(target, dim, start, shape_of(part.x)[dim] - stop, value=ignored)
    target = insert.insert(padded, op.target.name_hint)
    reduction = op.reduction.data
    whole = coda.CrossEntropyOp(part.x, target, ignore_index=ignored, reduction=reduction)
    loss = insert.insert(whole, op.result.name_hint)
    if reduction == "none":
        loss = insert.insert(coda.SliceOp(loss, *part.range), op.result.name_hint)
        loss = insert.reshape(loss, rewriter.shapes.dims(op.result))
    rewriter.replace(op, loss)
