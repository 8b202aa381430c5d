"""Construction of a backward: gradients of values, added up over their uses."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, NamedTuple, TypeAlias

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    Float64Type,
    LocationAttr,
    TensorType,
    UnknownLoc,
    f32,
    f64,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.coda.gradients import summed_dims
from coda_ir.dialects.coda.shapes import element_type_of, shape_of
from coda_ir.dialects.torch import CallOp
from coda_ir.symbolic_shapes import Dims, SymbolicShapes, dims_attribute


@dataclass
class Backward:
    """The backward half of a joint function, appended to its block."""

    block: Block
    shapes: SymbolicShapes
    active: Collection[SSAValue]
    """The values with a gradient: a result depends on them, and they on a wanted argument."""
    location: LocationAttr = field(default_factory=UnknownLoc)
    _contributions: defaultdict[SSAValue, list[SSAValue]] = field(
        default_factory=lambda: defaultdict[SSAValue, list[SSAValue]](list)
    )

    def add(self, value: SSAValue, gradient: SSAValue) -> None:
        """Add the contribution of one use of `value` to its gradient, in the type of `value`."""
        assert gradient.type == value.type, f"{gradient.type}, expected {value.type}"
        self._contributions[value].append(gradient)

    def gradient(self, value: SSAValue) -> SSAValue | None:
        """Return the gradient of `value` after all uses have contributed; None if none did."""
        parts = self._contributions[value]
        if not parts:
            return None
        parts = join_pads(parts, self.insert)
        total = reduce(lambda a, b: self.insert(coda.AddOp(a, b)), parts)
        if isinstance(total.owner, Operation) and total.name_hint is None:
            total.name_hint = f"d_{value.name_hint}" if value.name_hint else None
        self._contributions[value] = [total]
        return total

    def insert(self, op: Operation, *names: str) -> SSAValue:
        """Append `op`; returns its first result."""
        op.location = self.location
        self.block.add_op(op)
        for result, name in zip(op.results, names, strict=False):
            result.name_hint = name
        return op.results[0]


@dataclass(frozen=True)
class Adjoint:
    """The derivative of one operator: from the gradients of its results to those of its operands.

    A rule calls `give` for each operand whose gradient is wanted; sums over what was broadcast and
    conversions to the operand's type are done there. The other methods append operators.
    """

    op: Operation
    backward: Backward
    d_results: Sequence[SSAValue | None]

    @property
    def dy(self) -> SSAValue:
        """The gradient of the only result."""
        (gradient,) = self.d_results
        assert gradient is not None
        return gradient

    def wants(self, operand: SSAValue | None) -> bool:
        """Return whether a gradient of `operand` is needed."""
        return operand is not None and operand in self.backward.active

    def give(self, operand: SSAValue | None, gradient: SSAValue | Operation) -> None:
        """Add `gradient`, if wanted, to that of `operand`, which may be smaller or narrower."""
        is_new = isinstance(gradient, Operation)
        if operand is not None and self.wants(operand):
            value = self.insert(gradient) if is_new else gradient
            self.backward.add(operand, self.fitted(value, operand))
        elif is_new:
            gradient.erase()

    def fitted(self, gradient: SSAValue, operand: SSAValue) -> SSAValue:
        """Convert `gradient` to the type of `operand`, summed over its broadcast dimensions."""
        shape, type = shape_of(operand), element_type_of(operand)
        if summed_dims(shape_of(gradient), shape):
            return self.insert(coda.SumToOp(gradient, shape, element_type=type))
        gradient = self.cast(gradient, type)
        # One may state an extent that the other leaves open.
        return gradient if shape_of(gradient) == shape else self.reshaped(gradient, operand)

    # Operators

    def insert(self, op: Operation, *names: str) -> SSAValue:
        """Append `op`; returns its first result."""
        return self.backward.insert(op, *names)

    def cast(self, value: SSAValue, type: Attribute) -> SSAValue:
        """Convert `value` to another element type, if it differs."""
        if element_type_of(value) == type:
            return value
        names = () if value.name_hint is None else (value.name_hint,)
        if isinstance(value.owner, coda.SumToOp) and element_type_of(value) == f32:
            # The sum is in float32 anyway, and is rounded when it is stored.
            total = coda.SumToOp(value.owner.x, shape_of(value), element_type=type)
            return self.insert(total, *names)
        return self.insert(coda.CastOp(value, type), *names)

    def widened(self, value: SSAValue) -> SSAValue:
        """Convert `value` to float32, in which sums and norms compute; float64 stays."""
        return self.cast(value, wide_type(value))

    def term(self, value: SSAValue) -> coda.Term[SSAValue]:
        """Return `value` as a term whose operators are appended; numbers get its type."""

        def apply(operator: type[coda.ElementwiseOp], *operands: SSAValue | float) -> SSAValue:
            values = [self.constant(x, value) if isinstance(x, float) else x for x in operands]
            return self.insert(operator(*values))

        return coda.Term(value, apply)

    def constant(self, value: float, like: SSAValue) -> SSAValue:
        """Return a scalar of the element type of `like`."""
        return self.insert(coda.ConstantOp(float(value), element_type_of(like)))

    def add(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self.insert(coda.AddOp(a, b))

    def sub(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self.insert(coda.SubOp(a, b))

    def mul(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self.insert(coda.MulOp(a, b))

    def div(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self.insert(coda.DivOp(a, b))

    def neg(self, a: SSAValue) -> SSAValue:
        return self.insert(coda.NegOp(a))

    def scale(self, a: SSAValue, factor: float) -> SSAValue:
        return self.mul(a, self.constant(factor, a))

    def sum_of(self, a: SSAValue, *names: str) -> SSAValue:
        """Return the sum of each row, as a column."""
        return self.insert(coda.ReduceOp(a, "sum"), *names)

    def mean_of(self, a: SSAValue, *names: str) -> SSAValue:
        """Return the mean of each row, as a column."""
        return self.insert(coda.ReduceOp(a, "mean"), *names)

    def reshaped(self, value: SSAValue, like: SSAValue) -> SSAValue:
        """Reshape `value` to the shape of `like`, which has as many elements."""
        reshaped = self.reshaped_to(value, shape_of(like), self.backward.shapes.dims(like))
        return self._reshaped_as(value, like) if reshaped is None else reshaped

    def reshaped_to(self, value: SSAValue, shape: Sequence[int], dims: Dims) -> SSAValue | None:
        """Reshape `value`; return None if no argument has the names of the dimensions."""
        needs_dims = shape.count(DYNAMIC_INDEX) > 1
        if needs_dims and not self.backward.shapes.are_declared(dims):
            return None
        op = coda.ReshapeOp(value, shape)
        if needs_dims:
            op.attributes["coda.dims"] = dims_attribute(dims)
        return self.insert(op)

    def _reshaped_as(self, value: SSAValue, like: SSAValue) -> SSAValue:
        """Reshape `value` to the shape of `like` if no argument has the names of its extents."""
        type = TensorType(element_type_of(value), shape_of(like))
        call = CallOp("aten.reshape_as.default", [value, like], "{0}, {1}", [type], view=True)
        return self.insert(call)

    def broadcast(self, value: SSAValue, like: SSAValue) -> SSAValue:
        """Broadcast `value` to the shape of `like`."""
        known = shape_of(value)
        padded = (1,) * (len(shape_of(like)) - len(known)) + known
        pairs = zip(padded, shape_of(like), strict=True)
        is_open = any(extent == DYNAMIC_INDEX != own for own, extent in pairs)
        return self.insert(coda.BroadcastOp(value, shape_of(like), like if is_open else None))

    def over_columns(self, value: SSAValue, x: SSAValue) -> SSAValue:
        """Divide `value` by the number of columns of `x`."""
        columns = shape_of(x)[-1]
        if columns != DYNAMIC_INDEX:
            return self.scale(value, 1 / max(columns, 1))
        extent = coda.ExtentOp(*self.backward.shapes.holder(x, len(shape_of(x)) - 1))
        return self.div(value, self.cast(self.insert(extent, "columns"), element_type_of(value)))


def wide_type(value: SSAValue) -> Attribute:
    """Return the type in which sums over elements of `value` are computed."""
    return f64 if isinstance(element_type_of(value), Float64Type) else f32


Rule: TypeAlias = Callable[[Any, Adjoint], None]
"""Gives the gradients of the operands of an operator, which is its first argument."""


Insert = Callable[[Operation], SSAValue]


class _Padded(NamedTuple):
    """A gradient that is a pad with zeros, or a reshape of one."""

    pad: coda.PadOp
    gradient: SSAValue

    @staticmethod
    def of(gradient: SSAValue) -> _Padded | None:
        source = gradient.owner
        pad = source.x.owner if isinstance(source, coda.ReshapeOp) else source
        if isinstance(pad, coda.PadOp) and pad.after is None and not pad.number:
            return _Padded(pad, gradient)
        return None


def join_pads(parts: Sequence[SSAValue], insert: Insert) -> list[SSAValue]:
    """Join those of `parts` that pad neighbouring slices into one concatenation.

    pad(a) {start = 0} + pad(b) {start = 8}  ->  concat(a, b), where both together are whole.
    So do slices of each nth element, in a separate dimension that the gradient lacks.
    """
    found = [_Padded.of(part) for part in parts]
    joined = [part for part, padded in zip(parts, found, strict=True) if padded is None]
    return joined + [_joined(run, insert) for run in _runs(list(filter(None, found)))]


def _runs(padded: Sequence[_Padded]) -> list[list[_Padded]]:
    """Return runs in which each pad begins where the previous one ends."""
    runs: list[list[_Padded]] = []
    for each in sorted(padded, key=lambda padded: padded.pad.range):
        dim, start, _ = each.pad.range
        fitting = (
            run
            for run in runs
            if run[-1].pad.range[::2] == (dim, start)
            and run[-1].pad.result.type == each.pad.result.type
        )
        run = next(fitting, None)
        if run is None:
            runs.append([each])
        else:
            run.append(each)
    return runs


def _joined(run: Sequence[_Padded], insert: Insert) -> SSAValue:
    first = run[0].pad
    if len(run) == 1:
        return run[0].gradient
    dim, start, _ = first.range
    extent = shape_of(first.result)[dim]
    joined = insert(coda.ConcatOp([padded.pad.x for padded in run], dim))
    if shape_of(joined)[dim] != extent:
        joined = insert(coda.PadOp(joined, dim, start, extent, first.like))
    reshape = run[0].gradient.owner
    if isinstance(reshape, coda.ReshapeOp):
        return insert(reshape.clone({reshape.x: joined}))
    return joined
