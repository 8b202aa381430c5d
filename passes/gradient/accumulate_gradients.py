"""Pass `accumulate-gradients`: a backward program that adds to existing gradients."""

from xdsl.context import Context
from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    FunctionType,
    ModuleOp,
    StringAttr,
    UnitAttr,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Operation, SSAValue

from coda_ir.diagnostics import CodaError
from coda_ir.dialects import coda
from coda_ir.dialects.coda.elementwise_op import ElementwiseOp
from coda_ir.dialects.coda.shapes import shape_of
from coda_ir.passes.support.function_pass import FunctionRewriter, NamedPass, Refusal
from coda_ir.passes.support.joint import entry_name
from coda_ir.storage import DONATED

GEMMS = (coda.WeightGradientOp, coda.GroupedWeightGradientOp, coda.LinearOp, coda.MatmulOp)

EXISTING = ".grad"
"""The suffix of an argument's name in the name of its existing gradient."""


class AccumulateGradientsPass(NamedPass):
    """Adds the gradients that `function` computes to existing ones, in place.

        @f_backward(x, d_y) -> (d_w)                      arguments=w
          %d_w = coda.weight_gradient %d_y, %x

        @f_backward(x, d_y, %w_grad {coda.donated}) -> (d_w)
          %d_w = coda.weight_gradient %d_y, %x
          %sum = coda.add %w_grad, %d_w

    The new argument is called `w.grad`. Its addition becomes a part of the epilogue of the GEMM,
    and `accumulate-in-place` stores the sum where the old one was. Legal iff the gradient is
    computed by a GEMM and element by element from its result: another one has no epilogue to be
    added in, and is returned as before. Raises CodaError for an argument that has no gradient.
    """

    function: str
    arguments: tuple[str, ...]

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for func in op.ops:
            if isinstance(func, FuncOp) and func.sym_name.data == self.function:
                for argument in self.arguments:
                    _accumulate(FunctionRewriter(self.name, func), argument)


def _accumulate(rewriter: FunctionRewriter, argument: str) -> None:
    """Add the gradient of `argument` to a new argument, where that is legal."""
    func = rewriter.func
    returned = func.body.block.last_op
    assert isinstance(returned, ReturnOp), "a function ends in func.return"
    index = _result_number(func, argument)
    gradient = returned.operands[index]
    op = gradient.owner if isinstance(gradient.owner, Operation) else returned
    if not comes_from_gemm(gradient):
        rewriter.missed(op, _no_gemm(argument))
        return
    rewriter.passed(op, f"adds the gradient of {argument} to the existing one")
    existing = _add_argument(func, argument, gradient, index)
    total = coda.AddOp(existing, gradient)
    total.location = op.location
    total.result.name_hint = f"sum_{argument}"
    func.body.block.insert_op_after(total, op)
    returned.operands[index] = total.result


def comes_from_gemm(value: SSAValue) -> bool:
    """Return whether a value is the result of a GEMM, or of elementwise code on one."""
    op = value.owner
    if isinstance(op, ElementwiseOp | coda.CastOp):
        return any(shape_of(x) == shape_of(value) and comes_from_gemm(x) for x in op.operands)
    return isinstance(op, GEMMS)


def _no_gemm(argument: str) -> Refusal:
    return Refusal(
        "the gradient is computed by a GEMM, and elementwise from its result",
        f"no epilogue of a GEMM could add the gradient of {argument}",
    )


def _result_number(func: FuncOp, argument: str) -> int:
    names = [entry_name(entry) for entry in func.res_attrs or ()]
    if f"d_{argument}" not in names:
        known = [name.removeprefix("d_") for name in names if name is not None]
        raise CodaError(
            f"{func.sym_name.data} computes no gradient of '{argument}'",
            f"its gradients are those of {', '.join(known) or 'nothing'}",
        )
    return names.index(f"d_{argument}")


def _add_argument(func: FuncOp, argument: str, like: SSAValue, result: int) -> SSAValue:
    """Add a donated argument with the type and extents of a result."""
    block, count = func.body.block, len(func.args)
    entries = func.arg_attrs.data if func.arg_attrs else [DictionaryAttr({})] * count
    assert func.res_attrs is not None, "the result has a name"
    name = StringAttr(f"{argument}{EXISTING}")
    stated = {**func.res_attrs.data[result].data, "coda.name": name, DONATED: UnitAttr()}
    existing = block.insert_arg(like.type, count)
    existing.name_hint = f"{argument}_grad"
    func.arg_attrs = ArrayAttr([*entries, DictionaryAttr(stated)])
    func.function_type = FunctionType.from_lists(
        list(block.arg_types), list(func.function_type.outputs)
    )
    return existing
