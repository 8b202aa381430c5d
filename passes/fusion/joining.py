"""Joining of pointwise code: to an epilogue that needs its result, or that loads its operands."""

from collections.abc import Sequence

from xdsl.ir import Operation, SSAValue

from coda_ir.dialects.coda import CastOp, ReshapeOp, ShiftOp, SliceOp
from coda_ir.dialects.coda.shapes import element_bytes, shape_of
from coda_ir.dialects.gemm import FusedOp, MapOp, PortKind, ResultKind
from coda_ir.dialects.gemm.scalar_code import is_pointwise
from coda_ir.dialects.gemm.tables import port_kind
from coda_ir.dominance import before
from coda_ir.passes.support.editing import (
    EpilogueOp,
    Site,
    fuse_consumer,
    is_scattered,
    leaf_operands,
    operands_first,
    recomputation,
)
from coda_ir.passes.support.order import BlockOrder

_WHOLE = {PortKind.TILE: False, PortKind.HALF_TILE: True}
"""Ports that load a whole tensor, and whether its elements belong to pairs of columns."""


def can_join(op: Operation, site: Site, order: BlockOrder) -> bool:
    """Return whether the epilogue at `site` may compute the pointwise operator `op`, which has its
    domain.

    Legal iff every operand that it does not hold fits a port, and neither needs a result of the
    other. Rows that would be copied for a GEMM stay with pointwise kernels, which read them where
    they are.
    """
    domain = shape_of(op.results[0])
    leaves = [v for v in leaf_operands(op, domain) if not site.holds(v)]
    if isinstance(site.op, FusedOp) and any(map(_has_rows_apart, leaves)):
        return False
    return (
        all(port_kind(shape_of(value), domain) is not None for value in leaves)
        and order.slices_after(leaves, site.op) is not None
        and order.slices_after(site.op.operands, op) is not None
    )


def _has_rows_apart(value: SSAValue) -> bool:
    """Return whether the rows of `value` are not contiguous: shifted, or some of each sample."""
    owner = before(value, ReshapeOp).owner
    if isinstance(owner, SliceOp):
        return 0 < owner.dim.value.data < len(shape_of(owner.result)) - 1
    return isinstance(owner, ShiftOp)


def _narrows_what_is_loaded(op: Operation, site: Site) -> bool:
    """Return whether `op` narrows a value that would be stored by a pointwise kernel for it alone,
    so that the epilogue at `site` loads fewer bytes if that kernel stores the result.
    """
    if not isinstance(op, CastOp) or not is_pointwise(op.operand.owner):
        return False
    is_narrowing = element_bytes(op.result.type) < element_bytes(op.operand.type)
    return is_narrowing and op.operand.has_one_use() and not site.holds(op.operand)


def join(op: Operation, site: Site, order: BlockOrder) -> EpilogueOp:
    """Move the code of `op` into the epilogue at `site`; its users are moved after that."""
    order.sink_users(op, site.op)
    leaves = leaf_operands(op, shape_of(op.results[0]))
    order.hoist([value for value in leaves if not site.holds(value)], site.op)
    return fuse_consumer(site, op, order)


def join_operands(op: Operation, site: Site, order: BlockOrder) -> Site:
    """Let the pointwise producers of the operands of `op` join the epilogue into which `op` is to
    be fused.

    Otherwise its results would be stored by a separate kernel, and loaded again. Returns the
    site of `op` thereafter.
    """
    tile = site.op.segments()[site.segment].outputs[site.result]
    readers = recomputation(op, shape_of(op.results[0]))
    use = next(use for use in tile.uses if use.operation in readers)
    producers, domain = unplaced_producers(op, site, order), shape_of(op.results[0])
    loaded = [v for each in (op, *producers) for v in leaf_operands(each, domain)]
    loaded = [v for v in loaded if v.owner not in producers and not site.holds(v)]
    for producer in producers:
        # What another operand is computed from would be in the kernel that loads that operand.
        is_needed = order.slices_after(loaded, producer) is None
        is_apart = is_needed or _narrows_what_is_loaded(producer, site)
        if can_join(producer, site, order) and not is_apart:
            join(producer, site, order)
            moved = Site.of(use.operation.operands[use.index])
            assert moved is not None, "the tile is still used"
            site = moved
    return site


def join_with_operands(op: Operation, site: Site, order: BlockOrder) -> bool:
    """Let `op`, which may not read the elements at `site`, join its epilogue together with the
    pointwise producers of its operands.

    Returns False where that code, once it has joined, keeps `op` from it.
    """
    for each in (*unplaced_producers(op, site, order), op):
        if can_join(each, site, order):
            site = Site(join(each, site, order), site.segment, 0, site.is_half)
        elif each is op:
            return False
    return True


def unplaced_producers(op: Operation, site: Site, order: BlockOrder) -> list[Operation]:
    """Return the pointwise producers of the tiles that `op` loads, if they may join the epilogue at
    `site`, each after its operands.
    """
    domain = shape_of(op.results[0])

    def producers(op: Operation) -> list[Operation]:
        tiles = (value for value in leaf_operands(op, domain) if shape_of(value) == domain)
        owners = (value.owner for value in tiles if is_pointwise(value.owner))
        return [
            each for each in owners if isinstance(each, Operation) and can_join(each, site, order)
        ]

    return operands_first(op, producers)[:-1]


def find_companion(op: Operation, order: BlockOrder) -> Site | None:
    """Return an epilogue that loads a tile read by the pointwise operator `op`, and that `op` may
    join.

    Of several that which loads the most of them. What needs no tile joins a pointwise kernel that
    loads all that it needs: cosines and sines of one table of angles.
    """
    domain = shape_of(op.results[0])
    leaves = leaf_operands(op, domain)
    tiles = [v for v in leaves if shape_of(v) == tuple(domain)]
    shared: dict[Site, int] = {}
    for value in tiles:
        for site in _sites_loading(value):
            shared[site] = shared.get(site, 0) + 1
    shared |= dict.fromkeys(_maps_over(domain, _loaded_before(op, domain)), 0)
    for site in sorted(shared, key=lambda site: -shared[site]):
        if can_join(op, site, order):
            return site
    return None


def _loaded_before(op: Operation, domain: Sequence[int]) -> list[SSAValue]:
    """Return the operands of a kernel that computes `op` and the pointwise code of its domain that
    precedes it; none if one of them is a tile.
    """
    leaves: dict[SSAValue, None] = {}
    pending, seen = [op], {op}
    while pending:
        for value in leaf_operands(pending.pop(), domain):
            owner = value.owner
            if shape_of(value) != tuple(domain):
                leaves[value] = None
            elif not is_pointwise(owner) or not isinstance(owner, Operation):
                return []
            elif owner not in seen:
                seen.add(owner)
                pending.append(owner)
    return list(leaves)


def _maps_over(domain: Sequence[int], leaves: Sequence[SSAValue]) -> list[Site]:
    """Return the pointwise kernels over `domain` that load all of `leaves`."""
    if not leaves:
        return []
    kernels = [use.operation for use in leaves[0].uses if isinstance(use.operation, MapOp)]
    found: dict[Site, None] = {}
    for kernel in kernels:
        segment, loaded = kernel.segment(), set(kernel.ports)
        kinds = {result.port.kind.data for result in segment.results}
        shapes = {shape_of(output) for output in segment.outputs}
        if loaded.issuperset(leaves) and (kinds, shapes) == ({ResultKind.TILE}, {tuple(domain)}):
            found[Site(kernel, 0, 0, is_half=False)] = None
    return list(found)


def site_that_loads(value: SSAValue, op: Operation, order: BlockOrder) -> Site | None:
    """Return an epilogue that loads the tile `value`, and does not need the result of `op`."""
    sites = _sites_loading(value)
    return next((s for s in sites if order.slices_after(s.op.operands, op) is not None), None)


def _sites_loading(value: SSAValue) -> list[Site]:
    found: dict[Site, None] = {}
    for use in value.uses:
        kernel = use.operation
        if not isinstance(kernel, FusedOp | MapOp) or is_scattered(kernel):
            continue
        for number, segment in enumerate(kernel.segments()):
            for kind, loaded in segment.ports:
                if loaded is value and kind in _WHOLE:
                    found[Site(kernel, number, 0, _WHOLE[kind])] = None
    return list(found)
