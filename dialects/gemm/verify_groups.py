"""Verification of ports and results with one element for each group of columns."""

from math import gcd

from xdsl.dialects.builtin import DYNAMIC_INDEX
from xdsl.ir import Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from coda_ir.dialects.coda.shapes import quotient, shape_of
from coda_ir.dialects.gemm.attrs import PairingAttr, ResultPortAttr
from coda_ir.dialects.gemm.region_ops import ColumnOp, GroupReduceOp
from coda_ir.dialects.gemm.segment import Port, Segment

ALL_COLUMNS = 0
"""The size of the groups of what is the same on all columns: a multiple of every size."""


def verify_group_port(what: str, shape: tuple[int, ...], columns: int) -> None:
    """Raise unless the number of columns in a group follows from the extents."""
    if DYNAMIC_INDEX in (shape[-1], columns):
        raise VerifyException(f"{what} is over a symbolic number of columns, expected a number")


def verify_group_result(what: str, segment: Segment, index: int, n: int) -> None:
    """Raise unless result `index` is the same on all columns of each of its groups."""
    group = segment.results[index].port.group_columns
    if n != DYNAMIC_INDEX and n % group:
        raise VerifyException(f"{what} is over {group} columns, expected a divisor of {n}")
    if segment.pairing is not None and group % 2:
        raise VerifyException(f"{what} is over {group} columns, expected whole pairs of them")
    (value,) = segment.yielded(index)
    same = columns_alike(segment, n)[value]
    if same % group:
        found = "column" if same == 1 else f"group of {same} columns"
        raise VerifyException(
            f"{what} differs from {found} to {found}, expected one value on all {group} "
            f"columns, as gemm.group_reduce over {group} computes it"
        )


def group_shape(port: ResultPortAttr, rows: tuple[int, ...], n: int) -> tuple[int, ...]:
    """Return the shape of a group result over `n` columns."""
    return (*rows, quotient(n, port.group_columns))


def columns_alike(segment: Segment, n: int) -> dict[SSAValue, int]:
    """Return the size of the aligned groups of the `n` columns on which each value of the region is
    constant.

    In pair mode the groups have the pairs of that number of columns.
    """
    alike = dict[SSAValue, int]()
    alike |= dict.fromkeys(segment.block.args, 1)
    for index, port in enumerate(segment.ports):
        alike |= dict.fromkeys(segment.port_args(index), _alike_in_port(segment.pairing, port, n))
    for op in segment.block.ops:
        found = _alike(op, [alike[operand] for operand in op.operands])
        alike |= dict.fromkeys(op.results, found)
    return alike


def _alike_in_port(pairing: PairingAttr | None, port: Port, n: int) -> int:
    if not port.kind.has_columns or (port.kind.is_table and shape_of(port.value)[-1] == 1):
        return ALL_COLUMNS
    if not port.kind.is_group:
        return 1
    group = n // shape_of(port.value)[-1]
    if pairing is None or port.kind.is_half:
        return group
    # Both columns of a pair are in one group, and so are all pairs of its columns.
    period = 2 if pairing.is_adjacent else pairing.group_size or n
    return group if group % period == 0 else 1


def _alike(op: Operation, operands: list[int]) -> int:
    match op:
        case ColumnOp():
            return 1
        case GroupReduceOp():
            return op.group.value.data
        case _:
            return gcd(*operands)
