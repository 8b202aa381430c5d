"""Legality of fusing reductions over groups of columns, or over rows."""

from xdsl.dialects.builtin import Float32Type
from xdsl.ir import SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import element_type_of
from coda_ir.dialects.gemm import FusedOp, MapOp, ResultKind, Segment
from coda_ir.dialects.gemm.tiling import tiles_moved
from coda_ir.dialects.gemm.warp_specialized import MAX_MOVED
from coda_ir.passes.support.editing import Site
from coda_ir.passes.support.function_pass import Refusal
from coda_ir.passes.support.groups import MAX_GROUP, GroupCode
from coda_ir.passes.support.legality import name_of, pairs_within, reader_name, reduced_groups
from coda_ir.passes.support.order import BlockOrder


def check_group_code(code: GroupCode, order: BlockOrder) -> Refusal | None:
    """Check that group code can be one epilogue: only stored sums leave it, operands precede it."""
    for value in code.values_of_groups:
        if not _stores_groups(code, value, order):
            user = code.users_outside(value)[0]
            return Refusal(
                "a reduction over a group is used only by the columns of the group",
                f"runs as separate kernels: {reader_name(user)} uses {name_of(value)}",
                _as_group_result(code, value, order),
            )
    after = order.slices_after(code.leaves, code.anchor)
    if after is None or not set(after).isdisjoint(code.ops):
        return Refusal(
            "no operand depends on a result",
            "runs as separate kernels: an operand is computed from one of its results",
        )
    return None


def _as_group_result(code: GroupCode, value: SSAValue, order: BlockOrder) -> str | None:
    """Return the remedy if a handwritten epilogue can store a number for each group."""
    site, op = group_site(code, order), value.owner
    if site is None or not isinstance(site.op, FusedOp) or not isinstance(op, coda.ReduceOp):
        return None
    kind, group = op.kind.data, code.group
    if kind not in ("max", "sum") or not code.is_split or group > MAX_GROUP:
        return None
    return f"write an epilogue with a result group<{group}> and group_{kind}(y, group={group})"


LEAST_STORED_GROUP = 32
"""Columns of the smallest group of which a GEMM stores a number, beside its tile."""


def _stores_groups(code: GroupCode, value: SSAValue, order: BlockOrder) -> bool:
    """Return whether the kernel of group code may store a number for each group, such as the scales
    of a quantized tensor: for whole rows, beside rows that need it; for a GEMM, with large groups,
    which all main loops can reduce.
    """
    if not isinstance(element_type_of(value), Float32Type):
        return False
    site = group_site(code, order)
    if site is None or not isinstance(site.op, FusedOp):
        return code.is_split or code.stores_after(value)
    return code.group >= LEAST_STORED_GROUP and code.group.bit_count() == 1


def group_site(code: GroupCode, order: BlockOrder) -> Site | None:
    """Return the epilogue that computes an operand of the group code and may hold the code."""
    sites = [site for base in code.bases if (site := Site.of(base)) is not None]
    sites.sort(key=lambda site: order.position(site.op), reverse=True)
    return next((site for site in sites if _holds_groups(site, code, order)), None)


def _holds_groups(site: Site, code: GroupCode, order: BlockOrder) -> bool:
    segment = site.op.segments()[site.segment]
    kinds = {result.port.kind.data for result in segment.results}
    if ResultKind.SELECT in kinds or not _has_columns_of_groups(site, segment, code):
        return False
    sizes = {*reduced_groups(segment), code.columns_of_group(site)}
    if len(sizes) > 1 and any(size.bit_count() > 1 for size in sizes):
        return False
    if isinstance(site.op, FusedOp) and not _fits_stated_tile(site.op, code.columns_of_group(site)):
        return False
    sums_rows = any(isinstance(op, coda.SumToOp) for op in code.ops)
    if sums_rows and isinstance(site.op, FusedOp) and site.op.groups is not None:
        return False
    if isinstance(site.op, FusedOp) and tiles_moved(segment) + _tiles_stored(code) > MAX_MOVED:
        return False
    others = [value for value in code.leaves if not site.holds(value)]
    is_narrow = code.is_split or code.group <= MAX_GROUP or isinstance(site.op, MapOp)
    return is_narrow and order.slices_after(others, site.op) is not None


def _fits_stated_tile(gemm: FusedOp, columns: int) -> bool:
    """Return whether a tile holds that many columns, if the GEMM has a schedule already."""
    return gemm.schedule is None or 1 << (columns - 1).bit_length() <= gemm.schedule.block_n.data


def _tiles_stored(code: GroupCode) -> int:
    results = (v for op in code.ops if op not in code.repeated for v in op.results)
    return sum(code.is_tile(value) and bool(code.users_outside(value)) for value in results)


def _has_columns_of_groups(site: Site, segment: Segment, code: GroupCode) -> bool:
    """Return whether a tile has the columns of whole groups, which for pairs are twice as many."""
    if not site.is_half:
        pairs = segment.pairing is None or pairs_within(segment.pairing, segment, code.group)
        return len(segment.weights) <= 1 and pairs
    is_plain = segment.pairing is not None and segment.pairing.group_size is None
    sums_rows = any(isinstance(op, coda.SumToOp) for op in code.ops)
    return is_plain and not sums_rows and 2 * code.group <= MAX_GROUP
