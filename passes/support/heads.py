"""Heads that were split off the columns of a tensor."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.ir import SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import shape_of
from coda_ir.passes.support.matching import defined_by
from coda_ir.passes.support.norms import OpInserter

HEADS_FIRST = (0, 2, 1, 3)
"""The permutation between (B x T x heads x D) and (B x heads x T x D)."""


@dataclass(frozen=True)
class Heads:
    """Heads of the columns of `x`: (... x heads·D) split to (... x heads x D), and possibly
    moved before the rows, (B x heads x T x D)."""

    x: SSAValue
    split: coda.ReshapeOp
    transpose: coda.TransposeOp | None

    @property
    def head_dim(self) -> int:
        return shape_of(self.split.result)[-1]

    def of(self, columns: SSAValue, insert: OpInserter) -> SSAValue:
        """The heads of `columns`, which has the shape of `x`, in the same way."""
        split = coda.ReshapeOp(columns, shape_of(self.split.result))
        dims = self.split.attributes.get("coda.dims")
        if dims is not None:
            split.attributes["coda.dims"] = dims
        value = insert.insert(split)
        if self.transpose is None:
            return value
        return insert.insert(coda.TransposeOp(value, self.transpose.permutation))


def heads_of(value: SSAValue) -> Heads | None:
    """What the heads `value` were split from; None where they are not the columns of a tensor."""
    transpose = defined_by(value, coda.TransposeOp)
    split = defined_by(transpose.x if transpose else value, coda.ReshapeOp)
    if split is None or (transpose and transpose.permutation != HEADS_FIRST):
        return None
    before, after = shape_of(split.x), shape_of(split.result)
    is_split = len(after) == len(before) + 1 and after[:-2] == before[:-1]
    is_split = is_split and before[-1] == after[-1] * after[-2]
    return Heads(split.x, split, transpose) if is_split else None
