"""Verification of results that store one element for each group of columns."""

from __future__ import annotations

from math import gcd

from xdsl.dialects.builtin import DYNAMIC_INDEX
from xdsl.ir import Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from coda_ir.dialects.coda.shapes import shape_of
from coda_ir.dialects.gemm.attrs import ResultPortAttr
from coda_ir.dialects.gemm.region_ops import ColumnOp, GroupReduceOp
from coda_ir.dialects.gemm.segment import Port, Segment

ALL_COLUMNS = 0
"""The size of the groups of what is the same on all columns: a multiple of every size."""


def verify_group_result(what: str, segment: Segment, index: int, n: int) -> None:
    """Raise unless result `index` is the same on all columns of each of its groups."""
    group = segment.results[index].port.group_columns
    if n != DYNAMIC_INDEX and n % group:
        raise VerifyException(f"{what} is over {group} columns, expected a divisor of {n}")
    if segment.pairing is not None and group % 2:
        raise VerifyException(f"{what} is over {group} columns, expected whole pairs of them")
    (value,) = segment.yielded(index)
    same = columns_alike(segment)[value]
    if same % group:
        found = "column" if same == 1 else f"group of {same} columns"
        raise VerifyException(
            f"{what} differs from {found} to {found}, expected what is the same on {group} "
            f"columns, as gemm.group_reduce over {group} makes it"
        )


def group_shape(port: ResultPortAttr, rows: tuple[int, ...], n: int) -> tuple[int, ...]:
    """The shape of a group result over `n` columns."""
    return (*rows, n if n == DYNAMIC_INDEX else n // port.group_columns)


def columns_alike(segment: Segment) -> dict[SSAValue, int]:
    """The size of the aligned groups of columns on which each value of the region is the same.

    In pair mode the groups have the pairs of so many columns.
    """
    alike = dict.fromkeys(segment.block.args, 1)
    for index, port in enumerate(segment.ports):
        if not _has_columns(port):
            alike |= dict.fromkeys(segment.port_args(index), ALL_COLUMNS)
    for op in segment.block.ops:
        found = _alike(op, [alike[operand] for operand in op.operands])
        alike |= dict.fromkeys(op.results, found)
    return alike


def _has_columns(port: Port) -> bool:
    return port.kind.has_columns and not (port.kind.is_table and shape_of(port.value)[-1] == 1)


def _alike(op: Operation, operands: list[int]) -> int:
    match op:
        case ColumnOp():
            return 1
        case GroupReduceOp():
            return op.group.data
        case _:
            return gcd(*operands)
