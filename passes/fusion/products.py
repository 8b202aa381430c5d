"""The transposed form of a product of transposed inputs: (xᵀ · w)ᵀ = wᵀ · x."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from xdsl.ir import SSAValue

from coda_ir.dialects.coda.shapes import shape_of
from coda_ir.dialects.gemm import (
    ColumnOp,
    FusedOp,
    GroupReduceOp,
    Port,
    PortKind,
    Result,
    ResultKind,
    ResultPortAttr,
)
from coda_ir.passes.support.order import BlockOrder

_TRANSPOSED_PORTS: Mapping[PortKind, PortKind] = MappingProxyType(
    {
        PortKind.TILE: PortKind.TILE_T,
        PortKind.TILE_T: PortKind.TILE,
        PortKind.ROW: PortKind.COL,
        PortKind.COL: PortKind.ROW,
        PortKind.SCALAR: PortKind.SCALAR,
    }
)


def transposed_inputs(op: FusedOp) -> list[SSAValue] | None:
    """The weights of a product of transposed inputs, one per input; None where there are more."""
    segments = op.segments()
    is_plain = op.is_transposed and op.groups is None
    if not is_plain or len(segments) > 1 or segments[0].pairing is not None:
        return None
    terms = segments[0].terms
    return [weights[0] for weights in terms] if len(terms[0]) == 1 else None


def can_transpose(op: FusedOp) -> bool:
    """Return whether the epilogue of a product stays one when its rows become columns."""
    (segment,) = op.segments()
    return (
        all(_is_transposable(port) for port in segment.ports)
        and all(port.kind.data in _TRANSPOSED_RESULTS for port, _ in segment.results)
        and not any(isinstance(inner, GroupReduceOp | ColumnOp) for inner in segment.block.ops)
    )


_TRANSPOSED_RESULTS = (ResultKind.TILE, ResultKind.TILE_T, ResultKind.ACCUMULATE)


def _is_transposable(port: Port) -> bool:
    is_column_of_one = port.kind == PortKind.COL and len(shape_of(port.value)) > 1
    return port.kind in _TRANSPOSED_PORTS and not is_column_of_one


def transpose_product(op: FusedOp, order: BlockOrder) -> FusedOp:
    """Put wᵀ · x in the place of xᵀ · w: the same results from transposed accumulators."""
    (segment,) = op.take_segments()
    inputs = transposed_inputs(op)
    assert inputs is not None, "the caller has asked"
    segment.weights, segment.more_weights = [op.inputs[0]], [[x] for x in op.inputs[1:]]
    segment.ports = [Port(_TRANSPOSED_PORTS[kind], value) for kind, value in segment.ports]
    segment.results = _transposed_results(segment.results)
    new = FusedOp(inputs, [segment], op.schedule, op.order, transposed=True)
    new.location = op.location
    for old, output in zip(op.outputs, new.outputs, strict=True):
        output.name_hint = old.name_hint
        old.replace_all_uses_with(output)
    order.replace(op, new)
    return new


def _transposed_results(results: Sequence[Result]) -> list[Result]:
    transposed = {
        ResultKind.TILE: ResultPortAttr.tile_t(),
        ResultKind.TILE_T: ResultPortAttr.tile(),
    }
    return [Result(transposed.get(port.kind.data, port), type) for port, type in results]
