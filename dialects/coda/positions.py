"""Numbers derived from extents: positions in a sequence, indices of frequencies, counts."""

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import DYNAMIC_INDEX, IntegerAttr, TensorType, i32, i64
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
)
from xdsl.utils.exceptions import VerifyException

from coda_ir.dialects.coda.base import CodaOp
from coda_ir.dialects.coda.infer_type import Extents, InferTypeOp
from coda_ir.dialects.coda.library_call import expect_rank
from coda_ir.dialects.coda.shape import ReshapeOp
from coda_ir.dialects.coda.shapes import (
    element_type_of,
    expect_dim,
    optional_operand,
    shape_of,
    wrong_property,
)


@irdl_op_definition
class PositionsOp(CodaOp):
    """start + step · i for each index i of a vector, as `torch.arange` and `stablehlo.iota`.

    If the extent is dynamic, it is that of dimension `dim` of the operand, whose elements are not
    read. Pointwise kernels compute positions on demand; they are not stored.

    `%p = coda.positions %x {dim = 1 : i64, start = 0 : i64, step = 1 : i64}
        : (tensor<?x?xf32>) -> tensor<?xi64>`
    """

    like = opt_operand_def(TensorType)
    dim = opt_prop_def(IntegerAttr)
    start = prop_def(IntegerAttr)
    step = prop_def(IntegerAttr)
    result = result_def(TensorType)

    def __init__(
        self,
        extent: int | tuple[SSAValue, int],
        *,
        start: int = 0,
        step: int = 1,
        element_type: Attribute = i64,
    ):
        """Build positions. `extent` is a number, or a tensor and one of its dimensions."""
        like, dim = extent if isinstance(extent, tuple) else (None, None)
        number = extent if isinstance(extent, int) else DYNAMIC_INDEX
        super().__init__(
            operands=[optional_operand(like)],
            properties={
                "dim": None if dim is None else IntegerAttr(dim, 64),
                "start": IntegerAttr(start, 64),
                "step": IntegerAttr(step, 64),
            },
            result_types=[TensorType(element_type, [number])],
        )

    @property
    def first_and_step(self) -> tuple[int, int]:
        return self.start.value.data, self.step.value.data

    def verify_(self) -> None:
        shape, element = shape_of(self.result), element_type_of(self.result)
        expect_rank("result", self.result, 1)
        if element not in (i32, i64):
            raise VerifyException(f"result has element type {element}, expected i32 or i64")
        if self.step.value.data == 0:
            raise wrong_property("step", 0, "another number")
        is_dynamic = shape[0] == DYNAMIC_INDEX
        if self.like is None or self.dim is None:
            if is_dynamic or self.like is not None or self.dim is not None:
                raise VerifyException(
                    "a dynamic extent comes from an operand and property dim, expected both of "
                    "them there and none elsewhere"
                )
            return
        _verify_extent(shape, shape_of(self.like), self.dim.value.data)


def _verify_extent(shape: Sequence[int], like: Sequence[int], dim: int) -> None:
    expect_dim(dim, len(like))
    if (shape[0], like[dim]) != (DYNAMIC_INDEX, DYNAMIC_INDEX):
        raise VerifyException(
            f"the extent is known, expected a result and a dimension {dim} of the operand that are "
            "dynamic"
        )


@irdl_op_definition
class ExtentOp(InferTypeOp):
    """The extent of dimension `dim` of the operand, whose elements are not read, as a number
    (`torch.Tensor.size`).

    A kernel receives it as an argument; it is not stored.

    `%t = coda.extent %x {dim = 1 : i64} : (tensor<?x?xf32>) -> tensor<i64>`
    """

    RESULT_ELEMENTS: ClassVar = (i64,)

    @staticmethod
    def infer(like: Extents, dim: int) -> list[Extents]:
        return [()]

    like = operand_def(TensorType)
    dim = prop_def(IntegerAttr)

    @property
    def axis(self) -> int:
        """The dimension that has the extent."""
        return self.dim.value.data


def extent_in(value: SSAValue) -> ExtentOp | None:
    """Return the extent that `value` is, under any shape with one element."""
    owner = _origin(value)
    return owner if isinstance(owner, ExtentOp) else None


def positions_in(value: SSAValue) -> PositionsOp | None:
    """Return the positions that `value` contains in row-major order, under any shape."""
    owner = _origin(value)
    return owner if isinstance(owner, PositionsOp) else None


def is_of_extents(value: SSAValue) -> bool:
    """Return whether kernels derive `value` from extents: positions, or an extent itself."""
    return isinstance(_origin(value), PositionsOp | ExtentOp)


def _origin(value: SSAValue) -> object:
    """Return the operator that computes the elements of `value`, looking through reshapes."""
    owner: Operation | object = value.owner
    while isinstance(owner, ReshapeOp):
        owner = owner.x.owner
    return owner
