"""Epilogue regions, evaluated on whole tensors: every scalar of the region is an M x N tensor.

Values keep the shape that they need, (M, N), (M, 1), (1, N) or (), and broadcast.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import sqrt
from typing import Any, TypeAlias

import torch
import torch.nn.functional as F
from xdsl.dialects import arith, math
from xdsl.dialects.builtin import FloatAttr, IntegerAttr
from xdsl.ir import Block, Operation, SSAValue

from coda_ir.backends.reference.numerics import (
    SCALARS,
    Numerics,
    check_index,
    place,
    rounded_once,
    split_columns,
)
from coda_ir.diagnostics import InvalidProgramError, LoweringError
from coda_ir.dialects import gemm
from coda_ir.dialects.coda.elementwise_op import Scalar

Tensors: TypeAlias = Sequence[torch.Tensor]


@dataclass(frozen=True)
class Domain:
    """The domain of a region: `rows` x `columns` elements, or pairs of columns.

    `columns_per_element` is 2 in pair mode, where `columns` counts pairs.
    """

    rows: int
    columns: int
    columns_per_element: int = 1

    def expand(self, value: torch.Tensor) -> torch.Tensor:
        """Expand `value` to one element for every element of the domain."""
        return value.expand(self.rows, self.columns)


def reduce_last(kind: gemm.Combiner, x: torch.Tensor, *, ordered: bool = False) -> torch.Tensor:
    """Reduce the last dimension, which must not be empty.

    Sums are rounded once, or `ordered`, as `tree_sum`.
    """
    if kind == gemm.Combiner.MAX:
        return x.amax(-1)
    if kind == gemm.Combiner.ADD:
        return tree_sum(x) if ordered else rounded_once(lambda x: x.sum(-1), x)
    if not ordered:
        return rounded_once(lambda x: torch.logsumexp(x, -1), x)
    largest = x.amax(-1)
    shift = torch.where(largest == -torch.inf, 0.0, largest)
    return shift + tree_sum((x - shift[..., None]).exp()).log()


def tree_sum(x: torch.Tensor) -> torch.Tensor:
    """Sum the last dimension in tree order: pad to a power of two, add the halves, repeat."""
    size = 1 << max(0, x.shape[-1] - 1).bit_length()
    x = F.pad(x, (0, size - x.shape[-1]))
    while x.shape[-1] > 1:
        left, right = x.chunk(2, -1)
        x = left + right
    return x[..., 0]


def identity_of(kind: gemm.Combiner) -> float:
    return 0.0 if kind == gemm.Combiner.ADD else -torch.inf


def _fused(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
    """Return a · b + c, rounded once."""
    return (a.double() * b.double() + c.double()).to(c.dtype)


def _normal_cdf(x: torch.Tensor) -> torch.Tensor:
    return torch.erfc(-x * sqrt(0.5)) / 2


_FUNCTIONS: dict[Scalar, Callable[..., torch.Tensor]] = {
    **SCALARS,
    arith.MaxnumfOp: torch.fmax,
    arith.MinnumfOp: torch.fmin,
    arith.AddiOp: torch.add,
    arith.SubiOp: torch.sub,
    arith.MuliOp: torch.mul,
    arith.FloorDivSIOp: partial(torch.div, rounding_mode="floor"),
    arith.RemSIOp: torch.fmod,
    arith.AndIOp: torch.bitwise_and,
    arith.OrIOp: torch.bitwise_or,
    arith.XOrIOp: torch.bitwise_xor,
    arith.MaxSIOp: torch.maximum,
    arith.MinSIOp: torch.minimum,
    math.Log2Op: torch.log2,
    math.PowFOp: torch.pow,
    math.FmaOp: _fused,
    gemm.FloorDivideOp: partial(torch.div, rounding_mode="floor"),
    gemm.NormalCdfOp: _normal_cdf,
    gemm.RemainderOp: torch.remainder,
    gemm.SoftplusOp: torch.nn.functional.softplus,
}
"""Operators that are one function of PyTorch."""

_SIGNED_EXTENSIONS = (arith.SIToFPOp, arith.ExtSIOp)
_CONVERSIONS = (
    *_SIGNED_EXTENSIONS,
    arith.UIToFPOp,
    arith.ExtUIOp,
    arith.TruncFOp,
    arith.ExtFOp,
    arith.FPToSIOp,
    arith.TruncIOp,
)
"""Operators that do nothing but change the type, which happens where the result is stored."""


def _convert(op: Operation, value: torch.Tensor) -> torch.Tensor:
    # The only bit of a signed i1 is its sign.
    signed_bit = value.dtype == torch.bool and isinstance(op, _SIGNED_EXTENSIONS)
    return -value.long() if signed_bit else value


def _constant(op: arith.ConstantOp, numerics: Numerics) -> torch.Tensor:
    match op.value:
        case FloatAttr():
            return numerics.constant(op)
        case IntegerAttr():
            return torch.tensor(op.value.value.data)
        case _:
            raise InvalidProgramError(
                f"arith.constant{place(op)} has the value {op.value}, not a number"
            )


_COMPARISONS: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "eq": torch.eq,
    "ne": torch.ne,
    "gt": torch.gt,
    "ge": torch.ge,
    "lt": torch.lt,
    "le": torch.le,
}


def _compare_floats(op: arith.CmpfOp, lhs: torch.Tensor, rhs: torch.Tensor) -> torch.Tensor:
    predicate = arith.CMPF_COMPARISON_OPERATIONS[op.predicate.value.data]
    unordered = lhs.isnan() | rhs.isnan()
    match predicate:
        case "false" | "true":
            return torch.full_like(unordered, predicate == "true")
        case "ord" | "uno":
            return unordered if predicate == "uno" else ~unordered
        case _:
            holds = _COMPARISONS[predicate[1:]](lhs, rhs)
            return holds | unordered if predicate[0] == "u" else holds & ~unordered


def _compare_integers(op: arith.CmpiOp, lhs: torch.Tensor, rhs: torch.Tensor) -> torch.Tensor:
    predicate = arith.CMPI_COMPARISON_OPERATIONS[op.predicate.value.data]
    if predicate[0] == "u":
        raise InvalidProgramError(
            f"arith.cmpi{place(op)}: the unsigned comparison {predicate} is not supported"
        )
    return _COMPARISONS[predicate.removeprefix("s")](lhs, rhs)


def _group_reduce(
    op: gemm.GroupReduceOp, value: torch.Tensor, domain: Domain, numerics: Numerics
) -> torch.Tensor:
    size = op.group.value.data // domain.columns_per_element
    if size < 1 or domain.columns % size:
        raise LoweringError(
            f"gemm.group_reduce{place(op)}: groups of {op.group.value.data} do not divide the "
            f"{domain.columns * domain.columns_per_element} columns"
        )
    groups = split_columns(domain.expand(value), size)
    ordered = numerics.mode == gemm.NumericsMode.DETERMINISTIC
    combined = reduce_last(op.combiner.data, groups, ordered=ordered)
    return combined.repeat_interleave(size, -1)


def _evaluate(op: Any, operands: Tensors, domain: Domain, numerics: Numerics) -> torch.Tensor:
    """Return the value of one operator before it is rounded to its result type."""
    if type(op) in _FUNCTIONS:
        return _FUNCTIONS[type(op)](*operands)
    match op:
        case arith.ConstantOp():
            return _constant(op, numerics)
        case arith.CmpfOp():
            return _compare_floats(op, *operands)
        case arith.CmpiOp():
            return _compare_integers(op, *operands)
        case gemm.ColumnOp():
            return torch.arange(domain.columns)[None, :]
        case gemm.CheckedIndexOp():
            check_index(op, op.index, operands[0], op.extent.value.data, op.ignored.value.data)
            return operands[0]
        case gemm.GroupReduceOp():
            return _group_reduce(op, operands[0], domain, numerics)
        case _ if isinstance(op, _CONVERSIONS):
            return _convert(op, operands[0])
        case _:
            raise LoweringError(
                f"{op.name}{place(op)} is not supported by the reference backend in a region",
                "use the arith and math operators that coda_ir.backends.reference.region lists",
            )


def evaluate_region(
    block: Block, arguments: Tensors, domain: Domain, numerics: Numerics
) -> list[torch.Tensor]:
    """Return the yielded values of `block` for these values of its arguments, expanded to the
    domain.

    Floats compute in `numerics.compute`; what has a narrower type is rounded to it. Raises
    CodaError for an operator that is not known.
    """
    values: dict[SSAValue, torch.Tensor] = {
        argument: numerics.store_scalar(value, argument.type)
        for argument, value in zip(block.args, arguments, strict=True)
    }
    for op in block.ops:
        operands = [values[operand] for operand in op.operands]
        if isinstance(op, gemm.YieldOp):
            return [domain.expand(operand) for operand in operands]
        lifted = [numerics.lift(operand) for operand in operands]
        result = _evaluate(op, lifted, domain, numerics)
        values[op.results[0]] = numerics.store_scalar(result, op.results[0].type)
    raise LoweringError("a region does not end in gemm.yield")
