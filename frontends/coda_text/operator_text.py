"""Block-level operators as expressions of .coda."""

import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from xdsl.dialects.builtin import ArrayAttr, BoolAttr, FloatAttr, IntegerAttr, StringAttr, UnitAttr
from xdsl.ir import Attribute, Operation, SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.coda.scan import StateSpaceModel
from coda_ir.dialects.coda.shapes import element_type_of
from coda_ir.dialects.torch import CallOp
from coda_ir.frontends.coda_text.operators import NAMED_BY, OPERATORS
from coda_ir.frontends.coda_text.scaled_linear import RECIPES
from coda_ir.frontends.coda_text.values import CODA_NAMES
from coda_ir.symbolic_shapes import Dim, SymbolicShapes

SUM, PRODUCT, NEGATION, ATOM = 1, 2, 3, 4
"""Precedence of expressions, from weak to strong."""

_INFIX: dict[type[Operation], tuple[str, int]] = {
    coda.AddOp: ("+", SUM),
    coda.SubOp: ("-", SUM),
    coda.MulOp: ("*", PRODUCT),
    coda.DivOp: ("/", PRODUCT),
}

_WORD = re.compile(r"[^\W\d]\w*|\?")


class Inexpressible(Exception):
    """An operator that the language cannot express."""


@dataclass(frozen=True)
class Text:
    """An expression: `strength` is one of SUM, PRODUCT, NEGATION and ATOM.

    A number is a scalar whose element type is that of the other operand.
    """

    text: str
    strength: int
    is_number: bool = False

    def within(self, strength: int) -> str:
        """Return the text in a place for expressions of at least `strength`."""
        return self.text if self.strength >= strength else f"({self.text})"


def element_name(value: SSAValue | Attribute) -> str:
    """Return a name such as `bf16`. Raises Inexpressible for an element type that .coda lacks."""
    element = element_type_of(value) if isinstance(value, SSAValue) else value
    if element not in CODA_NAMES:
        raise Inexpressible(f"the element type {element}")
    return CODA_NAMES[element]


def type_text(value: SSAValue, shapes: SymbolicShapes) -> str:
    """Return a text such as `bf16[B, T, 512]`."""
    return f"{element_name(value)}[{', '.join(map(dim_text, shapes.dims(value)))}]"


def is_known(dim: Dim, symbols: Collection[str]) -> bool:
    """Return whether a size is calculated from these symbols."""
    return all(word in symbols for word in _WORD.findall(str(dim)))


def dim_text(dim: Dim) -> str:
    return str(dim) if isinstance(dim, int) else dim.replace("*", " * ")


def number_text(value: float | int) -> str:
    """Return the text of a number. Raises Inexpressible for infinities and NaN."""
    if not math.isfinite(value):
        raise Inexpressible(f"the number {value}")
    whole = float(value).is_integer() and abs(value) < 2**53
    return str(int(value)) if whole else repr(value)


class OperatorWriter:
    """Writes operators whose operands have been written."""

    def __init__(
        self, texts: Mapping[SSAValue, Text], shapes: SymbolicShapes, symbols: Collection[str]
    ):
        self._texts = texts
        self._shapes = shapes
        self._symbols = symbols

    def write(self, op: Operation) -> Text:
        """Write an operator. Raises Inexpressible for one that the language lacks."""
        for value in (*op.operands, *op.results):
            element_name(value)
        kind = type(op)
        if kind in _INFIX:
            return self._infix(op, *_INFIX[kind])
        if kind in _WRITERS:
            return _WRITERS[kind](self, op)
        name, _ = _name_of(op)
        if name not in OPERATORS:
            raise Inexpressible("the language has no such operator")
        if isinstance(op, coda.FunctionOfTwo | coda.CompareOp):
            return _call(name, *self._two(op.operands))
        if isinstance(op, coda.Selection):
            return _call(name, self._tensor(op.condition), *self._two((op.lhs, op.rhs)))
        return self._called(op)

    def _called(
        self,
        op: Operation,
        operands: Sequence[SSAValue] | None = None,
        without: Collection[str] = (),
        **stated: str,
    ) -> Text:
        """The call of an operator by its name. Its properties, but those `without`, and what is
        `stated` are arguments by name, unless they are defaults of the signature.
        """
        name, chosen = _name_of(op)
        formals = {formal.name: formal.default for formal in OPERATORS[name].signature.formals}
        left_out = {"operandSegmentSizes", chosen, *without}
        given = {k: _text_of(k, v) for k, v in op.properties.items() if k not in left_out}
        if "dtype" in formals:
            given |= _widened(op)
        given |= stated
        for key in given:
            if key not in formals:
                raise Inexpressible(f"the property {key}")
        tensors = map(self._tensor, op.operands if operands is None else operands)
        return _call(name, *tensors, **{k: v for k, v in given.items() if v != formals[k]})

    # Operands

    def tensor(self, value: SSAValue) -> Text:
        """Return the text of a tensor, which a number cannot replace."""
        text = self._texts[value]
        return _call("cast", text.text, element_name(value)) if text.is_number else text

    def _tensor(self, value: SSAValue, strength: int = SUM) -> str:
        return self.tensor(value).within(strength)

    def _two(
        self, operands: Sequence[SSAValue], left: int = SUM, right: int = SUM
    ) -> tuple[str, str]:
        """Return the operands of a binary operator, one of which may be a number."""
        texts = [self._texts[operand] for operand in operands]
        if all(text.is_number for text in texts):
            texts[0] = self.tensor(operands[0])
        return texts[0].within(left), texts[1].within(right)

    def _infix(self, op: Operation, symbol: str, strength: int) -> Text:
        # Operators of one strength group to the left.
        left, right = self._two(op.operands, strength, strength + 1)
        return Text(f"{left} {symbol} {right}", strength)

    # Operators

    def constant(self, op: coda.ConstantOp) -> Text:
        if element_name(op.result) == "bool":
            return Text("true" if op.number else "false", ATOM, is_number=True)
        text = number_text(op.number)
        return Text(text, NEGATION if text.startswith("-") else ATOM, is_number=True)

    def negation(self, op: coda.NegOp) -> Text:
        return Text(f"-{self._tensor(op.operand, NEGATION)}", NEGATION)

    def cast(self, op: coda.CastOp) -> Text:
        if op.operand.type == op.result.type:
            return self._texts[op.operand]
        return _call("cast", self._tensor(op.operand), element_name(op.result))

    def matmul(self, op: coda.MatmulOp) -> Text:
        if _widened(op):
            return _call("matmul", self._tensor(op.x), self._tensor(op.weight), **_widened(op))
        weight = self._tensor(op.weight, PRODUCT + 1)
        return Text(f"{self._tensor(op.x, PRODUCT)} @ {weight}", PRODUCT)

    def scaled(self, op: coda.ScaledLinearOp) -> Text:
        depth, columns = str(op.blocks.depth.data), str(op.blocks.columns.data)
        return self._called(op, without=["blocks"], depth=depth, columns=columns)

    def low_bits(self, op: coda.LowBitLinearOp) -> Text:
        depth, offset = str(op.scheme.depth.data), str(op.scheme.offset.data)
        packing, transposed = f'"{op.scheme.packing.data}"', "true" if op.is_kn else "false"
        return self._called(
            op,
            without=["scheme", "kn"],
            depth=depth,
            offset=offset,
            packing=packing,
            transposed=transposed,
        )

    def quantized(self, op: coda.QuantizedLinearOp) -> Text:
        scheme = op.blocks, op.quantized_gradient is not None
        recipe = next((name for name, each in RECIPES.items() if each == scheme), None)
        if recipe is None:
            raise Inexpressible(f"quantized_linear with {op.blocks}")
        without = ["blocks", "quantized_gradient"]
        return self._called(op, without=without, recipe=f'"{recipe}"')

    def layer_norm(self, op: coda.LayerNormOp) -> Text:
        if op.bias_only is None:
            return self._called(op)
        x, bias = op.operands
        return self._called(op, [x], without=["bias_only"], b=self._tensor(bias))

    def attention(self, op: coda.AttentionOp) -> Text:
        if op.lse is not None:
            raise Inexpressible("the logsumexp of scores of attention")
        tensors = {"sinks": op.sinks, "mask": op.mask}
        given = {name: self._tensor(x) for name, x in tensors.items() if x is not None}
        return self._called(op, (op.q, op.k, op.v), (), **given)

    def state_space(self, op: StateSpaceModel) -> Text:
        return self._called(op, final="false" if op.final is None else "true")

    def reshape(self, op: coda.ReshapeOp) -> Text:
        dims = [self._known(dim) for dim in self._shapes.dims(op.result)]
        if dims.count("-1") > 1:
            raise Inexpressible("the sizes of the result are not known by name")
        return _call("reshape", self._tensor(op.x), f"[{', '.join(dims)}]")

    def _known(self, dim: Dim) -> str:
        """Return the text of a size; -1 if the parameters do not determine it."""
        return dim_text(dim) if is_known(dim, self._symbols) else "-1"

    def broadcast(self, op: coda.BroadcastOp) -> Text:
        return _call("broadcast", self._tensor(op.x), self._sizes(op.result))

    def _sizes(self, value: SSAValue) -> str:
        """The sizes of a tensor in brackets, which the parameters must determine."""
        dims = [self._known(dim) for dim in self._shapes.dims(value)]
        if "-1" in dims:
            raise Inexpressible("the sizes of the result are not known by name")
        return f"[{', '.join(dims)}]"

    def transpose(self, op: coda.TransposeOp) -> Text:
        rank = len(op.permutation)
        if op.permutation == (*range(rank - 2), rank - 1, rank - 2):
            return _call("transpose", self._tensor(op.x))
        axes = ", ".join(map(str, op.permutation))
        return _call("transpose", self._tensor(op.x), f"[{axes}]")

    def pad(self, op: coda.PadOp) -> Text:
        if op.added is None:
            raise Inexpressible("a pad to the extent of another tensor")
        (before, after), dim = op.added, op.dim.value.data
        given = {"dim": str(dim)} if dim != len(self._shapes.dims(op.x)) - 1 else {}
        if op.number:
            given["value"] = number_text(op.number)
        counts = [before] if after == 0 else [before, after]
        return _call("pad", self._tensor(op.x), *map(str, counts), **given)

    def torch_call(self, op: CallOp) -> Text:
        if len(op.outputs) != 1:
            raise Inexpressible(f"a call with {len(op.outputs)} results")
        text = f"{op.callee.data}({op.arguments.data})"
        if '"' in text or "\n" in text:
            raise Inexpressible("a string with quotation marks")
        (result,) = op.outputs
        given = {"dtype": element_name(result), "shape": self._sizes(result)}
        if op.picks is not None:
            given["positions"] = str([*op.picks])
        flags = {"view": op.view, "random": op.random}
        given |= {name: "true" for name, flag in flags.items() if flag is not None}
        return _call("torch", f'"{text}"', *map(self._tensor, op.inputs), **given)

    def arange(self, op: coda.PositionsOp) -> Text:
        size, (start, step) = self._sizes(op.result)[1:-1], op.first_and_step
        given = {"start": str(start), "step": str(step), "dtype": element_name(op.result)}
        defaults = {"start": "0", "step": "1", "dtype": "i64"}
        return _call("arange", size, **{k: v for k, v in given.items() if defaults[k] != v})

    def extent(self, op: coda.ExtentOp) -> Text:
        size = self._known(self._shapes.dims(op.like)[op.axis])
        if size == "-1":
            raise Inexpressible("the extent is not known by name")
        return _call("cast", size, "i64")

    def concat(self, op: coda.ConcatOp) -> Text:
        dim, rank = op.dim.value.data, len(self._shapes.dims(op.result))
        given = {} if dim == rank - 1 else {"dim": str(dim)}
        return _call("concat", *map(self._tensor, op.parts), **given)


_WRITERS: dict[type[Operation], Callable[[OperatorWriter, Any], Text]] = {
    coda.ConstantOp: OperatorWriter.constant,
    coda.NegOp: OperatorWriter.negation,
    coda.CastOp: OperatorWriter.cast,
    coda.MatmulOp: OperatorWriter.matmul,
    coda.ScaledLinearOp: OperatorWriter.scaled,
    coda.LowBitLinearOp: OperatorWriter.low_bits,
    coda.QuantizedLinearOp: OperatorWriter.quantized,
    coda.LayerNormOp: OperatorWriter.layer_norm,
    coda.AttentionOp: OperatorWriter.attention,
    coda.SelectiveScanOp: OperatorWriter.state_space,
    coda.SSDOp: OperatorWriter.state_space,
    coda.DeltaRuleOp: OperatorWriter.state_space,
    coda.ReshapeOp: OperatorWriter.reshape,
    coda.BroadcastOp: OperatorWriter.broadcast,
    coda.TransposeOp: OperatorWriter.transpose,
    coda.PadOp: OperatorWriter.pad,
    coda.ConcatOp: OperatorWriter.concat,
    coda.PositionsOp: OperatorWriter.arange,
    coda.ExtentOp: OperatorWriter.extent,
    CallOp: OperatorWriter.torch_call,
}
"""Writers of operators that are not calls of their names, with operands, and properties by name."""


def _call(name: str, *operands: str, **given: str) -> Text:
    arguments = [*operands, *(f"{key}={value}" for key, value in given.items())]
    return Text(f"{name}({', '.join(arguments)})", ATOM)


def _widened(op: Operation) -> dict[str, str]:
    """Return the keyword `dtype` if the result has another element type than the first operand."""
    result = element_name(op.results[0])
    return {} if result == element_name(op.operands[0]) else {"dtype": result}


def _name_of(op: Operation) -> tuple[str, str | None]:
    """The name of an operator in the language, and the property that the name determines."""
    if type(op) in NAMED_BY and "adjacent" not in op.properties:
        key, names = NAMED_BY[type(op)]
        value = op.properties[key]
        if isinstance(value, StringAttr) and value.data in names:
            return names[value.data], key
    return op.name.rpartition(".")[2], None


def _text_of(name: str, value: Attribute) -> str:
    match value:
        case IntegerAttr() if value.type == BoolAttr.from_bool(True).type:
            return "true" if value.value.data else "false"
        case IntegerAttr() | FloatAttr():
            return number_text(value.value.data)
        case StringAttr():
            return f'"{value.data}"'
        case ArrayAttr():
            return f"[{', '.join(_text_of(name, item) for item in value)}]"
        case UnitAttr():
            return "true"
        case _:
            raise Inexpressible(f"the property {name}")
