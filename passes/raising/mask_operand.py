"""The mask operand of `coda.attention`, built from all masks and biases."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from math import inf

from xdsl.dialects.builtin import TensorType, f32, i1
from xdsl.ir import Attribute, Operation, SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import (
    computes_in_float32,
    element_type_of,
    is_float,
    static_shape,
)
from coda_ir.dialects.torch import CallOp
from coda_ir.passes.support.function_pass import OpInserter, Refusal
from coda_ir.passes.support.matching import as_narrow_as, defined_by
from coda_ir.shape_rules import broadcast_dims
from coda_ir.symbolic_shapes import Dims, SymbolicShapes, SymbolicSize

UNKNOWN_CONDITION = "the mask is known, or has the shape of the scores"


def unknown_mask(found: str) -> Refusal:
    return Refusal(UNKNOWN_CONDITION, f"remains a call of PyTorch: {found}")


@dataclass(frozen=True)
class Part:
    """A tensor that broadcasts to the scores, whose dimensions are `layout`: (B x heads x T x S)
    unless stated, (B·heads x T x S), or (B x key heads x group x T x S).

    Floats are added to the scores. Truth values are true where keys are seen, or hidden if
    `is_negated`; with `hidden`, this number takes the place of the scores of hidden keys. Numbers
    are multiplied by `factor`.
    """

    value: SSAValue
    layout: Dims = ()
    is_negated: bool = False
    hidden: SSAValue | None = None
    factor: float = 1.0


@dataclass
class MaskParts:
    """The parts of the mask operand."""

    seen: list[Part] = field(default_factory=list[Part])
    filled: list[Part] = field(default_factory=list[Part])
    """Truth values that all hide by the same number."""
    added: list[Part] = field(default_factory=list[Part])
    """Floats."""

    def misfit(self, shapes: SymbolicShapes, scores: Dims) -> Refusal | None:
        """Return the reason why the parts are no mask of scores with these dims."""
        truths = [*self.seen, *self.filled]
        for part in (*truths, *self.added):
            if not _broadcasts(_dims_of_heads(part, shapes, scores), scores):
                return unknown_mask("its mask does not broadcast to its scores")
        for part in truths:
            if element_type_of(part.value) != i1:
                return _other_elements(part)
        for part in self.added:
            if not is_float(element_type_of(part.value)):
                return _other_elements(part)
        return None

    def operand(self, insert: OpInserter, scores: Dims, element: Attribute) -> SSAValue | None:
        """Return the mask of scores with these dims, for queries of the element type `element`."""
        builder = _Builder(insert, insert.rewriter.shapes, scores)
        truths = map(builder.truth, self.seen)
        biases = [*map(builder.bias, self._narrowed(element)), *builder.numbers(self.filled)]
        truth = reduce(builder.both, truths) if self.seen else None
        if not biases:
            return truth
        if {element_type_of(bias) for bias in biases} != {element}:
            wide = f32 if computes_in_float32(element) else element
            biases = [insert.cast(bias, wide) for bias in biases]
        bias = reduce(builder.sum, biases)
        return bias if truth is None else builder.hide(truth, bias)

    def has_scores(self, insert: OpInserter, scores: Dims) -> SSAValue | None:
        """Return a tensor that is true for queries (B x T x heads x 1) with a score that no number
        replaces; None if there are no such numbers.
        """
        if not self.filled:
            return None
        builder = _Builder(insert, insert.rewriter.shapes, scores)
        return builder.any_key(reduce(builder.both, map(builder.truth, (*self.filled, *self.seen))))

    def _narrowed(self, element: Attribute) -> list[Part]:
        """Return the additive parts. A single tensor is read before it was widened from `element`:
        PyTorch's fused kernels accept only masks of the queries' type.
        """
        match self.added:
            case [Part(value=value, factor=1.0) as part] if not self.filled:
                return [replace(part, value=as_narrow_as(value, element))]
            case parts:
                return parts


def _other_elements(part: Part) -> Refusal:
    return unknown_mask(f"its mask has elements of type {element_type_of(part.value)}")


@dataclass(frozen=True)
class _Builder:
    """Builds one mask from several."""

    insert: OpInserter
    shapes: SymbolicShapes
    scores: Dims

    def laid_out(self, part: Part) -> SSAValue:
        """Return a tensor with the dimensions of unflattened scores, at least two of them."""
        dims = _dims_of_heads(part, self.shapes, self.scores)
        dims = (1,) * (2 - len(dims)) + dims
        if dims == self.shapes.dims(part.value):
            return part.value
        return self._insert(coda.ReshapeOp(part.value, static_shape(dims)), dims)

    def truth(self, part: Part) -> SSAValue:
        inner = defined_by(part.value, coda.LogicalNotOp)
        if part.is_negated and inner is not None:
            return self.laid_out(replace(part, value=inner.operand))
        value = self.laid_out(part)
        return self._pointwise(coda.LogicalNotOp(value)) if part.is_negated else value

    def bias(self, part: Part) -> SSAValue:
        return self.times(self.laid_out(part), part.factor)

    def numbers(self, filled: Sequence[Part]) -> list[SSAValue]:
        """Return terms for the scores hidden by `filled`, and 0 elsewhere; none without parts."""
        if not filled or (hidden := filled[0].hidden) is None:
            return []
        zero = self._number(0.0, like=hidden)
        if len(filled) == 1:
            truth, is_negated = self.laid_out(filled[0]), filled[0].is_negated
        else:
            truth, is_negated = reduce(self.both, map(self.truth, filled)), False
        choice = [hidden, zero] if is_negated else [zero, hidden]
        return [self.times(self._pointwise(coda.WhereOp(truth, *choice)), filled[0].factor)]

    def any_key(self, truth: SSAValue) -> SSAValue:
        """Return for each query (B x T x heads x 1) whether `truth` is true for some key."""
        dims = (*self.shapes.dims(truth)[:-1], 1)
        type = TensorType(i1, static_shape(dims))
        found = self._insert(CallOp("aten.any.dim", [truth], "{0}, -1, True", [type]), dims)
        dims = (1,) * (4 - len(dims)) + dims
        whole = self._insert(coda.ReshapeOp(found, static_shape(dims)), dims)
        order = (0, 2, 1, 3)
        return self._insert(coda.TransposeOp(whole, order), tuple(dims[axis] for axis in order))

    def times(self, value: SSAValue, factor: float) -> SSAValue:
        if factor == 1:
            return value
        return self._pointwise(coda.MulOp(value, self._number(factor, like=value)))

    def both(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self._pointwise(coda.LogicalAndOp(a, b))

    def sum(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self._pointwise(coda.AddOp(a, b))

    def hide(self, truth: SSAValue, bias: SSAValue) -> SSAValue:
        return self._pointwise(coda.WhereOp(truth, bias, self._number(-inf, like=bias)))

    def _number(self, number: float, *, like: SSAValue) -> SSAValue:
        return self.insert.insert(coda.ConstantOp(number, element_type_of(like)))

    def _pointwise(self, op: coda.ElementwiseOp) -> SSAValue:
        return self._insert(op, broadcast_dims(map(self.shapes.dims, op.operands)))

    def _insert(self, op: Operation, dims: Dims) -> SSAValue:
        op.attributes["coda.dims"] = self.shapes.stated(dims)
        return self.insert.insert(op, "mask")


def _dims_of_heads(part: Part, shapes: SymbolicShapes, scores: Dims) -> Dims:
    """Return the dims of a part as (B x heads x T x S), or fewer; none where it has other ones."""
    dims = shapes.dims(part.value)
    *heads, rows, keys = part.layout or scores
    sizes = SymbolicSize.product(heads), SymbolicSize.of(rows), SymbolicSize.of(keys)
    own_sizes = SymbolicSize.product(scores[:2]), *map(SymbolicSize.of, scores[2:])
    if len(heads) > 3 or sizes != own_sizes:
        return ()
    if len(heads) == 2 or len(dims) < 3:
        return dims
    if len(heads) == 1:
        return (*scores[:2], *dims[1:]) if dims[0] != 1 else dims
    own = (1,) * (3 - len(dims[:-2])) + dims[:-2]
    if heads[0] != scores[0] or own[1:] not in ((1, 1), tuple(heads[1:])):
        return ()
    return (own[0], 1 if own[1:] == (1, 1) else scores[1], *dims[-2:])


def _broadcasts(dims: Dims, scores: Dims) -> bool:
    if not 1 <= len(dims) <= len(scores):
        return False
    pairs = zip(dims, scores[len(scores) - len(dims) :], strict=True)
    return all(dim in (1, extent) for dim, extent in pairs)
