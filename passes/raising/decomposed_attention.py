"""Decomposed attention: products, a mask, and a softmax over the scores."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from math import isfinite

from xdsl.dialects.builtin import f32
from xdsl.ir import Operation, SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import element_type_of, shape_of
from coda_ir.dialects.torch import PRODUCTS, CallOp
from coda_ir.passes.raising.attention_masks import AttentionMask
from coda_ir.passes.support.function_pass import Refusal
from coda_ir.passes.support.index_values import literal
from coda_ir.passes.support.matching import (
    FAR,
    as_narrow_as,
    defined_by,
    number_of,
    unconverted,
)
from coda_ir.passes.support.views import View
from coda_ir.storage import repeats
from coda_ir.symbolic_shapes import Dims, SymbolicShapes

PRODUCT_AND_SUM = "aten.baddbmm.default"
MAXIMUM, SLICE = "aten.max.dim", "aten.slice.Tensor"

MAX_STEPS = 64
"""Operators between a product and the softmax that are searched, at most."""


@dataclass
class DecomposedAttention:
    """softmax(mask(softcap(scale · q kᵀ))) v, of heads (B x heads x T x D), or flat ones.

    Queries that share keys may be rows of one product, (B x key heads x group · T x D), as where
    `einsum` computes it.
    """

    q: SSAValue
    transposed_k: SSAValue
    v: SSAValue
    mask: AttentionMask
    weights: View
    """The weights as the last product reads them, a view of the softmax's result or its part."""
    scale: float = 1.0
    softcap: float | None = None
    floor: float | None = None
    """The least number that a score may be, far below all others, with what is added."""
    sinks: SSAValue | None = None
    """A score for each head beside those of the keys: (H), or (.. x H x 1 x 1), or in groups."""
    has_wide_scores: bool = False
    """True if the scores are float32, and what is added up with them as weights is narrower."""
    groups: Dims = ()
    """The dimensions of the scores but the keys, if a product has groups of queries as rows:
    (B x key heads x group x T) or (B x heads x T).
    """

    @property
    def has_moved_weights(self) -> bool:
        """True if the last product reads the rows of the weights in another order."""
        return list(self.weights.order) != sorted(self.weights.order)


@dataclass(frozen=True)
class AttentionFinder:
    """Finds attention in one function."""

    shapes: SymbolicShapes

    def find(self, op: Operation, mask: AttentionMask) -> DecomposedAttention | Refusal | None:
        """Return the attention whose last product is `op`; `mask` records what hides keys.

        None where `op` is something else: no product, or one without a softmax of scores that
        are a product.
        """
        product = _product(op)
        if product is None:
            return None
        view, v = self._weights(product[0]), product[1]
        weights = unconverted(view.base)
        softmax = defined_by(weights, coda.SoftmaxOp)
        scores = weights if softmax is None else softmax.x
        if softmax is None and (part := self._first_part(weights)) is not None:
            softmax = defined_by(self.through(part), coda.SoftmaxOp)
            scores = part if softmax is None else softmax.x
        if softmax is None:
            changed = any(map(_is_softmax_of_product, _inner(weights)))
            return _refused("its weights are changed after the softmax") if changed else None
        if not any(map(_is_product, _inner(scores))):
            return None
        found = DecomposedAttention(scores, scores, v, mask, view)
        return self._from_scores(self.through(scores), weights, found) or found

    def _weights(self, value: SSAValue) -> View:
        """Return the weights that a product reads as a view before rows were merged or moved."""
        before = list[Operation]()
        inner = value
        while isinstance(op := inner.owner, coda.ReshapeOp | coda.TransposeOp | coda.CastOp):
            before.append(op)
            inner = op.operands[0]
        whole = View.whole(inner, self.shapes.dims(inner))
        view: View | None = whole
        for op in reversed(before):
            view = view and view.after(op, self.shapes)
        if view is not None and view.dims[-1] == whole.dims[-1]:
            batches = [*chain.from_iterable(view.dims[:-2])]
            if batches == sorted(view.order)[: len(batches)]:
                return view
        return View.whole(value, self.shapes.dims(value))

    def through(self, value: SSAValue) -> SSAValue:
        """Return `value` before conversions, and before its rows were merged or split."""
        while True:
            value = unconverted(value)
            source = next(self._reshaped(value, 1), None)
            if source is None:
                return value
            value = source

    def unmerged(self, value: SSAValue) -> SSAValue:
        """Return `value` (B·heads x R x C) before batch and heads were merged; others unchanged."""
        sources = self._reshaped(value, 2) if len(shape_of(value)) == 3 else ()
        return next((source for source in sources if len(shape_of(source)) == 4), value)

    def _reshaped(self, value: SSAValue, kept: int) -> Iterator[SSAValue]:
        """Yield the tensors from which `value` was reshaped with `kept` same last dimensions."""
        source, dims = value, self.shapes.dims
        while isinstance(source.owner, coda.ReshapeOp):
            source = source.owner.x
            if len(dims(source)) > kept and dims(source)[-kept:] == dims(value)[-kept:]:
                yield source

    def _from_scores(
        self, value: SSAValue, weights: SSAValue, found: DecomposedAttention
    ) -> Refusal | None:
        """Walk from the input of the softmax inwards to the product of queries and keys."""
        value = self.through(self._without_maximum(value))
        joined = defined_by(value, coda.ConcatOp)
        is_part = defined_by(weights, coda.SoftmaxOp) is None
        if joined is not None and is_part and self._takes_sinks(joined, weights, found):
            value = self.through(joined.parts[0])
        elif joined is not None or is_part:
            return _refused("its scores are concatenated with others")
        while (product := _product(value.owner) or self._product_and_sum(value, found)) is None:
            step = self._step(value, found)
            if isinstance(step, Refusal):
                return step
            value = self.through(step)
        if isinstance(product, Refusal):
            return product
        if found.floor is not None and any(step.kind == "see" for step in found.mask.steps):
            return _refused("masked scores are clamped to a number")
        narrow = element_type_of(found.v)
        found.has_wide_scores = element_type_of(value) == f32 != narrow
        found.q, found.transposed_k = (
            as_narrow_as(self._unscaled(x, found), narrow) for x in product
        )
        rows = self.shapes.dims(found.weights.base)[:-1]
        if len(rows) == 4 or self.shapes.dims(value)[-2:-1] != rows[-1:]:
            found.groups = rows
        return None

    def _step(self, value: SSAValue, found: DecomposedAttention) -> SSAValue | Refusal:
        """Return the scores before the operator that computes `value`, which `found` records."""
        match value.owner:
            # From the softmax on inwards: a factor is also one of what is added before it.
            case coda.MulOp() | coda.DivOp() as op:
                number = number_of(op.rhs)
                if not number:
                    return _refused("its scores have a factor that is not a number")
                found.scale *= number if isinstance(op, coda.MulOp) else 1 / number
                return op.lhs
            case coda.SoftcapOp() as op if found.scale == 1 and found.softcap is None:
                found.softcap = op.cap.value.data
                return op.operand
            case coda.MaximumOp() as op if (number_of(op.rhs) or 0.0) <= FAR and found.scale > 0:
                found.floor = number_of(op.rhs)
                return op.lhs
            case coda.AddOp() as op if found.scale > 0 and found.softcap is None:
                return self._added(op, found)
            case coda.WhereOp() as op if found.scale > 0 and found.softcap is None:
                return self._chosen(op, found)
            case _:
                return _refused(f"its scores go through {_name(value)}")

    def _added(self, op: coda.AddOp, found: DecomposedAttention) -> SSAValue | Refusal:
        for scores, bias in op.pairs:
            layout = self.shapes.dims(op.result)
            if self.shapes.dims(scores) == layout and any(map(_is_product, _inner(scores))):
                number = number_of(bias)
                # The same number for all keys changes no softmax.
                if number is None or not isfinite(number):
                    found.mask.add(bias, layout=layout, factor=found.scale)
                return scores
        return _refused("it adds a tensor to its scores that does not broadcast to them")

    def _chosen(self, op: coda.WhereOp, found: DecomposedAttention) -> SSAValue | Refusal:
        is_negated = number_of(op.lhs) is not None
        hidden, scores = (op.lhs, op.rhs) if is_negated else (op.rhs, op.lhs)
        layout = self.shapes.dims(op.result)
        refusal = found.mask.fill(
            op.condition, hidden, is_negated=is_negated, layout=layout, factor=found.scale
        )
        return refusal or scores

    def _unscaled(self, value: SSAValue, found: DecomposedAttention) -> SSAValue:
        """Return a factor of the scores before a multiplication, which `found` records."""
        value = self.unmerged(value)
        while isinstance(op := value.owner, coda.MulOp | coda.DivOp) and number_of(op.rhs):
            number = number_of(op.rhs) or 1.0
            found.scale *= number if isinstance(op, coda.MulOp) else 1 / number
            value = self.unmerged(op.lhs)
        return value

    def _product_and_sum(
        self, value: SSAValue, found: DecomposedAttention
    ) -> tuple[SSAValue, SSAValue] | Refusal | None:
        """Return the factors of beta · bias + alpha · q kᵀ; `found` records the rest."""
        op = defined_by(value, CallOp)
        if op is None or op.callee.data != PRODUCT_AND_SUM:
            return None
        arguments = op.template.call
        factors = {k.arg: literal(k.value) for k in arguments.keywords}
        alpha, beta = factors.pop("alpha", 1), factors.pop("beta", 1)
        is_plain = [ast.unparse(node) for node in arguments.args] == ["{0}", "{1}", "{2}"]
        if not is_plain or factors or not alpha or beta not in (0, 1) or found.scale <= 0:
            return _refused(f"its scores go through {op.callee.data} with other factors")
        if beta == 1:
            layout = self.shapes.dims(value)
            found.mask.add(op.inputs[0], layout=layout, factor=found.scale)
        found.scale *= float(alpha)
        return op.inputs[1], op.inputs[2]

    # Sinks

    def _first_part(self, value: SSAValue) -> SSAValue | None:
        """Return the tensor that has `value` as its first columns."""
        match value.owner:
            case coda.SliceOp() as op:
                dim, start, _ = op.range
                return op.x if start == 0 and dim == len(shape_of(value)) - 1 else None
            case CallOp() as op if op.callee.data == SLICE and len(op.inputs) == 1:
                numbers = [literal(node) for node in op.template.call.args[1:]]
                last = len(shape_of(value)) - 1
                is_first = len(numbers) == 3 and numbers[0] in (-1, last) and numbers[1] == 0
                return op.inputs[0] if is_first else None
            case _:
                return None

    def _takes_sinks(
        self, joined: coda.ConcatOp, weights: SSAValue, found: DecomposedAttention
    ) -> bool:
        """Return whether a score that each head has for all rows follows those of the keys."""
        if len(joined.parts) != 2 or joined.dim.value.data != len(shape_of(joined.result)) - 1:
            return False
        scores, column = joined.parts
        dims = self.shapes.dims
        column = unconverted(column)
        while repeats(op := column.owner):
            column = unconverted(op.operands[0])
        *heads, _, _ = dims(scores)
        if len(heads) < 2 or dims(weights) != dims(scores):
            return False
        if dims(column) not in ((*heads[1:], 1, 1), (1, *heads[1:], 1, 1)):
            return False
        reshape = defined_by(column, coda.ReshapeOp)
        is_vector = reshape is not None and len(shape_of(reshape.x)) == 1
        found.sinks = reshape.x if reshape is not None and is_vector else column
        return True

    def _without_maximum(self, value: SSAValue) -> SSAValue:
        """Return `value` before the row maximum was subtracted, which does not change a softmax."""
        sub = defined_by(value, coda.SubOp)
        if sub is None:
            return value
        reduction, call = defined_by(sub.rhs, coda.ReduceOp), defined_by(sub.rhs, CallOp)
        if reduction is not None and reduction.kind.data == "max" and reduction.x is sub.lhs:
            return sub.lhs
        if call is None or call.callee.data != MAXIMUM or call.inputs[0] is not sub.lhs:
            return value
        is_row = [ast.unparse(node) for node in call.template.call.args] == ["{0}", "-1", "True"]
        return sub.lhs if is_row and call.picks == (0,) else value


def _product(op: object) -> tuple[SSAValue, SSAValue] | None:
    """Return the factors of a product of matrices with one to three batch dimensions."""
    if not isinstance(op, CallOp) or op.callee.data not in PRODUCTS or len(op.inputs) != 2:
        return None
    arguments = op.template.call.args
    is_plain = [ast.unparse(node) for node in arguments] == ["{0}", "{1}"]
    ranks = {len(shape_of(value)) for value in op.inputs}
    return (op.inputs[0], op.inputs[1]) if is_plain and ranks in ({3}, {4}, {5}) else None


def _inner(value: SSAValue) -> Iterator[SSAValue]:
    """Yield `value` and what it is computed from by pointwise operators and moves."""
    pending, seen = [value], set[SSAValue]()
    while pending and len(seen) < MAX_STEPS:
        value = pending.pop()
        if value in seen:
            continue
        seen.add(value)
        yield value
        op = value.owner
        if isinstance(op, _POINTWISE) or (isinstance(op, CallOp) and _is_pointwise(op)):
            pending += op.operands


_POINTWISE = (
    coda.ElementwiseOp,
    coda.CastOp,
    coda.ReshapeOp,
    coda.TransposeOp,
    coda.SliceOp,
    coda.ConcatOp,
)


def _is_pointwise(op: CallOp) -> bool:
    return repeats(op) or op.callee.data == SLICE


def _is_product(value: SSAValue) -> bool:
    call = defined_by(value, CallOp)
    return call is not None and call.callee.data in (*PRODUCTS, PRODUCT_AND_SUM)


def _is_softmax_of_product(value: SSAValue) -> bool:
    softmax = defined_by(value, coda.SoftmaxOp)
    return softmax is not None and any(map(_is_product, _inner(softmax.x)))


def _name(value: SSAValue) -> str:
    if isinstance(value.owner, CallOp):
        return value.owner.callee.data
    return value.owner.name if isinstance(value.owner, Operation) else "an argument"


def _refused(found: str) -> Refusal:
    condition = "the scores are products, optionally scaled, capped and masked"
    return Refusal(condition, f"is left unchanged: {found}")
