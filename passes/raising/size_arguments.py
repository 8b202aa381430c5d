"""Size arguments of PyTorch calls, as tensors of one element."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from xdsl.dialects.builtin import AnyFloat, TensorType, f32, f64, i64
from xdsl.ir import Attribute, Operation, SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.coda.elementwise import FloorDivideOp
from coda_ir.dialects.coda.shapes import element_type_of, is_float, shape_of
from coda_ir.dialects.torch import CallOp
from coda_ir.passes.support.function_pass import FunctionRewriter
from coda_ir.passes.support.index_values import Argument, argument_of

_OPERATORS: Mapping[type[ast.operator], type[coda.BinaryOp]] = {
    ast.Add: coda.AddOp,
    ast.Sub: coda.SubOp,
    ast.Mult: coda.MulOp,
    ast.FloorDiv: FloorDivideOp,
}


@dataclass
class SizedCall:
    """A call with tensors in place of sizes. Sizes are exact, so operators on 16-bit elements
    compute in float32, as in PyTorch, and round their result.
    """

    call: CallOp
    before: list[Operation]
    result_type: TensorType[Attribute]

    @staticmethod
    def of(op: CallOp, rewriter: FunctionRewriter) -> SizedCall | None:
        """Read the call of `op`; None if no argument is a size, or if one is something else."""
        sizes = _Sizes(op, rewriter)
        arguments = [sizes.argument(node) for node in op.template.call.args]
        if not sizes.found or any(argument is None for argument in arguments):
            drop_unused(sizes.before)
            return None
        inputs = [sizes.widened(x) for x in arguments if isinstance(x, SSAValue)]
        numbers = iter(range(len(inputs)))
        parts = [f"{{{next(numbers)}}}" if isinstance(x, SSAValue) else repr(x) for x in arguments]
        parts += map(ast.unparse, op.template.call.keywords)
        (result,) = op.outputs
        element = element_type_of(result)
        wide = TensorType(f32 if _is_narrow(result) else element, shape_of(result))
        call = CallOp(op.callee.data, inputs, ", ".join(parts), [wide])
        return SizedCall(call, sizes.before, TensorType(element, shape_of(result)))

    def raised(self, make: Callable[[CallOp], list[Operation] | None]) -> list[Operation] | None:
        """Return the operators that `make` returns for the call, and a conversion to its type."""
        made = make(self.call)
        drop_unused([self.call])
        if made is None:
            drop_unused(self.before)
            return None
        if made[-1].results[0].type != self.result_type:
            made.append(coda.CastOp(made[-1].results[0], self.result_type.element_type))
        return [*self.before, *made]


def drop_unused(ops: Sequence[Operation]) -> None:
    """Erase operators made in vain, which would count as users of their operands."""
    for op in reversed(ops):
        op.erase()


def _is_narrow(value: SSAValue) -> bool:
    type = element_type_of(value)
    return isinstance(type, AnyFloat) and type.bitwidth < 32


@dataclass
class _Sizes:
    """Makes the operators for the sizes of a call."""

    op: CallOp
    rewriter: FunctionRewriter
    before: list[Operation] = field(default_factory=list[Operation])
    found: bool = False

    def argument(self, node: ast.expr) -> Argument | None:
        """Return a tensor, a number, or a size as a tensor; None for anything else."""
        known = argument_of(node, self.op)
        if known is not None:
            return known
        size = self._size(node)
        self.found = self.found or size is not None
        return size

    def widened(self, value: SSAValue) -> SSAValue:
        """Widen a 16-bit tensor to float32, and a size beside floats to float."""
        types = [element_type_of(x) for x in (*self.op.inputs, *self.op.outputs)]
        is_number = value.owner in self.before and any(map(is_float, types))
        if not is_number and not _is_narrow(value):
            return value
        return self._insert(coda.CastOp(value, f64 if f64 in types else f32))

    def _insert(self, op: Operation) -> SSAValue:
        self.before.append(op)
        return op.results[0]

    def _size(self, node: ast.expr) -> SSAValue | None:
        match node:
            case ast.Constant(value=int() as number):
                return self._insert(coda.ConstantOp(number, i64))
            case ast.Name(id=symbol):
                return self._symbol(symbol)
            case ast.Call(func=ast.Name(id="size"), args=[ast.Set() as tensor, axis]):
                value = argument_of(tensor, self.op)
                dim = argument_of(axis, self.op)
                if isinstance(value, SSAValue) and isinstance(dim, int):
                    return self._insert(coda.ExtentOp(value, dim))
                return None
            case ast.BinOp(left=left, op=operator, right=right):
                make = _OPERATORS.get(type(operator))
                a, b = self._size(left), self._size(right)
                if make is None or a is None or b is None:
                    return None
                return self._insert(make(a, b))
            case _:
                return None

    def _symbol(self, symbol: str) -> SSAValue | None:
        for argument in self.rewriter.func.args:
            dims = self.rewriter.shapes.dims(argument)
            if symbol in dims:
                return self._insert(coda.ExtentOp(argument, dims.index(symbol)))
        return None
