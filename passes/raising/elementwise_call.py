"""The arguments of a PyTorch call as operands of a `coda` operator."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from xdsl.dialects.builtin import IntegerType, f32, i1
from xdsl.ir import Attribute, Operation, SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import computes_in_float32, element_type_of, is_float, shape_of
from coda_ir.dialects.element_types import BY_ATTRIBUTE
from coda_ir.dialects.gemm.scalar_code import is_scalar
from coda_ir.dialects.torch import CallOp
from coda_ir.passes.support.index_values import Argument, argument_of

_FACTORY_OPTIONS = {
    "layout": "torch.strided",
    "device": "device",
    "pin_memory": "False",
    "non_blocking": "False",
    "memory_format": "torch.preserve_format",
}
"""Options of calls that make a tensor, with the value that says nothing."""


@dataclass
class ElementwiseCall:
    """The arguments of a call; `operands` converts them to values of one element type."""

    arguments: Sequence[Argument]
    options: Mapping[str, str]
    element_type: Attribute
    """The element type of the result."""
    before: list[Operation] = field(default_factory=list[Operation])
    """The constants and conversions that `operands` has made."""

    @staticmethod
    def of(op: CallOp, arguments: Sequence[ast.expr] | None = None) -> ElementwiseCall | None:
        """Read a call with some of its positional `arguments`, by default all of them.

        None where one is neither a tensor nor a number, or of a type without kernels.
        """
        (result,) = op.outputs
        if not all(is_scalar(element_type_of(value)) for value in (*op.inputs, result)):
            return None
        template = op.template.call
        found: list[Argument] = []
        for node in template.args if arguments is None else arguments:
            value = argument_of(node, op)
            if value is None:
                return None
            found.append(value)
        options = {str(k.arg): ast.unparse(k.value) for k in template.keywords}
        return ElementwiseCall(found, options, element_type_of(result))

    def with_arguments(self, arguments: Sequence[Argument]) -> ElementwiseCall:
        """Return a call with other arguments, whose constants are inserted at the same place."""
        return ElementwiseCall(arguments, self.options, self.element_type, self.before)

    @property
    def makes_tensor(self) -> bool:
        """True if the options state nothing but the element type of the result."""
        name = f"torch.{BY_ATTRIBUTE[self.element_type].torch}"
        known = {**_FACTORY_OPTIONS, "dtype": name}
        return all(value in ("None", known.get(key)) for key, value in self.options.items())

    @property
    def common_type(self) -> Attribute | None:
        """The element type that holds the elements of all tensors; None if there is none.

        Also None where PyTorch takes another one: it ignores floats without dimensions.
        """
        tensors = [value for value in self.arguments if isinstance(value, SSAValue)]
        types = sorted(set(map(element_type_of, tensors)), key=_width)
        if len(types) > 1 and any(map(is_float, types)):
            return (
                f32
                if all(map(computes_in_float32, types)) and all(map(shape_of, tensors))
                else None
            )
        return types[-1] if types else None

    def operands(self, element: Attribute, *, count: int) -> list[SSAValue] | None:
        """Return the arguments as `count` values of type `element`; None if that is not exact."""
        found = [self._operand(value, element) for value in self.arguments]
        values = [value for value in found if value is not None]
        is_tensor = any(isinstance(value, SSAValue) for value in self.arguments)
        return values if is_tensor and len(values) == len(found) == count else None

    def _operand(self, value: Argument, element: Attribute) -> SSAValue | None:
        if isinstance(value, SSAValue):
            return self._converted(value, element)
        if not is_float(element) and not _is_element(value, element):
            return None
        number = float(value) if is_float(element) else int(value)
        return self.insert(coda.ConstantOp(number, element))

    def _converted(self, value: SSAValue, element: Attribute) -> SSAValue | None:
        """Return a tensor unchanged, or converted to a type that holds its elements."""
        own = element_type_of(value)
        if own == element:
            return value
        is_wider = element == f32 if is_float(own) else _width(own) < _width(element)
        if not is_wider and (is_float(own) or not is_float(element)):
            return None
        return self.insert(coda.CastOp(value, element))

    def insert(self, op: Operation) -> SSAValue:
        """Insert `op` before the operator that replaces the call; return its result."""
        self.before.append(op)
        return op.results[0]


def _is_element(value: float, type: Attribute) -> bool:
    """Return whether a number is valid for an integer type, or is 0 or 1 for truth values."""
    if type == i1:
        return value in (0, 1)
    return float(value).is_integer() and not isinstance(value, bool)


def _width(type: Attribute) -> int:
    return type.bitwidth if isinstance(type, IntegerType) else 0
