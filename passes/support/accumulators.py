"""Norms that move into an epilogue: its accumulators become what the GEMM on the norm has."""

from collections.abc import Callable, Sequence
from typing import TypeAlias

from xdsl.ir import SSAValue

from coda_ir.dialects.gemm import FusedOp, PairingAttr, ScalarBuilder, Segment, numerics_mode
from coda_ir.passes.support.order import BlockOrder

Correction: TypeAlias = Callable[[Segment, ScalarBuilder], Sequence[SSAValue]]
"""The values that take the place of the accumulators of a segment."""


def takes_scaled_rows(gemm: FusedOp) -> bool:
    """Return whether the rows of the accumulators are those of the input, times one matrix."""
    others = (gemm.groups, gemm.gather, gemm.scatter, gemm.blocks)
    return len(gemm.inputs) == 1 and not gemm.is_transposed and set(others) == {None}


def takes_row_vectors(segment: Segment) -> bool:
    """Return whether a vector of each weight's columns is a port: of all columns, or of each
    half.
    """
    return len(segment.weights) == 1 or (
        len(segment.weights) == 2 and segment.pairing == PairingAttr.halves()
    )


def correct_accumulators(
    gemm: FusedOp, x: SSAValue, correct: Correction, order: BlockOrder
) -> None:
    """Let `gemm` multiply `x`, and its regions begin with `correct`, before the code in them."""
    segments = gemm.take_segments()
    for segment in segments:
        uses = [list(accumulator.uses) for accumulator in segment.accumulators]
        builder = ScalarBuilder(segment.block, gemm.location, numerics_mode(gemm), at_start=True)
        for value, same in zip(correct(segment, builder), uses, strict=True):
            for use in same:
                use.operation.operands[use.index] = value
    replace_gemm(gemm, x, segments, order)


def replace_gemm(
    gemm: FusedOp, x: SSAValue, segments: Sequence[Segment], order: BlockOrder
) -> None:
    """Put a GEMM of `x` with other segments in the place of `gemm`."""
    new = gemm.with_segments(segments, inputs=x)
    new.attributes |= gemm.attributes
    new.location = gemm.location
    order.substitute(gemm, new)
