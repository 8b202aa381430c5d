"""Scalar operators of `arith` and `math` as `tl` expressions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isfinite, isinf, isnan
from typing import Any

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import Float32Type, FloatAttr, IndexType, IntegerAttr, IntegerType, i1
from xdsl.ir import Attribute, Operation, SSAValue

from coda_ir.backends.triton.kernel import tl_type
from coda_ir.backends.triton.ports import CONVERSIONS, extended, rounded
from coda_ir.backends.triton.prelude import device_definitions
from coda_ir.diagnostics import CodaError, LoweringError
from coda_ir.dialects.coda.shapes import is_float, is_float8
from coda_ir.dialects.gemm import CheckedIndexOp, exact_number
from coda_ir.remarks import format_location

# Binding strength of Python's operators, from `a < b` to a name.
COMPARE, OR, XOR, AND, SHIFT, SUM, PRODUCT, UNARY, ATOM = range(9)


@dataclass(frozen=True)
class Expression:
    """A Python expression, and how tightly its outermost operator binds."""

    text: str
    strength: int
    is_literal: bool = False

    @property
    def is_atom(self) -> bool:
        """True if the expression can be repeated without recomputation."""
        return self.is_literal or self.text.isidentifier()

    def inside(self, strength: int) -> str:
        """Return the text as an operand of an operator that binds with `strength`."""
        return self.text if self.strength >= strength else f"({self.text})"

    def materialized(self, type: Attribute) -> Expression:
        """Return a literal as a `tl` scalar of `type`."""
        return call("tl.full", "()", self.text, _dtype(type))


Writer = Callable[[Any, Sequence[Expression]], Expression]
"""Writes an operator over its operands' expressions."""


def atom(text: str) -> Expression:
    return Expression(text, ATOM)


def call(function: str, *arguments: str) -> Expression:
    return atom(f"{function}({', '.join(arguments)})")


def literal(op: arith.ConstantOp) -> Expression:
    """Return a constant as a Python literal."""
    match op.value:
        case FloatAttr():
            text = _float_literal(op.value.value.data)
        case IntegerAttr(type=IntegerType(width=width)) if width.data == 1:
            text = str(bool(op.value.value.data))
        case IntegerAttr():
            text = str(op.value.value.data)
        case _:
            raise _unsupported(op, f"a constant of type {op.result.type}")
    return Expression(text, UNARY if text.startswith("-") else ATOM, is_literal=True)


def _float_literal(value: float) -> str:
    if isnan(value):
        return 'float("nan")'
    if isinf(value):
        return 'float("inf")' if value > 0 else 'float("-inf")'
    return repr(value)


def default_name(value: SSAValue) -> str:
    """Return a name for a value without a hint: that of its operator."""
    owner = value.owner
    assert isinstance(owner, Operation)
    name = owner.name.split(".")[-1]
    return _NAMES.get(name, name)


_NAMES = {
    "addf": "total",
    "subf": "difference",
    "mulf": "product",
    "divf": "quotient",
    "negf": "negated",
    "maximumf": "larger",
    "minimumf": "smaller",
    "maxnumf": "larger",
    "minnumf": "smaller",
    "cmpf": "holds",
    "cmpi": "holds",
    "select": "chosen",
    "truncf": "rounded",
    "extf": "extended",
    "group_reduce": "group_total",
    "absf": "magnitude",
}


def _dtype(type: Attribute) -> str:
    return "tl.int64" if isinstance(type, IndexType) else tl_type(type)


def _unsupported(op: Operation, what: str) -> CodaError:
    return LoweringError(
        f"{format_location(op.location)}: the triton backend cannot emit {op.name} on {what}",
        "convert the operands to f32 first",
    )


def _require_f32(op: Operation) -> None:
    for value in op.operands:
        if is_float(value.type) and not isinstance(value.type, Float32Type):
            raise _unsupported(op, str(value.type))


def _infix(symbol: str, strength: int) -> Writer:
    def write(op: Operation, operands: Sequence[Expression]) -> Expression:
        _require_f32(op)
        left, right = operands
        return Expression(
            f"{left.inside(strength)} {symbol} {right.inside(strength + 1)}", strength
        )

    return write


def _function(name: str) -> Writer:
    def write(op: Operation, operands: Sequence[Expression]) -> Expression:
        _require_f32(op)
        return call(name, *(operand.text for operand in operands))

    return write


def _write_power(op: Operation, operands: Sequence[Expression]) -> Expression:
    """Write a power; a known exponent is not rounded to float32."""
    _require_f32(op)
    exponent = op.operands[1].owner
    number = exact_number(exponent) if isinstance(exponent, arith.ConstantOp) else 0.0
    if not number or not isfinite(number):
        return call("power_of", *(operand.text for operand in operands))
    return call("power", operands[0].text, repr(number))


def _negate(op: Operation, operands: Sequence[Expression]) -> Expression:
    """Write a product, unless only exponentials read it: Triton would lose the sign of 0."""
    _require_f32(op)
    if all(isinstance(use.operation, math.ExpOp) for use in op.results[0].uses):
        return Expression(f"-{operands[0].inside(UNARY)}", UNARY)
    return Expression(f"-1.0 * {operands[0].inside(UNARY)}", PRODUCT)


def _compare(symbol: str, left: str, right: str) -> Expression:
    return Expression(f"{left} {symbol} {right}", COMPARE)


_ORDERED = {"oeq": "==", "ogt": ">", "oge": ">=", "olt": "<", "ole": "<="}
_NEGATED = {"une": "==", "ule": ">", "ult": ">=", "uge": "<", "ugt": "<="}
_CMPF = (
    *("false", "oeq", "ogt", "oge", "olt", "ole", "one", "ord"),
    *("ueq", "ugt", "uge", "ult", "ule", "une", "uno", "true"),
)


def _write_cmpf(op: arith.CmpfOp, operands: Sequence[Expression]) -> Expression:
    """Write a comparison; an unordered predicate is the negation of the opposite ordered one."""
    _require_f32(op)
    predicate = _CMPF[op.predicate.value.data]
    a, b = (operand.inside(OR) for operand in operands)
    differ = f"(({a} < {b}) | ({a} > {b}))"
    both_numbers = f"(({a} == {a}) & ({b} == {b}))"
    if predicate in _ORDERED:
        return _compare(_ORDERED[predicate], a, b)
    if predicate == "une":
        return _compare("!=", a, b)
    if predicate in _NEGATED:
        return Expression(f"~({a} {_NEGATED[predicate]} {b})", UNARY)
    special = {"one": differ, "ueq": f"~{differ}", "ord": both_numbers, "uno": f"~{both_numbers}"}
    if predicate not in special:
        raise _unsupported(op, f"the predicate {predicate}")
    return Expression(special[predicate], UNARY)


COMPARISONS = ("arith.cmpf", "arith.cmpi")


def truth_of_scalars(comparison: Expression) -> Expression:
    """Write a comparison of scalars as a truth value that also works in Triton's interpreter, which
    repeats it for the elements of a tile as a number of the compared type.
    """
    return call("tl.where", comparison.text, "True", "False")


_CMPI = ("==", "!=", "<", "<=", ">", ">=", "<", "<=", ">", ">=")


def _write_cmpi(op: arith.CmpiOp, operands: Sequence[Expression]) -> Expression:
    predicate = op.predicate.value.data
    if predicate >= 6:
        operands = _as_unsigned(op, operands)
    return _compare(_CMPI[predicate], *(operand.inside(OR) for operand in operands))


def _as_unsigned(op: Operation, operands: Sequence[Expression]) -> list[Expression]:
    dtype = _dtype(op.operands[0].type).replace("int", "uint")
    return [
        operand if operand.is_literal else atom(f"{operand.inside(ATOM)}.to({dtype}, bitcast=True)")
        for operand in operands
    ]


def _unsigned(write: Writer) -> Writer:
    """Write an operator on the operands' bits as unsigned integers, with a signless result."""

    def write_unsigned(op: Operation, operands: Sequence[Expression]) -> Expression:
        result = write(op, _as_unsigned(op, operands))
        return atom(f"{result.inside(ATOM)}.to({_dtype(op.results[0].type)}, bitcast=True)")

    return write_unsigned


def _write_select(op: Operation, operands: Sequence[Expression]) -> Expression:
    condition, if_true, if_false = operands
    if if_true.is_literal and if_false.is_literal:
        if_false = if_false.materialized(op.operands[2].type)
    return call("tl.where", condition.text, if_true.text, if_false.text)


def _write_cast(op: Operation, operands: Sequence[Expression]) -> Expression:
    """Write a conversion by value; floats round to nearest even, in the interpreter too."""
    target, given, source = op.results[0].type, op.operands[0].type, operands[0]
    if is_float8(given):
        return atom(extended(source.inside(ATOM), given))
    if target in CONVERSIONS:
        if isinstance(given, Float32Type):
            return atom(rounded(source.text, target))
        return atom(rounded(f"{source.inside(ATOM)}.to(tl.float32)", target))
    return atom(f"{source.inside(ATOM)}.to({_dtype(target)})")


def _write_zero_extension(op: Operation, operands: Sequence[Expression]) -> Expression:
    if op.operands[0].type == i1:
        return _write_cast(op, operands)
    return _write_cast(op, _as_unsigned(op, operands))


def _write_checked_index(op: CheckedIndexOp, operands: Sequence[Expression]) -> Expression:
    numbers = (str(number.value.data) for number in (op.extent, op.ignored))
    return call("checked_index", operands[0].text, *numbers)


def _helper(name: str) -> Writer:
    """Write a call of a function of `runtime/device.py` with its operands as tensors."""

    def write(op: Operation, operands: Sequence[Expression]) -> Expression:
        _require_f32(op)
        pairs = zip(operands, op.operands, strict=True)
        values = [x.materialized(value.type) if x.is_literal else x for x, value in pairs]
        return call(name, *(value.text for value in values))

    return write


def _write_bitcast(op: Operation, operands: Sequence[Expression]) -> Expression:
    return atom(f"{operands[0].inside(ATOM)}.to({_dtype(op.results[0].type)}, bitcast=True)")


_IN_TRITON = ("ceil", "cos", "erf", "exp", "exp2", "floor", "log", "log2", "rsqrt", "sin", "sqrt")
"""Operators of `math` that are functions of `tl` with the same names."""

_IN_DEVICE = device_definitions().keys() & {
    op.name.removeprefix("math.") for op in math.Math.operations
}
"""Those that are functions of `runtime/device.py` with the same names."""

EXPRESSIONS: dict[str, Writer] = {
    **{f"math.{name}": _function(f"tl.{name}") for name in _IN_TRITON},
    **{f"math.{name}": _helper(name) for name in _IN_DEVICE},
    "arith.addf": _infix("+", SUM),
    "arith.subf": _infix("-", SUM),
    "arith.mulf": _infix("*", PRODUCT),
    "arith.divf": _infix("/", PRODUCT),
    "arith.negf": _negate,
    "arith.maximumf": _function("maximum"),
    "arith.minimumf": _function("minimum"),
    "arith.maxnumf": _function("tl.maximum"),
    "arith.minnumf": _function("tl.minimum"),
    "arith.addi": _infix("+", SUM),
    "arith.subi": _infix("-", SUM),
    "arith.muli": _infix("*", PRODUCT),
    "arith.floordivsi": _function("floor_quotient"),
    "arith.remsi": _infix("%", PRODUCT),
    "arith.andi": _infix("&", AND),
    "arith.ori": _infix("|", OR),
    "arith.xori": _infix("^", XOR),
    "arith.shli": _infix("<<", SHIFT),
    "arith.shrsi": _infix(">>", SHIFT),
    "arith.shrui": _unsigned(_infix(">>", SHIFT)),
    "arith.maxsi": _function("tl.maximum"),
    "arith.minsi": _function("tl.minimum"),
    "arith.maxui": _unsigned(_function("tl.maximum")),
    "arith.minui": _unsigned(_function("tl.minimum")),
    "arith.cmpf": _write_cmpf,
    "arith.cmpi": _write_cmpi,
    "arith.select": _write_select,
    "arith.bitcast": _write_bitcast,
    "gemm.checked_index": _write_checked_index,
    "gemm.floor_divide": _helper("floor_divide"),
    "gemm.normal_cdf": _helper("normal_cdf"),
    "gemm.remainder": _helper("remainder"),
    "gemm.softplus": _helper("softplus"),
    "math.absf": _function("tl.abs"),
    "math.absi": _function("tl.abs"),
    "math.fma": _function("multiply_add"),
    "math.powf": _write_power,
    "math.roundeven": _function("round_even"),
    **dict.fromkeys(
        (
            "arith.extf",
            "arith.truncf",
            "arith.sitofp",
            "arith.fptosi",
            "arith.trunci",
            "arith.extsi",
        ),
        _write_cast,
    ),
    "arith.extui": _write_zero_extension,
    "arith.uitofp": _write_zero_extension,
    "arith.index_cast": _write_cast,
}
