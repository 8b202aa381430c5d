"""Verification of the results of a segment: their shapes and types, and the ports they name."""

from collections.abc import Sequence

from xdsl.dialects.builtin import DYNAMIC_INDEX, ArrayAttr, IntAttr, IntegerType, UnitAttr, f32, f64
from xdsl.ir import Attribute, SSAValue, Use
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.hints import isa

from coda_ir.dialects.coda.shapes import (
    AnyTensor,
    element_type_of,
    format_shape,
    quotient,
    shape_of,
    shapes_agree,
    wrong_shape,
)
from coda_ir.dialects.gemm.attrs import (
    Combiner,
    CombinerAttr,
    PlaceAttr,
    PortKind,
    ResultKind,
    ResultPortAttr,
    SegmentAttr,
)
from coda_ir.dialects.gemm.places import verify_place
from coda_ir.dialects.gemm.segment import Port, Segment
from coda_ir.dialects.gemm.verify_groups import group_shape, verify_group_result

_TILES = {ResultKind.PARTIAL_ROW: -1, ResultKind.PARTIAL_COL: -2}
"""The dimension of partials that has one element for each tile: the schedule determines it."""


def verify_results(segment: Segment, domain: Sequence[int]) -> None:
    """Check that the results of a segment fit the domain of its accumulator."""
    rows, n = tuple(domain[:-1]), domain[-1] if domain else 1
    expected_shapes = {
        ResultKind.TILE: tuple(domain),
        ResultKind.HALF: (*rows, quotient(n, 2)),
        ResultKind.PARTIAL_ROW: (*rows, DYNAMIC_INDEX),
        ResultKind.SELECT: rows,
        ResultKind.TILE_T: (n, *rows),
    }
    for index, (port, type) in enumerate(segment.results):
        kind = port.kind.data
        what = f"result {index} ({kind.value})"
        if kind == ResultKind.HALF and segment.pairing is None:
            raise VerifyException(f"{what} is a pair port, expected only in pair mode")
        if kind == ResultKind.SELECT:
            _verify_select(what, segment, port.index.data)  # pyright: ignore
        if kind == ResultKind.ACCUMULATE:
            _verify_accumulate(what, segment, type, port.index.data)  # pyright: ignore
            continue
        shape = type.get_shape()
        if kind == ResultKind.GROUP:
            verify_group_result(what, segment, index, n)
            expected_shapes[kind] = group_shape(port, rows, n)
        elif kind == ResultKind.PARTIAL_COL:
            expected_shapes[kind] = _partial_col_shape(shape, rows, n)
        expected = expected_shapes[kind]
        if not shapes_agree(shape, expected) or (
            kind in _TILES and shape[_TILES[kind]] != DYNAMIC_INDEX
        ):
            raise wrong_shape(what, shape, format_shape(expected))
        if kind == ResultKind.PARTIAL_COL and len(shape) > 2:
            _verify_sum(what, port.combiner)
        if isinstance(port.place, PlaceAttr):
            row = _verify_row(what, segment, port) if port.is_moved else None
            verify_place(what, port.place, segment.outputs[index], row)
            are_rows = port.place.has_rows_of(shape) and not port.is_moved
            if kind == ResultKind.TILE_T and not are_rows:
                stated = port.place.stated
                raise VerifyException(f"{what} is at {stated}, expected rows of a matrix")
        if kind == ResultKind.PARTIAL_ROW and type.element_type == f64:
            verify_wide(what, port.combiner)
        elif kind not in _STORED and type.element_type != f32:
            raise VerifyException(f"{what} has element type {type.element_type}, expected f32")
    _verify_partial_uses(segment)


def _partial_col_shape(shape: Sequence[int], rows: Sequence[int], n: int) -> tuple[int, ...]:
    """Return the shape of partials over all rows, or over each sample's, whose dimensions lead."""
    samples = max(0, min(len(shape) - 2, len(rows) - 1))
    return (*rows[:samples], DYNAMIC_INDEX, n)


def _verify_sum(what: str, combiner: Attribute) -> None:
    if combiner != CombinerAttr(Combiner.ADD):
        raise VerifyException(f"{what} combines the rows of each sample, expected add")


def verify_wide(what: str, combiner: Attribute) -> None:
    """Check that partials in f64 are those of a logsumexp."""
    if combiner != CombinerAttr(Combiner.LSE):
        raise VerifyException(f"{what} has element type f64, expected f32; f64 is for lse alone")


_STORED = (ResultKind.TILE, ResultKind.TILE_T, ResultKind.HALF)
"""Results of any element type; the others are f32."""


def _verify_accumulate(what: str, segment: Segment, type: AnyTensor, index: int) -> None:
    kind, value = _named_port(what, segment, index, "a tile or tile_t port")
    is_number = kind == PortKind.SCALAR and not shape_of(value)
    if kind not in (PortKind.TILE, PortKind.TILE_T) and not is_number:
        raise VerifyException(
            f"{what} names port {index} ({kind.value}), expected a tile or tile_t port"
        )
    if type != value.type:
        raise VerifyException(
            f"{what} has type {type}, expected {value.type}, the type of port {index}"
        )
    uses = len(list(value.uses))
    # A number may be read by operators before; `accumulate-in-place` sees to it.
    if uses > 1 and not is_number:
        raise VerifyException(
            f"{what} overwrites the operand of port {index}, which has {uses} uses, expected no "
            "other"
        )


def _verify_select(what: str, segment: Segment, index: int) -> None:
    if segment.pairing is not None:
        raise VerifyException(f"{what} is not supported in pair mode")
    kind, value = _named_port(what, segment, index, "a col port of integers")
    if kind != PortKind.COL or not isinstance(element_type_of(value), IntegerType):
        raise VerifyException(
            f"{what} names port {index} ({kind.value} of {element_type_of(value)}), "
            "expected a col port of integers"
        )


def _verify_row(what: str, segment: Segment, port: ResultPortAttr) -> SSAValue:
    """The number of the run in which a result is stored is one integer."""
    assert isinstance(port.index, IntAttr)
    kind, value = _named_port(what, segment, port.index.data, "a scalar port of integers")
    if kind != PortKind.SCALAR or not isinstance(element_type_of(value), IntegerType):
        raise VerifyException(
            f"{what} names port {port.index.data} ({kind.value} of {element_type_of(value)}), "
            "expected a scalar port of integers"
        )
    return value


def _named_port(what: str, segment: Segment, index: int, expected: str) -> Port:
    if index >= len(segment.ports):
        raise VerifyException(
            f"{what} names port {index} of {len(segment.ports)}, expected {expected}"
        )
    return segment.ports[index]


def _verify_partial_uses(segment: Segment) -> None:
    for (port, _), value in zip(segment.results, segment.outputs, strict=False):
        for use in value.uses if port.is_partial else ():
            if use.operation.name not in ("gemm.finalize", "func.return") and not (
                _is_combined(port, use)
            ):
                raise VerifyException(
                    f"{port.kind.data.value} is used by {use.operation.name} as if it were "
                    "complete, expected gemm.finalize"
                )


def _is_combined(port: ResultPortAttr, use: Use) -> bool:
    """Return whether a use of partials is a port that combines them in the required way."""
    properties = use.operation.properties
    attrs = properties.get("segments", ArrayAttr([properties.get("segment", UnitAttr())]))
    if not isa(attrs, ArrayAttr[SegmentAttr]) or not isinstance(port.combiner, CombinerAttr):
        return False
    kinds = [kind.data for segment in attrs for kind in segment.ports]
    index = use.index - len(use.operation.operands) + len(kinds)
    by_row = port.kind.data == ResultKind.PARTIAL_ROW
    return by_row and index >= 0 and kinds[index].combiner == port.combiner.data
