"""Legality of fusion: questions about the IR that do not change it.

Every function returns what a rewrite needs, or a `Refusal` that names the failed condition.
The conditions are those of the design's table of rewrites; the passes only act on the answers.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

from xdsl.dialects.builtin import DYNAMIC_INDEX, Float32Type
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Block, Operation, SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import (
    computes_in_float32,
    element_bytes,
    element_type_of,
    format_shape,
    shape_of,
)
from coda_ir.dialects.gemm import (
    ColumnOp,
    FusedOp,
    GroupReduceOp,
    MapOp,
    NumericsMode,
    PairingAttr,
    PortKind,
    ResultKind,
    Segment,
    numerics_mode,
)
from coda_ir.dialects.gemm.rotary import pairing_of
from coda_ir.dialects.gemm.scalar_code import is_pointwise
from coda_ir.passes.support.editing import Site, leaf_operands
from coda_ir.passes.support.function_pass import Refusal
from coda_ir.passes.support.groups import MAX_GROUP
from coda_ir.passes.support.order import BlockOrder
from coda_ir.remarks import source_position

NO_PRODUCER = Refusal(
    "an operand is computed by a GEMM or a pointwise kernel of the same function",
    "no operand is the tile of a kernel to fuse into",
)


def name_of(value: SSAValue) -> str:
    """Return the name of a value for messages: its name, or the operator with its place."""
    if value.name_hint:
        return f"%{value.name_hint}"
    if isinstance(value.owner, Block):
        return "an argument"
    return f"a result of {value.owner.name}{_place(value.owner)}"


def kernel_name(op: Operation) -> str:
    """Return the name of a kernel for messages, with its place in the source."""
    kinds = {FusedOp.name: "GEMM", MapOp.name: "pointwise kernel"}
    return f"the {kinds.get(op.name, 'attention kernel')}{_place(op)}"


def _place(op: Operation) -> str:
    """Return the place of an operator in its file; a remark begins with the path."""
    match source_position(op.location):
        case None:
            return ""
        case file, line, column:
            return f" at {Path(file).name}:{line}:{column}"


def reader_name(op: Operation) -> str:
    """Return the name of an operator that reads a value, for messages."""
    return "the caller" if isinstance(op, ReturnOp) else op.name


def is_tilewise(value: SSAValue) -> bool:
    """Return whether a kernel in the block computes `value` element by element."""
    op = value.owner
    gemms = (coda.LinearOp, coda.MatmulOp, coda.GroupedLinearMap)
    scaled = (coda.ScaledLinearOp, coda.LowBitLinearOp)
    if isinstance(op, (*gemms, *scaled, coda.GluOp)) or is_pointwise(op):
        return True
    if isinstance(op, coda.RopeOp) or (isinstance(op, coda.RMSNormOp) and op.group is not None):
        # What is rotated or normalized by head is so in the epilogue of its projection.
        return is_tilewise(op.x)
    return Site.of(value) is not None


def check_norm_input(x: SSAValue) -> Refusal | None:
    """Check the input of a norm: its row statistics are free only if x is on chip, tile by tile."""
    if is_tilewise(x) or isinstance(x.owner, coda.EmbeddingOp):
        return None
    condition = "a GEMM or pointwise code in the same function computes the norm's input"
    name = name_of(x) if x.name_hint or isinstance(x.owner, Block) else "its operand"
    found = f"the norm runs as a separate kernel: {name}"
    if not isinstance(x.owner, Block):
        return Refusal(condition, f"{found} comes from {x.owner.name}, which no GEMM computes")
    return Refusal(
        condition,
        f"{found} is an argument of the function",
        "compute the norm's input in the same function",
    )


def check_rounding_may_move(
    op: Operation, found: str, place: str = " before the GEMM"
) -> Refusal | None:
    """Check that rounding may move: algebra across a GEMM changes where values are rounded."""
    if numerics_mode(op) != NumericsMode.EAGER_EXACT:
        return None
    return Refusal(
        "the numerics mode allows rounding points to move",
        f"{found}{place}, and the mode is eager-exact",
        "use the mode fp32-epilogue or deterministic",
    )


def check_products_may_meet(total: Operation) -> Refusal | None:
    """Check that products may share an accumulator, where they are rounded with their sum."""
    found = "the products are stored and added one by one: eager PyTorch rounds each"
    return check_rounding_may_move(total, found, place="")


def check_cancellation(
    op: coda.LayerNormOp | coda.NormStatsOp | coda.GroupNormOp,
) -> Refusal | None:
    """Check for cancellation: E[x²] − mean² and r·(x·W) − r·mean·u lose (mean/std)² and mean/std
    units of float32.

    Storing x in a narrower type loses more, up to a ratio of 2^8; nothing hides it in float32, and
    eager PyTorch computes the variance from differences. See docs/numerics.md.
    """
    if numerics_mode(op) == NumericsMode.EAGER_EXACT:
        found = "eager PyTorch computes the variance from differences, and the mode is eager-exact"
    elif isinstance(element_type_of(op.x), Float32Type):
        found = f"{name_of(op.x)} is float32, where abs(mean) of a row may be far above its std"
    else:
        return None
    return Refusal(
        "rounding the input costs more accuracy than a difference of sums does",
        f"the statistics run as a separate kernel: {found}",
        "use bf16, or RMSNorm",
    )


LinearMap: TypeAlias = (
    coda.LinearOp
    | coda.MatmulOp
    | coda.GroupedLinearMap
    | coda.ScaledLinearOp
    | coda.LowBitLinearOp
    | coda.WeightGradientOp
    | coda.GroupedWeightGradientOp
)
"""The operators that `convert-linear-to-gemm` turns into a `gemm.fused`."""


def check_gemm_types(gemm: LinearMap) -> Refusal | None:
    """Check types: a `gemm.fused` accumulates, and its epilogue computes, in float32."""
    for value in (gemm.x, gemm.result):
        if not computes_in_float32(element_type_of(value)):
            return Refusal(
                "float32 can represent every value",
                f"{name_of(value)} has element type {element_type_of(value)}",
                "use f32, or the reference target",
            )
    return None


def library_multiplies_groups(x: SSAValue, result: SSAValue) -> bool:
    """Return whether PyTorch multiplies grouped rows: they must be multiples of 16 bytes."""
    columns = [(shape_of(value)[-1], element_bytes(x.type)) for value in (x, result)]
    return all(n != DYNAMIC_INDEX and n * size % 16 == 0 for n, size in columns)


def static_columns(value: SSAValue) -> int | Refusal:
    """Return the number of columns of `value`, which must be known."""
    n = shape_of(value)[-1]
    if n != DYNAMIC_INDEX:
        return n
    name = name_of(value) if value.name_hint else "its operand"
    return Refusal(
        "the number of columns is static",
        f"the reduction runs as a separate kernel: {name} has a symbolic number of columns",
        "give the last dimension as a number or a const",
    )


def find_site(op: Operation, order: BlockOrder) -> Site | Refusal:
    """Return the epilogue into which the pointwise operator `op` can be fused.

    Legal iff the site has the shape of the result, every other operand fits a port of it, and
    none of them depends on the site's kernel.
    """
    leaves = leaf_operands(op, shape_of(op.results[0]))
    sites = [site for v in leaves if (site := Site.of(v)) is not None]
    sites.sort(key=lambda site: order.position(site.op), reverse=True)
    refusal = NO_PRODUCER
    for site in sites:
        verdict = _check_leaves(op, leaves, site, order)
        if verdict is None:
            return site
        refusal = verdict
    return refusal


def check_site(op: Operation, site: Site, order: BlockOrder) -> Refusal | None:
    """Return why `op` cannot be fused at `site`; None if it can."""
    return _check_leaves(op, leaf_operands(op, shape_of(op.results[0])), site, order)


def _check_leaves(
    op: Operation, leaves: Sequence[SSAValue], site: Site, order: BlockOrder
) -> Refusal | None:
    segment = site.op.segments()[site.segment]
    domain = shape_of(op.results[0])
    if domain != segment.results[site.result].type.get_shape():
        return Refusal(
            "the consumer has the shape of the producer's tile",
            f"the result of shape {format_shape(domain)} is larger than the tile it would be fused "
            "into",
        )
    outside = [v for v in leaves if not site.holds(v)]
    if order.slices_after(outside, site.op) is None:
        return Refusal(
            "no other operand depends on that kernel",
            "another operand depends on the complete result of the kernel that computes "
            f"{name_of(segment.outputs[site.result])}",
        )
    return None


def pair_of_siblings(op: Operation, order: BlockOrder) -> tuple[FusedOp, FusedOp] | None:
    """Return two GEMMs that `op` combines element by element and that can run as one in pair mode.

    Legal iff they share the input, K, the number of columns and the types, each has one plain
    column range, and neither depends on the other.
    """
    owners: list[FusedOp] = []
    for value in leaf_operands(op, shape_of(op.results[0])):
        owner = value.owner
        if isinstance(owner, FusedOp) and owner not in owners and Site.of(value):
            owners.append(owner)
    if len(owners) != 2:
        return None
    first, second = sorted(owners, key=order.position)
    a, b = first.segments(), second.segments()
    if len(a) != 1 or len(b) != 1 or not share_inputs(first, second):
        return None
    if not (_can_be_half(a[0]) and _can_be_half(b[0])):
        return None
    same = a[0].columns == b[0].columns and a[0].layout == b[0].layout
    if not same or len(a[0].weights) != 1 or len(b[0].weights) != 1:
        return None
    return None if order.slices_after(second.operands, first) is None else (first, second)


def share_inputs(first: FusedOp, second: FusedOp) -> bool:
    """Return whether two GEMMs multiply the same matrices with their weights."""
    return (
        list(first.inputs) == list(second.inputs)
        and first.is_transposed == second.is_transposed
        and first.groups is second.groups
        and first.is_numbered == second.is_numbered
        and first.x_scales is second.x_scales
        and first.blocks == second.blocks
        and bool(first.weight_zeros) == bool(second.weight_zeros)
    )


def _can_be_half(segment: Segment) -> bool:
    kinds = {result.port.kind.data for result in segment.results}
    counts = any(isinstance(op, ColumnOp) for op in segment.block.ops)
    plain = segment.pairing is None and not counts and not reduced_groups(segment)
    halved = all(kind != PortKind.TILE_T for kind, _ in segment.ports)
    return plain and halved and kinds <= {ResultKind.TILE, ResultKind.PARTIAL_ROW}


def reduced_groups(segment: Segment) -> list[int]:
    """Return the group sizes over which the region of a segment reduces."""
    return [op.group.value.data for op in segment.block.ops if isinstance(op, GroupReduceOp)]


def _keeps_groups(pairing: PairingAttr, segment: Segment) -> bool:
    """Return whether every reduced group of columns consists of whole, consecutive pairs."""
    return all(pairs_within(pairing, segment, group) for group in reduced_groups(segment))


def pairs_within(pairing: PairingAttr, segment: Segment, group: int) -> bool:
    """Return whether `group` columns are whole, consecutive pairs."""
    period = 2 if pairing.is_adjacent else pairing.group_size or segment.columns
    return period != DYNAMIC_INDEX and group % period == 0


def gemm_site(value: SSAValue, what: str = "operand is") -> Site | Refusal:
    """Return the epilogue of the GEMM whose tile `value` is."""
    site = Site.of(value)
    if site is not None and isinstance(site.op, FusedOp):
        return site
    return Refusal(
        f"the {what} the tile of a GEMM",
        f"{name_of(value)} is not computed by a GEMM of the same function",
    )


def joined_weights(value: SSAValue, segment: Segment) -> Refusal | None:
    """Return a refusal if the columns of `value` come from several weights."""
    if len(segment.weights) == 1:
        return None
    return Refusal(
        "the columns come from one weight",
        f"the GEMM that computes {name_of(value)} joins {len(segment.weights)} weights",
    )


def check_qk_norm(norm: coda.RMSNormOp, x: SSAValue, order: BlockOrder) -> Site | Refusal:
    """Check a norm of `x` over groups of columns: one tile must hold whole, plain groups."""
    site = Site.of(x)
    if site is None:
        return Refusal(
            "a GEMM or pointwise code in the same function computes the norm's input",
            f"{name_of(x)} is the tile of no kernel of the function",
        )
    segment = site.op.segments()[site.segment]
    if segment.pairing is not None:
        return Refusal(
            "the norm comes before the rotation",
            f"the kernel that computes {name_of(x)} pairs its columns already",
        )
    refusal = joined_weights(x, segment) if segment.weights else None
    if refusal is not None:
        return refusal
    if norm.group_size > MAX_GROUP:
        return Refusal(
            f"a group has at most {MAX_GROUP} columns",
            f"a group of {norm.group_size} columns does not fit into a tile",
        )
    sizes = {*reduced_groups(segment), norm.group_size}
    if len(sizes) > 1 and any(size.bit_count() > 1 for size in sizes):
        return Refusal(
            "a tile holds whole groups: of one size, or of powers of two",
            f"the kernel that computes {name_of(x)} normalizes other groups of columns",
        )
    if norm.weight is not None and order.slices_after([norm.weight], site.op) is None:
        return Refusal(
            "the weight does not depend on the projection",
            f"{name_of(norm.weight)} is computed from the projection that it scales",
        )
    return site


def _plain_logits(logits: SSAValue) -> Site | Refusal:
    site = gemm_site(logits, "logits are")
    if isinstance(site, Refusal):
        return site
    segment = site.op.segments()[site.segment]
    if segment.pairing is not None:
        return Refusal(
            "the columns of the logits are not paired",
            f"the GEMM that computes {name_of(logits)} pairs its columns",
        )
    if segment.columns == DYNAMIC_INDEX:
        return Refusal(
            "the number of columns is static",
            f"{name_of(logits)} has a symbolic number of columns",
            "give the size of the vocabulary as a number or a const",
        )
    return site


def check_cross_entropy(loss: coda.CrossEntropyOp, order: BlockOrder) -> Site | Refusal:
    """Check a loss: the logits must be in plain columns, and the target not depend on them."""
    site = _plain_logits(loss.logits)
    if isinstance(site, Refusal):
        return site
    if order.slices_after([loss.target], site.op) is None:
        return Refusal(
            "the target does not depend on the logits",
            f"{name_of(loss.target)} is computed from the logits",
        )
    return site


def check_cross_entropy_grad(grad: coda.CrossEntropyGradOp, order: BlockOrder) -> Site | Refusal:
    """Check the gradient of logits: it needs their columns, and facts about whole rows."""
    site = _plain_logits(grad.logits)
    if isinstance(site, Refusal):
        return site
    if not grad.row_lse or grad.moment is not None:
        return Refusal(
            "the logsumexp of each row is given, and the gradient is the only result",
            "the gradient runs as a separate kernel: it reads whole rows",
        )
    if order.slices_after([grad.target, grad.dloss, *grad.row_lse], site.op) is None:
        return Refusal(
            "the other operands of the gradient are computed before the logits",
            "the gradient runs as a separate kernel: the logsumexp needs complete rows",
        )
    return site


def check_pairing(value: SSAValue, pairing: PairingAttr) -> Site | Refusal:
    """Check that the segment that computes `value` can run or runs in pair mode with `pairing`."""
    site = gemm_site(value)
    if isinstance(site, Refusal):
        return site
    segment = site.op.segments()[site.segment]
    if segment.pairing is not None:
        same = segment.pairing == pairing and not site.is_half
        return (
            site
            if same
            else Refusal(
                "the GEMM pairs its columns in one way only",
                f"the GEMM that computes {name_of(value)} already pairs other columns",
            )
        )
    selects = any(result.port.kind.data == ResultKind.SELECT for result in segment.results)
    if selects or any(isinstance(inner, ColumnOp) for inner in segment.block.ops):
        return Refusal(
            "no element of the tile is selected by column",
            f"the GEMM that computes {name_of(value)} selects a target column",
        )
    refusal = joined_weights(value, segment)
    if refusal is not None:
        return refusal
    if not _keeps_groups(pairing, segment):
        return Refusal(
            "both columns of a pair are normalized together",
            f"the GEMM that computes {name_of(value)} reduces over other groups of columns",
        )
    return site


WIDEST_TABLE = 256
"""Columns of the tables of a rotation, beyond which a GEMM that loads tables of whole rows takes
longer than a kernel for the rotation: 650 us instead of 140 on an H100, for 4096 rows of 2048
queries and as many keys, and 29 us for each kernel of their norms and rotations."""


def check_rotation(rope: coda.RopeOp, order: BlockOrder) -> Site | Refusal:
    """Return whether the GEMM that computes the operand of `rope` can rotate its columns."""
    columns = shape_of(rope.x)[-1]
    if columns == rope.head_dim.value.data * rope.heads_of_tables > WIDEST_TABLE:
        return Refusal(
            f"the tables repeat after at most {WIDEST_TABLE} columns, or before the row ends",
            f"the angles of all {columns} columns of a row differ: tables as large as the tile",
        )
    site = check_pairing(rope.x, pairing_of(rope))
    if isinstance(site, Refusal) or order.slices_after([rope.cos, rope.sin], site.op) is not None:
        return site
    return Refusal(
        "cos and sin do not depend on the projection",
        "the angles are computed from the projection that they rotate",
    )
