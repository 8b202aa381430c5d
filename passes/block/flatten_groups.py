"""Pass `flatten-groups`: turn pointwise code on groups of columns into code on all columns."""

from collections.abc import Sequence

from xdsl.ir import Operation, SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import shape_of
from coda_ir.dialects.gemm.places import joins_columns, splits_columns
from coda_ir.dialects.gemm.scalar_code import is_pointwise
from coda_ir.passes.support.function_pass import FunctionPass, FunctionRewriter, OpInserter
from coda_ir.passes.support.groups import find_group_code, find_row_code


class FlattenGroupsPass(FunctionPass):
    """Turns pointwise code on groups of columns into code on all columns side by side.

        %h = coda.reshape %z : (... x N) -> (... x H x G)     %b = coda.broadcast %s : (... x H x G)
        %p = coda.mul %h, %s : (... x H x G), (... x H x 1)   %r = coda.reshape %b : (... x N)
        %y = coda.reshape %p : (... x N)                   -> %y = coda.mul %z, %r

    The columns are those of a GEMM, for example the columns of all experts, which a router scales.
    The epilogue of the GEMM can then run the code, and loads %s with a `group` port instead of a
    broadcast. An operand that broadcasts along the groups, such as a vector for the columns of each
    head, becomes a table. Legal iff the tiles that the code reads are columns in groups.
    `fuse-groups` handles the operands and users of reductions over groups.
    """

    def run_on_function(self, rewriter: FunctionRewriter) -> None:
        reads_groups = any(is_pointwise(op) and _reads_groups(op) for op in rewriter.ops)
        kept = _reducing_code(rewriter) if reads_groups else ()
        for op in rewriter.ops:
            if op not in kept and is_pointwise(op) and _reads_groups(op):
                rewriter.passed(op, "computed on the columns of all groups side by side")
                _flatten(op, rewriter)
            elif joins_columns(op):
                _drop_join(op, rewriter)
        for op in reversed(rewriter.ops):
            if splits_columns(op) and not op.result.uses:
                rewriter.order.erase(op)


def _reducing_code(rewriter: FunctionRewriter) -> set[Operation]:
    """Return the code around reductions of groups of columns, or of whole rows."""
    found = (*find_group_code(rewriter.ops), *find_row_code(rewriter.order))
    return {op for code in found for op in code.around_reductions}


def _reads_groups(op: Operation) -> bool:
    domain = shape_of(op.results[0])
    tiles = [v for v in op.operands if shape_of(v) == domain]
    return bool(tiles) and 1 not in domain[-2:] and all(splits_columns(v.owner) for v in tiles)


def _flatten(op: Operation, rewriter: FunctionRewriter) -> None:
    (result,) = op.results
    domain = shape_of(result)
    insert = rewriter.before(op)
    operands = [_flattened(value, domain, insert) for value in op.operands]
    flat = insert.again(op, operands, _joined(domain))
    rewriter.order.give_way(op, [insert.insert(coda.ReshapeOp(flat, domain))])


def _flattened(value: SSAValue, domain: Sequence[int], insert: OpInserter) -> SSAValue:
    """Return `value`, which broadcasts to groups of columns (... x H x G), for the columns."""
    if splits_columns(value.owner) and shape_of(value) == domain:
        return value.owner.x
    if len(shape_of(value)) < len(domain) and all(extent == 1 for extent in shape_of(value)):
        return value
    shape = (*(1,) * (2 - len(shape_of(value))), *shape_of(value))
    value = insert.reshape(value, shape)
    if shape[-2:] == (1, 1):
        return insert.reshape(value, shape[:-1])
    whole = (*shape[:-2], *domain[-2:])
    if shape != whole:
        value = insert.insert(coda.BroadcastOp(value, whole), value.name_hint)
    return insert.reshape(value, _joined(whole))


def _joined(shape: Sequence[int]) -> tuple[int, ...]:
    """Reshape (... x H x G) to (... x N)."""
    *rows, groups, group = shape
    return (*rows, groups * group)


def _drop_join(op: coda.ReshapeOp, rewriter: FunctionRewriter) -> None:
    """Let readers of joined columns read the tensor from which they were split."""
    split = op.x.owner
    if splits_columns(split) and split.x.type == op.result.type:
        rewriter.order.give_way(op, [split.x])
