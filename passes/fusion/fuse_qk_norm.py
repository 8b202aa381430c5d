"""Pass `fuse-qk-norm`: fuse an RMSNorm of each head into the kernel that computes the heads."""

from collections.abc import Iterator

from xdsl.ir import Operation, SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.coda.elementwise import CosOp, SinOp
from coda_ir.dialects.coda.shapes import element_bytes, element_type_of, shape_of
from coda_ir.dialects.gemm import (
    Combiner,
    GroupReduceOp,
    MapOp,
    NumericsMode,
    ScalarBuilder,
    numerics_mode,
)
from coda_ir.dialects.gemm.scalar_code import is_pointwise
from coda_ir.passes.support.editing import EpilogueEditor, Site, replace_by_result
from coda_ir.passes.support.function_pass import FunctionPass, FunctionRewriter, Refusal
from coda_ir.passes.support.legality import check_qk_norm, kernel_name, name_of


class FuseQkNormPass(FunctionPass):
    """Fuses a norm over groups of columns (heads) that fit into one tile into the GEMM, such as the
    projection of queries, or the pointwise kernel that computes them.

        %z = gemm.fused ... { yield acc }              %q = gemm.fused ... table(%w) {
        %q = coda.rms_norm %z, %w {group = 128}   ->     s = gemm.group_reduce add acc² over 128
                                                         yield acc · rsqrt(s/128 + eps) · w
                                                       }

    Legal iff the operand is the tile of a kernel with unpaired columns, and a group fits into a
    tile; the schedule then gives every tile whole groups. A norm of pointwise code is fused in a
    second run with `maps_only`, after `outline-pointwise` has made a kernel of that code.

    A norm without weight of rotated heads moves before the rotation, as the heads of Llama 4:
    rms_norm(rope(x)) = rope(rms_norm(x)). Legal iff the tables of the rotation are cos and sin of
    the same angles.
    """

    maps_only: bool = False
    """True if only pointwise kernels take norms: another run has seen the others."""

    def run_on_function(self, rewriter: FunctionRewriter) -> None:
        for op in rewriter.ops:
            if isinstance(op, coda.RMSNormOp) and op.group is not None and self._is_seen(op):
                site = rewriter.allowed(op, _check(op, rewriter))
                if site is not None:
                    rewriter.passed(op, f"fused into {kernel_name(site.op)}")
                    _rewrite(_before_rotation(op, rewriter), site, rewriter)

    def _is_seen(self, norm: coda.RMSNormOp) -> bool:
        owner = norm.x.owner
        return isinstance(owner, MapOp) if self.maps_only else not is_pointwise(owner)


def _check(norm: coda.RMSNormOp, rewriter: FunctionRewriter) -> Site | Refusal:
    rope = norm.x.owner
    if not isinstance(rope, coda.RopeOp):
        return check_qk_norm(norm, norm.x, rewriter.order)
    return _check_rotated_norm(norm, rope) or check_qk_norm(norm, rope.x, rewriter.order)


def _before_rotation(norm: coda.RMSNormOp, rewriter: FunctionRewriter) -> coda.RMSNormOp:
    """Exchange a norm and the rotation whose result it reads; return the norm."""
    rope = norm.x.owner
    if not isinstance(rope, coda.RopeOp):
        return norm
    moved = coda.RMSNormOp(rope.x, None, norm.eps, norm.group)
    rewriter.before(rope, norm.location).insert(moved, rope.x.name_hint)
    rotated = rope.with_operand(moved, transposed=rope.transposed is not None)
    rewriter.replace(norm, rewriter.before(rope).insert(rotated))
    rewriter.order.erase(rope)
    return moved


def _rewrite(op: coda.RMSNormOp, site: Site, rewriter: FunctionRewriter) -> None:
    if op.weight is not None:
        rewriter.order.hoist([op.weight], site.op)
    editor = EpilogueEditor(site.op, rewriter.order)
    (value,) = editor.segments[site.segment].yielded(site.result)
    scaled = _normalize(editor.builder(site.segment, op.location), op, value)
    if op.weight is not None:
        # At least one row dimension, so that the weight of a vector is a row as well.
        domain = (*(shape_of(op.x)[:-1] or (1,)), op.group_size)
        (weight,) = editor.lanes_of(op.weight, site.segment, domain, half=False)
        scaled = editor.builder(site.segment, op.location).mul(scaled, weight)
    scaled = editor.builder(site.segment, op.location).result(scaled, element_type_of(op.result))
    replace_by_result(editor, op, site.segment, [scaled])


def _normalize(builder: ScalarBuilder, op: coda.RMSNormOp, value: SSAValue) -> SSAValue:
    square = builder.mul(value, value)
    total = builder.insert(GroupReduceOp(square, Combiner.ADD, op.group_size))
    mean = builder.divide_by(total, op.group_size)
    rstd = builder.rsqrt(builder.add(mean, builder.constant(op.eps.value.data)))
    rstd.name_hint = "rstd"
    return builder.mul(value, rstd)


REARRANGED = (coda.ReshapeOp, coda.TransposeOp, coda.SliceOp, coda.BroadcastOp)


def _check_rotated_norm(norm: coda.RMSNormOp, rope: coda.RopeOp) -> Refusal | None:
    """Check that a norm of `rope` commutes: rotations keep the sum of squares of a pair."""
    failed = next(_failures(norm, rope), None)
    if failed is None:
        return None
    condition, why = failed
    found = f"the norm does not move before the rotation of {name_of(rope.x)}: {why}"
    return Refusal(condition, found)


def _failures(norm: coda.RMSNormOp, rope: coda.RopeOp) -> Iterator[tuple[str, str]]:
    """Yield the conditions that fail, each with the reason."""
    if norm.weight is not None:
        yield "a norm of rotated heads has no weight", "its weight may differ within a pair"
    if norm.group_size != rope.head_dim.value.data:
        yield "a norm of rotated heads has groups of a head", f"it has groups of {norm.group_size}"
    if not rope.result.has_one_use():
        yield "the norm is the only use of the rotated heads", "other operators read its result"
    if not _turns_by_angles(rope):
        yield (
            "the tables of the rotation are cos and sin of the same angles, which the function "
            "computes in float32 or float64",
            "its tables may be any numbers",
        )
    if numerics_mode(norm) == NumericsMode.EAGER_EXACT:
        yield (
            "the numerics mode allows rounding points to move",
            "eager PyTorch rounds its result, and the mode is eager-exact",
        )


def _turns_by_angles(rope: coda.RopeOp) -> bool:
    """Return whether each pair of columns has one angle, whose cos and sin are in the tables."""
    cos, sin = rope.cos.owner, rope.sin.owner
    while isinstance(cos, REARRANGED) and isinstance(sin, REARRANGED):
        if _form(cos) != _form(sin):
            return False
        cos, sin = cos.operands[0].owner, sin.operands[0].owner
    if not isinstance(cos, CosOp) or not isinstance(sin, SinOp) or rope.is_per_column:
        return False
    return cos.operands == sin.operands and element_bytes(element_type_of(rope.cos)) >= 4


def _form(op: Operation) -> tuple[object, ...]:
    return op.name, op.properties, op.attributes, op.result_types
