"""Pass `stream-logits`: compute the gradient of a loss without storing logits or gradients."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from xdsl.dialects.builtin import TensorType, f32
from xdsl.ir import Operation, SSAValue

from coda_ir.diagnostics import OptionError
from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import element_type_of, shape_of
from coda_ir.passes.gradient.logit_stream import LogitStream, Sink, find_logit_stream
from coda_ir.passes.support.function_pass import FunctionPass, FunctionRewriter, OpInserter

TILE_COLUMNS = 128
"""Parts that are wider than this consist of whole tiles of a GEMM."""


class StreamLogitsPass(FunctionPass):
    """Processes the vocabulary in parts, one after the other, in the backward of a language-model
    head.

        %z  = coda.linear %h, %W                       for each part W' of the rows of W:
        %dz = coda.cross_entropy_grad %z, ..., %lse      %z  = coda.linear %h, %W'
        %dh = coda.matmul %dz, %W               ->       %dz = coda.cross_entropy_grad %z, ...
        %dW = coda.weight_gradient %dz, %h               %dh = (%dh +) coda.matmul %dz, %W'
                                                         the rows of %dW from %dz and %h

    The backward recomputes the logits, which costs one more GEMM of M x V x K. `coda.barrier`
    prevents a part from starting before the previous one is done. Of M x V elements, only V /
    `chunks` columns of the gradient are in memory at a time. The sum over the parts is accumulated
    in float32 and rounded once. The gradients of W and of a bias are stored next to each other.
    Parts of more than 128 columns have a multiple of 128 columns, except the last.

    The pass is meant for joint functions, before `save-or-recompute`; the forward saves the
    logsumexp of each row. Pointwise code between the linear map and the loss (a softcap, a scale)
    and the row sums of `move-norm-gradient-sums` are also computed part by part. Legal iff the
    logits have no other use and V is static; see `find_logit_stream`.
    """

    chunks: int = 8

    def check_options(self) -> None:
        if self.chunks < 1:
            raise OptionError(
                f"stream-logits: chunks is {self.chunks}, expected at least 1",
                "state into how many parts to split the vocabulary",
            )

    def run_on_function(self, rewriter: FunctionRewriter) -> None:
        for op in rewriter.ops_of(coda.CrossEntropyGradOp):
            stream = rewriter.allowed(op, find_logit_stream(op, rewriter.order))
            if stream is not None:
                parts = split_columns(stream.columns, self.chunks)
                rewriter.passed(op, _described(stream, parts))
                _Rewrite(stream, rewriter).run(parts)


def split_columns(columns: int, chunks: int) -> list[tuple[int, int]]:
    """Return at most `chunks` ranges of columns of equal widths; the last may be narrower."""
    width = -(-columns // chunks)
    if width > TILE_COLUMNS:
        width = -(-width // TILE_COLUMNS) * TILE_COLUMNS
    return [(start, min(start + width, columns)) for start in range(0, columns, width)]


def _described(stream: LogitStream, parts: Sequence[tuple[int, int]]) -> str:
    widest = parts[0][1] - parts[0][0]
    return (
        f"the {stream.columns} columns of the logits are recomputed in {len(parts)} parts of "
        f"at most {widest}"
    )


@dataclass
class _Rewrite:
    """Replaces a stream by its parts."""

    stream: LogitStream
    rewriter: FunctionRewriter
    totals: dict[Sink, list[SSAValue]] = field(default_factory=dict[Sink, list[SSAValue]])
    """Results of each sink so far: a running sum, or the parts that will lie side by side."""

    def run(self, parts: Sequence[tuple[int, int]]) -> None:
        stream, order = self.stream, self.rewriter.order
        for sink in stream.sinks:
            order.sink_users(sink, stream.last)
        self._forget_storage()
        before = [stream.gradient.dloss]
        for part in parts:
            before = _Part(self, part, before).compute()
        for sink in stream.sinks:
            self._finish(sink)
        for op in reversed(stream.ops):
            if not any(result.uses for result in op.results):
                order.erase(op)

    def _forget_storage(self) -> None:
        """Leave logits unrounded: the gradient reads the accumulators of its own parts."""
        for op in self.stream.ops:
            if isinstance(op, coda.StoredOp):
                op.result.replace_all_uses_with(op.operand)

    def inserter(self, op: Operation) -> OpInserter:
        """Return an inserter before the end of the stream, with the location of `op`."""
        return self.rewriter.before(self.stream.last, op.location)

    def _finish(self, sink: Sink) -> None:
        """Replace a sink by the combined results of its parts."""
        insert, values = self.inserter(sink), self.totals[sink]
        value = values[0]
        if len(values) > 1:
            value = insert.insert(coda.ConcatOp(values, 0))
        self.rewriter.replace(sink, insert.cast(value, element_type_of(sink.result)))


@dataclass
class _Part:
    """One range of columns."""

    rewrite: _Rewrite
    range: tuple[int, int]
    before: Sequence[SSAValue]
    """Values that have to be computed before this part starts."""
    values: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])
    inputs: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])
    """The inputs of linear maps, which are there only then."""

    def compute(self) -> list[SSAValue]:
        """Compute the part; return the values that must exist before the next one starts."""
        for op in self.rewrite.stream.ops:
            if any(result.uses for result in op.results):
                self.values[op.results[0]] = self._insert(op, self._part_of(op))
        return [self._add(sink) for sink in self.rewrite.stream.sinks]

    def _insert(self, op: Operation, new: Operation) -> SSAValue:
        return self.rewrite.inserter(op).insert(new, op.results[0].name_hint)

    def _part_of(self, op: Operation) -> Operation:
        """Return `op` on this part of its columns."""
        match op:
            case coda.LinearOp():
                x = self._later(op)
                bias = None if op.bias is None else self._slice(op, op.bias, 0)
                weight, stored = self._slice(op, op.weight, 0), element_type_of(op.result)
                return coda.LinearOp(x, weight, bias, element_type=stored)
            case coda.CrossEntropyGradOp():
                operands = (self.values[op.logits], op.target, op.dloss, op.row_lse)
                return coda.CrossEntropyGradOp(*operands, **{**op.given, "start": self.range[0]})
            case _:
                (result,) = op.results
                shape = (*shape_of(result)[:-1], self.range[1] - self.range[0])
                return type(op).create(
                    operands=[self._operand(op, value) for value in op.operands],
                    result_types=[TensorType(element_type_of(result), shape)],
                    properties=op.properties.copy(),
                )

    def _later(self, op: coda.LinearOp) -> SSAValue:
        """Return the input of a linear layer, available once the previous part is done."""
        if op.x not in self.inputs:
            barrier = coda.BarrierOp(op.x, self.before)
            self.inputs[op.x] = self._insert_named(barrier, op, op.x)
        return self.inputs[op.x]

    def _operand(self, op: Operation, value: SSAValue) -> SSAValue:
        if value in self.values:
            return self.values[value]
        if self.rewrite.stream.is_repeated(value):
            return self._slice(op, value, len(shape_of(value)) - 1)
        return value

    def _slice(self, op: Operation, value: SSAValue, dim: int) -> SSAValue:
        """Return this part of the columns, which are dimension `dim` of `value`."""
        start, stop = self.range
        if stop - start == self.rewrite.stream.columns:
            return value
        return self._insert_named(coda.SliceOp(value, dim, start, stop), op, value)

    def _insert_named(self, new: Operation, op: Operation, value: SSAValue) -> SSAValue:
        return self.rewrite.inserter(op).insert(new, value.name_hint)

    def _add(self, sink: Sink) -> SSAValue:
        """Return the result of `sink` combined with the previous parts, or a part of it."""
        totals = self.rewrite.totals.setdefault(sink, [])
        match sink:
            case coda.MatmulOp():
                x, weight = self.values[sink.x], self._slice(sink, sink.weight, 0)
                value = self._insert(sink, coda.MatmulOp(x, weight, element_type=f32))
            case coda.ReduceOp():
                value = self._insert(sink, coda.ReduceOp(self.values[sink.x], "sum", f32))
            case coda.WeightGradientOp() | coda.SumToOp():
                totals.append(self._insert(sink, self._side_by_side(sink)))
                return totals[-1]
        if totals:
            value = self._insert(sink, coda.AddOp(totals[0], value))
        totals[:] = [value]
        return value

    def _side_by_side(self, sink: coda.WeightGradientOp | coda.SumToOp) -> Operation:
        """Return the part of a sum over rows, which has an element or a row for each column."""
        element_type = element_type_of(sink.result)
        if isinstance(sink, coda.WeightGradientOp):
            dy, x = self.values[sink.dy], self.inputs.get(sink.x, sink.x)
            return coda.WeightGradientOp(dy, x, element_type=element_type)
        width = (self.range[1] - self.range[0],)
        return coda.SumToOp(self.values[sink.x], width, element_type=element_type)
