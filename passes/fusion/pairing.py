"""Conversion of a plain column range to pair mode, and joining of two sibling GEMMs as a pair."""

from collections.abc import Sequence
from dataclasses import replace

from xdsl.dialects.builtin import f32
from xdsl.ir import Block, Operation, Region, SSAValue

from coda_ir.dialects import gemm
from coda_ir.passes.support.editing import EpilogueEditor
from coda_ir.passes.support.order import BlockOrder

Lanes = dict[SSAValue, tuple[SSAValue, SSAValue]]


def to_pair_mode(segment: gemm.Segment, pairing: gemm.PairingAttr) -> gemm.Segment:
    """Return the plain `segment` with every operator of its region duplicated for both columns of a
    pair.

    Tile results stay tiles; what the rows combine is combined over the pair first.
    """
    old = segment.block
    body = Region(Block(arg_types=[f32, f32]))
    paired = replace(segment, ports=[], results=[], body=body, pairing=pairing)
    paired.block.add_op(gemm.YieldOp())
    lanes: Lanes = {old.args[0]: _named(paired.block.args, old.args[0])}
    for index, (kind, value) in enumerate(segment.ports):
        args = paired.add_port(kind, value)
        lanes[segment.port_args(index)[0]] = (args[0], args[-1])
    for op in old.ops:
        if not isinstance(op, gemm.YieldOp):
            _clone_for_pair(op, lanes, paired.block)
    for index, (port, type) in enumerate(segment.results):
        (value,) = segment.yielded(index)
        paired.add_result(port, type, _pair_result(paired, port, lanes[value]))
    return paired


def _named(values: Sequence[SSAValue], source: SSAValue) -> tuple[SSAValue, SSAValue]:
    for value in values:
        value.name_hint = source.name_hint
    return values[0], values[1]


def _clone_for_pair(op: Operation, lanes: Lanes, block: Block) -> None:
    builder = gemm.ScalarBuilder(block, op.location)
    if not op.operands:
        shared = builder.insert(op.clone())
        lanes[op.results[0]] = (shared, shared)
        return
    if isinstance(op, gemm.GroupReduceOp):
        both = builder.combine(op.combiner.data, *lanes[op.value])
        total = builder.insert(gemm.GroupReduceOp(both, op.combiner.data, op.group.value.data))
        lanes[op.result] = (total, total)
        return
    first, second = (
        builder.insert(op.clone({operand: lanes[operand][lane] for operand in op.operands}))
        for lane in (0, 1)
    )
    lanes[op.results[0]] = (first, second)


def _pair_result(
    segment: gemm.Segment, port: gemm.ResultPortAttr, lanes: tuple[SSAValue, SSAValue]
) -> Sequence[SSAValue]:
    if segment.result_arity(port) == 2:
        return lanes
    assert isinstance(port.combiner, gemm.CombinerAttr)
    return [gemm.ScalarBuilder(segment.block).combine(port.combiner.data, *lanes)]


def pair_columns(
    op: gemm.FusedOp, index: int, pairing: gemm.PairingAttr, order: BlockOrder
) -> gemm.FusedOp:
    """Convert segment `index` of `op` to pair mode, replacing `op`."""
    editor = EpilogueEditor(op, order)
    if editor.segments[index].pairing is None:
        editor.segments[index] = to_pair_mode(editor.segments[index], pairing)
    new = editor.commit()
    assert isinstance(new, gemm.FusedOp)
    return new


def join_siblings(first: gemm.FusedOp, second: gemm.FusedOp, order: BlockOrder) -> gemm.FusedOp:
    """Join two GEMMs that share their inputs into one whose pairs hold a column of each.

    The weights stay where they are: `first` gives the left half of the columns, `second` the
    right half. What `second` needs must be available before `first`.
    """
    left, right = first.segments()[0], second.segments()[0]
    block = Block(arg_types=[f32, f32])
    joined = gemm.Segment(
        weights=[*left.weights, *right.weights],
        ports=[],
        results=[],
        body=Region(block),
        layout=left.layout,
        pairing=gemm.PairingAttr.halves(),
        scales=[*left.scales, *right.scales],
        zeros=[*left.zeros, *right.zeros],
        more_weights=[a + b for a, b in zip(left.more_weights, right.more_weights, strict=True)],
    )
    block.add_op(gemm.YieldOp())
    for lane, part in enumerate((left, right)):
        _append_half(joined, part, block.args[lane])
    fused = first.with_segments([joined])
    order.join(first, second, [*left.outputs, *right.outputs], fused)
    return fused


def _append_half(joined: gemm.Segment, part: gemm.Segment, accumulator: SSAValue) -> None:
    """Add the ports, the code and the results of `part`, with one element per pair."""
    accumulator.name_hint = part.block.args[0].name_hint
    values: dict[SSAValue, SSAValue] = {part.block.args[0]: accumulator}
    for index, (kind, value) in enumerate(part.ports):
        values[part.port_args(index)[0]] = joined.add_port(kind.halved(), value)[0]
    joined.append_code(part, values)
    for index, (port, type) in enumerate(part.results):
        (value,) = part.yielded(index)
        kind = gemm.ResultPortAttr.half() if port.kind.data == gemm.ResultKind.TILE else port
        joined.add_result(kind, type, [values[value]])
