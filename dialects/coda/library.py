"""Operators that run as one call of PyTorch, such as sorts, running sums and convolutions."""

from abc import ABC
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    ArrayAttr,
    BoolAttr,
    FloatAttr,
    IntegerAttr,
    TensorType,
    i64,
)
from xdsl.ir import SSAValue
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    prop_def,
    result_def,
    var_operand_def,
)
from xdsl.utils.exceptions import VerifyException

from coda_ir.dialects.coda.infer_type import OPEN, Extents, replaced
from coda_ir.dialects.coda.library_call import (
    LibraryCallOp,
    expect_count,
    expect_other_dims,
    expect_rank,
)
from coda_ir.dialects.coda.shapes import (
    computes_in_float32,
    element_type_of,
    expect_element_type,
    expect_floats,
    expect_integers,
    expect_rank_at_least,
    expect_shape,
    expect_tensor,
    is_float,
    quotient,
    shape_of,
    verify_group,
    wrong_property,
)

# Rows and elements by number.


@irdl_op_definition
class IndexOp(LibraryCallOp):
    """Slices of x that the integers `ids` select in dimension `dim`, which the dimensions of `ids`
    replace. Negative ids count from the end, as in PyTorch.

    `coda.index %x, %ids {dim = 0 : i64} : (tensor<9x?x8xf32>, tensor<?xi64>) -> tensor<?x?x8xf32>`
    """

    ATEN: ClassVar = "index.Tensor"
    PARAMETERS: ClassVar = ("x", "ids")
    FUSES_IF: ClassVar = "a row of the result depends only on the row with the same index"

    @staticmethod
    def infer(x: Extents, ids: Extents, dim: int) -> list[Extents]:
        return [replaced(x, dim, *ids)]

    x = operand_def(TensorType)
    ids = operand_def(TensorType)
    dim = prop_def(IntegerAttr)

    def argument(self, name: str) -> str:
        if name != "ids":
            return super().argument(name)
        return f"[{'None, ' * self.given['dim']}{self.tensor(self.ids)}]"

    @property
    def index(self) -> tuple[int, SSAValue, int]:
        return 1, self.x, self.given["dim"]

    @property
    def looked_up(self) -> SSAValue:
        return self.x

    def check(self) -> None:
        expect_integers("operand ids", self.ids)


class ElementsByNumberOp(LibraryCallOp, ABC):
    """An operator on elements of x that `ids`, with its other extents, name along `dim`."""

    FUSES_IF: ClassVar = "the column of an element is known before its index is read"

    x = operand_def(TensorType)
    ids = operand_def(TensorType)
    dim = prop_def(IntegerAttr)

    @property
    def index(self) -> tuple[int, SSAValue, int]:
        return 1, self.x, self.given["dim"]

    def check(self) -> None:
        expect_element_type("operand ids", self.ids, i64)
        expect_other_dims("operand ids", self.ids, self.x, self.given["dim"])


@irdl_op_definition
class GatherOp(ElementsByNumberOp):
    """The elements of x that the integers `ids` select along `dim`: `torch.gather`.

    `coda.gather %x, %ids {dim = 1 : i64} : (tensor<?x8xf32>, tensor<?x2xi64>) -> tensor<?x2xf32>`
    """

    ATEN: ClassVar = "gather.default"
    PARAMETERS: ClassVar = ("x", "dim", "ids")

    @staticmethod
    def infer(x: Extents, ids: Extents, dim: int) -> list[Extents]:
        return [ids]

    @property
    def looked_up(self) -> SSAValue:
        return self.x


@irdl_op_definition
class ScatterOp(ElementsByNumberOp):
    """x, in which `values` replace the elements that the integers `ids` select along `dim`.
    `values` has the shape of `ids`.

    The ids along `dim` must be distinct; otherwise, the stored value would be undefined.

    `coda.scatter %x, %ids, %values {dim = 1 : i64} : (tensor<?x8xf32>, tensor<?x2xi64>,
    tensor<?x2xf32>) -> tensor<?x8xf32>`
    """

    ATEN: ClassVar = "scatter.src"
    PARAMETERS: ClassVar = ("x", "dim", "ids", "values")

    # All three, as xDSL puts the operands of a class before those of its base.
    x = operand_def(TensorType)
    ids = operand_def(TensorType)
    values = operand_def(TensorType)

    def check(self) -> None:
        super().check()
        expect_tensor("operand values", self.values, shape_of(self.ids), element_type_of(self.x))


@irdl_op_definition
class OneHotOp(LibraryCallOp):
    """1 in the column that an integer names, 0 in the others: `classes` columns of i64.

    `coda.one_hot %ids {classes = 8 : i64} : (tensor<?xi64>) -> tensor<?x8xi64>`
    """

    ATEN: ClassVar = "one_hot.default"
    PARAMETERS: ClassVar = ("ids", "classes")
    RESULT_ELEMENTS: ClassVar = (i64,)
    FUSES_IF: ClassVar = "the epilogue knows the index of its column"

    @staticmethod
    def infer(ids: Extents, classes: int) -> list[Extents]:
        return [(*ids, classes)]

    ids = operand_def(TensorType)
    classes = prop_def(IntegerAttr)

    @property
    def index(self) -> tuple[int, SSAValue, int]:
        return 0, self.result, -1

    def check(self) -> None:
        expect_element_type("operand ids", self.ids, i64)
        expect_count("classes", self.given["classes"], DYNAMIC_INDEX, "number of columns")


# Order and running sums.


@irdl_op_definition
class TopkOp(LibraryCallOp):
    """The `k` largest elements along `dim`, the largest first, and their indices.

    `%values, %ids = coda.topk %x {k = 2 : i64, dim = 1 : i64} : (tensor<?x8xf32>) ->
    (tensor<?x2xf32>, tensor<?x2xi64>)`
    """

    ATEN: ClassVar = "topk.default"
    PARAMETERS: ClassVar = ("x", "k", "dim")
    RESULT_ELEMENTS: ClassVar = (0, i64)
    FUSES_IF: ClassVar = (
        "the position of an element does not depend on the other elements of its row"
    )
    REMEDY: ClassVar = "use the maximum of the row if only the largest value is needed: it fuses"

    @staticmethod
    def infer(x: Extents, k: int, dim: int) -> list[Extents]:
        return [replaced(x, dim, k)] * 2

    x = operand_def(TensorType)
    k = prop_def(IntegerAttr)
    dim = prop_def(IntegerAttr)
    result = result_def(TensorType)
    ids = result_def(TensorType)

    def check(self) -> None:
        expect_count(
            "k", self.given["k"], shape_of(self.x)[self.dim.value.data], "elements along dim"
        )


@irdl_op_definition
class SortOp(LibraryCallOp):
    """The elements along `dim` in order, and their indices; equal elements keep their order.

    `%values, %ids = coda.sort %x {dim = 1 : i64, descending = false} : (tensor<?x8xf32>) ->
    (tensor<?x8xf32>, tensor<?x8xi64>)`
    """

    ATEN: ClassVar = "sort.stable"
    PARAMETERS: ClassVar = ("x", "stable", "dim", "descending")
    FIXED: ClassVar[Mapping[str, object]] = {"stable": True}
    RESULT_ELEMENTS: ClassVar = (0, i64)
    FUSES_IF: ClassVar = TopkOp.FUSES_IF
    REMEDY: ClassVar = (
        "use topk if only the first elements are needed, or max or min for one of them"
    )

    @staticmethod
    def infer(x: Extents, dim: int, descending: bool) -> list[Extents]:
        return [x, x]

    x = operand_def(TensorType)
    dim = prop_def(IntegerAttr)
    descending = prop_def(BoolAttr)
    result = result_def(TensorType)
    ids = result_def(TensorType)

    def argument(self, name: str) -> str:
        text = super().argument(name)
        return text if name == "x" else f"{name}={text}"


@irdl_op_definition
class CumsumOp(LibraryCallOp):
    """The sum of each element and those before it along `dim`.

    `coda.cumsum %x {dim = 1 : i64} : (tensor<?x8xf32>) -> tensor<?x8xf32>`
    """

    ATEN: ClassVar = "cumsum.default"
    PARAMETERS: ClassVar = ("x", "dim")
    FUSES_IF: ClassVar = "an element does not depend on others"

    x = operand_def(TensorType)
    dim = prop_def(IntegerAttr)

    def check(self) -> None:
        if not is_float(element_type_of(self.x)):
            expect_element_type("operand x", self.x, i64)


# Channels before positions: B x C x S1 x ...


@irdl_op_definition
class GroupNormOp(LibraryCallOp):
    """(x − mean) · rsqrt(var + eps) ⊙ weight + bias over all positions of each of `groups` equal
    runs of channels, which are dimension 1 (arXiv 1803.08494).

    `params` holds the weight and the bias, with one element for each channel, or nothing.

    `coda.group_norm %x, %w, %b {groups = 4 : i64, eps = 1.0e-5 : f64} : (tensor<?x8x?x?xbf16>,
    tensor<8xbf16>, tensor<8xbf16>) -> tensor<?x8x?x?xbf16>`
    """

    ATEN: ClassVar = "group_norm.default"
    PARAMETERS: ClassVar = ("x", "groups", "weight", "bias", "eps")
    FUSES_IF: ClassVar = "all positions of a sample are on chip"

    x = operand_def(TensorType)
    params = var_operand_def(TensorType)
    groups = prop_def(IntegerAttr)
    eps = prop_def(FloatAttr)

    @property
    def weight(self) -> SSAValue | None:
        """The factor of each channel."""
        return self.params[0] if self.params else None

    @property
    def bias(self) -> SSAValue | None:
        """The number added to each channel."""
        return self.params[1] if self.params else None

    def check(self) -> None:
        expect_rank_at_least("operand x", self.x, 2)
        expect_floats("operand x", self.x)
        channels, groups = shape_of(self.x)[1], self.given["groups"]
        verify_group("groups", groups, channels, "channels")
        if len(self.params) not in (0, 2):
            raise VerifyException(f"{len(self.params)} parameters, expected a weight and a bias")
        for what, value in zip(("weight", "bias"), self.params, strict=False):
            expect_tensor(f"operand {what}", value, (channels,), element_type_of(self.x))


def _convolved(
    x: Extents,
    weight: Extents,
    *_: Extents,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> list[Extents]:
    """Return B x O x T1 x ...: the number of windows over the padded positions."""
    steps = zip(x[2:], weight[2:], stride, padding, dilation, strict=True)
    return [(x[0], weight[0], *(_windows(*step) for step in steps))]


def _windows(extent: Any, size: Any, stride: int, padding: int, gap: int) -> Any:
    missing = gap * (size - 1) - 2 * padding
    if stride == 1 and missing == 0:
        return extent
    if not isinstance(extent, int) or extent == DYNAMIC_INDEX:
        return OPEN
    return max(0, (extent - missing - 1) // stride + 1)


@irdl_op_definition
class ConvolutionOp(LibraryCallOp):
    """Products of windows of x (B x C x S1 x ..) with a weight (O x C / groups x K1 x ..), plus a
    bias: B x O x T1 x .., as in `torch.nn.functional.conv1d` and `conv2d`.

    `coda.convolution %x, %w {stride = [1], padding = [2], dilation = [1], groups = 8 : i64} :
    (tensor<?x8x?xbf16>, tensor<8x1x3xbf16>) -> tensor<?x8x?xbf16>`
    """

    ATEN: ClassVar = "convolution.default"
    PARAMETERS: ClassVar = (
        *("x", "weight", "bias", "stride", "padding", "dilation"),
        *("transposed", "output_padding", "groups"),
    )
    FIXED: ClassVar[Mapping[str, object]] = {"transposed": False}
    infer = _convolved
    FUSES_IF: ClassVar = "each element of the input is in one window"

    x = operand_def(TensorType)
    weight = operand_def(TensorType)
    bias = opt_operand_def(TensorType)
    stride = prop_def(ArrayAttr[IntegerAttr])
    padding = prop_def(ArrayAttr[IntegerAttr])
    dilation = prop_def(ArrayAttr[IntegerAttr])
    groups = prop_def(IntegerAttr)

    def check(self) -> None:
        rank, groups = len(shape_of(self.x)), self.given["groups"]
        expect_rank_at_least("operand x", self.x, 3)
        expect_floats("operand x", self.x)
        expect_rank("operand weight", self.weight, rank)
        outputs, channels = shape_of(self.weight)[0], shape_of(self.x)[1]
        for what in ("stride", "padding", "dilation"):
            if len(self.given[what]) != rank - 2:
                raise VerifyException(
                    f"property {what} has {len(self.given[what])} numbers, expected {rank - 2}, "
                    "one for each dimension of positions"
                )
        for what, least in (("stride", 1), ("padding", 0), ("dilation", 1)):
            if min(self.given[what]) < least:
                raise wrong_property(what, self.given[what], f"numbers of {least} or more")
        for what, count in (("operand x", channels), ("the result", outputs)):
            verify_group("groups", groups, count, f"channels of {what}")
        expected = (outputs, quotient(channels, groups), *self.kernel)
        expect_shape("operand weight", self.weight, expected)
        expect_element_type("operand weight", self.weight, element_type_of(self.x))
        if self.bias is not None:
            expect_tensor("operand bias", self.bias, (outputs,), element_type_of(self.x))

    def argument(self, name: str) -> str:
        if name == "output_padding":
            return repr([0] * len(self.kernel))
        return super().argument(name)

    @property
    def kernel(self) -> tuple[int, ...]:
        """The extents of a window."""
        return shape_of(self.weight)[2:]

    @property
    def channels(self) -> int:
        """The number of channels of the result."""
        return shape_of(self.weight)[0]


MAX_COLUMNS, MAX_TAKEN = 512, 16
"""Columns of rows, and elements taken of each, one after the other."""


def has_short_rows(op: TopkOp) -> bool:
    """Return whether a few elements of many short rows are taken."""
    *_, columns = shape_of(op.x)
    is_by_row = op.given["dim"] == len(shape_of(op.x)) - 1
    is_short = columns != DYNAMIC_INDEX and columns <= MAX_COLUMNS
    few = op.given["k"] <= MAX_TAKEN
    return is_by_row and is_short and few and computes_in_float32(element_type_of(op.x))
