"""Where the elements of views of dense tensors are in memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xdsl.ir import SSAValue

from coda_ir.dialects.coda import ReshapeOp, SliceOp, TransposeOp
from coda_ir.storage import ALIGNMENT
from coda_ir.symbolic_shapes import Dims
from coda_ir.symbolic_size import SymbolicSize

ONE = SymbolicSize.constant(1)


@dataclass(frozen=True)
class ElementPlaces:
    """The places of the elements of a tensor in memory: its extents, the elements between
    neighbours along each dimension, and the element with which it starts.
    """

    dims: tuple[SymbolicSize, ...]
    strides: tuple[SymbolicSize, ...]
    start: SymbolicSize

    @staticmethod
    def of(
        value: SSAValue, dims_of: Callable[[SSAValue], Dims]
    ) -> tuple[SSAValue, ElementPlaces] | None:
        """Return the tensor of which `value` is a view with parts or a transposition, and the
        places in it; None if it is no such view. A reshape that copies begins another tensor.
        """
        steps, base = list[ReshapeOp | SliceOp | TransposeOp](), value
        while isinstance(op := base.owner, ReshapeOp | SliceOp | TransposeOp):
            steps.insert(0, op)
            base = op.x
        places, is_moved = _dense(dims_of(base)), False
        for op in steps:
            dims = dims_of(op.result)
            if isinstance(op, ReshapeOp):
                moved = places.reshaped(dims)
                if moved is None:
                    base, moved, is_moved = op.result, _dense(dims), False
                places = moved
                continue
            is_moved = True
            if isinstance(op, SliceOp):
                dim, start, _ = op.range
                places = places.part(dim, start, dims)
            else:
                places = places.permuted(op.permutation)
        return (base, places) if is_moved else None

    def part(self, dim: int, start: int, dims: Dims) -> ElementPlaces:
        """Return the places of a slice with extents `dims`."""
        return ElementPlaces(_sizes(dims), self.strides, self.start + self.strides[dim] * start)

    def permuted(self, order: Sequence[int]) -> ElementPlaces:
        """Return the places of a transposition."""
        dims, strides = ([numbers[axis] for axis in order] for numbers in (self.dims, self.strides))
        return ElementPlaces(tuple(dims), tuple(strides), self.start)

    def reshaped(self, dims: Dims) -> ElementPlaces | None:
        """Return the places of the same elements as `dims`; None where that takes a copy."""
        runs, strides = self.runs(), list[SymbolicSize]()
        count, run = ONE, runs.pop() if runs else (ONE, ONE)
        for dim in reversed(_sizes(dims)):
            if count == run[0] and dim != ONE:
                if not runs:
                    return None
                count, run = ONE, runs.pop()
            strides.insert(0, count * run[1])
            count = count * dim
        is_whole = not runs and count == run[0]
        return ElementPlaces(_sizes(dims), tuple(strides), self.start) if is_whole else None

    def runs(self, end: int | None = None) -> list[tuple[SymbolicSize, SymbolicSize]]:
        """Return the extents and strides of runs of dimensions, up to `end`, that are one in
        memory.
        """
        runs: list[tuple[SymbolicSize, SymbolicSize]] = []
        for dim, stride in zip(self.dims[:end], self.strides, strict=False):
            if dim == ONE:
                continue
            if runs and runs[-1][1] == dim * stride:
                runs[-1] = runs[-1][0] * dim, stride
            else:
                runs.append((dim, stride))
        return runs

    def starts_at_multiple_of(self, bytes: int) -> bool:
        """Return whether the first of elements of so many bytes is aligned for vector loads."""
        return all(factor * bytes % ALIGNMENT == 0 for _, factor in self.start.terms)


def _dense(dims: Dims) -> ElementPlaces:
    strides = [SymbolicSize.product(dims[axis + 1 :]) for axis in range(len(dims))]
    return ElementPlaces(_sizes(dims), tuple(strides), SymbolicSize())


def _sizes(dims: Dims) -> tuple[SymbolicSize, ...]:
    return tuple(map(SymbolicSize.of, dims))
