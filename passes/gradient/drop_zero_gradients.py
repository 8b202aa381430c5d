"""Pass `drop-zero-gradients`: specialize a backward program for gradients that are zero."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, FunctionType, ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import Rewriter
from xdsl.traits import is_side_effect_free

from coda_ir.dialects import coda
from coda_ir.dialects.torch import CONVOLUTION_GRAD, FUSED_ATTENTION_GRAD, CallOp, VjpOp
from coda_ir.passes.support.function_pass import NamedPass
from coda_ir.passes.support.split_joint import sizes_in
from coda_ir.signatures import entry_name
from coda_ir.symbolic_shapes import SymbolicShapes

FACTORS: Mapping[type[Operation], Sequence[str]] = {
    coda.NegOp: ("operand",),
    coda.MulOp: ("lhs", "rhs"),
    coda.DivOp: ("lhs",),
    coda.CastOp: ("operand",),
    coda.ReshapeOp: ("x",),
    coda.TransposeOp: ("x",),
    coda.SliceOp: ("x",),
    coda.PadOp: ("x",),
    coda.BarrierOp: ("x",),
    coda.BroadcastOp: ("x",),
    coda.SumToOp: ("x",),
    coda.RopeOp: ("x",),
    coda.MatmulOp: ("x", "weight"),
    coda.QuantizedLinearOp: ("x", "weight"),
    coda.WeightGradientOp: ("dy", "x"),
    coda.GroupedWeightGradientOp: ("dy", "x"),
    coda.ActivationGradOp: ("dy",),
    coda.MaximumGradOp: ("dy",),
    coda.CrossEntropyGradOp: ("dloss",),
    coda.EmbeddingGradOp: ("dy",),
    coda.AttentionGradOp: ("d_out",),
    coda.SelectiveScanGradOp: ("d_y",),
    coda.SSDGradOp: ("d_y",),
    coda.DeltaRuleGradOp: ("d_y",),
}
"""The operands of which one that is zero makes every result zero."""


_CALLS = (CONVOLUTION_GRAD, FUSED_ATTENTION_GRAD)
"""Calls of PyTorch whose results are zero where their first operand is."""


class DropZeroGradientsPass(NamedPass):
    """Removes computations of the function `function` with the gradients `names`, which are zero.

        @f_backward(w, s, d_y, d_t) -> (d_x, d_w)      names=d_y      @f_backward(d_t) -> (d_x)
          %a = coda.matmul %d_y, %w                     ->
          %d_x = coda.sub %a, %d_t                                      %d_x = coda.neg %d_t
          %d_w = coda.weight_gradient %d_y, %s

    Results that are then zero are removed, and so are unused arguments, except those that alone
    determine a size. If an operator needs the gradient as a tensor of zeros, it stays an argument.
    Always legal: as in PyTorch, a missing gradient counts as zero even where it would be multiplied
    by infinity.
    """

    function: str
    names: tuple[str, ...]

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for func in op.ops:
            if isinstance(func, FuncOp) and func.sym_name.data == self.function:
                _Backward(func, set(self.names)).simplify()


@dataclass
class _Backward:
    """A backward function from which zeros are being removed."""

    func: FuncOp
    names: set[str]
    zeros: set[SSAValue] = field(default_factory=set[SSAValue])

    def simplify(self) -> None:
        block = self.func.body.block
        entries = _entries(self.func.arg_attrs, len(block.args))
        for argument, entry in zip(block.args, entries, strict=True):
            if entry_name(entry) in self.names:
                self.zeros.add(argument)
        for op in list(block.ops):
            if any(operand in self.zeros for operand in op.operands):
                self._simplify(op)
        self._drop_results()
        self._drop_unused()

    def _simplify(self, op: Operation) -> None:
        if self._is_zero(op):
            self.zeros.update(op.results)
            return
        match op:
            case coda.AddOp():
                left, right = op.lhs, op.rhs
                self._replace(op, right if left in self.zeros else left)
            case coda.SubOp() if op.rhs in self.zeros:
                self._replace(op, op.lhs)
            case coda.SubOp() if op.rhs.type == op.result.type:
                negated = coda.NegOp(op.rhs)
                negated.location = op.location
                op.parent_block().insert_op_before(negated, op)  # pyright: ignore
                self._replace(op, negated.result)
            case VjpOp():
                self._drop_outputs(op)
            case coda.BarrierOp():
                op.operands = [op.x, *(value for value in op.after if value not in self.zeros)]
            case _:
                pass

    def _is_zero(self, op: Operation) -> bool:
        if isinstance(op, coda.AddOp | coda.SubOp | coda.ConcatOp):
            return all(operand in self.zeros for operand in op.operands)
        if isinstance(op, VjpOp):
            return all(gradient in self.zeros for gradient in op.d_outputs)
        if isinstance(op, CallOp):
            return op.callee.data in _CALLS and op.inputs[0] in self.zeros
        if isinstance(op, coda.ReduceOp):
            return op.kind.data in ("sum", "mean") and op.x in self.zeros
        if isinstance(op, coda.LinearOp):
            return op.bias is None and (op.x in self.zeros or op.weight in self.zeros)
        if isinstance(op, coda.PadOp) and op.number:
            return False
        factors: Sequence[str] = FACTORS.get(type(op), ())
        return any(getattr(op, name) in self.zeros for name in factors)

    def _replace(self, op: Operation, value: SSAValue) -> None:
        """Replace the result of `op` by `value`, if they are equal without broadcasting."""
        (result,) = op.results
        if value.type == result.type:
            result.replace_all_uses_with(value)

    def _drop_outputs(self, op: VjpOp) -> None:
        pairs = zip(op.positions, op.d_outputs, strict=True)
        kept = [(place, gradient) for place, gradient in pairs if gradient not in self.zeros]
        smaller = VjpOp(
            op.callee.data,
            op.inputs,
            [gradient for _, gradient in kept],
            op.arguments.data,
            of=[place for place, _ in kept],
            wrt=op.differentiated,
        )
        smaller.location = op.location
        Rewriter.replace_op(op, smaller)

    def _drop_results(self) -> None:
        returned = self.func.body.block.last_op
        assert isinstance(returned, ReturnOp)
        entries = _entries(self.func.res_attrs, len(returned.arguments))
        kept = [
            (value, entry)
            for value, entry in zip(returned.arguments, entries, strict=True)
            if value not in self.zeros
        ]
        returned.operands = [value for value, _ in kept]
        self.func.res_attrs = ArrayAttr(entry for _, entry in kept)

    def _drop_unused(self) -> None:
        """Erase operators and arguments without uses, and update the function type."""
        block = self.func.body.block
        for op in reversed(list(block.ops)):
            unused = not any(result.uses for result in op.results)
            if unused and not isinstance(op, ReturnOp) and is_side_effect_free(op):
                block.erase_op(op)
        entries = _entries(self.func.arg_attrs, len(block.args))
        pairs = list(zip(block.args, entries, strict=True))
        kept = self._needed_arguments()
        self.func.arg_attrs = ArrayAttr(entry for argument, entry in pairs if argument in kept)
        for argument, _ in pairs:
            if argument not in kept:
                block.erase_arg(argument)
        returned = block.last_op
        assert returned is not None
        self.func.function_type = FunctionType.from_lists(
            list(block.arg_types), [value.type for value in returned.operands]
        )

    def _needed_arguments(self) -> set[SSAValue]:
        """Return the arguments with uses, and those that alone determine a size."""
        block, shapes = self.func.body.block, SymbolicShapes(self.func)
        kept: set[SSAValue] = {argument for argument in block.args if argument.uses}
        known = {dim for argument in kept for dim in shapes.dims(argument)}
        needed = sizes_in(block.ops, shapes) - known
        for argument in block.args:
            if needed & set(shapes.dims(argument)):
                kept.add(argument)
                needed -= set(map(str, shapes.dims(argument)))
        return kept


def _entries(attributes: ArrayAttr[DictionaryAttr] | None, count: int) -> list[DictionaryAttr]:
    return [DictionaryAttr({})] * count if attributes is None else list(attributes.data)
