"""Pass `merge-sibling-gemms`: merge GEMMs that share their input into one launch."""

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from types import MappingProxyType

from xdsl.ir import SSAValue

from coda_ir.dialects import gemm
from coda_ir.dialects.coda.shapes import shape_of
from coda_ir.passes.support.function_pass import FunctionPass, FunctionRewriter, Refusal
from coda_ir.passes.support.order import BlockOrder

MAX_RANGES = 8
"""Column ranges of a merged GEMM, which fill a GPU; no single layer has as many on one input."""


class MergeSiblingGemmsPass(FunctionPass):
    """Merges GEMMs of the same x into one GEMM with several column ranges, each with its own
    epilogue.

        %q = gemm.fused %h columns(%wq) {...}        %q, %k = gemm.fused %h
        %k = gemm.fused %h columns(%wk) {...}   ->     columns(%wq) {...}
                                                       columns(%wk) {...}

    The weights are not concatenated: each column range has its own weight. Weight gradients that
    multiply the same h are first transposed so that h is their x, and store transposed tiles:

        %dwq = gemm.fused transposed %dq        %dwq, %dwk = gemm.fused transposed %h
          columns(%h) kn -> (tile)         ->     columns(%dq) kn -> (tile_t)
        %dwk = gemm.fused transposed %dk ...      columns(%dk) kn -> (tile_t)

    Legal iff none of the GEMMs depends on another, and a transposed epilogue only reads and stores
    tiles, vectors with one element per row or column, and scalars. A kernel has code for each
    column range, so its compile time is the sum of theirs. After `MAX_RANGES`, for example if all
    layers of a model read one vector, a new GEMM begins; those of equal layers share a kernel.
    """

    def run_on_function(self, rewriter: FunctionRewriter) -> None:
        _share_weights(rewriter)
        first_of: dict[Hashable, gemm.FusedOp] = {}
        for op in rewriter.ops_of(gemm.FusedOp):
            key = _inputs(op)
            first = first_of.get(key)
            if first is None:
                first_of[key] = op
            elif len(first.segments()) + len(op.segments()) > MAX_RANGES:
                rewriter.missed(op, _IS_FULL)
                first_of[key] = op
            elif not rewriter.order.hoist(op.operands, first):
                rewriter.missed(
                    op,
                    Refusal(
                        "no sibling depends on another",
                        "reads its input again: it needs a result of the GEMM it would join",
                    ),
                )
            else:
                rewriter.passed(op, "joins the GEMM that reads the same input")
                first_of[key] = _merge(first, op, rewriter.order)


_IS_FULL = Refusal(
    f"a GEMM has at most {MAX_RANGES} column ranges",
    f"reads its input again: its siblings have {MAX_RANGES} column ranges, or would have more",
)


def _inputs(op: gemm.FusedOp) -> Hashable:
    """Return a key that is equal for GEMMs that can be column ranges of one."""
    of_rows = (op.groups, op.gather, op.gather_weights, op.scatter)
    of_blocks = (op.x_scales, op.blocks, bool(op.weight_zeros))
    return tuple(op.inputs), op.is_transposed, of_rows, op.order, of_blocks


def _share_weights(rewriter: FunctionRewriter) -> None:
    """Transpose products that share their weights, unless they share their inputs."""
    gemms = [op for op in rewriter.ops if isinstance(op, gemm.FusedOp) and op.is_transposed]
    by_inputs = Counter(map(_inputs, gemms))
    groups: dict[Hashable, list[gemm.FusedOp]] = {}
    for op in gemms:
        if by_inputs[_inputs(op)] == 1 and (weights := transposed_inputs(op)) is not None:
            groups.setdefault((tuple(weights), op.order), []).append(op)
    for group in groups.values():
        for op in group if len(group) > 1 else ():
            if not can_transpose(op):
                rewriter.missed(op, _KEEPS_ITS_ROWS)
            else:
                transpose_product(op, rewriter.order)


_KEEPS_ITS_ROWS = Refusal(
    "a transposed epilogue combines neither rows nor columns",
    "reads its weights again: its epilogue would have to combine columns instead of rows",
)


def _merge(first: gemm.FusedOp, second: gemm.FusedOp, order: BlockOrder) -> gemm.FusedOp:
    segments = [*first.segments(), *second.segments()]
    outputs = [output for segment in segments for output in segment.outputs]
    for segment in segments:
        body = segment.body
        owner = body.parent_op()
        assert owner is not None
        owner.detach_region(body)
    merged = first.with_segments(segments)
    order.join(first, second, outputs, merged)
    return merged


# The transposed form of a product of transposed inputs: (xᵀ · w)ᵀ = wᵀ · x


_TRANSPOSED_PORTS: Mapping[gemm.PortKind, gemm.PortKind] = MappingProxyType(
    {
        gemm.PortKind.TILE: gemm.PortKind.TILE_T,
        gemm.PortKind.TILE_T: gemm.PortKind.TILE,
        gemm.PortKind.ROW: gemm.PortKind.COL,
        gemm.PortKind.COL: gemm.PortKind.ROW,
        gemm.PortKind.SCALAR: gemm.PortKind.SCALAR,
    }
)


def transposed_inputs(op: gemm.FusedOp) -> list[SSAValue] | None:
    """Return the weights of a product of transposed inputs, one per input; None if more."""
    segments = op.segments()
    is_plain = op.is_transposed and op.groups is None
    if not is_plain or len(segments) > 1 or segments[0].pairing is not None:
        return None
    terms = segments[0].terms
    return [weights[0] for weights in terms] if len(terms[0]) == 1 else None


def can_transpose(op: gemm.FusedOp) -> bool:
    """Return whether the epilogue of a product remains valid when its rows become columns."""
    (segment,) = op.segments()
    return (
        all(_is_transposable(port) for port in segment.ports)
        and all(port.kind.data in _TRANSPOSED_RESULTS for port, _ in segment.results)
        and not any(
            isinstance(inner, gemm.GroupReduceOp | gemm.ColumnOp) for inner in segment.block.ops
        )
    )


_TRANSPOSED_RESULTS = (gemm.ResultKind.TILE, gemm.ResultKind.TILE_T, gemm.ResultKind.ACCUMULATE)


def _is_transposable(port: gemm.Port) -> bool:
    is_column_of_one = port.kind == gemm.PortKind.COL and len(shape_of(port.value)) > 1
    return port.kind in _TRANSPOSED_PORTS and not is_column_of_one


def transpose_product(op: gemm.FusedOp, order: BlockOrder) -> gemm.FusedOp:
    """Replace xᵀ · w by wᵀ · x, which computes the same results from transposed accumulators."""
    (segment,) = op.take_segments()
    inputs = transposed_inputs(op)
    assert inputs is not None, "the caller has asked"
    segment.weights, segment.more_weights = [op.inputs[0]], [[x] for x in op.inputs[1:]]
    segment.ports = [gemm.Port(_TRANSPOSED_PORTS[kind], value) for kind, value in segment.ports]
    segment.results = _transposed_results(segment.results)
    new = gemm.FusedOp(inputs, [segment], op.schedule, op.order, transposed=True)
    order.substitute(op, new)
    return new


def _transposed_results(results: Sequence[gemm.Result]) -> list[gemm.Result]:
    transposed = {
        gemm.ResultKind.TILE: gemm.ResultPortAttr.tile_t(),
        gemm.ResultKind.TILE_T: gemm.ResultPortAttr.tile(),
    }
    return [gemm.Result(transposed.get(port.kind.data, port), type) for port, type in results]
