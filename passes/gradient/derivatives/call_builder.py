"""Calls of PyTorch that are derivatives of calls: their arguments, read and put together."""

import ast
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from xdsl.dialects.builtin import DYNAMIC_INDEX, TensorType
from xdsl.ir import Attribute, SSAValue

from coda_ir.dialects.coda import LibraryCallOp
from coda_ir.dialects.coda.shapes import element_type_of, shape_of
from coda_ir.dialects.torch import CallOp
from coda_ir.passes.gradient.derivatives.adjoint import Adjoint


@dataclass(frozen=True)
class Text:
    """An argument of a call as it is written, with the operands `of` that it names by number."""

    text: str
    of: Sequence[SSAValue] = ()


Piece: TypeAlias = SSAValue | Text | str
"""What an argument of a new call is made of: an operand, an argument of another call, or text."""

_OPERAND = re.compile(r"\{(\d+)\}")


@dataclass(frozen=True)
class Call:
    """A call of which a rule gives the derivative."""

    op: CallOp | LibraryCallOp
    adjoint: Adjoint

    @property
    def dy(self) -> SSAValue | None:
        """The gradient of the first result, where that is an output and has one."""
        return self.adjoint.d_results[0] if self.output(0) is not None else None

    def output(self, position: int) -> SSAValue | None:
        """The result of the callee at `position`, where the call gives it."""
        positions = self.op.picks or range(len(self.op.outputs))
        found = dict(zip(positions, self.op.outputs, strict=True))
        return found.get(position)

    def argument(self, number: int, name: str) -> Text | None:
        """An argument by its place or by its name; None where the call leaves it out."""
        call = self.op.template.call
        nodes = {keyword.arg: keyword.value for keyword in call.keywords}
        node = call.args[number] if number < len(call.args) else nodes.get(name)
        return None if node is None else Text(ast.unparse(node), self.op.inputs)

    def operand(self, number: int, name: str) -> SSAValue | None:
        """An argument that is a tensor."""
        argument = self.argument(number, name)
        match = None if argument is None else _OPERAND.fullmatch(argument.text)
        return None if match is None else self.op.inputs[int(match[1])]

    def literal(self, number: int, name: str, default: Any) -> Any:
        """An argument that is a number, a flag, or several; raises LeftToPyTorch for others."""
        argument = self.argument(number, name)
        if argument is None:
            return default
        try:
            return ast.literal_eval(argument.text)
        except ValueError:
            raise LeftToPyTorch from None

    def wants(self, operand: SSAValue | None) -> bool:
        return self.adjoint.wants(operand)

    def insert(
        self,
        callee: str,
        *arguments: Piece,
        element: Attribute,
        shape: Sequence[int],
        view: bool = False,
    ) -> SSAValue:
        """Append the call of `callee` with these arguments; returns its result."""
        inputs: list[SSAValue] = []

        def number_of(value: SSAValue) -> str:
            if value not in inputs:
                inputs.append(value)
            return f"{{{inputs.index(value)}}}"

        texts: list[str] = []
        for argument in arguments:
            match argument:
                case Text(text, of):
                    texts.append(_OPERAND.sub(lambda m, of=of: number_of(of[int(m[1])]), text))
                case str():
                    texts.append(argument)
                case _:
                    texts.append(number_of(argument))
        type = TensorType(element, shape)
        return self.adjoint.insert(CallOp(callee, inputs, ", ".join(texts), [type], view=view))

    def like(self, callee: str, *arguments: Piece, of: SSAValue, view: bool = False) -> SSAValue:
        """Append a call whose result has the type of `of`."""
        shape, element = shape_of(of), element_type_of(of)
        return self.insert(callee, *arguments, element=element, shape=shape, view=view)

    def zeros(self, like: SSAValue, dy: SSAValue) -> SSAValue:
        """Zeros of the shape of `like` and the element type of `dy`."""
        element, shape = element_type_of(dy), shape_of(like)
        callee = "aten.new_zeros.default"
        return self.insert(callee, dy, sizes_of(like), element=element, shape=shape)


class LeftToPyTorch(Exception):
    """A rule cannot give the derivative of a call, such as where an argument depends on a size."""


def sizes_of(value: SSAValue) -> Text:
    """The extents of `value` as an argument; those that are not known are asked of `value`."""
    extents = [
        f"size({{0}}, {dim})" if extent == DYNAMIC_INDEX else str(extent)
        for dim, extent in enumerate(shape_of(value))
    ]
    return Text(f"[{', '.join(extents)}]", [value])
