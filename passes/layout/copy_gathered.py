"""Copies of the rows that GEMMs would gather, as an alternative that the pass `schedule` tries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from coda_ir.dialects import coda
from coda_ir.dialects.gemm import FusedOp, Port, PortKind, Segment

COPY_MARGIN = 1.5
"""The time that a copy of rows has to save, relative to its own, because it also takes memory.
Chosen so that Mixtral (56 and 112 tiles of columns) reads a copy, as its forward and its training
step then took 0.94 and 0.96 of the time on an H100, and Qwen3-MoE and DeepSeek V3 (3 to 16 tiles)
gather."""


@dataclass(frozen=True)
class GatheredRows:
    """A matrix, and the numbers of its rows that GEMMs gather."""

    x: SSAValue
    ids: SSAValue

    @staticmethod
    def of(op: FusedOp) -> GatheredRows | None:
        """Return the gathered rows of `op`, of its one input or weight; None for others."""
        if len(op.inputs) > 1:
            return None
        if op.gather is not None:
            return GatheredRows(op.x, op.gather)
        if op.gather_weights is not None and len(op.weights) == 1:
            return GatheredRows(op.weights[0], op.gather_weights)
        return None


@dataclass
class CopiedRows:
    """GEMMs that gather the same rows, and their equivalents on a copy of these."""

    rows: GatheredRows
    gemms: Sequence[FusedOp]

    def __post_init__(self) -> None:
        self.index = coda.IndexOp(self.rows.x, self.rows.ids, dim=0)
        self.index.location = self.gemms[0].location
        self.parts = [self._on_copy(gemm) for gemm in self.gemms]
        """The operators for each GEMM, in no block: factors of the rows, then the GEMM."""

    def insert(self) -> None:
        """Insert the copy before the first GEMM, and replace all GEMMs by those that read it."""
        for gemm, ops in zip(self.gemms, self.parts, strict=True):
            first = [self.index] if gemm is self.gemms[0] else []
            Rewriter.insert_op([*first, *ops], InsertPoint.before(gemm))
            for old, new in zip(gemm.results, ops[-1].results, strict=True):
                old.replace_all_uses_with(new)
            Rewriter.erase_op(gemm)

    def discard(self) -> None:
        """Erase the detached operators."""
        for op in (*(op for ops in self.parts for op in reversed(ops)), self.index):
            op.erase()

    def reading(self, number: int) -> FusedOp:
        """Return the GEMM on the copy."""
        gemm = self.parts[number][-1]
        assert isinstance(gemm, FusedOp)
        return gemm

    def _on_copy(self, op: FusedOp) -> list[Operation]:
        copied, ordered = self.index.result, list[Operation]()
        segments = op.take_segments()
        if op.gather is not None:
            segments = [self._with_columns(segment, ordered) for segment in segments]
            gemm = op.with_segments(segments, inputs=copied, gather=None)
        else:
            (segment,) = segments
            parts = [replace(segment, weights=[copied])]
            gemm = op.with_segments(parts, gather_weights=None)
        gemm.location = op.location
        gemm.attributes |= op.attributes
        return [*ordered, gemm]

    def _with_columns(self, segment: Segment, ordered: list[Operation]) -> Segment:
        ports: list[Port] = []
        for port in segment.ports:
            if port.kind == PortKind.GATHER_COL:
                ordered.append(coda.IndexOp(port.value, self.rows.ids, dim=0))
                port = Port(PortKind.COL, ordered[-1].results[0])
            ports.append(port)
        return replace(segment, ports=ports)
