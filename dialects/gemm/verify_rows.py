"""Verification of the rows of a GEMM: their groups, their gathering, and their scattering."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import DYNAMIC_INDEX, NoneAttr, i32, i64
from xdsl.ir import SSAValue
from xdsl.utils.exceptions import VerifyException

from coda_ir.dialects.coda.library_call import expect_rank
from coda_ir.dialects.coda.linear import expect_ends
from coda_ir.dialects.coda.shapes import (
    dims_agree,
    element_type_of,
    format_shape,
    shape_of,
    wrong_shape,
    wrong_type,
)
from coda_ir.dialects.gemm.attrs import PortKind, ResultKind

if TYPE_CHECKING:
    from coda_ir.dialects.gemm.library_op import LibraryOp
    from coda_ir.dialects.gemm.ops import FusedOp


def verify_row_groups(op: FusedOp | LibraryOp) -> None:
    """Check that row groups are those of a matrix."""
    if op.groups is None:
        return
    expect_ends("operand groups", op.groups)
    if len(shape_of(op.x)) != 2:
        matrix = "K x M" if op.is_transposed else "M x K"
        expected = f"a matrix of {matrix}, whose rows are in groups"
        raise wrong_shape("operand x", shape_of(op.x), expected)
    if op.is_transposed and len(op.inputs) > 1:
        raise VerifyException(
            f"{len(op.inputs)} inputs, expected one, whose rows are summed over in groups"
        )


def verify_numbers(op: FusedOp) -> None:
    """Check numbered groups: equally many for each row of x, and no other lookup of rows."""
    assert op.groups is not None
    _expect_ids("operand numbered", op.groups)
    others = (op.transposed, op.gather, op.gather_weights, op.scatter, op.blocks, op.order)
    if len(op.inputs) > 1 or any(value is not None for value in others):
        raise VerifyException(
            "rows are numbered, expected one input whose rows are read and stored in their order"
        )
    for index, weight in enumerate(op.weights):
        expect_rank(f"weight {index}", weight, 3)
    (ids,), rows = shape_of(op.groups), prod(shape_of(op.x)[:-1])
    if DYNAMIC_INDEX in (ids, *shape_of(op.x)) or not ids or not rows or ids % rows:
        raise VerifyException(
            f"operand numbered has {ids} ids, expected a known multiple of the {rows} rows of x"
        )


def rows_of_input(op: FusedOp | LibraryOp, x: SSAValue) -> tuple[int, ...]:
    """Return the dimensions of the rows that are read of an input: one if they are gathered."""
    return shape_of(x)[:-1] if op.gather is None else shape_of(op.gather)


def verify_gathers(op: FusedOp) -> None:
    """Check that gathered rows are those of a matrix."""
    if op.gather is not None:
        _expect_ids("operand gather", op.gather)
        if len(shape_of(op.x)) != 2:
            expected = "a matrix of R x K, whose rows are gathered"
            raise wrong_shape("operand x", shape_of(op.x), expected)
    if op.gather_weights is not None:
        _expect_ids("operand gather_weights", op.gather_weights)
    is_summed = op.is_transposed and op.gather is not None
    if (is_summed or op.gather_weights is not None) and not op.has_ragged_depth:
        what = "x" if op.gather_weights is None else "the weights"
        raise VerifyException(
            f"rows of {what} that are summed over are gathered, expected groups of rows of a "
            "transposed x"
        )


def verify_scatter(op: FusedOp) -> None:
    """Check that scattered results are stored row by row."""
    if op.scatter is None:
        return
    _expect_ids("operand scatter", op.scatter)
    rows = op.row_shape
    if op.is_transposed or len(rows) != 1:
        raise VerifyException(
            f"operand x has rows {format_shape(rows)}, expected one dimension of rows, whose "
            "results are scattered"
        )
    (ids,) = shape_of(op.scatter)
    if not dims_agree(ids, rows[0]):
        raise VerifyException(f"operand scatter has {ids} ids, expected {rows[0]}, one for a row")
    for port in (port for attr in op.segment_attrs for port in attr.results):
        is_whole = isinstance(port.place, NoneAttr)
        if port.kind.data not in (ResultKind.TILE, ResultKind.HALF) or not is_whole:
            raise VerifyException(
                f"a {port.kind.data.value} result is scattered, expected tile or half, in a "
                "tensor of its columns"
            )


def verify_moved_column(
    what: str, kind: PortKind, shape: Sequence[int], op: FusedOp | None
) -> None:
    """Check that a column with other rows than the accumulator has an element for each of them."""
    ids = None if op is None else op.rows_of_port(kind)
    if op is None or ids is None or op.is_transposed:
        keyword = kind.value.removesuffix("_col")
        raise VerifyException(f"{what} is of other rows, expected rows that {keyword}(...) names")
    rows = shape_of(op.x)[0] if kind == PortKind.GATHER_COL else shape_of(ids)[0]
    if len(shape) not in (1, 2) or not dims_agree(shape[0], rows) or shape[1:] not in ((), (1,)):
        expected = format_shape((rows,))
        raise wrong_shape(what, shape, f"{expected} or {expected}x1")


def _expect_ids(what: str, value: SSAValue) -> None:
    expect_rank(what, value, 1)
    if element_type_of(value) not in (i32, i64):
        raise wrong_type(what, value, "i32 or i64")
