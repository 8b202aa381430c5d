"""Verification of the GEMM level; `verify_regions` verifies the contents of regions."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import DYNAMIC_INDEX, f32
from xdsl.ir import Attribute, SSAValue
from xdsl.utils.exceptions import VerifyException

from coda_ir.dialects.coda import BlocksAttr
from coda_ir.dialects.coda.library_call import expect_rank
from coda_ir.dialects.coda.shapes import (
    dims_agree,
    element_type_of,
    expect_element_type,
    expect_factor,
    expect_floats,
    expect_shape,
    expect_tensor,
    format_extent,
    format_shape,
    is_float8,
    may_divide,
    quotient,
    shape_of,
    shapes_agree,
    stores_floats,
    wrong_shape,
    wrong_type,
)
from coda_ir.dialects.gemm.attrs import Layout, PortKind, ResultKind
from coda_ir.dialects.gemm.fused_rows import RowsOfFused
from coda_ir.dialects.gemm.segment import (
    Segment,
    is_wide_partial,
    kept_dims,
    partial_arguments,
    region_type,
)
from coda_ir.dialects.gemm.verify_groups import verify_group_port
from coda_ir.dialects.gemm.verify_regions import verify_columns, verify_region
from coda_ir.dialects.gemm.verify_results import verify_results, verify_wide
from coda_ir.dialects.gemm.verify_rows import (
    rows_of_input,
    verify_gathers,
    verify_moved_column,
    verify_numbers,
    verify_row_groups,
    verify_scatter,
)

if TYPE_CHECKING:
    from coda_ir.dialects.gemm.library_op import LibraryOp
    from coda_ir.dialects.gemm.ops import FinalizeOp, FusedOp


def verify_fused(op: FusedOp) -> None:
    _verify_counts(op)
    _verify_inputs(op)
    (verify_numbers if op.is_numbered else verify_row_groups)(op)
    verify_gathers(op)
    verify_scatter(op)
    _verify_scales(op)
    if op.schedule is not None and op.schedule.mainloop == "wgmma":
        raise VerifyException("schedule: wgmma is of attention, expected another main loop")
    for segment in op.segments():
        if not segment.weights:
            raise VerifyException("columns() has no weight, expected at least one")
        for number, weights in enumerate(segment.terms if op.quantized is None else ()):
            _verify_weights(op, number, weights, segment)
        kinds = {result.port.kind.data for result in segment.results}
        if op.groups is not None and ResultKind.PARTIAL_COL in kinds:
            raise VerifyException("a partial_col result, expected none of rows in groups")
        _verify_segment(segment, (*op.row_shape, segment.columns), op)


def _verify_counts(op: FusedOp) -> None:
    """Check that the attributes of the segments partition all operands, results and regions."""
    segments = op.segment_attrs.data
    if not segments:
        raise VerifyException("no columns(...), expected at least one")
    if not op.inputs:
        raise VerifyException("no input, expected at least one")
    shared = (
        ("weights", sum(s.weights.data for s in segments) * len(op.inputs), len(op.weights)),
        ("ports", sum(len(s.ports) for s in segments), len(op.ports)),
        ("results", sum(len(s.results) for s in segments), len(op.outputs)),
        ("regions", len(segments), len(op.bodies)),
    )
    for what, stated, actual in shared:
        if stated != actual:
            raise VerifyException(
                f"property segments states {stated} {what}, expected the {actual} of the operator"
            )


def _verify_inputs(op: FusedOp | LibraryOp) -> None:
    x, least = op.x, 2 if op.is_transposed else 1
    expected = shape_of(x)[-1:] if op.is_transposed else shape_of(x)[:-1]
    if not shape_of(x):
        raise VerifyException("operand x is a scalar, expected at least one dimension")
    if not stores_floats(element_type_of(x)):
        raise wrong_type("operand x", x, "a float type")
    for index, value in enumerate(op.inputs):
        what, shape = "operand x" if not index else f"input {index}", shape_of(value)
        if len(shape) < least:
            raise VerifyException(
                f"{what} has rank {len(shape)}, expected at least {least}: the dimensions of K, "
                "then M"
            )
        rows = shape[-1:] if op.is_transposed else shape[:-1]
        if not shapes_agree(rows, expected):
            raise VerifyException(
                f"{what} of shape {format_shape(shape)} has rows {format_shape(rows)}, expected "
                f"{format_shape(expected)} as operand x has"
            )
        if is_float8(element_type_of(x)) and is_float8(element_type_of(value)):
            continue
        expect_element_type(what, value, element_type_of(x))


def verify_library(op: LibraryOp) -> None:
    if not op.inputs:
        raise VerifyException("no input, expected at least one")
    if len(op.weights) != len(op.inputs):
        raise VerifyException(
            f"{len(op.weights)} weights, expected {len(op.inputs)}, one for each input"
        )
    _verify_inputs(op)
    verify_row_groups(op)
    if op.groups is not None and (len(op.inputs) > 1 or op.is_stored_transposed):
        raise VerifyException("rows in groups have one input, and a result of M x N")
    if not op.has_one_type:
        raise VerifyException("operands of 8 bits, expected one float type that libraries multiply")
    segment = op.segment
    for number, weights in enumerate(segment.terms):
        _verify_weights(op, number, weights, segment)
    columns = segment.columns
    is_by_column = op.is_stored_transposed
    expected = (columns, *op.row_shape) if is_by_column else (*op.row_shape, columns)
    expect_shape("result", op.result, expected)
    expect_floats("result", op.result)


def verify_map(segment: Segment) -> None:
    pairing = segment.pairing
    if pairing is not None and pairing.group_size is None and not pairing.is_adjacent:
        raise VerifyException("pair<halves> of gemm.map has no group, expected its columns")
    kinds = {kind.value for kind, _ in segment.ports} | {
        r.port.kind.data.value for r in segment.results
    }
    if "tile_t" in kinds:
        raise VerifyException("gemm.map has a tile_t port, expected only in gemm.fused")
    domain = segment.domain
    if domain is None:
        raise VerifyException("gemm.map has neither a tile result nor a tile port")
    _verify_segment(segment, domain)


def verify_sums(segment: Segment, domain: Sequence[int]) -> None:
    """Check the epilogue of sums over a domain, computed by a kernel other than a GEMM."""
    for kind, _ in segment.ports:
        if kind == PortKind.TILE_T or kind.combiner is not None:
            raise VerifyException(f"a {kind.value} port, expected only in gemm.fused")
    results = {result.port.kind.data for result in segment.results}
    for kind in (ResultKind.TILE_T, ResultKind.SELECT, ResultKind.ACCUMULATE):
        if kind in results:
            raise VerifyException(f"a {kind.value} result, expected only in gemm.fused")
    _verify_segment(segment, domain)


def _verify_weights(
    op: FusedOp | LibraryOp, number: int, weights: Sequence[SSAValue], segment: Segment
) -> None:
    """Check that the weights of input `number` fit it, and have the columns of the first's."""
    x, is_kn = op.inputs[number], segment.layout == Layout.KN
    depth = rows_of_input(op, x) if op.is_transposed else shape_of(x)[-1:]
    if op.is_transposed and not is_kn:
        raise VerifyException("layout of the weights is nk, expected kn as x is transposed")
    groups: tuple[int, ...] = ()
    if op.groups is not None and not op.is_transposed:
        groups = shape_of(op.groups)
    if isinstance(op, RowsOfFused) and op.is_numbered:
        # The numbers of rows do not say how many groups there are.
        groups, depth = shape_of(op.weights[0])[:1], (depth[0] // op.summed_rows,)
    term, name = (f"term {number}: ", f"input {number}") if number else ("", "operand x")
    for index, weight in enumerate(weights):
        what, shape = f"{term}weight {index}", shape_of(weight)
        rank = len(groups) + len(depth) + 1
        expect_rank(what, weight, rank)
        if not all(map(dims_agree, shape, groups)):
            raise VerifyException(f"{what} is for {shape[0]} groups, expected {_extents(groups)}")
        shape = shape[len(groups) :]
        own, columns = (shape[:-1], shape[-1]) if is_kn else (shape[1:], shape[0])
        own = own if op.gather_weights is None else shape_of(op.gather_weights)
        if not all(map(dims_agree, own, depth)):
            where = "all but the last dimension" if op.is_transposed else "the last dimension"
            raise VerifyException(
                f"{what} of shape {format_shape(shape)} in layout {segment.layout.value} "
                f"has K = {_extents(own)}, expected {_extents(depth)}, {where} of {name}"
            )
        if not dims_agree(columns, segment.weight_columns(index)):
            raise VerifyException(
                f"{what} has {columns} columns, expected {segment.weight_columns(index)} as in "
                "term 0"
            )
        expect_factor(what, weight, op.inputs[number])


def _extents(dims: Sequence[int]) -> str:
    return str(dims[0]) if len(dims) == 1 else format_shape(dims)


def _verify_pairing(segment: Segment, n: int) -> None:
    """Check that the `n` columns of a segment form whole pairs."""
    if segment.pairing is None:
        return
    group = segment.pairing.group_size
    if group is not None and (group < 2 or group % 2):
        raise VerifyException(f"pair group is {group}, expected an even number")
    if n == DYNAMIC_INDEX:
        return
    if group is not None and n % group:
        raise VerifyException(f"pair group is {group}, expected a divisor of the {n} columns")
    if n % 2:
        raise VerifyException(f"pair mode on {n} columns, expected an even number")
    if len(segment.weights) > 1 and (group is not None or segment.pairing.is_adjacent):
        raise VerifyException(
            f"pair mode on {len(segment.weights)} weights, expected 'halves' without a group"
        )
    if len(segment.weights) > 1:
        halves = {segment.weight_columns(i) for i in range(len(segment.weights))}
        if len(segment.weights) != 2 or len(halves) != 1:
            raise VerifyException(
                "pair mode takes one weight, or two weights with the same number of columns"
            )


def _verify_segment(segment: Segment, domain: Sequence[int], op: FusedOp | None = None) -> None:
    """Check the pairs, ports, results and region of a segment over a domain."""
    columns = domain[-1] if domain else 1
    _verify_pairing(segment, columns)
    for index, (kind, value) in enumerate(segment.ports):
        what = f"port {index} ({kind.value})"
        if kind.is_half and segment.pairing is None:
            raise VerifyException(f"{what} is a pair port, expected only in pair mode")
        verify_port(what, kind, value, domain, op)
    verify_results(segment, domain)
    verify_region(segment.body, _argument_types(segment), _yield_types(segment))
    verify_columns(segment, columns)


def verify_port(
    what: str, kind: PortKind, value: SSAValue, domain: Sequence[int], op: FusedOp | None = None
) -> None:
    """Raise unless a tensor has the shape of a port over a domain, perhaps that of a GEMM."""
    rows, n = tuple(domain[:-1]), domain[-1] if domain else 1
    has_ends = op is not None and not op.is_transposed and not op.is_numbered
    groups = op.groups if op is not None and has_ends else None
    columns, shape = quotient(n, 2) if kind.is_half else n, shape_of(value)
    match kind:
        case PortKind.TILE | PortKind.HALF_TILE:
            expect_shape(what, value, (*rows, columns))
        case PortKind.TILE_T:
            expect_shape(what, value, (columns, *rows))
        case PortKind.ROW | PortKind.HALF_ROW:
            expect_shape(what, value, (columns,))
        case PortKind.GROUP_ROW | PortKind.HALF_GROUP_ROW:
            if groups is None:
                raise VerifyException(f"{what} is by group, expected groups of rows")
            expect_shape(what, value, (*shape_of(groups), columns))
        case PortKind.GATHER_COL | PortKind.SCATTER_COL:
            verify_moved_column(what, kind, shape, op)
        case PortKind.COL:
            if not _is_column(shape, rows):
                expected = f"{format_shape((*rows, 1))} or {format_shape(rows)}"
                raise wrong_shape(what, shape, expected)
        case PortKind.SCALAR:
            if any(extent != 1 for extent in shape):
                raise wrong_shape(what, shape, "one element")
        case PortKind.TABLE | PortKind.HALF_TABLE:
            _verify_table(what, shape, rows, columns)
        case PortKind.GROUP | PortKind.HALF_GROUP:
            _verify_table(what, shape, rows, columns)
            verify_group_port(what, shape, columns)
        case PortKind.PARTIAL_ADD | PortKind.PARTIAL_MAX | PortKind.PARTIAL_LSE:
            expect_tensor(what, value, (*rows, DYNAMIC_INDEX), f32)


def _is_column(shape: Sequence[int], rows: Sequence[int]) -> bool:
    return shapes_agree(shape, (*rows, 1)) or shapes_agree(shape, rows)


def _verify_table(what: str, shape: Sequence[int], rows: Sequence[int], columns: int) -> None:
    if not shape:
        raise VerifyException(f"{what} is a scalar, expected at least one dimension")
    if not may_divide(shape[-1], columns):
        raise VerifyException(
            f"{what} has {format_extent(shape[-1])} columns, expected a divisor of the "
            f"{format_extent(columns)} columns"
        )
    if not _are_rows_of_table(shape, rows):
        raise VerifyException(
            f"{what} has rows {format_shape(shape[:-1])}, expected extents of "
            f"{format_shape(rows)} or 1"
        )


def _are_rows_of_table(shape: Sequence[int], rows: Sequence[int]) -> bool:
    """Return whether a table's rows broadcast to `rows`."""
    missing = len(rows) - (len(shape) - 1)
    aligned = (*(1,) * -missing, *rows[max(0, missing) :])
    pairs = zip(shape[:-1], aligned, strict=True)
    return all(extent == 1 or shapes_agree((extent,), (row,)) for extent, row in pairs)


def _argument_types(segment: Segment) -> list[Attribute]:
    types: list[Attribute] = [f32] * segment.accumulator_count
    for kind, value in segment.ports:
        types += [region_type(element_type_of(value))] * segment.port_arity(kind)
    return types


def _yield_types(segment: Segment) -> list[Attribute]:
    types: list[Attribute] = []
    for port, type in segment.results:
        types += [region_type(type.element_type)] * segment.result_arity(port)
    return types


def verify_finalize(op: FinalizeOp) -> None:
    if op.axis.data not in ("row", "col"):
        raise VerifyException(f'property axis is "{op.axis.data}", expected "row" or "col"')
    if not op.partials:
        raise VerifyException("no partials, expected at least one")
    by_row = op.axis.data == "row"
    first = shape_of(op.partials[0])
    kept = kept_dims(first, op.axis.data)
    for index, partial in enumerate(op.partials):
        expect_shape(
            f"partial {index}",
            partial,
            (*kept, DYNAMIC_INDEX) if by_row else (*kept[:-1], DYNAMIC_INDEX, *kept[-1:]),
        )
        if is_wide_partial(partial) and by_row:
            verify_wide(f"partial {index}", op.combiners.data[index])
        else:
            expect_element_type(f"partial {index}", partial, f32)
    for index, (kind, value) in enumerate(op.port_list):
        if kind not in (PortKind.COL, PortKind.SCALAR):
            raise VerifyException(f"port {index} is {kind.value}, expected col or scalar")
        if kind == PortKind.COL and not _is_column(shape_of(value), kept):
            raise wrong_shape(f"port {index}", shape_of(value), format_shape(kept))
    for index, result in enumerate(op.outputs):
        if not _is_column(shape_of(result), kept):
            expected = f"{format_shape((*kept, 1))} or {format_shape(kept)}"
            raise wrong_shape(f"result {index}", shape_of(result), expected)
    arguments = partial_arguments(op.partials)
    arguments += [region_type(element_type_of(value)) for _, value in op.port_list]
    yields = [region_type(element_type_of(result)) for result in op.outputs]
    verify_region(op.body, arguments, yields)
    if any(inner.name == "gemm.column" for inner in op.body.block.ops):
        raise VerifyException("region contains gemm.column, expected in gemm.fused and gemm.map")


def _verify_scales(op: FusedOp) -> None:
    """Check that operands with block scales are M x K and N x K, with a scale for each block.

    Quantized weights alone have scales, and may be K x N.
    """
    blocks, x_scales = op.blocks, op.x_scales
    if isinstance(blocks, BlocksAttr) != (x_scales is not None):
        raise VerifyException("blocks and scales of x, expected both or neither")
    expected = 0 if blocks is None else len(op.weights)
    if len(op.weight_scales) != expected:
        raise VerifyException(
            f"{len(op.weight_scales)} scales of weights, expected {expected}, one for each weight "
            "where x has scales"
        )
    if len(op.weight_zeros) not in (0, 0 if op.quantized is None else expected):
        raise VerifyException(
            f"{len(op.weight_zeros)} zero points, expected one for each quantized weight, or none"
        )
    if blocks is None:
        return
    others = {
        "is transposed": op.is_transposed,
        "has several inputs": len(op.inputs) > 1,
        "has rows in groups": op.groups is not None,
        "gathers or scatters rows": op.gather is not None or op.scatter is not None,
        "has weights of K x N": op.quantized is None
        and any(s.layout == Layout.KN for s in op.segments()),
    }
    for what, is_so in others.items():
        if is_so:
            raise VerifyException(f"a product with scales of blocks {what}, expected M x K · N x K")
    if op.order is not None and op.order["depth"] > blocks.depth.data:
        raise VerifyException(
            f"order: depth is {op.order['depth']}, expected at most {blocks.depth.data}, K of a "
            "block"
        )
    if isinstance(blocks, BlocksAttr):
        assert x_scales is not None, "both are given"
        for weight, scales in zip(op.weights, op.weight_scales, strict=True):
            blocks.verify_scales(op.x, weight, x_scales, scales)
        return
    for segment in op.segments():
        operands = zip_longest(segment.weights, segment.scales, segment.zeros)
        for weight, scales, zeros in operands:
            blocks.verify_operands(op.x, weight, scales, zeros, kn=segment.layout == Layout.KN)
