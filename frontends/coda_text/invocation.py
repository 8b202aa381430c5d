"""A call of an operator with evaluated arguments, as the rules of operators use it."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial, reduce
from typing import Any, TypeAlias

from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from coda_ir.dialects import coda
from coda_ir.dialects.coda.infer_type import InferTypeOp
from coda_ir.dialects.coda.shapes import element_type_of, is_float8, multiplies
from coda_ir.dialects.torch import NOT_SYMBOLS, CallOp
from coda_ir.frontends.coda_text.arguments import REFUSED_VALUE, Mistake
from coda_ir.frontends.coda_text.counterparts import SUPERFLUOUS
from coda_ir.frontends.coda_text.remedies import (
    REMEDIES,
    choice_remedy,
    rank_remedy,
    reshape_remedy,
)
from coda_ir.frontends.coda_text.values import (
    ELEMENT_TYPES,
    FLOAT_TYPES,
    INDEX_TYPES,
    SIZE_LIMITS,
    Dim,
    Dims,
    ElementType,
    ListValue,
    Number,
    PartialValue,
    TensorType,
    TensorValue,
    TupleValue,
    Value,
    describe,
    element_name,
    extent,
    format_dims,
    ir_type,
    is_manageable,
    is_number,
    stand_in,
    with_coda_names,
)
from coda_ir.symbolic_shapes import dims_attribute
from coda_ir.symbolic_size import SymbolicSize

Maker: TypeAlias = Callable[..., InferTypeOp]
"""The class of an operator."""

_ABOUT = re.compile(r"(?:operand|property) (\w+) ")
_ELEMENT = re.compile(r"has element type \w+, expected (\w+(, \w+)*( or \w+)?)")
_TYPE = re.compile(r"has (element type|type|shape) (\[[^]]*\]|[^ ,]+)")
_SHAPE = re.compile(r"(?<=expected )\d+(x\d+)*")
_STATED = re.compile(r"(?<=expected the shape )\[[^]]*\]")
_ROLE = re.compile(r"\b(operand|property) ")
"""Parts of the messages of verifiers."""

_PARAMETERS = {"weight": "w", "bias": "b", "x": "u", "weight_scales": "w_scales"}
"""Parameters with another name in the dialect."""


def with_type(text: str, type: TensorType) -> str:
    """Return what a verifier says about a tensor in the notation of .coda."""
    if "has shape " in text:
        text = _SHAPE.sub(lambda found: f"[{found[0].replace('x', ', ')}]", text)
        text = text.replace("expected [", "expected the shape [")
    return _TYPE.sub(lambda _: f"is {type}", text)


def _operands(given: Iterable[object], value_of: Callable[[TensorValue], SSAValue]) -> list[Any]:
    """Return arguments of an operator, with values in place of tensors, also in lists."""

    def operand(each: Any) -> Any:
        if isinstance(each, TensorValue):
            return value_of(each)
        return _operands(each, value_of) if isinstance(each, list) else each

    return [operand(each) for each in given]


@dataclass(frozen=True, slots=True)
class Invocation:
    """The arguments by parameter name. The accessors raise `Mistake` for a wrong kind."""

    name: str
    values: Mapping[str, Sequence[Value]]
    insert: Callable[[Operation], None]
    symbols: Mapping[str, Dim] = field(default_factory=dict[str, Dim])
    """The sizes of the symbols of the function, where it is inlined."""
    tensors: Callable[[], Iterable[TensorValue]] = tuple
    """Gives the tensors that the function has been given or computed so far."""

    def make(self, kind: Maker, *given: object, **named: Any) -> TensorValue:
        """Insert an operator of tensors and properties; see `make_all`. Return its first result."""
        return self.make_all(kind, *given, **named)[0]

    def make_all(self, kind: Maker, *given: object, **named: Any) -> list[TensorValue]:
        """Insert an operator that `kind` makes of the IR's values of tensors, and of properties.

        The symbolic extents of its results follow from those of the tensors by its own rule.
        """
        self.check(kind, *given, **named)
        op = kind(*_operands(given, lambda x: x.ssa), **named)
        extents = op.result_extents([x.dims for x in given if isinstance(x, TensorValue)])
        return self.emit_all(op, [tuple(dims) for dims in extents])

    def check(self, kind: Maker, *given: object, **named: Any) -> None:
        """Raise Mistake unless the verifier accepts the operator of `make_all`.

        The verifier compares dynamic extents by their names, which the IR does not have: it sees an
        operator on stand-ins of the tensors.
        """
        op = kind(*_operands(given, lambda x: stand_in(x.type)), **named)
        try:
            self._verify(op)
        finally:
            op.drop_all_references()

    def emit(self, op: Operation, dims: Dims) -> TensorValue:
        """Insert an operator, whose first result has the symbolic extents `dims`."""
        return self.emit_all(op, [dims])[0]

    def emit_stated(self, op: Operation, dims: Dims) -> TensorValue:
        """Insert an operator whose result states its symbolic extents, which no rule gives."""
        op.attributes["coda.dims"] = dims_attribute(dims)
        return self.emit(op, dims)

    def emit_all(self, op: Operation, extents: Sequence[Dims]) -> list[TensorValue]:
        """Insert an operator whose results have these symbolic extents."""
        if not all(is_manageable(dim) for dims in extents for dim in dims):
            raise Mistake(
                f"{self.name}: an extent of the result is too large", SIZE_LIMITS, "E0506"
            )
        self.add(op)
        return [
            TensorValue(TensorType(element_name(element_type_of(result)), dims), result)
            for result, dims in zip(op.results, extents, strict=False)
        ]

    def add(self, op: Operation) -> None:
        """Insert an operator. Raises Mistake where it does not verify."""
        self._verify(op)
        self.insert(op)

    def _verify(self, op: Operation) -> None:
        try:
            op.verify_()
        except VerifyException as error:
            raise self.fault(error) from error

    def emit_reshape(self, x: TensorValue, dims: Dims) -> TensorValue:
        """Insert a view of `x` with as many elements."""
        op = coda.ReshapeOp(x.ssa, [extent(dim) for dim in dims])
        is_stated = sum(not isinstance(dim, int) for dim in dims) > 1
        return self.emit_stated(op, dims) if is_stated else self.emit(op, dims)

    def emit_call(
        self,
        callee: str,
        x: TensorValue,
        arguments: str,
        dims: Dims,
        *,
        view: bool = False,
        element: str | None = None,
    ) -> TensorValue:
        """Insert a call of PyTorch on `x` whose result has its element type, or `element`."""
        used = {name for dim in dims if isinstance(dim, SymbolicSize) for name in dim.symbols}
        hidden = sorted(NOT_SYMBOLS & used)
        if hidden:
            raise Mistake(
                f"{self.name}: a size is called {hidden[0]}, which has another meaning in calls "
                "of PyTorch",
                "rename the size",
            )
        type = TensorType(element or x.type.element, dims)
        op = CallOp(callee, [x.ssa], arguments, [ir_type(type)], view=view)
        return self.emit_stated(op, dims)

    def holder(self, size: Dim) -> tuple[SSAValue, int] | None:
        """A tensor and its dimension that has a symbolic extent; None where there is none."""
        for tensor in self.tensors():
            if size in tensor.dims:
                return tensor.ssa, tensor.dims.index(size)
        return None

    def emit_number(self, number: float | SymbolicSize, element: str) -> TensorValue:
        """Insert a number, or a size that is known at run time, as one element of a type."""
        type = ELEMENT_TYPES[element]
        if isinstance(number, SymbolicSize):
            size = self._emit_size(number)
            return size if element == "i64" else self.make(coda.CastOp, size, type)
        value = float(number) if element in FLOAT_TYPES else int(number)
        return self.emit(coda.ConstantOp(value, type), ())

    def _emit_size(self, size: SymbolicSize) -> TensorValue:
        """The extent of a tensor, or what extents multiply and add up to."""
        holder = self.holder(size)
        if holder is not None:
            return self.emit(coda.ExtentOp(*holder), ())
        terms: list[TensorValue] = []
        for symbols, coefficient in size.terms:
            factors = [self._emit_size(SymbolicSize.of(symbol)) for symbol in symbols]
            if coefficient != 1 or not factors:
                factors.append(self.emit_number(coefficient, "i64"))
            terms.append(reduce(partial(self.make, coda.MulOp), factors))
        return reduce(partial(self.make, coda.AddOp), terms)

    def wrong(
        self,
        argument: str,
        expected: str,
        remedy: str | None = None,
        code: str = REFUSED_VALUE,
        *,
        given: object = None,
    ) -> Mistake:
        """The mistake that an argument is what was `given`, instead of what is `expected`."""
        if given is None:
            value = self.value(argument)
            assert value is not None, f"parameter {argument} is given"
            given = value.type if isinstance(value, TensorValue) else describe(value)
        message = f"{self.name}: {argument} is {given}, {expected}"
        return Mistake(message, remedy, code, argument=argument)

    def fault(self, error: VerifyException) -> Mistake:
        """The mistake that a verifier has found, at the argument that its message is about."""
        message = with_coda_names(str(error))
        found = _ABOUT.match(message)
        name = "" if found is None else found[1]
        name = name if self.given(name) else _PARAMETERS.get(name, "")
        if found is None or not self.given(name):
            return Mistake(f"{self.name}: {_ROLE.sub('', message)}")
        text, value = message[found.end() :], self.value(name)
        element, remedy = _ELEMENT.fullmatch(text), REMEDIES.get((self.name, name))
        if isinstance(value, TensorValue) and element is not None:
            first = element[1].split(",")[0].split(" ")[0]
            if first in ELEMENT_TYPES:
                remedy = f"convert it: cast(${name}, {first})"
            return self.wrong(name, f"expected {element[1]} elements", remedy, "E0501")
        if isinstance(value, TensorValue):
            text = with_type(text, value.type)
            if stated := _STATED.search(text):
                remedy = reshape_remedy(name, value.dims, stated[0]) or remedy
        code = "E0507" if message.startswith("operand") else REFUSED_VALUE
        code = "E0501" if " has element type " in message else code
        return Mistake(f"{self.name}: {name} {_ROLE.sub('', text)}", remedy, code, argument=name)

    def value(self, name: str) -> Value | None:
        values = self.values.get(name)
        return values[0] if values else None

    def given(self, name: str) -> bool:
        return name in self.values

    def transposed(self, x: TensorValue, axes: Sequence[int]) -> TensorValue:
        """Insert a transpose; x itself where the order of its dimensions stays."""
        return x if list(axes) == sorted(axes) else self.make(coda.TransposeOp, x, axes)

    def optional_tensor(self, name: str) -> TensorValue | None:
        return self.tensor(name) if self.given(name) else None

    def tensor(self, name: str, rank: int | None = None, least_rank: int = 0) -> TensorValue:
        value = self.value(name)
        assert value is not None, f"parameter {name} is required"
        return self.as_tensor(name, value, rank, least_rank)

    def as_tensor(
        self, name: str, value: Value, rank: int | None = None, least_rank: int = 0
    ) -> TensorValue:
        if isinstance(value, PartialValue):
            complete = "which is complete per tile only"
            remedy = f"combine it first: finalize(${name})"
            raise self.wrong(name, complete, remedy, "E0301", given=describe(value))
        if not isinstance(value, TensorValue):
            remedy = SUPERFLUOUS.get(self.name) if is_number(value) else None
            if isinstance(value, SymbolicSize) and self.name in coda.REAL_FUNCTIONS:
                remedy = f"write {self.name}(cast(${name}, f32)) for a tensor without dimensions"
            raise self.wrong(name, "expected a tensor", remedy, "E0508", given=describe(value))
        actual = len(value.dims)
        if (rank is not None and actual != rank) or actual < least_rank:
            expected = f"{rank}" if rank is not None else f"at least {least_rank}"
            raise Mistake(
                f"{self.name}: {name} is {value.type} of rank {actual}, expected rank {expected}",
                rank_remedy(name, value.dims, rank),
                argument=name,
                code="E0507",
            )
        return value

    def float_tensor(self, name: str, rank: int | None = None, least_rank: int = 0) -> TensorValue:
        tensor = self.tensor(name, rank, least_rank)
        if not tensor.type.is_float:
            is_stored = is_float8(ELEMENT_TYPES[tensor.type.element])
            fault = "but float8 is for storage" if is_stored else "expected floating-point elements"
            is_exact = tensor.type.element in ("i8", "u8")
            element = "bf16" if is_exact else "f32"
            raise self.wrong(name, fault, f"convert it: cast(${name}, {element})", "E0501")
        return tensor

    def factors(self, rank: int = 2) -> tuple[TensorValue, TensorValue]:
        """x and the weight w of a linear map, whose elements multiply."""
        x, w = self.tensor("x", least_rank=1), self.tensor("w")
        if len(x.dims) == rank < len(w.dims):
            raise self.wrong(
                "w", f"expected rank {rank}", "exchange $x and $w: the input comes first", "E0507"
            )
        w = self.as_tensor("w", w, rank)
        given = ELEMENT_TYPES[x.type.element]
        if not is_float8(given):
            self.float_tensor("x")
        if not multiplies(given, ELEMENT_TYPES[w.type.element]):
            self.expect_element("w", w, x.type.element)
        return x, w

    def index_tensor(self, name: str, remedy: str | None = None) -> TensorValue:
        tensor = self.tensor(name)
        if tensor.type.element not in INDEX_TYPES:
            raise self.wrong(
                name, "expected i32 or i64 elements", remedy or "declare it as i64", "E0501"
            )
        return tensor

    def expect_element(self, name: str, tensor: TensorValue, expected: str) -> None:
        """Raise unless `tensor` has the element type of x."""
        if tensor.type.element != expected:
            raise self.wrong(
                name,
                f"but x has {expected} elements",
                f"convert one of them, as in cast(${name}, {expected})",
                "E0501",
            )

    def expect_dims(self, name: str, tensor: TensorValue, expected: Dims) -> None:
        if tensor.dims != expected:
            shape = format_dims(expected)
            remedy = reshape_remedy(name, tensor.dims, shape)
            raise self.wrong(name, f"expected the shape {shape}", remedy, "E0507")

    def number(self, name: str, default: Number) -> Number:
        value = self.value(name)
        if value is None:
            return default
        if not isinstance(value, int | float) or not is_number(value):
            raise self.wrong(name, "expected a number", given=describe(value), code="E0508")
        return value

    def positive(self, name: str) -> float | None:
        """A number greater than 0, as a float; None where it is not given."""
        if not self.given(name):
            return None
        value = self.number(name, 1)
        if not value > 0:
            raise self.wrong(name, "expected more than 0", given=value)
        return float(value)

    def epsilon(self, default: float) -> float:
        """The `eps` of a norm."""
        value = self.number("eps", default)
        if not 0 <= value < float("inf"):
            raise self.wrong("eps", "expected 0 or more", given=value)
        return float(value)

    def integer(self, name: str, default: int) -> int:
        value = self.value(name)
        if value is None:
            return default
        if not isinstance(value, int) or isinstance(value, bool):
            raise self.wrong(
                name,
                "expected an integer",
                "integers are literals, consts and their arithmetic; // divides",
                "E0508",
                given=describe(value),
            )
        return value

    def flag(self, name: str) -> bool:
        """The value of a boolean parameter, false by default."""
        value = self.value(name)
        if value is None:
            return False
        if not isinstance(value, bool):
            raise self.wrong(name, "expected true or false", given=describe(value), code="E0508")
        return value

    def choice(self, name: str, default: str, choices: Sequence[str]) -> str:
        value = self.value(name)
        if value is None:
            return default
        options = ", ".join(f'"{choice}"' for choice in choices)
        if not isinstance(value, str):
            raise self.wrong(
                name, f"expected one of {options}", given=describe(value), code="E0403"
            )
        if value not in choices:
            raise Mistake(
                f'{self.name}: {name} is "{value}", expected one of {options}',
                choice_remedy(
                    name,
                    value,
                    choices,
                    self.name,
                    self.value("x"),
                    adjacent=self.value("adjacent") is True,
                ),
                "E0403",
                argument=name,
            )
        return value

    def element_type(self, name: str) -> str | None:
        """The name of an element type; None where it is not given."""
        value = self.value(name)
        if value is None:
            return None
        if not isinstance(value, ElementType):
            raise self.wrong(
                name,
                "expected an element type",
                f"element types are {', '.join(ELEMENT_TYPES)}, without quotes",
                "E0501",
                given=describe(value),
            )
        return value.name

    def float_type(self, name: str) -> Attribute | None:
        """A floating-point element type; None where it is not given."""
        found = self.element_type(name)
        if found is not None and found not in FLOAT_TYPES:
            raise self.wrong(name, "expected bf16, f16, f32 or f64", given=found, code="E0501")
        return None if found is None else ELEMENT_TYPES[found]

    def sizes(self, name: str) -> tuple[Dim, ...]:
        value = self.value(name)
        if not isinstance(value, ListValue):
            what = "nothing" if value is None else describe(value)
            items = "..." if value is None else f"${name}, ..."
            remedy = f"write {name}=[{items}]"
            if isinstance(value, TupleValue):
                remedy = "write [ and ] in place of the parentheses"
            raise self.wrong(name, "expected a list in brackets", remedy, "E0508", given=what)
        return value.items

    def size(self, name: str) -> Dim:
        value = self.value(name)
        if isinstance(value, bool) or not isinstance(value, int | SymbolicSize):
            what = "nothing" if value is None else describe(value)
            raise self.wrong(name, "expected a size", given=what, code="E0506")
        return value

    def integers(self, name: str) -> tuple[int, ...]:
        items = self.sizes(name)
        integers = tuple(item for item in items if isinstance(item, int))
        if len(integers) != len(items):
            raise Mistake(
                f"{self.name}: {name} has a symbol in {format_dims(items)}, expected numbers",
                argument=name,
                code="E0508",
            )
        return integers

    def axis(self, name: str, rank: int, default: int) -> int:
        """A dimension counted from the front; negative ones count from the back."""
        if isinstance(self.value(name), ListValue):
            raise self.wrong(name, "expected an integer", "a call takes one dimension", "E0508")
        axis = self.integer(name, default)
        if not -rank <= axis < rank:
            raise self.wrong(name, f"expected {-rank} to {rank - 1}", given=axis, code="E0505")
        return axis % rank
