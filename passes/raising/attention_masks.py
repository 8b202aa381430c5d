"""The masks of attention, and the biases that it adds to its scores."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from xdsl.dialects.builtin import i1
from xdsl.ir import BlockArgument, Operation, SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import element_type_of, shape_of
from coda_ir.dialects.coda.weights import is_weight
from coda_ir.dominance import before, operands_of, reached
from coda_ir.passes.raising.mask_operand import MaskParts, Part, unknown_mask
from coda_ir.passes.support.function_pass import Refusal
from coda_ir.passes.support.index_values import Affine, IndexValues, Mask
from coda_ir.passes.support.matching import FAR, defined_by, number_of, unconverted
from coda_ir.storage import repeats
from coda_ir.symbolic_shapes import Dim, Dims

HIDDEN = -65504.0
"""The largest number that hides a score: it leaves nothing in the softmax."""

CAUSAL = Mask(frozenset((Affine(0, (0, 0, 1, -1)),)))
"""Query i sees the keys up to i."""

OTHER_ROWS = Refusal(
    "queries and keys have the same batch, and equal lengths where the mask is causal",
    "remains a call of PyTorch: the rows of its operands differ",
)


@dataclass(frozen=True)
class Hiding:
    """The properties of `coda.attention` for masks by position."""

    causal: bool = False
    window: int | None = None


@dataclass(frozen=True)
class _Step:
    """One operation on the scores."""

    kind: Literal["see", "fill", "add"]
    part: Part


@dataclass
class AttentionMask:
    """All operations on the scores, from the softmax inwards."""

    known: IndexValues
    is_causal: bool = False
    """True if query i sees the keys up to i, whatever else is done."""
    steps: list[_Step] = field(default_factory=list[_Step])

    def see(self, truth: SSAValue) -> None:
        """Restrict the visible keys to those where `truth` is true: others have no weight."""
        self.steps.append(_Step("see", Part(truth)))

    def fill(
        self,
        truth: SSAValue,
        hidden: SSAValue,
        *,
        is_negated: bool,
        layout: Dims,
        factor: float = 1.0,
    ) -> Refusal | None:
        """Replace scores with the dimensions `layout` by `hidden` where `truth` is not true, or is;
        then multiply them by `factor`, which is positive.
        """
        number = number_of(hidden)
        if number is None or number * factor > HIDDEN:
            return unknown_mask("the number that replaces scores does not mask them")
        if number == -float("inf"):
            self.steps.append(_Step("see", Part(truth, layout, is_negated)))
        else:
            self.steps.append(_Step("fill", Part(truth, layout, is_negated, hidden, factor)))
        return None

    def add(self, bias: SSAValue, *, layout: Dims = (), factor: float = 1.0) -> None:
        """Add `bias` to the scores, which are then multiplied by a positive `factor`."""
        self.steps.append(_Step("add", Part(bias, layout, factor=factor)))

    def resolve(self, queries: Dim, keys: Dim) -> tuple[Hiding, MaskParts] | Refusal:
        """Return the part of the mask that positions determine, for queries aligned with the last
        keys, and the rest.

        All is in the rest where positions hide otherwise than `coda.attention` has it.
        """
        if any(step.part.layout[-2:] not in ((), (queries, keys)) for step in self.steps):
            return unknown_mask("it masks scores whose rows are not the queries of one head")
        split = _Resolution(self.known, self.is_causal)
        refusal = split.take(self.steps) or split.hiding(queries, keys)
        if isinstance(refusal, Hiding):
            return refusal, split.parts
        whole = _Resolution(self.known, self.is_causal, is_split=False)
        refusal = whole.take(self.steps) or whole.hiding(queries, keys)
        return (refusal, whole.parts) if isinstance(refusal, Hiding) else refusal


class _Resolution:
    """The split of a mask into the part that positions determine and the rest.

    A number that hides leaves its share to a row in which all others hide too. Positions alone
    leave each query at least one key, so that they may hide entirely, unless something else may
    hide that key.
    """

    def __init__(self, known: IndexValues, is_causal: bool, *, is_split: bool = True):
        self._known, self._is_split = known, is_split
        self._is_certain = True
        self._positions = CAUSAL if is_causal else Mask(frozenset())
        self.parts = MaskParts()

    def take(self, steps: Sequence[_Step]) -> Refusal | None:
        self._is_certain = all(self._is_known(s.part) for s in steps if s.kind != "add")
        biases = [step.part for step in steps if step.kind == "add"]
        may_hide = any(_may_hide(term) for bias in biases for term in self._left(bias))
        for index, (kind, part) in enumerate((step.kind, step.part) for step in steps):
            if kind == "add":
                self._add(part, is_whole=may_hide)
            elif kind == "see" and self.parts.filled:
                return unknown_mask("it masks scores twice, first by a number")
            elif kind == "see" or (self._is_certain and not may_hide):
                self._see(part)
            elif may_hide:
                return unknown_mask("it masks scores both by a number and by a bias")
            elif refusal := self._fill(part, steps[index:]):
                return refusal
        return None

    def _fill(self, part: Part, inner: Sequence[_Step]) -> Refusal | None:
        numbers = {_number_in(other) for other in (part, *self.parts.filled)}
        if max(numbers) > FAR and any(step.kind == "add" for step in inner):
            return unknown_mask("its bias may reach the number that replaces scores")
        if len(numbers) > 1:
            return unknown_mask("it replaces scores by several numbers")
        self.parts.filled.append(part)
        return None

    def _see(self, part: Part) -> None:
        for leaf in _conjuncts(part) if self._is_split else [part]:
            mask = self._by_position(leaf)
            if mask is None:
                self.parts.seen.append(replace(leaf, hidden=None))
            else:
                self._positions = self._positions.both(mask)

    def _add(self, part: Part, *, is_whole: bool) -> None:
        values = [part.value] if is_whole else self._left(part)
        self.parts.added += [replace(part, value=unexpanded(value)) for value in values]
        for term in () if is_whole else self._terms(part.value):
            if (seen := self._hiding_term(term, part)) is not None:
                self._see(seen)

    def _is_known(self, part: Part) -> bool:
        return all(self._by_position(leaf) is not None for leaf in _conjuncts(part))

    def _left(self, bias: Part) -> list[SSAValue]:
        """Return the terms of a bias that do not hide by position; the whole bias if none hides."""
        terms = self._terms(bias.value)
        left = [term for term in terms if self._hiding_term(term, bias) is None]
        return [bias.value] if len(left) == len(terms) else left

    def _terms(self, value: SSAValue) -> list[SSAValue]:
        add = defined_by(self._unshaped(value), coda.AddOp)
        return [*self._terms(add.lhs), *self._terms(add.rhs)] if add else [value]

    def _hiding_term(self, term: SSAValue, bias: Part) -> Part | None:
        """Return where keys are visible, for a term of a bias that hides the others by position."""
        where = defined_by(self._unshaped(term), coda.WhereOp)
        if where is None:
            return None
        is_negated = number_of(where.rhs) == 0
        shown, hidden = reversed(where.operands[1:]) if is_negated else where.operands[1:]
        number, seen = (
            number_of(hidden),
            replace(bias, value=where.condition, is_negated=is_negated),
        )
        if number_of(shown) != 0 or number is None or number * bias.factor > HIDDEN:
            return None
        is_hidden = number == -float("inf") or (self._is_certain and self._is_known(seen))
        return seen if is_hidden else None

    def _unshaped(self, value: SSAValue) -> SSAValue:
        """Return `value` before it was converted, broadcast or given leading extents of 1."""
        value = unexpanded(unconverted(value))
        while (view := defined_by(value, coda.ReshapeOp)) is not None:
            dims = self._known.shapes.dims(view.x)
            if self._known.shapes.dims(value) != (1,) * (len(shape_of(value)) - len(dims)) + dims:
                break
            value = unexpanded(unconverted(view.x))
        return value

    def _by_position(self, leaf: Part) -> Mask | None:
        mask = self._known.spread(leaf.value, max(4, len(shape_of(leaf.value))))
        if not self._is_split or not isinstance(mask, Mask):
            return None
        return mask.negated() if leaf.is_negated else mask

    def hiding(self, queries: Dim, keys: Dim) -> Hiding | Refusal:
        """Return the mask by positions, for queries aligned with the last keys."""
        if not self._positions.conditions and not self._positions.never:
            return Hiding()
        before = _difference(keys, queries)
        if before is None or before < 0:
            return OTHER_ROWS
        bounds = None if self._positions.never else _bounds(self._positions, single=queries == 1)
        if bounds is None:
            return unknown_mask("its mask does not depend on distances alone")
        ahead, behind = bounds[0] - before, bounds[1] + before
        if ahead == 0 and behind >= 0:
            return Hiding(True, None if behind == float("inf") else int(behind) + 1)
        if ahead == behind and ahead >= 0:
            return Hiding(False, int(ahead) + 1)
        return OTHER_ROWS


def _bounds(mask: Mask, *, single: bool) -> tuple[float, float] | None:
    """Return the distance from a query to the last key that it sees, ahead and behind.

    The conditions are i + ahead >= j and j + behind >= i; None for others. With a `single` query, i
    is 0 and in no condition.
    """
    ahead = behind = float("inf")
    for condition in mask.conditions:
        *others, query, key = condition.coefficients
        if any(others) or (query != -key and not (single and query == 0)):
            return None
        if key == -1:
            ahead = min(ahead, condition.constant)
        elif key == 1:
            behind = min(behind, condition.constant)
        else:
            return None
    return ahead, behind


def _difference(a: Dim, b: Dim) -> int | None:
    if isinstance(a, int) and isinstance(b, int):
        return a - b
    return 0 if a == b else None


# Values


def unexpanded(value: SSAValue) -> SSAValue:
    """Return `value` before it was broadcast."""
    return before(value, Operation, repeats)


def _number_in(part: Part) -> float:
    """Return the number that replaces scores."""
    number = None if part.hidden is None else number_of(part.hidden)
    return 0.0 if number is None else number * part.factor


def _conjuncts(part: Part) -> Iterator[Part]:
    """Yield the truth values whose conjunction (or that of their negations) `part` states."""
    value, is_negated = unexpanded(part.value), part.is_negated
    if negation := defined_by(value, coda.LogicalNotOp):
        yield from _conjuncts(replace(part, value=negation.operand, is_negated=not is_negated))
    elif joined := defined_by(value, coda.LogicalOrOp if is_negated else coda.LogicalAndOp):
        for operand in joined.operands:
            yield from _conjuncts(replace(part, value=operand))
    elif (truth := _where_hidden(value)) is not None:
        yield from _conjuncts(replace(part, value=truth, is_negated=not is_negated))
    else:
        yield replace(part, value=value)


def _where_hidden(value: SSAValue) -> SSAValue | None:
    """Return the truth values of an additive mask, where `value` is nonzero."""
    cast = defined_by(value, coda.CastOp)
    if cast is None or element_type_of(value) != i1:
        return None
    where = defined_by(unexpanded(cast.operand), coda.WhereOp)
    hides = where is not None and number_of(where.lhs) == 0 and number_of(where.rhs)
    return where.condition if where is not None and hides else None


def _may_hide(bias: SSAValue) -> bool:
    """Return whether a bias may contain large numbers: it has some, or depends on an argument."""

    def values_in(value: SSAValue) -> Sequence[SSAValue]:
        op, operands = value.owner, () if coda.is_of_extents(value) else operands_of(value)
        return operands[:1] if repeats(op) else operands

    def is_large(value: SSAValue) -> bool:
        number = number_of(value)
        if number is not None and not abs(number) < -HIDDEN:
            return True
        return isinstance(value, BlockArgument) and not is_weight(value)

    return any(map(is_large, reached([bias], values_in)))
