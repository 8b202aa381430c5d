"""Pass `outline-pointwise`: combine pointwise operators that fuse into no GEMM into kernels."""

from collections.abc import Iterable

from xdsl.dialects.func import ReturnOp
from xdsl.ir import BlockArgument, Operation, SSAValue

from coda_ir.dialects.coda.shapes import shape_of
from coda_ir.dialects.gemm.scalar_code import is_pointwise
from coda_ir.dialects.gemm.tables import port_kind
from coda_ir.passes.fusion.fuse_pointwise import fuse_at
from coda_ir.passes.fusion.join_pointwise import join_companion
from coda_ir.passes.fusion.joining import can_join, join, join_with_operands
from coda_ir.passes.support.editing import (
    Site,
    insert_map,
    is_left_to_readers,
    leaf_operands,
    operands_first,
    recomputed,
)
from coda_ir.passes.support.function_pass import FunctionPass, FunctionRewriter, Refusal
from coda_ir.passes.support.legality import find_site

MAX_NUMBERS = 128
"""Single elements that one kernel computes: a kernel has 4 KiB of parameters."""


class OutlinePointwisePass(FunctionPass):
    """Combines the remaining pointwise code into `gemm.map` kernels.

        %s = coda.silu %a                   %y = gemm.map tile(%a, %b) {
        %y = coda.mul %s, %b         ->       yield silu(a) · b
                                            }

    An operator joins the kernel that computes one of its operands if that is legal. Scalars that
    are computed from arguments and returned, such as new values of counters, share one kernel at
    the end. Later passes may still move a kernel into an epilogue; `report-unfused` reports why the
    others remain.
    """

    statistics: bool = True
    """True if code on columns is outlined; it may yet join a finalize, or what reads it."""

    def run_on_function(self, rewriter: FunctionRewriter) -> None:
        waiting: list[Operation] = []
        left: set[Operation] = set() if self.statistics else _on_columns(rewriter.ops)
        for op in rewriter.ops:
            if is_pointwise(op) and op not in left:
                if _is_repeated_by_consumers(op) or _comes_along(op):
                    waiting.append(op)
                else:
                    _place(op, rewriter)
        site: Site | None = None
        for op in reversed(waiting):
            if op.parent is None:
                continue
            if _is_number_to_return(op):
                site = _join_numbers(op, site, rewriter)
            elif op.results[0].uses:
                _place(op, rewriter)
            else:
                rewriter.order.erase(op)


def _is_repeated_by_consumers(op: Operation) -> bool:
    """Return whether the kernels that need `op` recompute it: see `editing.recomputed`."""
    value = op.results[0]
    users = [use.operation for use in value.uses]
    is_repeated = users and all(
        is_pointwise(user) and recomputed(value, shape_of(user.results[0])) is op for user in users
    )
    return len(shape_of(value)) < 2 or is_left_to_readers(op) or bool(is_repeated)


def _comes_along(op: Operation) -> bool:
    """Return whether all readers of `op` are pointwise and of its shape, so that it joins them."""
    users = [use.operation for use in op.results[0].uses]
    shape = shape_of(op.results[0])
    return bool(users) and all(is_pointwise(u) and shape_of(u.results[0]) == shape for u in users)


def _is_number_to_return(op: Operation) -> bool:
    """Return whether `op` computes one element from arguments, only to return it: a counter."""
    value = op.results[0]
    if shape_of(value) or not value.uses:
        return False
    is_returned = all(isinstance(use.operation, ReturnOp) for use in value.uses)
    return is_returned and all(isinstance(v, BlockArgument) for v in leaf_operands(op, ()))


def _join_numbers(op: Operation, site: Site | None, rewriter: FunctionRewriter) -> Site:
    """Let `op` join the kernel at `site`, or a new one at the end, after readers of old values."""
    is_full = site is not None and len(site.op.results) >= MAX_NUMBERS
    if site is None or is_full or not can_join(op, site, rewriter.order):
        reader = next(iter(op.results[0].uses)).operation
        site = insert_map(rewriter.order, reader, op.location)
    return Site(join(op, site, rewriter.order), 0, 0, is_half=False)


def _on_columns(ops: Iterable[Operation]) -> set[Operation]:
    """Return the pointwise operators on columns, such as row statistics."""
    return {
        op
        for op in ops
        if is_pointwise(op)
        and len(shape_of(op.results[0])) > 1
        and all(shape_of(value)[-1:] in ((), (1,)) for value in (*op.operands, *op.results))
    }


def _place(op: Operation, rewriter: FunctionRewriter) -> None:
    """Fuse `op` if that is legal, else make it a kernel."""
    site = find_site(op, rewriter.order)
    if isinstance(site, Refusal) and _fuse_operands(op, rewriter):
        site = find_site(op, rewriter.order)
    if not isinstance(site, Refusal) and fuse_at(op, site, rewriter):
        return
    if join_companion(op, rewriter):
        return
    if all(_fits(operand, op) for operand in op.operands):
        empty = insert_map(rewriter.order, op, op.location)
        if not join_with_operands(op, empty, rewriter.order):
            join(op, insert_map(rewriter.order, op, op.location), rewriter.order)


def _fuse_operands(op: Operation, rewriter: FunctionRewriter) -> bool:
    """Fuse code that waits for `op` into a kernel that computes another operand of `op`, and whose
    results it reads: it would keep `op` out of that kernel. Return whether there is any.
    """
    kernels = {site.op for value in op.operands if (site := Site.of(value)) is not None}
    is_moved = False
    for each in operands_first(op, _waiting)[:-1] if kernels else ():
        site = find_site(each, rewriter.order)
        if not isinstance(site, Refusal) and site.op in kernels:
            is_moved |= fuse_at(each, site, rewriter)
    return is_moved


def _waiting(op: Operation) -> list[Operation]:
    """Return the pointwise operators that wait for their reader `op`."""
    owners = (value.owner for value in op.operands)
    return [
        each
        for each in owners
        if isinstance(each, Operation) and is_pointwise(each) and _comes_along(each)
    ]


def _fits(operand: SSAValue, op: Operation) -> bool:
    return port_kind(shape_of(operand), shape_of(op.results[0])) is not None
