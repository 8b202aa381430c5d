"""The uses of a function's parameter that constrain its values."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

from xdsl.dialects.builtin import DYNAMIC_INDEX, IntAttr
from xdsl.dialects.func import CallOp, FuncOp
from xdsl.ir import BlockArgument, Operation, SSAValue, Use
from xdsl.traits import SymbolTable

from coda_ir.dialects import coda, gemm
from coda_ir.dialects.coda.scan import MambaLike
from coda_ir.dialects.coda.shapes import shape_of
from coda_ir.passes.support.row_numbers import is_permutation


@dataclass(frozen=True)
class GemmWeight:
    """The weight of a GEMM with `k` columns of its input; None if that is a symbol."""

    k: int | None


@dataclass(frozen=True)
class NormWeight:
    """A weight that scales columns."""


@dataclass(frozen=True)
class RotaryTable:
    """The cosines or sines of a rotary embedding."""

    kind: Literal["cos", "sin"]


@dataclass(frozen=True)
class Decay:
    """A factor of the decay of a scan: positive times or steps, or negative rates."""

    sign: Literal[1, -1]


@dataclass(frozen=True)
class Index:
    """Integers that select along dimension `dim` of `value`.

    With `lenient`, an index that selects nothing has a meaning, too.
    """

    value: SSAValue
    dim: int
    ignored: int | None = None
    lenient: bool = False


@dataclass(frozen=True)
class GroupEnds:
    """The ends of the groups of the rows of `rows`."""

    rows: SSAValue


@dataclass(frozen=True)
class Permutation:
    """Each number from 0 on once."""


@dataclass(frozen=True)
class QuantizedElements:
    """Elements of 4 or 8 bits, or words of them."""


Role: TypeAlias = (
    GemmWeight
    | NormWeight
    | RotaryTable
    | Decay
    | Index
    | GroupEnds
    | Permutation
    | QuantizedElements
)

_PASSED_ON = (coda.ReshapeOp, coda.SliceOp, coda.ConcatOp, coda.CastOp)
"""Operators whose result is used for what their operand is for."""


def roles_of(parameter: SSAValue) -> Iterator[Role]:
    """Yield the roles of `parameter` in its function, and in the functions that it is passed to."""
    if isinstance(parameter, BlockArgument) and is_permutation(parameter):
        yield Permutation()
    for use in _final_uses(parameter):
        role = _role_in(use)
        if role is not None:
            yield role


def _final_uses(value: SSAValue) -> Iterator[Use]:
    """Yield the uses of `value` through views, casts and calls."""
    pending, seen = [value], set[SSAValue]()
    while pending:
        value = pending.pop()
        if value in seen:
            continue
        seen.add(value)
        for use in value.uses:
            op = use.operation
            if isinstance(op, _PASSED_ON):
                pending.append(op.results[0])
            elif isinstance(op, CallOp):
                callee = SymbolTable.lookup_symbol(op, op.callee)
                if isinstance(callee, FuncOp) and callee.body.blocks:
                    pending.append(callee.args[use.index])
            else:
                yield use


def _role_in(use: Use) -> Role | None:
    op, index = use.operation, use.index
    value = op.operands[index]
    match op:
        case coda.LinearOp() if index == 1:
            return _weight(op.weight, 1)
        case coda.MatmulOp() if index == 1:
            return _weight(op.weight, 0)
        case coda.ScaledLinearOp() | coda.QuantizedLinearOp() if index == 1:
            return _weight(op.weight, 1)
        case coda.LowBitLinearOp() if value in (op.weight, op.zeros):
            return QuantizedElements()
        case coda.GroupedLinearMap() if index == 1:
            return _weight(op.weight, 1 + op.K_AXIS)
        case coda.GroupedLinearMap() | coda.GroupedWeightGradientOp() if index == 2:
            return GroupEnds(op.x)
        case gemm.PackWeightOp() | gemm.ScaleWeightOp() if index == 0:
            return _weight(op.weight, 1 if op.layout.data == gemm.Layout.NK else 0)
        case coda.LayerNormOp() if op.bias_only is not None:
            return None
        case coda.RMSNormOp() | coda.LayerNormOp() | coda.MulOp() if index == 1:
            return NormWeight()
        case coda.RopeOp() if index in (1, 2):
            return RotaryTable("cos" if index == 1 else "sin")
        case MambaLike() if value in (op.dt, op.a):
            return Decay(1 if value is op.dt else -1)
        case coda.DeltaRuleLike() if value in (op.beta, op.decay):
            return Decay(1 if value is op.beta else -1)
        case coda.DeltaRuleLike() if value in (op.q, op.k):
            return GemmWeight(op.state_count)
        case coda.LibraryCallOp() if op.index is not None and op.index[0] == index:
            return Index(*op.index[1:])
        case coda.EmbeddingOp() if index == 0:
            return Index(op.table, 0)
        case coda.CrossEntropyOp() | coda.CrossEntropyGradOp() if index == 1:
            return Index(op.logits, -1, op.ignore_index.value.data)
        case coda.GroupOrderOp():
            return Index(op.ends, 0)
        case coda.EmbeddingGradOp() if index == 0:
            return Index(op.result, 0)
        case _:
            return _role_in_gemm(op, use)


def _role_in_gemm(op: Operation, use: Use) -> Role | None:
    """Return the role of an operand at the GEMM level."""
    index, value = use.index, op.operands[use.index]
    match op:
        case gemm.FusedOp() if value is op.groups and op.is_numbered:
            return Index(op.weights[0], 0)
        case gemm.FusedOp() if value is op.groups and op.gather is not None:
            return GroupEnds(op.gather)
        case gemm.FusedOp() | gemm.LibraryOp() if value is op.groups:
            return GroupEnds(op.x)
        case gemm.FusedOp() if value is op.gather:
            return Index(op.x, 0)
        case gemm.FusedOp() if value is op.gather_weights:
            return Index(op.weights[0], 0)
        case gemm.FusedOp() if value is op.scatter:
            return Permutation()
        case gemm.LibraryOp() if index >= len(op.inputs) and not op.is_transposed:
            return _weight(value, -1 if op.layout.data == gemm.Layout.NK else -2)
        case gemm.FusedOp() if op.quantized is not None and value in (
            *op.weights,
            *op.weight_zeros,
        ):
            return QuantizedElements()
        case gemm.FusedOp():
            return _weight_of_segment(op, index) or _selected_column(op, use)
        case gemm.MapOp():
            return _selected_column(op, use)
        case _:
            return None


def _weight(value: SSAValue, k_dim: int) -> GemmWeight:
    k = shape_of(value)[k_dim]
    return GemmWeight(None if k == DYNAMIC_INDEX else k)


def _weight_of_segment(op: gemm.FusedOp, index: int) -> GemmWeight | None:
    number = index - len(op.inputs)
    if op.is_transposed or not 0 <= number < len(op.weights):
        return None
    layouts = [part.layout for part in op.segments() for weights in part.terms for _ in weights]
    return _weight(op.weights[number], -1 if layouts[number] == gemm.Layout.NK else -2)


def _selected_column(op: gemm.FusedOp | gemm.MapOp, use: Use) -> Index | None:
    """Return the role of a target of a `select`, whose tile determines the number of columns."""
    target = op.operands[use.index]
    for segment in op.segments():
        for port, _ in segment.results:
            if port.kind.data != gemm.ResultKind.SELECT or not isinstance(port.index, IntAttr):
                continue
            if segment.ports[port.index.data].value is target and segment.weights:
                n_dim = -2 if segment.layout == gemm.Layout.NK else -1
                ignored = _ignored_where_checked(target)
                return Index(segment.weights[0], n_dim, ignored, lenient=ignored is None)
    return None


def _ignored_where_checked(target: SSAValue) -> int | None:
    """Return the number allowed although it is not a column, if a finalize checks `target`."""
    for use in target.uses:
        if not isinstance(use.operation, gemm.FinalizeOp):
            continue
        block = use.operation.body.block
        # Ports come last, both among the operands and among the arguments.
        argument = block.args[use.index - len(use.operation.operands)]
        for inner in (inner_use.operation for inner_use in argument.uses):
            if isinstance(inner, gemm.CheckedIndexOp):
                return inner.ignored.value.data
    return None
