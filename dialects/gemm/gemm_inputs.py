"""The inputs of operators that are GEMMs."""

from collections.abc import Sequence
from math import prod
from typing import Protocol

from xdsl.dialects.builtin import DYNAMIC_INDEX, UnitAttr
from xdsl.ir import SSAValue

from coda_ir.dialects.coda.shapes import element_type_of, is_float, shape_of


class Gemm(Protocol):
    """The fields from which the properties of inputs are computed."""

    @property
    def inputs(self) -> Sequence[SSAValue]: ...

    @property
    def weights(self) -> Sequence[SSAValue]: ...

    @property
    def transposed(self) -> UnitAttr | None: ...

    @property
    def groups(self) -> SSAValue | None: ...


class GemmInputs:
    """A mixin of operators whose `inputs` are M x K, or K x M if they are `transposed`.

    Their rows may be in `groups`, each with a product of its own.
    """

    @property
    def x(self: Gemm) -> SSAValue:
        """The first input."""
        return self.inputs[0]

    @property
    def is_transposed(self: Gemm) -> bool:
        """True if the inputs are K x M instead of M x K."""
        return self.transposed is not None

    @property
    def has_one_type(self: Gemm) -> bool:
        """True if inputs and weights have one float type, and none has 8 bits."""
        types = {element_type_of(value) for value in (*self.inputs, *self.weights)}
        return len(types) == 1 and is_float(element_type_of(self.inputs[0]))

    @property
    def row_shape(self: Gemm) -> tuple[int, ...]:
        """The dimensions of the accumulator's rows, which flatten to M."""
        shape = shape_of(self.inputs[0])
        if self.transposed is None:
            return shape[:-1]
        return (*(() if self.groups is None else shape_of(self.groups)), shape[-1])

    @property
    def has_ragged_depth(self: Gemm) -> bool:
        """True if each group of rows is summed over, for an accumulator of its own."""
        return self.transposed is not None and self.groups is not None

    def depth(self: Gemm, index: int) -> int:
        """K of an input, or `DYNAMIC_INDEX`."""
        shape = shape_of(self.inputs[index])
        if self.transposed is None:
            return shape[-1]
        return DYNAMIC_INDEX if DYNAMIC_INDEX in shape[:-1] else prod(shape[:-1])
