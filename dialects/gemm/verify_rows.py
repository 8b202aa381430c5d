"""Verification of the rows of a GEMM: their groups, where they come from, where results go."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.dialects.builtin import NoneAttr, i32, i64
from xdsl.ir import SSAValue
from xdsl.utils.exceptions import VerifyException

from coda_ir.dialects.coda.shapes import (
    dims_agree,
    element_type_of,
    expect_element_type,
    format_shape,
    shape_of,
)
from coda_ir.dialects.gemm.attrs import ResultKind

if TYPE_CHECKING:
    from coda_ir.dialects.gemm.library_op import LibraryOp
    from coda_ir.dialects.gemm.ops import FusedOp


def verify_row_groups(op: FusedOp | LibraryOp) -> None:
    """The groups of rows are those of a matrix."""
    if op.groups is None:
        return
    _expect_vector("operand groups", op.groups)
    expect_element_type("operand groups", op.groups, i32)
    if op.is_transposed or len(op.row_shape) != 1:
        raise VerifyException(
            f"operand x has shape {format_shape(shape_of(op.x))}, expected a matrix of M x K, "
            "whose rows are in groups"
        )


def verify_gather(op: FusedOp) -> None:
    """The rows that are gathered are those of a matrix."""
    if op.gather is None:
        return
    _expect_ids("operand gather", op.gather)
    if op.is_transposed or len(shape_of(op.x)) != 2:
        raise VerifyException(
            f"operand x has shape {format_shape(shape_of(op.x))}, expected a matrix of R x K, "
            "whose rows are gathered"
        )


def verify_scatter(op: FusedOp) -> None:
    """Results that are scattered are stored row by row."""
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


def _expect_ids(what: str, value: SSAValue) -> None:
    _expect_vector(what, value)
    if element_type_of(value) not in (i32, i64):
        raise VerifyException(
            f"{what} has element type {element_type_of(value)}, expected i32 or i64"
        )


def _expect_vector(what: str, value: SSAValue) -> None:
    if len(shape_of(value)) != 1:
        raise VerifyException(f"{what} has rank {len(shape_of(value))}, expected 1")
