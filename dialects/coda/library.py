"""Operators that run as one call of PyTorch: rows and elements by number, order, running sums,
normalized groups of channels.
"""

from abc import ABC
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, TypeAlias, cast

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    ArrayAttr,
    BoolAttr,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    StringAttr,
    TensorType,
    i1,
    i64,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from coda_ir.dialects.coda.base import CodaOp
from coda_ir.dialects.coda.shapes import (
    element_type_of,
    expect_element_type,
    expect_rank_at_least,
    expect_shape,
    format_shape,
    is_float,
    shape_of,
)
from coda_ir.dialects.template import ArgumentTemplate

Extents: TypeAlias = tuple[Any, ...]
"""Numbers, where `DYNAMIC_INDEX` is an open one, or symbols."""
Given: TypeAlias = "int | float | Sequence[int]"
"""The value of a property in Python."""


class LibraryCallOp(CodaOp, ABC):
    """An operator that runs as a call of an overload of ATen.

    The class states what everything else follows from: types and symbols of the results, the call
    that the reference, float64 and the emitted module make, and which calls of PyTorch the pass
    `raise-library-calls` replaces by it.
    """

    ATEN: ClassVar[str]
    """The overload, without its namespace."""
    PARAMETERS: ClassVar[tuple[str, ...]]
    """The parameters of the overload in order, as this operator names its operands and properties:
    like ATen, but for the first one.
    """
    FIXED: ClassVar[Mapping[str, object]] = {}
    """Parameters of the overload that are no choice here, with their values."""
    RULE: ClassVar[Callable[..., Sequence[Extents]]]
    """The extents of the results from those of the operands, and from the properties by name."""
    ELEMENTS: ClassVar[Sequence[Attribute | None]] = (None,)
    """The element type of each result; None for that of the first operand."""
    FUSES_IF: ClassVar[str]
    """The condition under which an epilogue could compute it, which does not hold."""

    traits = traits_def(Pure())

    def __init__(self, *operands: SSAValue | Operation, **given: Given):
        """Build the operator; a negative `dim` counts from the back."""
        self._build([[operand] for operand in operands], **given)

    def _build(self, segments: Sequence[Sequence[SSAValue | Operation]], **given: Given) -> None:
        """Infer the results; `segments` are the operands of each definition."""
        segments = [[SSAValue.get(value) for value in segment] for segment in segments]
        values = [cast(SSAValue, value) for segment in segments for value in segment]
        dim = given.get("dim")
        if isinstance(dim, int) and dim < 0:
            given["dim"] = dim + len(shape_of(values[0]))
        extents = type(self).RULE(*map(shape_of, values), **given)
        elements = [element or element_type_of(values[0]) for element in self.ELEMENTS]
        super().__init__(
            operands=segments,
            properties={name: _attribute(value) for name, value in given.items()},
            result_types=[
                TensorType(element, static_extents(each))
                for element, each in zip(elements, extents, strict=True)
            ],
        )

    # The parts of a call of PyTorch, as `torch.CallOp` has them.

    @property
    def callee(self) -> StringAttr:
        """The full name of the overload."""
        return StringAttr(f"aten.{self.ATEN}")

    @property
    def inputs(self) -> Sequence[SSAValue]:
        """The tensors among the arguments."""
        return self.operands

    @property
    def outputs(self) -> Sequence[SSAValue]:
        """All results of the overload."""
        return self.results

    @property
    def picks(self) -> None:
        """None: the results are all those of the overload."""
        return None

    @property
    def arguments(self) -> StringAttr:
        """The arguments of the call as text: `{0}, 1, {1}`."""
        return StringAttr(", ".join(map(self.argument, self.PARAMETERS)))

    @property
    def template(self) -> ArgumentTemplate:
        """The arguments of the call as data."""
        return ArgumentTemplate.parse(self.arguments.data)

    def argument(self, name: str) -> str:
        """The text of one argument: an operand by its number, or the value of a property."""
        if name in self.FIXED:
            return repr(self.FIXED[name])
        value = getattr(self, name)
        return self.tensor(value) if isinstance(value, SSAValue) else repr(_value(value))

    def tensor(self, value: SSAValue) -> str:
        """The text of an operand as an argument."""
        return f"{{{list(self.operands).index(value)}}}"

    @property
    def given(self) -> dict[str, Any]:
        """The values of the properties by name."""
        return {name: _value(attribute) for name, attribute in self.properties.items()}

    @property
    def index(self) -> "tuple[int, SSAValue, int] | None":
        """The number of the operand of integers, and the dimension of a value whose elements they
        name; None where there is no such operand.
        """
        return None

    def result_extents(self, operands: Sequence[Extents]) -> Sequence[Extents]:
        """The extents of the results from those of the operands."""
        return type(self).RULE(*operands, **self.given)

    def check(self) -> None:
        """Raise unless operands and properties fit together."""

    def verify_(self) -> None:
        if "dim" in self.properties:
            _expect_dim(self.given["dim"], self.operands[0])
        self.check()
        extents = self.result_extents([shape_of(value) for value in self.operands])
        first = element_type_of(self.operands[0])
        for number, result in enumerate(self.results):
            what = f"result {number}" if len(self.results) > 1 else "result"
            expect_shape(what, result, static_extents(extents[number]))
            expect_element_type(what, result, self.ELEMENTS[number] or first)


def static_extents(extents: Extents) -> tuple[int, ...]:
    """The extents of a type, in which symbols are open."""
    return tuple(extent if isinstance(extent, int) else DYNAMIC_INDEX for extent in extents)


def _attribute(value: Given) -> Attribute:
    match value:
        case bool():
            return BoolAttr.from_bool(value)
        case int():
            return IntegerAttr(value, 64)
        case float():
            return FloatAttr(value, 64)
        case _:
            return ArrayAttr(IntegerAttr(item, 64) for item in value)


def _value(attribute: Attribute | None) -> Any:
    match attribute:
        case IntegerAttr():
            number = attribute.value.data
            return bool(number) if attribute.type == i1 else number
        case FloatAttr():
            return attribute.value.data
        case ArrayAttr():
            return [_value(item) for item in cast(ArrayAttr[Attribute], attribute)]
        case _:
            return None


def _expect_dim(dim: int, x: SSAValue) -> None:
    rank = len(shape_of(x))
    if not 0 <= dim < rank:
        raise VerifyException(f"property dim is {dim}, expected 0 to {rank - 1}")


def _expect_integers(what: str, value: SSAValue) -> None:
    element = element_type_of(value)
    if not isinstance(element, IntegerType) or element == i1:
        raise VerifyException(f"operand {what} has element type {element}, expected i32 or i64")


def _expect_i64(what: str, value: SSAValue) -> None:
    if element_type_of(value) != i64:
        raise VerifyException(
            f"operand {what} has element type {element_type_of(value)}, expected i64"
        )


def _expect_floats(what: str, value: SSAValue) -> None:
    if not is_float(element_type_of(value)):
        raise VerifyException(
            f"operand {what} has element type {element_type_of(value)}, expected a float type"
        )


def _expect_other_dims(what: str, value: SSAValue, x: SSAValue, dim: int) -> None:
    """Raise unless `value` has the extents of x in all dimensions but `dim`."""
    shape = list(shape_of(x))
    if len(shape_of(value)) == len(shape):
        shape[dim] = shape_of(value)[dim]
    expect_shape(f"operand {what}", value, shape)


def _one_of(name: str, value: int, extent: int, what: str) -> None:
    if value < 1 or (extent != DYNAMIC_INDEX and value > extent):
        limit = "1 or more" if extent == DYNAMIC_INDEX else f"1 to {extent}"
        raise VerifyException(f"property {name} is {value}, expected {limit}, the {what}")


def _replaced(x: Extents, dim: int, *extents: Any) -> Extents:
    """The extents `x` with others in place of that of `dim`."""
    return (*x[:dim], *extents, *x[dim + 1 :])


# Rows and elements by number.


@irdl_op_definition
class IndexOp(LibraryCallOp):
    """Slices of x that the integers `ids` name in dimension `dim`, in whose place the dimensions of
    `ids` come. Negative numbers count from the back, as in PyTorch.

    `coda.index %x, %ids {dim = 0 : i64} : (tensor<9x?x8xf32>, tensor<?xi64>) -> tensor<?x?x8xf32>`
    """

    name = "coda.index"
    ATEN: ClassVar = "index.Tensor"
    PARAMETERS: ClassVar = ("x", "ids")
    RULE: ClassVar = staticmethod(lambda x, ids, dim: [_replaced(x, dim, *ids)])
    FUSES_IF: ClassVar = "a row of the result needs the row of the same number alone"

    x = operand_def(TensorType)
    ids = operand_def(TensorType)
    dim = prop_def(IntegerAttr)
    result = result_def(TensorType)

    def argument(self, name: str) -> str:
        if name != "ids":
            return super().argument(name)
        return f"[{'None, ' * self.given['dim']}{self.tensor(self.ids)}]"

    @property
    def index(self) -> tuple[int, SSAValue, int]:
        return 1, self.x, self.given["dim"]

    def check(self) -> None:
        _expect_integers("ids", self.ids)


@irdl_op_definition
class GatherOp(LibraryCallOp):
    """The elements of x that the integers `index` name along `dim`: `torch.gather`.

    `index` has the extents of x in all other dimensions.

    `coda.gather %x, %ids {dim = 1 : i64} : (tensor<?x8xf32>, tensor<?x2xi64>) -> tensor<?x2xf32>`
    """

    name = "coda.gather"
    ATEN: ClassVar = "gather.default"
    PARAMETERS: ClassVar = ("x", "dim", "ids")
    RULE: ClassVar = staticmethod(lambda x, ids, dim: [ids])
    FUSES_IF: ClassVar = "the column of an element is known before its number is read"

    x = operand_def(TensorType)
    ids = operand_def(TensorType)
    dim = prop_def(IntegerAttr)
    result = result_def(TensorType)

    @property
    def index(self) -> tuple[int, SSAValue, int]:
        return 1, self.x, self.given["dim"]

    def check(self) -> None:
        _expect_i64("ids", self.ids)
        _expect_other_dims("ids", self.ids, self.x, self.given["dim"])


@irdl_op_definition
class ScatterOp(LibraryCallOp):
    """x with `values` in place of the elements that the integers `ids` name along `dim`.

    `ids` and `values` have the extents of x in all other dimensions. No two of the numbers that
    lie along `dim` may be equal: which of the values counts would be open.

    `coda.scatter %x, %ids, %values {dim = 1 : i64} : (tensor<?x8xf32>, tensor<?x2xi64>,
    tensor<?x2xf32>) -> tensor<?x8xf32>`
    """

    name = "coda.scatter"
    ATEN: ClassVar = "scatter.src"
    PARAMETERS: ClassVar = ("x", "dim", "ids", "values")
    RULE: ClassVar = staticmethod(lambda x, ids, values, dim: [x])
    FUSES_IF: ClassVar = "the column of an element is known before its number is read"

    x = operand_def(TensorType)
    ids = operand_def(TensorType)
    values = operand_def(TensorType)
    dim = prop_def(IntegerAttr)
    result = result_def(TensorType)

    @property
    def index(self) -> tuple[int, SSAValue, int]:
        return 1, self.x, self.given["dim"]

    def check(self) -> None:
        _expect_i64("ids", self.ids)
        _expect_other_dims("ids", self.ids, self.x, self.given["dim"])
        expect_shape("operand values", self.values, shape_of(self.ids))
        expect_element_type("operand values", self.values, element_type_of(self.x))


@irdl_op_definition
class OneHotOp(LibraryCallOp):
    """1 in the column that an integer names, 0 in the others: `classes` columns of i64.

    `coda.one_hot %ids {classes = 8 : i64} : (tensor<?xi64>) -> tensor<?x8xi64>`
    """

    name = "coda.one_hot"
    ATEN: ClassVar = "one_hot.default"
    PARAMETERS: ClassVar = ("ids", "classes")
    RULE: ClassVar = staticmethod(lambda ids, classes: [(*ids, classes)])
    ELEMENTS: ClassVar = (i64,)
    FUSES_IF: ClassVar = "the epilogue knows the number of its column"

    ids = operand_def(TensorType)
    classes = prop_def(IntegerAttr)
    result = result_def(TensorType)

    @property
    def index(self) -> tuple[int, SSAValue, int]:
        return 0, self.result, -1

    def check(self) -> None:
        _expect_i64("ids", self.ids)
        _one_of("classes", self.given["classes"], DYNAMIC_INDEX, "number of columns")


# Order and running sums.


@irdl_op_definition
class TopkOp(LibraryCallOp):
    """The `k` largest elements along `dim`, the largest first, and their numbers.

    `%values, %ids = coda.topk %x {k = 2 : i64, dim = 1 : i64} : (tensor<?x8xf32>) ->
    (tensor<?x2xf32>, tensor<?x2xi64>)`
    """

    name = "coda.topk"
    ATEN: ClassVar = "topk.default"
    PARAMETERS: ClassVar = ("x", "k", "dim")
    FIXED: ClassVar[Mapping[str, object]] = {"largest": True}
    RULE: ClassVar = staticmethod(lambda x, k, dim: [_replaced(x, dim, k)] * 2)
    ELEMENTS: ClassVar = (None, i64)
    FUSES_IF: ClassVar = "the whole row is on chip"

    x = operand_def(TensorType)
    k = prop_def(IntegerAttr)
    dim = prop_def(IntegerAttr)
    result = result_def(TensorType)
    ids = result_def(TensorType)

    def check(self) -> None:
        _one_of("k", self.given["k"], shape_of(self.x)[self.given["dim"]], "elements along dim")


@irdl_op_definition
class SortOp(LibraryCallOp):
    """The elements along `dim` in order, and their numbers; equal ones keep their order.

    `%values, %ids = coda.sort %x {dim = 1 : i64, descending = false} : (tensor<?x8xf32>) ->
    (tensor<?x8xf32>, tensor<?x8xi64>)`
    """

    name = "coda.sort"
    ATEN: ClassVar = "sort.stable"
    PARAMETERS: ClassVar = ("x", "stable", "dim", "descending")
    FIXED: ClassVar[Mapping[str, object]] = {"stable": True}
    RULE: ClassVar = staticmethod(lambda x, dim, descending: [x, x])
    ELEMENTS: ClassVar = (None, i64)
    FUSES_IF: ClassVar = "the whole row is on chip"

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

    name = "coda.cumsum"
    ATEN: ClassVar = "cumsum.default"
    PARAMETERS: ClassVar = ("x", "dim")
    FIXED: ClassVar[Mapping[str, object]] = {"dtype": None}
    RULE: ClassVar = staticmethod(lambda x, dim: [x])
    FUSES_IF: ClassVar = "an element needs no others"

    x = operand_def(TensorType)
    dim = prop_def(IntegerAttr)
    result = result_def(TensorType)

    def check(self) -> None:
        if not is_float(element_type_of(self.x)):
            _expect_i64("x", self.x)


# Channels before positions: B x C x S1 x ...


@irdl_op_definition
class GroupNormOp(LibraryCallOp):
    """(x − mean) · rsqrt(var + eps) ⊙ weight + bias over all positions of each of `groups` equal
    runs of channels, which are dimension 1 (arXiv 1803.08494).

    `params` holds the weight and the bias, with one element for each channel, or nothing.

    `coda.group_norm %x, %w, %b {groups = 4 : i64, eps = 1.0e-5 : f64} : (tensor<?x8x?x?xbf16>,
    tensor<8xbf16>, tensor<8xbf16>) -> tensor<?x8x?x?xbf16>`
    """

    name = "coda.group_norm"
    ATEN: ClassVar = "group_norm.default"
    PARAMETERS: ClassVar = ("x", "groups", "weight", "bias", "eps")
    FIXED: ClassVar[Mapping[str, object]] = {"cudnn_enabled": True}
    RULE: ClassVar = staticmethod(lambda x, *params, groups, eps: [x])
    FUSES_IF: ClassVar = "all positions of a sample are on chip"

    x = operand_def(TensorType)
    params = var_operand_def(TensorType)
    groups = prop_def(IntegerAttr)
    eps = prop_def(FloatAttr)
    result = result_def(TensorType)

    def __init__(
        self, x: SSAValue | Operation, *params: SSAValue | Operation, groups: int, eps: float
    ):
        self._build([[x], params], groups=groups, eps=eps)

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
        _expect_floats("x", self.x)
        channels, groups = shape_of(self.x)[1], self.given["groups"]
        if groups < 1 or (channels != DYNAMIC_INDEX and channels % groups):
            raise VerifyException(
                f"property groups is {groups}, expected a divisor of the "
                f"{format_shape((channels,))} channels"
            )
        if len(self.params) not in (0, 2):
            raise VerifyException(f"{len(self.params)} parameters, expected a weight and a bias")
        for what, value in zip(("weight", "bias"), self.params, strict=False):
            expect_shape(f"operand {what}", value, (channels,))
            expect_element_type(f"operand {what}", value, element_type_of(self.x))


LIBRARY_CALL_OPS: tuple[type[LibraryCallOp], ...] = (
    IndexOp,
    GatherOp,
    ScatterOp,
    OneHotOp,
    TopkOp,
    SortOp,
    CumsumOp,
    GroupNormOp,
)
