"""Symbolic shapes: which dimension of which value is B, T or M, through a whole function.

The IR writes every symbol as `?`; the names are in the metadata of the function's arguments
(`coda.dims`). The operators' shape rules carry them from there to every value, in one walk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import prod
from typing import TypeAlias

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    ArrayAttr,
    DictionaryAttr,
    FixedBitwidthType,
    IndexType,
    IntegerAttr,
    StringAttr,
    TensorType,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.utils.hints import isa

from coda_ir.dialects.coda import (
    AttentionOp,
    CastOp,
    ConcatOp,
    CrossEntropyOp,
    ElementwiseOp,
    EmbeddingOp,
    GluOp,
    LayerNormOp,
    LinearOp,
    MatmulOp,
    NormStatsOp,
    ReduceOp,
    ReshapeOp,
    RMSNormOp,
    RopeOp,
    SliceOp,
    SoftmaxOp,
    TransposeOp,
)
from coda_ir.symbolic_size import SymbolicSize, as_size

__all__ = [
    "Dim",
    "Dims",
    "SymbolicShapes",
    "SymbolicSize",
    "as_size",
    "declared_dims",
    "element_bytes",
]

Dim: TypeAlias = int | str
"""An extent: a number, a symbol `M`, or a product of them as Python writes it, `32*B*T`."""

Dims: TypeAlias = tuple[Dim, ...]

UNKNOWN = "?"
"""What a rule answers for an extent that it cannot tell; it becomes a fresh symbol."""


def element_bytes(type: Attribute) -> int:
    """Bytes of one element of a tensor type, or of an element type (1 for i1).

    Raises TypeError for a type without a size.
    """
    if isa(type, TensorType[Attribute]):
        type = type.element_type
    if isinstance(type, IndexType):
        return 8
    if not isinstance(type, FixedBitwidthType):
        raise TypeError(f"an element of type {type} has no size in bytes")
    return max(1, type.bitwidth // 8)


def declared_dims(attributes: DictionaryAttr | None) -> Dims | None:
    """The `coda.dims` of one entry of a function's `arg_attrs` or `res_attrs`, if it has any."""
    return None if attributes is None else _dims_attribute(attributes.data.get("coda.dims"))


def _dims_attribute(attribute: Attribute | None) -> Dims | None:
    if not isa(attribute, ArrayAttr[Attribute]):
        return None
    return tuple(_dim_of_attribute(dim) for dim in attribute)


def _dim_of_attribute(dim: Attribute) -> Dim:
    match dim:
        case StringAttr():
            return dim.data
        case IntegerAttr():
            return dim.value.data
        case _:
            return UNKNOWN


class SymbolicShapes:
    """The symbolic dimensions of every tensor value of a function.

    An extent that no rule names gets a fresh symbol `d0`, `d1`, ...; two values have the same
    symbol only where their extents are equal. Construction is linear in the number of operators.
    Values made after construction are added when they are asked for.
    """

    def __init__(self, func: FuncOp):
        self._dims: dict[SSAValue, Dims] = {}
        self._fresh = 0
        self._taken = _declared_symbols(func)
        attributes = func.arg_attrs.data if func.arg_attrs else ()
        for index, argument in enumerate(func.args):
            declared = declared_dims(attributes[index]) if index < len(attributes) else None
            self._record(argument, declared)
        for block in func.body.blocks:
            for op in block.ops:
                self._visit(op)

    def dims(self, value: SSAValue) -> Dims:
        """The extents of a tensor value; () for a value that is not a tensor."""
        if value not in self._dims:
            owner = value.owner
            if isinstance(owner, Operation):
                self._visit(owner)
            else:
                self._record(value, None)
        return self._dims[value]

    def numel(self, value: SSAValue) -> SymbolicSize:
        """Number of elements."""
        return SymbolicSize.product(self.dims(value))

    def bytes(self, value: SSAValue) -> SymbolicSize:
        """Size in memory; 0 for a value that is not a tensor."""
        if not isa(value.type, TensorType[Attribute]):
            return SymbolicSize()
        return self.numel(value) * element_bytes(value.type)

    def rows(self, value: SSAValue) -> SymbolicSize:
        """The product of all dimensions but the last: the M of a GEMM."""
        return SymbolicSize.product(self.dims(value)[:-1])

    def traffic(self, op: Operation) -> SymbolicSize:
        """Bytes that `op` moves when it runs by itself: each distinct operand read once, each
        result written once.
        """
        values = dict.fromkeys((*op.operands, *op.results))
        return sum((self.bytes(value) for value in values), SymbolicSize())

    def _visit(self, op: Operation) -> None:
        declared = _dims_attribute(op.attributes.get("coda.dims"))
        results = [declared] if declared is not None else self._infer(op)
        for index, result in enumerate(op.results):
            self._record(result, results[index] if index < len(results) else None)

    def _infer(self, op: Operation) -> Sequence[Dims | None]:
        rule = next((_RULES[base] for base in type(op).__mro__ if base in _RULES), None)
        return [] if rule is None else rule(op, [self.dims(operand) for operand in op.operands])

    def _record(self, value: SSAValue, inferred: Dims | None) -> None:
        """Store `inferred` for `value`, static extents from its type and the rest fresh."""
        if not isa(value.type, TensorType[Attribute]):
            self._dims[value] = ()
            return
        shape = value.type.get_shape()
        if inferred is None or len(inferred) != len(shape):
            inferred = (UNKNOWN,) * len(shape)
        self._dims[value] = tuple(
            self._resolve(extent, dim) for extent, dim in zip(shape, inferred, strict=True)
        )

    def _resolve(self, extent: int, dim: Dim) -> Dim:
        if extent != DYNAMIC_INDEX:
            return extent
        return self._fresh_symbol() if dim == UNKNOWN else dim

    def _fresh_symbol(self) -> str:
        while True:
            symbol = f"d{self._fresh}"
            self._fresh += 1
            if symbol not in self._taken:
                return symbol


def _declared_symbols(func: FuncOp) -> set[str]:
    symbols: set[str] = set()
    for entry in (*(func.arg_attrs or ()), *(func.res_attrs or ())):
        symbols.update(dim for dim in declared_dims(entry) or () if isinstance(dim, str))
    return symbols


def broadcast_dims(operands: Iterable[Dims]) -> Dims:
    """The dims of an elementwise result; of two names for one extent the known one wins."""
    result: Dims = ()
    for dims in operands:
        rank = max(len(result), len(dims))
        left = (1,) * (rank - len(result)) + result
        right = (1,) * (rank - len(dims)) + dims
        result = tuple(map(_merge, left, right))
    return result


def _merge(a: Dim, b: Dim) -> Dim:
    if a == 1 or (isinstance(b, int) and b != 1):
        return b
    return a


def reshape_dims(source: Dims, shape: Sequence[int]) -> Dims:
    """The dims of `source` viewed as `shape`, in which `?` is `DYNAMIC_INDEX`.

    One unknown extent is the quotient of the sizes. Several are the symbols of `source`, in
    order, where there are as many and the static extents have the same product.
    """
    known = prod(extent for extent in shape if extent != DYNAMIC_INDEX)
    unknown = sum(extent == DYNAMIC_INDEX for extent in shape)
    symbols = [dim for dim in source if isinstance(dim, str)]
    if unknown == 1:
        names = [_quotient(source, known)]
    elif unknown == len(symbols) and known == prod(d for d in source if isinstance(d, int)):
        names = symbols
    else:
        names = [UNKNOWN] * unknown
    remaining = iter(names)
    return tuple(next(remaining) if extent == DYNAMIC_INDEX else extent for extent in shape)


def _quotient(dims: Dims, divisor: int) -> Dim:
    """The product of `dims` over `divisor`, where it is a single term with an exact quotient."""
    terms = SymbolicSize.product(dims).terms
    if len(terms) != 1 or not divisor or terms[0][1] % divisor:
        return UNKNOWN
    symbols, coefficient = terms[0]
    quotient = coefficient // divisor
    factors = symbols if quotient == 1 else (str(quotient), *symbols)
    return "*".join(factors) if symbols else quotient


Rule: TypeAlias = Callable[[Operation, list[Dims]], Sequence[Dims | None]]


def _like_first(op: Operation, operands: list[Dims]) -> Sequence[Dims]:
    return [operands[0]]


def _broadcast(op: Operation, operands: list[Dims]) -> Sequence[Dims]:
    return [broadcast_dims(operands)]


def _linear(op: Operation, operands: list[Dims]) -> Sequence[Dims]:
    assert isinstance(op, LinearOp | MatmulOp)
    columns = operands[1][0] if isinstance(op, LinearOp) else operands[1][1]
    return [(*operands[0][:-1], columns)]


def _glu(op: Operation, operands: list[Dims]) -> Sequence[Dims]:
    return [(*operands[0][:-1], _quotient((operands[0][-1],), 2))]


def _columns_to_one(op: Operation, operands: list[Dims]) -> Sequence[Dims]:
    return [(*operands[0][:-1], 1)] * len(op.results)


def _cross_entropy(op: Operation, operands: list[Dims]) -> Sequence[Dims]:
    assert isinstance(op, CrossEntropyOp)
    return [operands[1] if op.reduction.data == "none" else ()]


def _embedding(op: Operation, operands: list[Dims]) -> Sequence[Dims]:
    return [(*operands[0], operands[1][-1])]


def _reshape(op: Operation, operands: list[Dims]) -> Sequence[Dims]:
    assert isinstance(op, ReshapeOp) and isa(op.result.type, TensorType[Attribute])
    return [reshape_dims(operands[0], op.result.type.get_shape())]


def _transpose(op: Operation, operands: list[Dims]) -> Sequence[Dims]:
    assert isinstance(op, TransposeOp)
    return [tuple(operands[0][axis] for axis in op.permutation)]


def _slice(op: Operation, operands: list[Dims]) -> Sequence[Dims]:
    assert isinstance(op, SliceOp)
    dim, start, stop = op.range
    return [(*operands[0][:dim], stop - start, *operands[0][dim + 1 :])]


def _concat(op: Operation, operands: list[Dims]) -> Sequence[Dims]:
    assert isinstance(op, ConcatOp)
    dim = op.dim.value.data
    extents = [part[dim] for part in operands]
    joined: Dim = UNKNOWN
    if len(extents) == 1:
        joined = extents[0]
    return [(*operands[0][:dim], joined, *operands[0][dim + 1 :])]


_RULES: dict[type, Rule] = {
    ElementwiseOp: _broadcast,
    CastOp: _like_first,
    RMSNormOp: _like_first,
    LayerNormOp: _like_first,
    SoftmaxOp: _like_first,
    RopeOp: _like_first,
    AttentionOp: _like_first,
    LinearOp: _linear,
    MatmulOp: _linear,
    GluOp: _glu,
    ReduceOp: _columns_to_one,
    NormStatsOp: _columns_to_one,
    CrossEntropyOp: _cross_entropy,
    EmbeddingOp: _embedding,
    ReshapeOp: _reshape,
    TransposeOp: _transpose,
    SliceOp: _slice,
    ConcatOp: _concat,
}
