"""Pass `raise-rope`: rotary embedding that is spelled out becomes `coda.rope`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects.builtin import ArrayAttr, IntegerAttr
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.utils.hints import isa

from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import element_type_of, shape_of
from coda_ir.dialects.torch import CallOp
from coda_ir.passes.support.function_pass import FunctionPass, FunctionRewriter
from coda_ir.passes.support.heads import Heads, heads_of
from coda_ir.passes.support.matching import defined_by, operand_pairs
from coda_ir.passes.support.norms import OpInserter

POINTWISE_CALLS = ("aten.cos.default", "aten.sin.default")
"""Calls of PyTorch that tables of angles go through, element by element."""


@dataclass(frozen=True)
class _Rotation:
    """x ⊙ cos + rotate_half(x) ⊙ sin for heads x of shape (... x head_dim), computed by `op`."""

    op: coda.AddOp
    x: SSAValue
    cos: SSAValue
    sin: SSAValue


@dataclass(frozen=True)
class RaiseRopePass(FunctionPass):
    """Finds x ⊙ cos + concat(−x₂, x₁) ⊙ sin on heads x = (x₁, x₂).

        %h = coda.transpose(coda.reshape %q)          %c = cos of the first half of the angles
        %a = coda.mul %h, %cos                        %r = coda.rope %q, %c, %s {head_dim = D}
        %b = coda.mul (concat(-h2, h1)), %sin   ->    %y = coda.transpose(coda.reshape %r)
        %y = coda.add %a, %b

    Legal where the heads are columns of one tensor that were split and moved, and where both halves
    of the tables are known to be equal: made from concat(f, f) element by element.
    """

    name: ClassVar[str] = "raise-rope"

    def run_on_function(self, rewriter: FunctionRewriter) -> None:
        for op in rewriter.ops:
            rotation = _match(op)
            if rotation is not None:
                _raise(rotation, rewriter)


def _match(op: Operation) -> _Rotation | None:
    if not isinstance(op, coda.AddOp):
        return None
    for straight, crossed in operand_pairs(op):
        left, right = defined_by(straight, coda.MulOp), defined_by(crossed, coda.MulOp)
        if left is None or right is None:
            continue
        for rotated, sin in operand_pairs(right):
            x = _rotated_half(rotated)
            for kept, cos in operand_pairs(left):
                if x is not None and kept is x:
                    return _Rotation(op, x, cos, sin)
    return None


def _rotated_half(value: SSAValue) -> SSAValue | None:
    """x where `value` is concat(−x₂, x₁) of the halves of the last dimension of x."""
    joined = defined_by(value, coda.ConcatOp)
    if joined is None or len(joined.parts) != 2:
        return None
    negated, first = defined_by(joined.parts[0], coda.NegOp), joined.parts[1]
    halves = [defined_by(first, coda.SliceOp)]
    halves.append(defined_by(negated.operand, coda.SliceOp) if negated else None)
    low, high = halves
    if low is None or high is None or low.x is not high.x:
        return None
    last = len(shape_of(low.x)) - 1
    width = shape_of(low.x)[last]
    expected = [(last, 0, width // 2), (last, width // 2, width)]
    is_last = joined.dim.value.data == last and width > 0 and width % 2 == 0
    return low.x if is_last and [low.range, high.range] == expected else None


def _raise(rotation: _Rotation, rewriter: FunctionRewriter) -> None:
    heads = heads_of(rotation.x)
    if heads is None:
        return
    insert = OpInserter(rewriter, rotation.op, rotation.op.location)
    tables = [_half_table(insert, table, heads) for table in (rotation.cos, rotation.sin)]
    if tables[0] is None or tables[1] is None:
        return
    head_dim = shape_of(rotation.x)[-1]
    rewriter.passed(rotation.op, "raised to coda.rope")
    rope = coda.RopeOp(heads.x, tables[0], tables[1], head_dim=head_dim)
    value = insert.insert(rope, rotation.op.result.name_hint)
    rotation.op.result.replace_all_uses_with(heads.of(value, insert))
    rewriter.order.erase(rotation.op)


def _half_table(insert: OpInserter, table: SSAValue, heads: Heads) -> SSAValue | None:
    """The first half of the columns of `table` as (positions x D/2) or (B x positions x D/2)."""
    shape, rank = shape_of(table), len(shape_of(heads.split.result))
    positions_axis = -2 if heads.transpose is not None else -3
    padded = (1,) * (rank - len(shape)) + shape
    heads_axis = -3 if heads.transpose is not None else -2
    if len(padded) != rank or padded[heads_axis] != 1 or padded[positions_axis] == 1:
        return None
    half = _halved(insert, table)
    if half is None:
        return None
    leading = padded[0] if rank == 4 else 1
    rows = shape_of(heads.x)[:-1]
    if leading == 1:
        return insert.insert(coda.ReshapeOp(half, (padded[positions_axis], padded[-1] // 2)))
    return insert.insert(coda.ReshapeOp(half, (*rows, padded[-1] // 2)))


def _halved(insert: OpInserter, table: SSAValue) -> SSAValue | None:
    """`table` computed on the first half of its last dimension, where both halves are equal."""
    op = table.owner
    match op:
        case coda.ConcatOp() if len(op.parts) == 2 and op.parts[0] is op.parts[1]:
            return op.parts[0] if op.dim.value.data == len(shape_of(table)) - 1 else None
        case coda.CastOp():
            half = _halved(insert, op.operand)
            return None if half is None else insert.cast(half, element_type_of(table))
        case coda.MulOp() if not shape_of(op.rhs):
            half = _halved(insert, op.lhs)
            return None if half is None else insert.mul(half, op.rhs)
        case coda.ReshapeOp() if shape_of(op.x)[-1:] == shape_of(table)[-1:]:
            half = _halved(insert, op.x)
            shape = (*shape_of(table)[:-1], shape_of(table)[-1] // 2)
            return None if half is None else insert.insert(coda.ReshapeOp(half, shape))
        case CallOp() if op.callee.data in POINTWISE_CALLS:
            return _halved_call(insert, op)
        case _:
            return None


def _halved_call(insert: OpInserter, op: CallOp) -> SSAValue | None:
    half = _halved(insert, op.inputs[0])
    if half is None:
        return None
    call = CallOp(op.callee.data, [half], op.arguments.data, [half.type])
    dims = op.attributes.get("coda.dims")
    if isa(dims, ArrayAttr[Attribute]):
        columns = IntegerAttr(shape_of(half)[-1], 64)
        call.attributes["coda.dims"] = ArrayAttr([*dims.data[:-1], columns])
    return insert.insert(call)
