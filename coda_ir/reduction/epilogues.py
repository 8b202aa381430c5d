"""Strategies on the regions, ports and results of GEMM-level operators."""

from collections.abc import Sequence
from functools import partial
from typing import ClassVar, TypeAlias

from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.builtin import AnyFloat, ArrayAttr, FloatAttr, IntegerAttr, IntegerType
from xdsl.ir import Block, BlockArgument, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.traits import IsTerminator
from xdsl.utils.hints import isa

from coda_ir.dialects.gemm import FinalizeOp, FusedOp, MapOp, Segment
from coda_ir.reduction.strategy import Edit, FunctionEditor, Strategy

EpilogueOp: TypeAlias = FusedOp | MapOp

BUFFERS = "coda.buffers"


class DropEpilogueOperators(Strategy):
    """Replaces a value of a region by an operand or an argument of the same type, or by zero.

    `^epilogue(%acc): %e = exp %acc; yield %e`   ->   `^epilogue(%acc): yield %acc`
    """

    title: ClassVar[str] = "simplify epilogues"

    def edits(self) -> list[Edit]:
        return [
            partial(_drop_scalar, op)
            for editor in reversed(self.functions)
            for outer in reversed(list(editor.block.ops))
            for region in outer.regions
            for block in region.blocks
            for op in reversed(list(block.ops))
            if not op.has_trait(IsTerminator)
            and not (isinstance(op, ConstantOp) and any(result.uses for result in op.results))
        ]


def _drop_scalar(op: Operation) -> bool:
    block = op.parent
    assert block is not None
    for result in op.results:
        if result.uses:
            stand_in = _stand_in(result, [*op.operands, *block.args], block)
            if stand_in is None:
                return False
            result.replace_all_uses_with(stand_in)
    Rewriter.erase_op(op)
    return True


def _stand_in(value: SSAValue, candidates: Sequence[SSAValue], block: Block) -> SSAValue | None:
    """Return a candidate of the type of `value`, or zero; None for a type without zero."""
    for candidate in candidates:
        if candidate.type == value.type:
            return candidate
    type = value.type
    if isa(type, AnyFloat):
        zero = ConstantOp(FloatAttr(0.0, type))
    elif isa(type, IntegerType):
        zero = ConstantOp(IntegerAttr(0, type))
    else:
        return None
    if block.first_op is None:
        block.add_op(zero)
    else:
        block.insert_op_before(zero, block.first_op)
    return zero.result


class DropEpilogueResults(Strategy):
    """Removes results of GEMM-level operators, and column ranges without results.

    What is used becomes an argument of the function. One result of each operator stays.
    """

    title: ClassVar[str] = "drop results of epilogues"

    def edits(self) -> list[Edit]:
        self._chosen: dict[Operation, list[int]] = {}
        return [
            partial(self._choose, op, index)
            for editor in reversed(self.functions)
            for op in reversed(list(editor.block.ops))
            if isinstance(op, FusedOp | MapOp | FinalizeOp)
            for index in reversed(range(len(op.results)))
            if len(op.results) > 1 and (editor.is_open or not op.results[index].uses)
        ]

    def _choose(self, op: Operation, index: int) -> bool:
        self._chosen.setdefault(op, []).append(index)
        return True

    def finish(self) -> None:
        for op, indices in self._chosen.items():
            assert op.parent is not None
            _drop_results(op, set(indices), self.editors[op.parent])
        super().finish()


def _drop_results(op: Operation, dropped: set[int], editor: FunctionEditor) -> None:
    if len(dropped) == len(op.results):
        dropped = dropped - {0}
    for index in sorted(dropped):
        editor.replace_by_argument(op.results[index])
    kept = [index for index in range(len(op.results)) if index not in dropped]
    if isinstance(op, FinalizeOp):
        new: Operation = _finalize_without(op, kept)
    else:
        assert isinstance(op, FusedOp | MapOp)
        new = op.with_segments(_without_results(op, dropped))
    _replace(op, new, kept)


def _finalize_without(op: FinalizeOp, kept: Sequence[int]) -> FinalizeOp:
    body = op.body.clone()
    end = body.block.last_op
    assert end is not None
    end.operands = [end.operands[index] for index in kept]
    types = [op.outputs[index].type for index in kept]
    return FinalizeOp(op.partial_list, op.port_list, types, body, axis=op.axis.data)


def _without_results(op: EpilogueOp, dropped: set[int]) -> list[Segment]:
    """Return copies of the column ranges of `op` without some of its results."""
    segments, first = op.take_segments(), 0
    for segment in segments:
        count = len(segment.results)
        for index in reversed(range(count)):
            if first + index in dropped:
                segment.remove_result(index)
        first += count
    return [segment for segment in segments if segment.results]


def _replace(op: Operation, new: Operation, kept: Sequence[int]) -> None:
    """Replace `op` by `new`, which has its results `kept`."""
    new.location = op.location
    new.properties = {**op.properties, **new.properties}
    new.attributes = dict(op.attributes)
    buffers = op.attributes.get(BUFFERS)
    if isa(buffers, ArrayAttr) and len(buffers) == len(op.results):
        new.attributes[BUFFERS] = ArrayAttr([buffers.data[index] for index in kept])
    Rewriter.insert_op(new, InsertPoint.before(op))
    for index, result in zip(kept, new.results, strict=True):
        op.results[index].replace_all_uses_with(result)
    Rewriter.erase_op(op)


class DropEpiloguePorts(Strategy):
    """Removes operands of epilogues; other arguments of the region, or zero, take their place."""

    title: ClassVar[str] = "drop ports of epilogues"

    def edits(self) -> list[Edit]:
        self._chosen: dict[EpilogueOp, set[tuple[int, int]]] = {}
        return [
            partial(self._choose, op, number, index)
            for editor in reversed(self.functions)
            for op in reversed(list(editor.block.ops))
            if isinstance(op, FusedOp | MapOp)
            for number, segment in enumerate(op.segments())
            for index in range(len(segment.ports))
        ]

    def _choose(self, op: EpilogueOp, segment: int, port: int) -> bool:
        self._chosen.setdefault(op, set()).add((segment, port))
        return True

    def finish(self) -> None:
        for op, chosen in self._chosen.items():
            segments = op.take_segments()
            for number, index in sorted(chosen, reverse=True):
                _drop_port(segments[number], index)
            _replace(op, op.with_segments(segments), range(len(op.results)))
        super().finish()


def _drop_port(segment: Segment, index: int) -> None:
    dropped = list(segment.port_args(index))
    others = [argument for argument in segment.block.args if argument not in dropped]
    for argument in dropped:
        _drop_argument(segment.block, argument, others)
    del segment.ports[index]


def _drop_argument(block: Block, argument: BlockArgument, others: Sequence[SSAValue]) -> None:
    stand_in = _stand_in(argument, others, block) if argument.uses else None
    if stand_in is not None:
        argument.replace_all_uses_with(stand_in)
    block.erase_arg(argument)
