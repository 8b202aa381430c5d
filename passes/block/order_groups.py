"""Pass `order-groups`: sort group numbers and count the group ends by one operator."""

from xdsl.ir import Operation, SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import shape_of
from coda_ir.dialects.torch import CallOp
from coda_ir.passes.support.function_pass import FunctionPass, FunctionRewriter, Refusal
from coda_ir.passes.support.legality import name_of
from coda_ir.passes.support.row_numbers import number_groups


class OrderGroupsPass(FunctionPass):
    """Sorts rows by group and computes the group ends in one operator, which takes two kernels.

        %s, %order = coda.sort %ids                    %order, %ends = coda.group_order %ids
        %h = torch.call "aten.histc"(%s)        ->
        %ends = torch.call "aten.cumsum"(%h)

    This sorts tokens by expert. Legal iff the ids are known to be group numbers, there are at most
    512 groups, and only the group ends are computed from the sorted numbers.
    """

    def run_on_function(self, rewriter: FunctionRewriter) -> None:
        calls = [op for op in rewriter.ops if isinstance(op, CallOp)]
        for op in rewriter.ops_of(coda.SortOp):
            call = next((call for call in calls if _gives_ends(call, op, rewriter)), None)
            if call is None:
                continue
            (ends,) = call.outputs
            if not rewriter.refuses(op, _why_not(op, ends)):
                calls.remove(call)
                _rewrite(op, ends, rewriter)


def _gives_ends(call: CallOp, op: coda.SortOp, rewriter: FunctionRewriter) -> bool:
    """Return whether `call` computes the ends of the groups that a sort orders."""
    (ends, *others) = call.outputs
    is_vector = not others and len(shape_of(ends)) == 1
    return is_vector and number_groups(op.result, ends, rewriter.shapes)


def _why_not(op: coda.SortOp, ends: SSAValue) -> Refusal | None:
    (groups,) = shape_of(ends)
    found = "the rows are sorted by a call of PyTorch"
    if groups > coda.MAX_GROUPS:
        return Refusal(f"there are at most {coda.MAX_GROUPS} groups", f"{found}: {groups} groups")
    if not _leads_to(op.result, ends):
        name = name_of(op.result)
        return Refusal(
            "only group ends are computed from the sorted numbers",
            f"{found}: {name} is read elsewhere",
        )
    return None


def _leads_to(value: SSAValue, ends: SSAValue) -> bool:
    """Return whether `value` is used only for `ends`."""
    if value is ends:
        return True
    users = [use.operation for use in value.uses]
    return all(
        isinstance(user, coda.CastOp | CallOp) and _leads_to(user.results[0], ends)
        for user in users
    )


def _rewrite(op: coda.SortOp, ends: SSAValue, rewriter: FunctionRewriter) -> None:
    rewriter.passed(op, "sorts rows by group, and counts them")
    (groups,) = shape_of(ends)
    ordered = coda.GroupOrderOp(op.x, groups=groups)
    rewriter.before(op).insert(ordered)
    op.ids.replace_all_uses_with(ordered.order)
    ends.replace_all_uses_with(ordered.ends)
    _erase_unused(ends.owner, rewriter)


def _erase_unused(op: object, rewriter: FunctionRewriter) -> None:
    """Erase `op` and the operators that only it uses, up to the sort."""
    if not isinstance(op, Operation) or any(result.uses for result in op.results):
        return
    operands = [] if isinstance(op, coda.SortOp) else list(op.operands)
    rewriter.order.erase(op)
    for operand in operands:
        _erase_unused(operand.owner, rewriter)
