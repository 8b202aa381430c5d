"""The part of a function that computes logits, their gradient, and sums over both."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from xdsl.dialects.builtin import DYNAMIC_INDEX
from xdsl.ir import Block, Operation, SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import computes_in_float32, element_type_of, shape_of
from coda_ir.dialects.gemm.scalar_code import is_pointwise
from coda_ir.dominance import backward_slice
from coda_ir.passes.support.function_pass import Refusal
from coda_ir.passes.support.legality import name_of, reader_name
from coda_ir.passes.support.order import BlockOrder

Sink: TypeAlias = coda.MatmulOp | coda.WeightGradientOp | coda.SumToOp | coda.ReduceOp


@dataclass(frozen=True)
class LogitStream:
    """The code that computes the columns of logits and of their gradient, and its sinks.

    `ops` are computed column by column: linear maps, pointwise operators and `gradient`, in order.
    `sinks` read the gradient by rows or by columns, and nothing of M x V leaves them.
    """

    gradient: coda.CrossEntropyGradOp
    ops: Sequence[Operation]
    sinks: Sequence[Sink]
    tiles: frozenset[SSAValue]
    """The values of M x V: the results of `ops`."""

    @property
    def columns(self) -> int:
        return shape_of(self.gradient.logits)[-1]

    @property
    def last(self) -> Operation:
        """The last of the operators; all their operands precede it."""
        return self.sinks[-1]

    def is_repeated(self, value: SSAValue) -> bool:
        """Return whether `value`, an operand that is no tile, has an element for each column."""
        shape = shape_of(value)
        return len(shape) > 0 and shape[-1] == self.columns and self.columns != 1


def find_logit_stream(
    gradient: coda.CrossEntropyGradOp, order: BlockOrder
) -> LogitStream | Refusal:
    """Find the stream around the gradient of a loss.

    Legal iff the logits are linear maps and pointwise code on them, with a static number of columns
    and in types that float32 holds; what reads the logits or their gradient is a loss, a logsumexp,
    pointwise code, a product with them as rows, or a sum; and no column needs such a sum.
    """
    search = _Search(gradient)
    refusal = _check_types(gradient) or search.collect() or search.check_uses()
    if refusal is not None:
        return refusal
    ops = sorted(search.ops, key=order.position)
    sinks = sorted(search.sinks, key=order.position)
    stream = LogitStream(gradient, ops, sinks, frozenset(search.tiles))
    return _check_order(stream) or stream


def _check_types(gradient: coda.CrossEntropyGradOp) -> Refusal | None:
    logits = gradient.logits
    if shape_of(logits)[-1] == DYNAMIC_INDEX:
        return Refusal(
            "the number of columns is static",
            f"{name_of(logits)} is stored: it has a symbolic number of columns",
            "give the size of the vocabulary as a number or a const",
        )
    if not computes_in_float32(element_type_of(logits)):
        return Refusal(
            "float32 can represent every value",
            f"{name_of(logits)} is stored: its element type is {element_type_of(logits)}",
            "use f32",
        )
    if not gradient.row_lse or gradient.start is not None or gradient.moment is not None:
        return Refusal(
            "the gradient covers whole rows whose logsumexp is known",
            f"{name_of(logits)} is stored: its rows are needed to recompute their logsumexp",
        )
    return None


class _Search:
    """Collects code that is computed column by column, from the gradient in both directions."""

    def __init__(self, gradient: coda.CrossEntropyGradOp):
        self.gradient = gradient
        self.shape = shape_of(gradient.logits)
        self.tiles: set[SSAValue] = set()
        self.ops: dict[Operation, None] = {}
        self.sinks: dict[Sink, None] = {}
        self.gradients: set[SSAValue] = set()
        """The tiles that depend on the gradient."""

    def collect(self) -> Refusal | None:
        """Find the operators; return a refusal if one of them needs more than its column."""
        pending: list[SSAValue] = [self.gradient.result]
        while pending:
            value = pending.pop()
            self.gradients.add(value)
            refusal = self._add(value.owner)
            if refusal is not None:
                return refusal
            for user in _users(value):
                if self._is_sink(user, value):
                    self.sinks[user] = None  # pyright: ignore[reportArgumentType]
                elif is_pointwise(user) and shape_of(user.results[0]) == self.shape:
                    pending.append(user.results[0])
                else:
                    return _stored(value, f"{reader_name(user)} uses it")
        if not self.sinks:
            return _stored(self.gradient.result, "nothing sums it up")
        return None

    def _add(self, owner: Operation | Block) -> Refusal | None:
        """Add the operator that computes a tile, and the tiles that it is computed from."""
        pending = [owner]
        while pending:
            op = pending.pop()
            if op in self.ops:
                continue
            if isinstance(op, Block):
                return _stored(self.gradient.logits, "an argument of its shape is needed")
            if not (op is self.gradient or isinstance(op, coda.LinearOp) or is_pointwise(op)):
                return _stored(op.results[0], f"it is computed by {op.name}")
            self.ops[op] = None
            self.tiles.add(op.results[0])
            pending += [value.owner for value in self._tile_operands(op)]
        return None

    def _tile_operands(self, op: Operation) -> Sequence[SSAValue]:
        """Return the operands that are computed column by column, if `op` is."""
        if isinstance(op, coda.LinearOp):
            return ()
        if isinstance(op, coda.CrossEntropyGradOp):
            return (op.logits,)
        return [value for value in op.operands if shape_of(value) == self.shape]

    def _is_sink(self, user: Operation, value: SSAValue) -> bool:
        match user:
            case coda.MatmulOp():
                return user.x is value
            case coda.WeightGradientOp():
                return user.dy is value
            case coda.SumToOp():
                return shape_of(user.result) == self.shape[-1:]
            case coda.ReduceOp():
                return user.kind.data == "sum"
            case _:
                return False

    def check_uses(self) -> Refusal | None:
        """Return a refusal if a use of the logits or their gradient needs all columns at once."""
        for sink in self.sinks:
            if any(value in self.tiles for value in sink.operands[1:]):
                return _stored(sink.operands[1], f"{sink.name} multiplies with it")
        tiles = [op.results[0] for op in self.ops if op.results[0] not in self.gradients]
        for value in tiles:
            for user in _users(value):
                if user in self.ops or isinstance(user, coda.CrossEntropyOp):
                    continue
                if not (isinstance(user, coda.ReduceOp) and user.kind.data == "lse"):
                    return _stored(value, f"{reader_name(user)} uses it")
        return None


def _users(value: SSAValue) -> Iterable[Operation]:
    return dict.fromkeys(use.operation for use in value.uses)


def _stored(value: SSAValue, why: str) -> Refusal:
    return Refusal(
        "logits and their gradient are used column by column, or summed",
        f"{name_of(value)} is stored: {why}",
        "use the logits only for the loss",
    )


def _check_order(stream: LogitStream) -> Refusal | None:
    """Check that no column needs a sum over all of them."""
    operands = {v for op in (*stream.ops, *stream.sinks) for v in op.operands}
    needed = backward_slice(operands - stream.tiles)
    for sink in stream.sinks:
        if sink in needed:
            return _stored(sink.operands[0], f"its columns need the result of {sink.name}")
    return None
