"""Pass `split-packed-linear`: split a packed projection into one projection for each slice."""

from collections.abc import Sequence

from xdsl.dialects.func import ReturnOp
from xdsl.ir import Operation, Use

from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import element_type_of, shape_of
from coda_ir.dialects.gemm.scalar_code import is_pointwise
from coda_ir.passes.support.function_pass import FunctionPass, FunctionRewriter


class SplitPackedLinearPass(FunctionPass):
    """Splits a packed projection: a slice of x·Wᵀ is a product with a view of W.

        %z = coda.linear %x, %w                   %wq = coda.slice %w {dim = 0, ...}
        %q = coda.slice %z {dim = 1, ...}   ->    %q = coda.linear %x, %wq

    Each part can then have its own epilogue, and `merge-sibling-gemms` merges the parts into one
    launch again. Legal iff the product is used only by slices of its columns, or by pointwise code
    whose result is used only by such slices; each part then computes that code for its own columns.
    Not worth it if the slices only feed attention, which reads slices in place, or if they have one
    row per sample of a batch (adaLN), which no epilogue takes.
    """

    def run_on_function(self, rewriter: FunctionRewriter) -> None:
        for op in reversed(_packed(rewriter.ops)):
            if _is_sliced(op):
                _compute_in_slices(op, rewriter)
        for op in rewriter.ops:
            if isinstance(op, coda.LinearOp) and _is_sliced(op):
                rewriter.passed(op, f"split into {len(list(op.result.uses))} column ranges")
                _split(op, rewriter)


def _column_slice(use: Use) -> coda.SliceOp | None:
    op = use.operation
    if isinstance(op, coda.SliceOp) and op.range[0] == len(shape_of(op.x)) - 1:
        return op
    return None


def _is_sliced(op: Operation) -> bool:
    slices = [_column_slice(use) for use in op.results[0].uses]
    if not slices or None in slices:
        return False
    consumers = {u.operation for s in slices if s is not None for u in s.result.uses}
    return not all(map(_reads_slices, consumers))


def _reads_slices(op: Operation) -> bool:
    """Return whether `op` reads a slice in place, and cannot be fused into an epilogue."""
    if isinstance(op, coda.TransposeOp):
        return all(isinstance(use.operation, coda.AttentionOp) for use in op.result.uses)
    is_per_sample = isinstance(op, coda.ReshapeOp) and 1 in shape_of(op.result)[1:-1]
    return is_per_sample or isinstance(op, coda.AttentionOp | ReturnOp)


def _packed(ops: Sequence[Operation]) -> list[Operation]:
    """Return the pointwise code on all columns of a projection that nothing else reads, without
    code that has one row for each sample.
    """
    found: dict[Operation, None] = {}
    for op in filter(is_pointwise, ops):
        shape = shape_of(op.results[0])
        wide = [x.owner for x in op.operands if x.has_one_use() and shape_of(x)[-1:] == shape[-1:]]
        is_packed = any(isinstance(maker, coda.LinearOp) or maker in found for maker in wide)
        if is_packed and shape and 1 not in shape[1:-1]:
            found[op] = None
    return list(found)


def _compute_in_slices(op: Operation, rewriter: FunctionRewriter) -> None:
    columns = shape_of(op.results[0])[-1]
    for use in list(op.results[0].uses):
        part = _column_slice(use)
        assert part is not None
        _, start, stop = part.range
        insert = rewriter.before(op)
        operands = [
            x
            if shape_of(x)[-1:] != (columns,)
            else insert.insert(coda.SliceOp(x, len(shape_of(x)) - 1, start, stop))
            for x in op.operands
        ]
        rewriter.replace(part, insert.again(op, operands, shape_of(part.result)))
    rewriter.order.erase(op)


def _split(op: coda.LinearOp, rewriter: FunctionRewriter) -> None:
    for use in list(op.result.uses):
        part = _column_slice(use)
        assert part is not None
        _, start, stop = part.range
        insert = rewriter.before(part)
        weight = insert.insert(coda.SliceOp(op.weight, 0, start, stop))
        bias = None if op.bias is None else insert.insert(coda.SliceOp(op.bias, 0, start, stop))
        element_type = element_type_of(op.result)
        linear = coda.LinearOp(op.x, weight, bias, element_type=element_type)
        rewriter.replace(part, insert.insert(linear))
    rewriter.order.erase(op)
