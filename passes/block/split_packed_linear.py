"""Pass `split-packed-linear`: split a packed projection into one projection for each slice."""

from collections.abc import Sequence
from typing import NamedTuple

from xdsl.dialects.func import ReturnOp
from xdsl.ir import Operation, SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import element_type_of, shape_of
from coda_ir.dialects.gemm.scalar_code import is_pointwise
from coda_ir.passes.support.function_pass import FunctionPass, FunctionRewriter, OpInserter
from coda_ir.passes.support.views import taken_by


class SplitPackedLinearPass(FunctionPass):
    """Splits a packed projection: a slice of x·Wᵀ is a product with a view of W.

        %z = coda.linear %x, %w                   %wq = coda.slice %w {dim = 0, ...}
        %q = coda.slice %z {dim = 1, ...}   ->    %q = coda.linear %x, %wq

    Each part can then have its own epilogue, and `merge-sibling-gemms` merges the parts into one
    launch again. Slices with a step are products with every nth row of W, so that no kernel reads
    or stores every nth column. Legal iff the product is used only by slices of its columns, or by
    pointwise code whose result is used only by such slices; each part then computes that code for
    its own columns. Steps have to divide the columns. Not worth it if slices without steps only
    feed attention, which reads these in place, or if they have one row per sample of a batch
    (adaLN), which no epilogue takes.
    """

    def run_on_function(self, rewriter: FunctionRewriter) -> None:
        is_split = True
        while is_split:  # the parts may be packed, too
            for op in reversed(_packed(rewriter.ops)):
                if _is_sliced(op):
                    _compute_in_slices(op, rewriter)
            linear = [op for op in rewriter.ops if isinstance(op, coda.LinearOp)]
            packed = [op for op in linear if _is_sliced(op)]
            for op in packed:
                rewriter.passed(op, f"split into {len(list(op.result.uses))} column ranges")
                _split(op, rewriter)
            is_split = bool(packed)


class _Columns(NamedTuple):
    """Columns of a projection: `count` of them, or of those that are a `step` apart."""

    first: int
    count: int
    step: int

    def of(self, x: SSAValue, axis: int, insert: OpInserter) -> SSAValue:
        """Return the elements of a dimension that belong to the columns."""
        if self.step == 1:
            return insert.insert(coda.SliceOp(x, axis, self.first, self.first + self.count))
        (*before, _), after = insert.rewriter.shapes.dims(x)[: axis + 1], shape_of(x)[axis + 1 :]
        turns = insert.reshape(x, (*before, self.count, self.step, *after))
        one = insert.insert(coda.SliceOp(turns, axis + 1, self.first, self.first + 1))
        return insert.reshape(one, (*before, self.count, *after))


def _columns(op: Operation) -> _Columns | None:
    """Return the columns that a slice takes: a range, or each nth of them."""
    taken = taken_by(op)
    if taken is None or taken.dim != len(shape_of(op.operands[0])) - 1:
        return None
    whole, count = (shape_of(x)[-1] for x in (op.operands[0], op.results[0]))
    is_known = taken.step == 1 or (taken.start < taken.step and taken.step * count == whole)
    return _Columns(taken.start, count, taken.step) if is_known else None


def _is_sliced(op: Operation) -> bool:
    slices = [use.operation for use in op.results[0].uses]
    found = [_columns(part) for part in slices]
    if not found or None in found:
        return False
    consumers = {use.operation for part in slices for use in part.results[0].uses}
    has_steps = any(columns is not None and columns.step > 1 for columns in found)
    return has_steps or not all(map(_reads_slices, consumers))


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
    whole = shape_of(op.results[0])[-1:]
    for part in [use.operation for use in op.results[0].uses]:
        columns, insert = _columns(part), rewriter.before(op)
        assert columns is not None
        operands = [
            columns.of(x, len(shape_of(x)) - 1, insert) if shape_of(x)[-1:] == whole else x
            for x in op.operands
        ]
        rewriter.replace(part, insert.again(op, operands, shape_of(part.results[0])))
    rewriter.order.erase(op)


def _split(op: coda.LinearOp, rewriter: FunctionRewriter) -> None:
    for part in [use.operation for use in op.result.uses]:
        columns, insert = _columns(part), rewriter.before(part)
        assert columns is not None
        weight = columns.of(op.weight, 0, insert)
        bias = None if op.bias is None else columns.of(op.bias, 0, insert)
        element_type = element_type_of(op.result)
        linear = coda.LinearOp(op.x, weight, bias, element_type=element_type)
        rewriter.replace(part, insert.insert(linear))
    rewriter.order.erase(op)
