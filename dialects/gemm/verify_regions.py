"""Verification of the regions of the GEMM level, and of the operators that occur only in them."""

from collections.abc import Sequence

from xdsl.dialects.builtin import DYNAMIC_INDEX
from xdsl.ir import Attribute, Block, Operation, Region
from xdsl.traits import IsolatedFromAbove, Pure
from xdsl.utils.exceptions import VerifyException

from coda_ir.dialects.gemm.constants import verify_exact_number
from coda_ir.dialects.gemm.segment import Segment


class PortsAreTheOnlyWayIn(IsolatedFromAbove):
    """A trait: a region uses only its own arguments, and other values enter through ports."""

    def verify(self, op: Operation) -> None:
        for region in op.regions:
            for inner in region.walk():
                for operand in inner.operands:
                    if not op.is_ancestor(operand.owner) or operand.owner is op:
                        raise VerifyException(
                            f"region uses %{operand.name_hint or 'value'} of type {operand.type} "
                            f"in {inner.name}, which is defined outside of it; "
                            "expected a port (ports are the only way in)"
                        )


def verify_region(
    body: Region, arguments: Sequence[Attribute], yields: Sequence[Attribute]
) -> None:
    """Check that a region takes `arguments`, has arithmetic on them, and yields types `yields`."""
    if len(body.blocks) != 1:
        raise VerifyException(f"region has {len(body.blocks)} blocks, expected 1")
    block = body.block
    actual = list(block.arg_types)
    if actual != list(arguments):
        raise VerifyException(
            f"region takes ({_types(actual)}), expected ({_types(arguments)}): the "
            "accumulators, then the ports"
        )
    _verify_region_ops(block)
    terminator = block.last_op
    if terminator is None or terminator.name != "gemm.yield":
        raise VerifyException("region does not end in gemm.yield")
    yielded = [operand.type for operand in terminator.operands]
    if yielded != list(yields):
        raise VerifyException(f"region yields ({_types(yielded)}), expected ({_types(yields)})")


def _types(types: Sequence[Attribute]) -> str:
    return ", ".join(map(str, types))


def _verify_region_ops(block: Block) -> None:
    for op in block.ops:
        is_pure = op.has_trait(Pure) or op.name in _PURE
        if not op.name.startswith(_IN_REGIONS) or not is_pure:
            raise VerifyException(
                f"region contains {op.name}, expected pure operators of arith and math"
            )
        verify_exact_number(op)


_IN_REGIONS = (
    *("arith.", "math.", "gemm.group_reduce", "gemm.column", "gemm.checked_index"),
    *("gemm.floor_divide", "gemm.normal_cdf", "gemm.remainder", "gemm.softplus", "gemm.yield"),
)
"""Beginnings of the names of what a region may contain."""

_PURE = ("arith.extsi",)
"""Operators without the trait in xDSL."""


def verify_columns(segment: Segment, n: int) -> None:
    """Check the use of a column number: a region must see single columns of a known number."""
    if all(op.name != "gemm.column" for op in segment.block.ops):
        return
    if segment.pairing is not None:
        raise VerifyException("region contains gemm.column in pair mode, expected plain columns")
    if n == DYNAMIC_INDEX:
        raise VerifyException("region contains gemm.column, expected a static number of columns")
