"""Derivatives of PyTorch calls as other calls: reading and building of their arguments."""

import ast
from dataclasses import dataclass
from typing import Any

from xdsl.dialects.builtin import DYNAMIC_INDEX, TensorType
from xdsl.ir import SSAValue

from coda_ir.dialects.coda import LibraryCallOp
from coda_ir.dialects.coda.shapes import element_type_of, shape_of
from coda_ir.dialects.torch import CallOp, Piece, Text
from coda_ir.passes.gradient.derivatives.adjoint import Adjoint


@dataclass(frozen=True)
class Call:
    """A call for which a rule computes the derivative."""

    op: CallOp | LibraryCallOp
    adjoint: Adjoint

    @property
    def dy(self) -> SSAValue | None:
        """The gradient of the first result, if that is an output and has one."""
        return self.adjoint.d_results[0] if self.output(0) is not None else None

    def output(self, position: int) -> SSAValue | None:
        """Return the result of the callee at `position`, if the call has it."""
        positions = self.op.picks or range(len(self.op.outputs))
        found = dict(zip(positions, self.op.outputs, strict=True))
        return found.get(position)

    def argument(self, number: int, name: str) -> Text | None:
        """Return an argument by position or name; None if the call omits it."""
        call = self.op.template.call
        nodes = {keyword.arg: keyword.value for keyword in call.keywords}
        node = call.args[number] if number < len(call.args) else nodes.get(name)
        return None if node is None else Text(ast.unparse(node), self.op.inputs)

    def operand(self, number: int, name: str) -> SSAValue | None:
        """Return an argument that is a tensor."""
        argument = self.argument(number, name)
        return None if argument is None else argument.operand

    def literal(self, number: int, name: str, default: Any) -> Any:
        """Return an argument of one or more numbers or flags; raise LeftToPyTorch for others."""
        argument = self.argument(number, name)
        if argument is None:
            return default
        try:
            return ast.literal_eval(argument.text)
        except ValueError:
            raise LeftToPyTorch from None

    def wants(self, operand: SSAValue | None) -> bool:
        return self.adjoint.wants(operand)

    def zeros(self, like: SSAValue, dy: SSAValue) -> SSAValue:
        """Return zeros of the shape of `like` and the element type of `dy`."""
        type = TensorType(element_type_of(dy), shape_of(like))
        return self.adjoint.insert(CallOp.on("aten.new_zeros.default", (dy, sizes_of(like)), type))


def like(of: SSAValue, callee: str, *arguments: Piece) -> CallOp:
    """Return a call whose result has the type of `of`."""
    return CallOp.on(callee, arguments, of.type)


class LeftToPyTorch(Exception):
    """A call whose derivative no rule computes, as where an argument depends on a size."""


def sizes_of(value: SSAValue) -> Text:
    """Return the extents of `value` as an argument; unknown ones are read from it at run time."""
    extents = [
        f"size({{0}}, {dim})" if extent == DYNAMIC_INDEX else str(extent)
        for dim, extent in enumerate(shape_of(value))
    ]
    return Text(f"[{', '.join(extents)}]", [value])
