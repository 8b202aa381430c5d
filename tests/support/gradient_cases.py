"""Functions of single operators, whose gradients are compared."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    ArrayAttr,
    DictionaryAttr,
    ModuleOp,
    StringAttr,
    TensorType,
    f32,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.coda import elementwise
from coda_ir.dialects.torch import CallOp
from coda_ir.symbolic_shapes import Dims, dims_attribute
from support.function_numbers import some_numbers

SIZES = {"B": 2, "M": 3, "T": 4, "S": 5, "N": 6}

ONES = dict.fromkeys(SIZES, 1)


class Values:
    """The parameters of a function by name, and in order."""

    def __init__(self, values: dict[str, SSAValue]):
        self._values = values

    def __getattr__(self, name: str) -> SSAValue:
        return self._values[name]

    def __iter__(self) -> Iterator[SSAValue]:
        return iter(self._values.values())


Ops: TypeAlias = Operation | Sequence[Operation]
"""An operator, or several the last of which gives the results."""

Build: TypeAlias = Callable[[Values], Ops]


def of(make: Callable[..., Operation], *settings: Any, **named: Any) -> Build:
    """An operator of all parameters."""
    return lambda values: make(*values, *settings, **named)


@dataclass(frozen=True)
class Case:
    """A function of tensors of some dimensions, in float32 unless stated."""

    parameters: dict[str, Dims]
    build: Build
    wrt: tuple[str, ...] = ()
    types: dict[str, Attribute] | None = None
    sizes: tuple[dict[str, int], ...] = (SIZES, ONES)

    def module(self) -> ModuleOp:
        types = {name: (self.types or {}).get(name, f32) for name in self.parameters}
        block = Block(
            arg_types=[
                TensorType(types[name], [DYNAMIC_INDEX if isinstance(d, str) else d for d in dims])
                for name, dims in self.parameters.items()
            ]
        )
        for name, argument in zip(self.parameters, block.args, strict=True):
            argument.name_hint = name
        built = self.build(Values(dict(zip(self.parameters, block.args, strict=True))))
        ops = [built] if isinstance(built, Operation) else list(built)
        block.add_ops(ops)
        returned = ops[-1].results
        block.add_op(ReturnOp(*returned))
        func = FuncOp(
            "f",
            ([argument.type for argument in block.args], [value.type for value in returned]),
            Region(block),
        )
        func.arg_attrs = ArrayAttr(
            DictionaryAttr({"coda.name": StringAttr(name), "coda.dims": dims_attribute(dims)})
            for name, dims in self.parameters.items()
        )
        return ModuleOp([func])


X: dict[str, Dims] = {"x": ("M", 8)}
HEADS: dict[str, Dims] = {"x": ("B", "T", 8)}


UNARY: dict[str, Build] = {
    **{
        name: of(operator, *some_numbers(operator))
        for name, operator in coda.REAL_FUNCTIONS.items()
        if not (operator.OF_POSITIVE or issubclass(operator, coda.Predicate) or name == "detach")
    },
    "neg": of(coda.NegOp),
    "cube": of(coda.PowOp, 3.0),
    "softmax": of(coda.SoftmaxOp),
}

BINARY: dict[str, type[coda.BinaryOp]] = {
    "add": coda.AddOp,
    "sub": coda.SubOp,
    "mul": coda.MulOp,
    **{
        name: operator
        for name, operator in coda.FUNCTIONS_OF_TWO.items()
        if operator.ELEMENTS != coda.Elements.BOOLEANS and operator is not elementwise.PowerOp
    },
}

SHAPES: list[tuple[Dims, Dims]] = [
    (("M", 8), ("M", 8)),
    (("B", "T", 8), (8,)),
    (("B", "T", 8), ("T", 1)),
    (("B", 1, 8), ("B", "T", 1)),
    ((1, 8), ("M", 8)),
    ((), ("M", 8)),
]


def positive(make: type[coda.UnaryOp]) -> Case:
    """Check 1 + x², where the operator is smooth."""

    def build(v: Values) -> Ops:
        square, one = coda.MulOp(v.x, v.x), coda.ConstantOp(1.0, f32)
        total = coda.AddOp(square, one)
        return square, one, total, make(total, *some_numbers(make))

    return Case(X, build)


def divided(v: Values) -> Ops:
    """a / (1 + b²)."""
    square, one = coda.MulOp(v.b, v.b), coda.ConstantOp(1.0, f32)
    total = coda.AddOp(square, one)
    return square, one, total, coda.DivOp(v.a, total)


def raised(v: Values) -> Ops:
    """1 + a² to the power b."""
    square, one = coda.MulOp(v.a, v.a), coda.ConstantOp(1.0, f32)
    total = coda.AddOp(square, one)
    return square, one, total, elementwise.PowerOp(total, v.b)


def chosen(v: Values) -> Ops:
    """a where a < b, else b."""
    condition = coda.CompareOp(v.a, v.b, "lt")
    return condition, coda.WhereOp(condition, v.a, v.b)


def attention(**properties: Any) -> Build:
    """Attention of q, k, v, and of the sinks and the mask where there are such parameters."""

    def build(v: Values) -> Ops:
        q, k, values, *added = v
        names = [name for name in ("sinks", "mask") if name in properties]
        tensors: dict[str, Any] = dict(zip(names, added, strict=True))
        return coda.AttentionOp(q, k, values, head_dim=4, **{**properties, **tensors})

    return build


def of_call(callee: str, arguments: str, result: Dims, **options: Any) -> Build:
    shape = [DYNAMIC_INDEX if isinstance(dim, str) else dim for dim in result]

    def build(v: Values) -> Ops:
        call = CallOp(callee, list(v), arguments, [TensorType(f32, shape)], **options)
        call.attributes["coda.dims"] = dims_attribute(result)
        return call

    return build


QKV: dict[str, Dims] = {"q": ("B", "T", 16), "k": ("B", "S", 8), "v": ("B", "S", 8)}
SQUARE: dict[str, Dims] = {"q": ("B", "T", 16), "k": ("B", "T", 8), "v": ("B", "T", 8)}
TABLES: dict[str, Dims] = {"x": ("B", "T", 16), "cos": ("T", 2), "sin": ("T", 2)}
