"""Pass `raise-ssd`: a state-space model of heads, spelled out in chunks, becomes one operator."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from xdsl.dialects.builtin import DYNAMIC_INDEX, f32
from xdsl.ir import Operation, SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import computes_in_float32, element_type_of, is_float, shape_of
from coda_ir.dialects.torch import CallOp
from coda_ir.passes.raising.chunk_decays import ChunkDecays, Sums, replace_rows
from coda_ir.passes.raising.contraction import Contraction, Factor, Label, Labels, is_summed
from coda_ir.passes.support.function_pass import FunctionPass, FunctionRewriter, Refusal
from coda_ir.passes.support.index_values import IndexValues
from coda_ir.passes.support.matching import (
    defined_by,
    first_place,
    number_of,
    operand_pairs,
    unwidened,
)

EXPAND = "aten.expand.default"

WITHIN = Refusal(
    "within a chunk, rows of c and b are multiplied, decay, and are multiplied with dt · x",
    "sums over rows of chunks have other factors",
)
BETWEEN = Refusal(
    "the contributions of chunks to the states decay from chunk to chunk, and rows of c read them",
    "the states are computed or read differently",
)
TYPES = Refusal(
    "x, b and c have one element type of at most 32 bits, which dt "
    "and a share unless they are f32, with at most "
    f"{coda.MAX_STATES} states and {coda.MAX_HEAD_COLUMNS} columns of a head",
    "different element types, or too many states or columns",
)
ROWS = Refusal(
    "rows that pad the last chunk are cut off after pointwise code", "other operators read them"
)

STATES = Refusal(
    "operands are computed before the final states are read, and initial states are f32",
    "an operand is computed later, or the states have another type",
)

BATCH, CHUNK, LATER, ROW, HEAD, COLUMN = "batch", "chunk", "later", "row", "head", "column"


class RaiseSSDPass(FunctionPass):
    """Turns products within chunks, added to those with the states before them, into `coda.ssd`.

        %g = coda.sum_to (coda.mul %c, %b)
        %w = coda.mul %g, (coda.exp %sums)                 (segment sums of dt · a)
        %inner = coda.sum_to (coda.mul %w, %dtx)                 ->  %y = coda.ssd %x, %dt,
        %h = ...                                                        %a, %b, %c {states = N}
        %outer = coda.mul (coda.sum_to (coda.mul %c, %h)), (coda.exp %cumsum)
        %y = coda.add %inner, %outer : B x chunks x rows x H x P

    The order of the products, transposes and reshapes do not matter, nor do zeros that pad the last
    chunk. Initial states, in place of the zeros before the first chunk, become an operand; final
    states become a result if they are read. Legal iff both are sums of products of the same
    tensors, with the decays that the recurrence has, and the extents are known.
    """

    def run_on_function(self, rewriter: FunctionRewriter) -> None:
        known = IndexValues(rewriter.shapes)
        for op in rewriter.ops:
            if not isinstance(op, coda.AddOp) or not op.result.uses.get_length():
                continue
            if _could_be(op.result):
                refusal = _Model(op, rewriter, known).raised()
                if refusal is not None:
                    rewriter.missed(op, refusal)


def _could_be(value: SSAValue) -> bool:
    """Return whether `value` is a sum with five dimensions of a reduction and a product."""
    op = defined_by(value, coda.AddOp)
    shape = shape_of(value)
    if op is None or len(shape) != 5 or DYNAMIC_INDEX in shape:
        return False
    return any(
        isinstance(_sum_of(a), coda.SumToOp | coda.ReduceOp) and isinstance(b.owner, coda.MulOp)
        for a, b in operand_pairs(op)
    )


def _sum_of(value: SSAValue) -> object:
    reshape = defined_by(value, coda.ReshapeOp)
    return (value if reshape is None else reshape.x).owner


@dataclass(frozen=True)
class _Found:
    """The tensors of the model, with the labels of rows that write states and of states."""

    x: Factor
    dt: Factor
    a: Factor
    b: Factor
    c: Factor
    key: Label
    state: Label


class _Model:
    """A sum of the contributions of chunks and states while the operators around it are being
    matched.
    """

    def __init__(self, op: coda.AddOp, rewriter: FunctionRewriter, known: IndexValues):
        self.op, self.rewriter = op, rewriter
        self.view = Contraction({})
        self.decays = ChunkDecays(self.view, known)
        labels = self.view.named(op.result, BATCH, CHUNK, ROW, HEAD, COLUMN)
        assert labels is not None, "five known extents"
        self.labels: Labels = labels
        self.first: SSAValue | None = None
        self.last: list[coda.SliceOp] = []

    def raised(self) -> Refusal | None:
        """Replace the operators; return the reason if that is not legal."""
        for inner, outer in operand_pairs(self.op):
            found = self._within(self.view.factors(inner, self.labels))
            if found is not None:
                reads = self._reads_states(self.view.factors(outer, self.labels), found)
                return self._replaced(found) if reads else BETWEEN
        return WITHIN

    # Within a chunk

    def _within(self, factors: Sequence[Factor]) -> _Found | None:
        """Match the sum over rows of the chunk, and over states."""
        exp, others = _split(factors)
        summed = _summed(factors)
        if exp is None or len(others) != 4 or len(summed) != 2:
            return None
        for key in summed:
            (state,) = summed - {key}
            parts = self._parts(others, key, state)
            sums = self.decays.between(exp, ROW, key)
            if parts is not None and sums is not None:
                c, b, x, dt = parts
                a = self._rate(sums, dt, key)
                return None if a is None else _Found(x, dt, a, b, c, key, state)
        return None

    def _parts(
        self, factors: Sequence[Factor], key: Label, state: Label
    ) -> tuple[Factor, Factor, Factor, Factor] | None:
        """Return c, b, x and dt by their dimensions, which are in order."""
        wanted = (
            (BATCH, CHUNK, ROW, HEAD, state),
            (BATCH, CHUNK, key, HEAD, state),
            (BATCH, CHUNK, key, HEAD, COLUMN),
            (BATCH, CHUNK, key, HEAD),
        )
        found: list[Factor] = []
        for names in wanted:
            visible = [name for name in names if self.view.extents[name] != 1]
            alike = [factor for factor in factors if factor.in_order == visible]
            if len(alike) != 1:
                return None
            found += alike
        c, b, x, dt = found
        return c, b, x, dt

    def _rate(self, sums: Sums, dt: Factor, key: Label) -> Factor | None:
        """Return a, if the decays sum dt · a."""
        factors = self.view.factors(sums.terms, sums.labels)
        times = dt.renamed({key: ROW})
        rates = [factor for factor in factors if factor != times]
        if len(factors) != 2 or len(rates) != 1:
            return None
        (rate,) = rates
        return rate if len(rate.labels) == 1 and rate.names <= {HEAD} else None

    # Between chunks

    def _reads_states(self, factors: Sequence[Factor], found: _Found) -> bool:
        """Return whether c reads the states before the chunk, decayed until the row."""
        exp, others = _split(factors)
        summed = _summed(factors)
        if exp is None or len(others) != 2 or len(summed) != 1:
            return False
        (state,) = summed
        read = found.c.renamed({found.state: state})
        states = [factor for factor in others if factor != read]
        sums = self.decays.until(exp, ROW)
        if sums is None or len(states) != 1 or not self._is_of_model(sums, found, ROW):
            return False
        return self._carries(states[0], state, found)

    def _is_of_model(self, sums: Sums, found: _Found, row: Label) -> bool:
        """Return whether sums are those of dt · a of rows."""
        factors = self.view.factors(sums.terms, sums.labels)
        times = found.dt.renamed({found.key: row})
        return len(factors) == 2 and times in factors and found.a in factors

    def _carries(self, states: Factor, state: Label, found: _Found) -> bool:
        """Return whether states are those before each chunk."""
        cut, chunks = defined_by(states.value, coda.SliceOp), self.view.extents[CHUNK]
        names = (BATCH, CHUNK, HEAD, COLUMN, state)
        if states.labels != self.view.named(states.value, *names) or cut is None:
            return False
        if cut.range != (1, 0, chunks) or shape_of(cut.x)[1] != chunks + 1:
            return False
        labels = self.view.named(cut.x, BATCH, LATER, HEAD, COLUMN, state)
        factors = [] if labels is None else self.view.factors(cut.x, labels)
        exp, others = _split(factors)
        earlier = _summed(factors) - {state}
        if exp is None or len(others) != 1 or len(earlier) != 1:
            return False
        before = earlier.pop()
        sums = self.decays.between(exp, LATER, before)
        last = None if sums is None else self.decays.last_of_chunks(sums, CHUNK, ROW)
        if last is None or not self._is_of_model(last, found, ROW):
            return False
        added = self._added(others[0], before, state)
        if added is None or not self._is_added(added, state, found):
            return False
        users = [use.operation for use in cut.x.uses]
        behind = (1, chunks, chunks + 1)
        self.last = [u for u in users if isinstance(u, coda.SliceOp) and u.range == behind]
        return True

    def _added(self, joined: Factor, before: Label, state: Label) -> Factor | None:
        """Return the states that chunks add, after the first ones."""
        op = defined_by(joined.value, coda.ConcatOp)
        if op is None or op.dim.value.data != 1 or len(op.parts) != 2:
            return None
        if joined.labels != self.view.named(op.result, BATCH, before, HEAD, COLUMN, state):
            return None
        first, rest = op.parts
        if shape_of(first)[1] != 1:
            return None
        zeros = defined_by(first, coda.BroadcastOp)
        is_zero = zeros is not None and number_of(zeros.operands[0]) == 0
        self.first = None if is_zero else first
        labels = self.view.named(rest, BATCH, CHUNK, HEAD, COLUMN, state)
        return None if labels is None else Factor(rest, labels)

    def _is_added(self, added: Factor, state: Label, found: _Found) -> bool:
        """Return whether chunks add the states that their rows write, decayed until the end of the
        chunk.
        """
        factors = self.view.factors(added.value, added.labels)
        exp, others = _split(factors)
        keys = _summed(factors) - {state}
        if exp is None or len(others) != 3 or len(keys) != 1:
            return False
        key = keys.pop()
        names = {found.key: key, found.state: state}
        wanted = [part.renamed(names) for part in (found.b, found.x, found.dt)]
        sums = self.decays.to_end(exp, key)
        is_written = all(part in others for part in wanted)
        return is_written and sums is not None and self._is_of_model(sums, found, key)

    # The operator

    def _replaced(self, found: _Found) -> Refusal | None:
        extents = self.view.extents
        batch, heads, columns = (extents[name] for name in (BATCH, HEAD, COLUMN))
        states, length = extents[found.state], shape_of(found.dt.value)[1:2]
        (b, groups), (c, same) = (_shared(part.value, heads) for part in (found.b, found.c))
        values = (found.x.value, found.dt.value, found.a.value, b, c)
        if not length or groups != same or not _fits(values, states, columns):
            return TYPES
        rows = (batch, *length)
        read = (*rows, groups * states)
        shapes = ((*rows, heads * columns), (*rows, heads), (heads,), read, read)
        if any(prod(shape_of(v)) != prod(s) for v, s in zip(values, shapes, strict=True)):
            return TYPES
        if self.first is not None:
            values = (*values, self.first)
            shapes = (*shapes, (batch, heads, columns, states))
        place = self._place(values)
        if place is None:
            return STATES
        replace = replace_rows(self.op.result, length[0], self.rewriter)
        if replace is None:
            return ROWS
        self.rewriter.passed(self.op, "raised to coda.ssd")
        insert = self.rewriter.before(place, self.op.location)
        operands = [
            value if shape_of(value) == shape else insert.insert(coda.ReshapeOp(value, shape))
            for value, shape in zip(values, shapes, strict=True)
        ]
        type, is_read = element_type_of(self.op.result), bool(self.last)
        model = coda.SSDOp(*operands, states=states, final=is_read, element_type=type)
        y = insert.insert(model, self.op.result.name_hint)
        for cut in self.last:
            assert model.final is not None, "it was asked for"
            last = insert.insert(coda.ReshapeOp(model.final, shape_of(cut.result)))
            cut.result.replace_all_uses_with(last)
        replace(insert.insert(coda.ReshapeOp(y, (*rows, heads, columns)), y.name_hint))
        return None

    def _place(self, values: Sequence[SSAValue]) -> Operation | None:
        """Return where the operator can be inserted: before the first use of the states after the
        last position. None if an operand is computed later, or initial states are not f32.
        """
        if self.first is not None and element_type_of(self.first) != f32:
            return None
        return first_place([*self.last, self.op], values)


def _split(factors: Sequence[Factor]) -> tuple[Factor | None, list[Factor]]:
    """Return the only exponential of a product, if there is one, and the other factors."""
    exps = [factor for factor in factors if isinstance(factor.value.owner, coda.ExpOp)]
    others = [factor for factor in factors if factor not in exps]
    return (exps[0] if len(exps) == 1 else None), others


def _summed(factors: Sequence[Factor]) -> set[Label]:
    """Return the labels over which a product is summed."""
    return {name for factor in factors for name in factor.names if is_summed(name)}


def _shared(value: SSAValue, heads: int) -> tuple[SSAValue, int]:
    """Return the rows of head groups before they are repeated for each head, and the number of
    groups.
    """
    reshape = defined_by(value, coda.ReshapeOp)
    call = (value if reshape is None else reshape.x).owner
    if isinstance(call, CallOp) and call.callee.data == EXPAND:
        before, after = shape_of(call.inputs[0]), shape_of(call.outputs[0])
        is_repeated = before == (*after[:3], 1, *after[4:])
        if len(after) == 5 and is_repeated and after[2] * after[3] == heads:
            return _narrow(call.inputs[0]), after[2]
    return value, heads


def _narrow(value: SSAValue) -> SSAValue:
    """Return `value` before reshapes and exact conversions."""
    while True:
        value = unwidened(value)
        if not isinstance(value.owner, coda.ReshapeOp):
            return value
        value = value.owner.x


def _fits(values: Sequence[SSAValue], states: int, columns: int) -> bool:
    """Return whether the operator accepts x, dt, a, b and c of these types and extents."""
    type, dt, a, *read = map(element_type_of, values)
    is_small = states <= coda.MAX_STATES and columns <= coda.MAX_HEAD_COLUMNS
    is_narrow = is_float(type) and computes_in_float32(type)
    return is_small and is_narrow and set(read) == {type} and {dt, a} <= {type, f32}
