"""The arguments of a PyTorch call as operands of a `coda` operator."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from xdsl.dialects.builtin import AnyFloat, IntegerType, f32, f64, i1
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

    arguments: Sequence[Argument | None]
    options: Mapping[str, Argument | str | None]
    """The arguments by name: what is no tensor or number, as text."""
    element_type: Attribute
    """The element type of the result."""
    before: list[Operation] = field(default_factory=list[Operation])
    """The constants and conversions that `operands` has made."""

    @staticmethod
    def of(op: CallOp, arguments: Sequence[ast.expr] | None = None) -> ElementwiseCall | None:
        """Read a call with some of its positional `arguments`, by default all of them.

        None where one is neither a tensor nor a number nor `None`, or of a type without kernels.
        What computes in float64 becomes calls again (`convert-float64-to-torch`).
        """
        (result,) = op.outputs
        types = map(element_type_of, (*op.inputs, result))
        if not all(is_scalar(type) or type == f64 for type in types):
            return None
        template = op.template.call
        nodes = template.args if arguments is None else arguments
        found = [argument_of(node, op) for node in nodes]
        if any(v is None and ast.unparse(n) != "None" for v, n in zip(found, nodes, strict=True)):
            return None
        options = {str(k.arg): _option(k.value, op) for k in template.keywords}
        return ElementwiseCall(found, options, element_type_of(result))

    def with_arguments(self, arguments: Sequence[Argument | None]) -> ElementwiseCall:
        """Return a call with other arguments, whose constants are inserted at the same place."""
        return ElementwiseCall(arguments, self.options, self.element_type, self.before)

    def argument(
        self, place: int, name: str, default: Argument | str | None = None
    ) -> Argument | str | None:
        """Return an argument by its place or its name."""
        if place < len(self.arguments):
            return self.arguments[place]
        return self.options.get(name, default)

    @property
    def computing_type(self) -> Attribute:
        """The type that PyTorch's kernels compute in: float32 for narrow floats."""
        return f32 if computes_in_float32(self.element_type) else self.element_type

    @property
    def has_wide_number(self) -> bool:
        """True if a tensor without dimensions is a float with more digits than the result."""
        tensors = [value for value in self.arguments if isinstance(value, SSAValue)]
        return any(
            not shape_of(x) and _float_width(element_type_of(x)) > _float_width(self.element_type)
            for x in tensors
        )

    @property
    def makes_tensor(self) -> bool:
        """True if the options state nothing but the element type of the result."""
        name = f"torch.{BY_ATTRIBUTE[self.element_type].torch}"
        known = {**_FACTORY_OPTIONS, "dtype": name}
        return all(str(value) in ("None", known.get(key)) for key, value in self.options.items())

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

    def operands(
        self, element: Attribute, *, count: int, rounds_numbers: bool = False
    ) -> list[SSAValue] | None:
        """Return the arguments as `count` values of type `element`; None if that is not exact."""
        found = [self.operand(x, element, rounds_numbers=rounds_numbers) for x in self.arguments]
        values = [value for value in found if value is not None]
        is_tensor = any(isinstance(value, SSAValue) for value in self.arguments)
        return values if is_tensor and len(values) == len(found) == count else None

    def operand(
        self, value: Argument | str | None, element: Attribute, *, rounds_numbers: bool = False
    ) -> SSAValue | None:
        """Return an argument as a value of type `element`; None if that is not exact. Floats
        without dimensions are rounded with `rounds_numbers`.
        """
        if isinstance(value, SSAValue):
            return self._converted(value, element, rounds_numbers=rounds_numbers)
        if isinstance(value, str | None):
            return None
        if not is_float(element) and not _is_element(value, element):
            return None
        number = float(value) if is_float(element) else int(value)
        return self.insert(coda.ConstantOp(number, element))

    def _converted(
        self, value: SSAValue, element: Attribute, *, rounds_numbers: bool
    ) -> SSAValue | None:
        """Return a tensor unchanged, or converted to a type that holds its elements."""
        own = element_type_of(value)
        if own == element:
            return value
        if is_float(own):
            is_number = rounds_numbers and is_float(element) and not shape_of(value)
            is_exact = is_number or (
                element in (f32, f64) and _float_width(own) < _float_width(element)
            )
        else:
            is_exact = is_float(element) or _width(own) < _width(element)
        return self.insert(coda.CastOp(value, element)) if is_exact else None

    def insert(self, op: Operation) -> SSAValue:
        """Insert `op` before the operator that replaces the call; return its result."""
        self.before.append(op)
        return op.results[0]


def _option(node: ast.expr, op: CallOp) -> Argument | str | None:
    """Return a tensor, a number or `None`; the text of anything else, that of a string unquoted."""
    match node:
        case ast.Constant(value=str() as text):
            return text
        case ast.Constant(value=None):
            return None
        case _:
            value = argument_of(node, op)
            return ast.unparse(node) if value is None else value


def _float_width(type: Attribute) -> int:
    return type.bitwidth if isinstance(type, AnyFloat) else 0


def _is_element(value: float, type: Attribute) -> bool:
    """Return whether a number is valid for an integer type, or is 0 or 1 for truth values."""
    if type == i1:
        return value in (0, 1)
    return float(value).is_integer() and not isinstance(value, bool)


def _width(type: Attribute) -> int:
    return type.bitwidth if isinstance(type, IntegerType) else 0
