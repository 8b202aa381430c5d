"""Where the elements of views of dense tensors are in memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xdsl.ir import Operation, SSAValue

from coda_ir.backends.triton.argument_list import RowRuns
from coda_ir.dialects.coda import ReshapeOp, SliceOp, TransposeOp
from coda_ir.storage import ALIGNMENT, repeats
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
        """Return the tensor of which `value` is a view with parts, repeated elements or a
        transposition, and the places in it; None if it is no such view. A reshape that copies
        begins another tensor, and so does a repetition of unknown extents.
        """
        steps, base = list[Operation](), value
        while (op := _step_to(base)) is not None:
            steps.insert(0, op)
            base = op.operands[0]
        places, is_moved = ElementPlaces.dense(dims_of(base)), False
        for op in steps:
            (result,) = op.results
            dims = dims_of(result)
            if not isinstance(op, SliceOp | TransposeOp):
                is_reshaped = isinstance(op, ReshapeOp)
                moved = places.reshaped(dims) if is_reshaped else places.repeated(dims)
                is_moved = moved is not None and (is_moved or not is_reshaped)
                base, places = (
                    (result, ElementPlaces.dense(dims)) if moved is None else (base, moved)
                )
                continue
            is_moved = True
            if isinstance(op, SliceOp):
                dim, start, _ = op.range
                places = places.part(dim, start, dims)
            else:
                places = places.permuted(op.permutation)
        return (base, places) if is_moved else None

    @staticmethod
    def dense(dims: Dims) -> ElementPlaces:
        """Return the places of elements in row-major order."""
        strides = [SymbolicSize.product(dims[axis + 1 :]) for axis in range(len(dims))]
        return ElementPlaces(_sizes(dims), tuple(strides), SymbolicSize())

    @property
    def has_repeats(self) -> bool:
        """True if elements are repeated along a dimension."""
        return any(
            stride == SymbolicSize()
            for dim, stride in zip(self.dims, self.strides, strict=True)
            if dim != ONE
        )

    def part(self, dim: int, start: int, dims: Dims) -> ElementPlaces:
        """Return the places of a slice with extents `dims`."""
        return ElementPlaces(_sizes(dims), self.strides, self.start + self.strides[dim] * start)

    def permuted(self, order: Sequence[int]) -> ElementPlaces:
        """Return the places of a transposition."""
        dims, strides = ([numbers[axis] for axis in order] for numbers in (self.dims, self.strides))
        return ElementPlaces(tuple(dims), tuple(strides), self.start)

    def repeated(self, dims: Dims) -> ElementPlaces | None:
        """Return the places of elements repeated to `dims`; None where extents may differ."""
        sizes = _sizes(dims)
        missing = len(sizes) - len(self.dims)
        pairs = list(zip((ONE,) * missing + self.dims, sizes, strict=True))
        if any(own not in (ONE, size) for own, size in pairs):
            return None
        known = (SymbolicSize(),) * missing + self.strides
        strides = [
            stride if own == size else SymbolicSize()
            for stride, (own, size) in zip(known, pairs, strict=True)
        ]
        return ElementPlaces(sizes, tuple(strides), self.start)

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
        """Return the extents and strides of runs of dimensions that are one in memory."""
        runs: list[tuple[SymbolicSize, SymbolicSize]] = []
        for dim, stride in zip(self.dims[:end], self.strides, strict=False):
            if dim == ONE:
                continue
            if runs and runs[-1][1] == dim * stride:
                runs[-1] = runs[-1][0] * dim, stride
            else:
                runs.append((dim, stride))
        return runs

    def row_runs(self, end: int | None = None) -> RowRuns | None:
        """Return where the elements of such runs start; None if that is known only at launch."""
        runs = self.runs(end)[::-1]
        extents, strides = [extent for extent, _ in runs[:-1]], [stride for _, stride in runs]
        if any(size.symbols for size in (*extents, *strides)):
            return None
        return RowRuns(tuple(map(int, extents)), tuple(map(int, strides)))

    def starts_at_multiple_of(self, bytes: int) -> bool:
        """Return whether the first of elements of that many bytes is aligned for vector loads."""
        return all(factor * bytes % ALIGNMENT == 0 for _, factor in self.start.terms)


def _step_to(value: SSAValue) -> Operation | None:
    """Return the operator that makes `value` a view of its first operand; None for another one."""
    op = value.owner
    return op if isinstance(op, ReshapeOp | SliceOp | TransposeOp) or repeats(op) else None


def _sizes(dims: Dims) -> tuple[SymbolicSize, ...]:
    return tuple(map(SymbolicSize.of, dims))
