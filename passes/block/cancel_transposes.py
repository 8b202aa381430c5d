"""Pass `cancel-transposes`: remove pairs of transposes that cancel around pointwise code."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod

from xdsl.dialects.builtin import DYNAMIC_INDEX, IntegerAttr, i64
from xdsl.ir import Operation, SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import element_bytes, shape_of
from coda_ir.passes.support.function_pass import FunctionPass, FunctionRewriter, OpInserter, Refusal
from coda_ir.passes.support.permuted import Order, inverse, permuted_values

NOT_FEWER = Refusal(
    "moving the transpose before the code of its operand leaves fewer bytes to transpose",
    "the transpose remains: other operands and results of that code, with as many bytes, would be "
    "transposed instead",
)

MAX_OPERATORS = 256
"""Operators of the longest code that moves: steps that are unrolled have the code of all before."""

TOO_LONG = Refusal(
    f"the code of its operand has at most {MAX_OPERATORS} operators",
    "the transpose remains: that code is longer",
)


class CancelTransposesPass(FunctionPass):
    """Moves transposes in front of the code that computes their operand, where they cancel other
    transposes.

        %h = coda.transpose %x : (B x T x heads x D) to (B x heads x T x D)
        %m = coda.mul %h, %s : (B x heads x T x D), (1 x heads x 1 x D)
        %y = coda.transpose %m : (B x heads x T x D) to (B x T x heads x D)
    ->
        %r = coda.reshape %s : (1 x heads x 1 x D) to (heads x D)
        %y = coda.mul %x, %r

    The code may consist of elementwise operators, slices and concatenations, and where the last
    dimension stays the last one, of norms and reductions of it. Heads then remain the columns that
    a GEMM stores and attention reads. Worth it iff fewer bytes are transposed, counting operands
    that must be transposed instead and results that others read. Long code is not rewritten,
    because analyzing it for each transpose takes too long. With `last=false`, what is refused is
    left to a later run, without remarks.
    """

    last: bool = True

    def run_on_function(self, rewriter: FunctionRewriter) -> None:
        orders = permuted_values(rewriter.ops)
        for op in rewriter.ops_of(coda.TransposeOp):
            if op.parent is None or isinstance(op.x.owner, coda.TransposeOp):
                continue
            if orders.get(op.x) == inverse(op.permutation):
                code = _Code.before(op, orders, rewriter)
                refusal = code.refusal
                if refusal is None:
                    rewriter.passed(
                        op, "moves before the code of its operand, and cancels transposes there"
                    )
                    code.move()
                elif self.last:
                    rewriter.missed(op, refusal)


@dataclass
class _Code:
    """Operators on values in another order of dimensions."""

    order: Order
    """The permutation that leads to the order of the values."""
    back: Order
    """Its inverse."""
    rewriter: FunctionRewriter
    ops: dict[Operation, None] = field(default_factory=dict[Operation, None])
    """In order."""
    moved: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])
    """The value before the permutation, by the permuted value."""

    @staticmethod
    def before(
        last: coda.TransposeOp, orders: dict[SSAValue, Order], rewriter: FunctionRewriter
    ) -> _Code:
        """Return the code that leads from permuted tensors to the operand of `last`."""
        code = _Code(inverse(last.permutation), last.permutation, rewriter)
        pending, found = [last.x], set[Operation]()
        while pending and len(found) <= MAX_OPERATORS:
            value = pending.pop()
            op = value.owner
            if orders.get(value) != code.order or not isinstance(op, Operation):
                continue
            if op not in found and not isinstance(op, coda.TransposeOp):
                found.add(op)
                pending += op.operands
        code.ops = dict.fromkeys(sorted(found, key=rewriter.order.position))
        return code

    @property
    def refusal(self) -> Refusal | None:
        if len(self.ops) > MAX_OPERATORS:
            return TOO_LONG
        return None if self._is_worth_it() else NOT_FEWER

    def _is_worth_it(self) -> bool:
        """Return whether fewer bytes are transposed after the move."""
        inner = [op.results[0] for op in self.ops]
        outer = {value for op in self.ops for value in op.operands} - set(inner)
        cancelled = [v for v in outer if self._is_transposed(v)]
        saved = [v for v in cancelled if not self._readers(v)]
        saved += [v for v in inner if any(map(self._undoes, self._readers(v)))]
        added = [v for v in outer if v not in cancelled and not self._is_view(v)]
        added += [v for v in inner if not all(map(_is_transpose, self._readers(v)))]
        return sum(map(_bytes, added)) < sum(map(_bytes, saved))

    def move(self) -> None:
        """Compute before the permutation; other readers transpose the results."""
        for op in self.ops:
            insert, (result,) = self.rewriter.before(op), op.results
            value = self.moved[result] = self._again(op, insert)
            for reader in filter(self._undoes, self._readers(result)):
                self.rewriter.replace(reader, value)
            if self._readers(result):
                transposed = insert.insert(coda.TransposeOp(value, self.order), result.name_hint)
                result.replace_uses_with_if(transposed, lambda use: use.operation not in self.ops)
        for op in reversed(self.ops):
            self.rewriter.order.erase(op)

    def _readers(self, value: SSAValue) -> list[Operation]:
        """Return what reads `value`, other than the code."""
        return [use.operation for use in value.uses if use.operation not in self.ops]

    def _undoes(self, reader: Operation) -> bool:
        return isinstance(reader, coda.TransposeOp) and reader.permutation == self.back

    def _is_transposed(self, value: SSAValue) -> bool:
        return isinstance(value.owner, coda.TransposeOp) and value.owner.permutation == self.order

    def _again(self, op: Operation, insert: OpInserter) -> SSAValue:
        """Return the result of `op` before the permutation."""
        shape = [shape_of(op.results[0])[axis] for axis in self.back]
        value = insert.again(op, [self._before(v, insert) for v in op.operands], shape)
        if isinstance(value.owner, coda.SliceOp | coda.ConcatOp):
            value.owner.dim = IntegerAttr(self.order[value.owner.dim.value.data], i64)
        return value

    def _before(self, value: SSAValue, insert: OpInserter) -> SSAValue:
        if value not in self.moved:
            self.moved[value] = self._transposed_back(value, insert)
        return self.moved[value]

    def _transposed_back(self, value: SSAValue, insert: OpInserter) -> SSAValue:
        """Return an operand of the code before the permutation."""
        if isinstance(value.owner, coda.TransposeOp) and self._is_transposed(value):
            return value.owner.x
        if prod(shape_of(value)) == 1:
            return value
        dims = self.rewriter.shapes.dims(value)
        whole = (*(1,) * (len(self.order) - len(dims)), *dims)
        if not self._is_view(value):
            return insert.insert(coda.TransposeOp(insert.reshape(value, whole), self.back))
        transposed = [whole[axis] for axis in self.back]
        while transposed and transposed[0] == 1:
            del transposed[0]
        return insert.reshape(value, transposed)

    def _is_view(self, value: SSAValue) -> bool:
        """Return whether the dimensions of `value` other than 1 keep their order."""
        first = len(self.order) - len(shape_of(value))
        long = {axis + first for axis, extent in enumerate(shape_of(value)) if extent != 1}
        kept = [axis for axis in self.back if axis in long]
        return kept == sorted(kept)


def _is_transpose(op: Operation) -> bool:
    return isinstance(op, coda.TransposeOp)


def _bytes(value: SSAValue) -> int:
    """Return the bytes of a value, for each element of its dynamic dimensions."""
    return prod(n for n in shape_of(value) if n != DYNAMIC_INDEX) * element_bytes(value.type)
