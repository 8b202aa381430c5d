"""Pass `place-column-scale`: apply a deferred norm's weight in an epilogue or the next weight."""

from collections.abc import Sequence

from xdsl.ir import Block, Operation, SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import element_type_of, is_float, shape_of
from coda_ir.dialects.coda.weights import is_weight
from coda_ir.dialects.gemm import FusedOp, Layout, PortKind, ScaleWeightOp
from coda_ir.passes.support.function_pass import FunctionPass, FunctionRewriter, OpInserter, Refusal
from coda_ir.passes.support.legality import check_rounding_may_move, name_of, reader_name
from coda_ir.passes.support.norm_deferral import replace_gemm, takes_scaled_rows
from coda_ir.passes.support.norms import bias_of
from coda_ir.passes.support.scaled_products import tile_and_factor
from coda_ir.symbolic_shapes import SymbolicShapes, SymbolicSize

Gemm = coda.LinearOp | coda.MatmulOp | FusedOp


class PlaceColumnScalePass(FunctionPass):
    """Places the scale w of x ⊙ w before a GEMM: in the epilogue that produces x, or folded into
    W ahead of time.

        %s = coda.mul %x, %w                  %v = gemm.scale_weight nk %W, %w
        %z = coda.linear %s, %W       ->      %z = coda.linear %x, %v

    By default nothing is folded: `fuse-pointwise` moves the scale into the epilogue that computes
    x, and the weights stay unchanged. With `fold`, the GEMM reads x itself, and the scaled copy is
    never stored, at the cost of a second copy of W. Legal only for frozen weights: W and w are
    arguments of the function that are marked as weights (other arguments may change with each call,
    which would fold them again), and every consumer of the scaled x is a GEMM.
    """

    fold: bool = False

    def run_on_function(self, rewriter: FunctionRewriter) -> None:
        if not self.fold:
            return
        for op in rewriter.ops:
            is_scale = isinstance(op, coda.MulOp) and _feeds_gemm(op)
            if is_scale and not rewriter.refuses(op, _check(op)):
                rewriter.passed(op, _told(op, rewriter.shapes))
                _fold(op, rewriter)


def _feeds_gemm(op: coda.MulOp) -> bool:
    return _scale_of(op) is not None and any(
        isinstance(use.operation, Gemm) and use.index == 0 for use in op.result.uses
    )


def _scale_of(op: coda.MulOp) -> tuple[SSAValue, SSAValue] | None:
    """Return x and w of x ⊙ w, or None if neither is a row vector of the other's columns."""
    return tile_and_factor(op, shape_of(op.result), (PortKind.ROW,))


def _check(op: coda.MulOp) -> Refusal | None:
    scale = _scale_of(op)
    assert scale is not None
    found = "the scale is not folded: eager PyTorch rounds the scaled value"
    refusal = check_rounding_may_move(op, found) or _check_frozen(scale[1], "the scale")
    if refusal is not None:
        return refusal
    for use in op.result.uses:
        gemm = use.operation
        if not _multiplies(gemm, use.index):
            return Refusal(
                "every consumer of the scaled value is a GEMM",
                f"{reader_name(gemm)} reads the scaled value",
            )
        for weight in _weights_of(gemm):
            refusal = _check_frozen(weight, "the weight") or _check_type(weight)
            if refusal is not None:
                return refusal
    return None


def _multiplies(op: Operation, index: int) -> bool:
    """Return whether `op` multiplies its operand `index` by weights."""
    is_product = not isinstance(op, FusedOp) or takes_scaled_rows(op)
    return index == 0 and isinstance(op, Gemm) and is_product


def _weights_of(gemm: Operation) -> Sequence[SSAValue]:
    assert isinstance(gemm, Gemm)
    return gemm.weights if isinstance(gemm, FusedOp) else [gemm.weight]


def _check_frozen(value: SSAValue, what: str) -> Refusal | None:
    if not isinstance(value.owner, Block):
        return Refusal(
            f"{what} is an argument of the function",
            f"{name_of(value)} is computed in the function",
        )
    if not is_weight(value):
        return Refusal(
            f"{what} is marked as a weight",
            f"{name_of(value)} may be a different tensor in each call",
            "declare it as a weight if every call passes the same tensor",
        )
    return None


def _check_type(weight: SSAValue) -> Refusal | None:
    """Check types: a scaled weight is rounded to the type of the weight."""
    type = element_type_of(weight)
    if is_float(type):
        return None
    return Refusal(
        "the weight has more than 8 bits",
        f"the scale is not folded: {name_of(weight)} has element type {type}",
    )


def _told(op: coda.MulOp, shapes: SymbolicShapes) -> str:
    weights = [weight for use in op.result.uses for weight in _weights_of(use.operation)]
    size = sum(map(shapes.bytes, weights), SymbolicSize())
    if len(weights) == 1:
        return f"folded into a weight, whose copy takes {size} bytes"
    return f"folded into {len(weights)} weights, whose copies take {size} bytes"


def _fold(op: coda.MulOp, rewriter: FunctionRewriter) -> None:
    scale = _scale_of(op)
    assert scale is not None
    x, w = scale
    for use in list(op.result.uses):
        gemm = use.operation
        insert = rewriter.before(gemm, op.location)
        if isinstance(gemm, FusedOp):
            _fold_into_segments(gemm, x, w, insert)
            continue
        assert isinstance(gemm, coda.LinearOp | coda.MatmulOp)
        layout = Layout.NK if isinstance(gemm, coda.LinearOp) else Layout.KN
        weight = insert.insert(ScaleWeightOp(gemm.weight, w, layout), gemm.weight.name_hint)
        element_type = element_type_of(gemm.result)
        new = (
            coda.LinearOp(x, weight, bias_of(gemm), element_type=element_type)
            if isinstance(gemm, coda.LinearOp)
            else coda.MatmulOp(x, weight, element_type=element_type)
        )
        insert.location = gemm.location
        rewriter.replace(gemm, insert.insert(new))
    rewriter.order.erase(op)


def _fold_into_segments(gemm: FusedOp, x: SSAValue, w: SSAValue, insert: OpInserter) -> None:
    segments = gemm.take_segments()
    for segment in segments:
        segment.weights = [
            insert.insert(ScaleWeightOp(weight, w, segment.layout), weight.name_hint)
            for weight in segment.weights
        ]
    replace_gemm(gemm, x, segments, insert.rewriter.order)
