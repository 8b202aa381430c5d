"""Pass `fuse-attention`: move pointwise code after the backward of attention into its epilogues."""

from collections.abc import Sequence

from xdsl.dialects.builtin import f32
from xdsl.ir import Block, Region, SSAValue

from coda_ir.dialects.gemm import (
    AttentionDkvOp,
    AttentionSumOp,
    MapOp,
    PairingAttr,
    PortKind,
    ResultKind,
    Segment,
    YieldOp,
)
from coda_ir.dialects.gemm.heads import groups_in_heads, needs_whole_heads, pairs_in_heads
from coda_ir.passes.support.editing import EpilogueEditor
from coda_ir.passes.support.function_pass import FunctionPass, FunctionRewriter, Refusal
from coda_ir.passes.support.legality import kernel_name

_STORED = (ResultKind.TILE, ResultKind.HALF, ResultKind.PARTIAL_ROW, ResultKind.PARTIAL_COL)


class FuseAttentionPass(FunctionPass):
    """Moves a pointwise kernel on gradients of attention into the epilogue that computes them.

        %m, %dq = gemm.attention_dq (...) { yield dq }
        %dz, %s = gemm.map pair<halves, 128> tile(%dq) half_table(%cos, %sin) tile(%z) { ... }
        ->  %m, %dz, %s = gemm.attention_dq (...) pair<halves, 128> half_table(%cos, %sin)
                tile(%z) { ... }

    The epilogue then inverts the rotary embedding, differentiates norms of heads, and sums rows
    before anything is stored. Legal iff pairs of columns and groups that are summed lie within one
    head, and no other operand of the kernel depends on the gradients. If the number of columns of a
    head is not a power of two, only code on single columns is moved.
    """

    def run_on_function(self, rewriter: FunctionRewriter) -> None:
        for op in rewriter.ops_of(MapOp):
            producer = _producer(op)
            if producer is None:
                continue
            if not rewriter.refuses(op, _check(op, producer, rewriter)):
                _fuse(op, producer, rewriter)


def _producer(op: MapOp) -> AttentionSumOp | None:
    """Return the last kernel of attention whose results `op` reads element by element."""
    tiles = [value for kind, value in op.segment().ports if kind == PortKind.TILE]
    found = [
        value.owner
        for value in tiles
        if isinstance(value.owner, AttentionSumOp) and value in value.owner.outputs
    ]
    return found[-1] if found else None


def _check(op: MapOp, producer: AttentionSumOp, rewriter: FunctionRewriter) -> Refusal | None:
    segment, into = op.segment(), producer.segment()
    refusal = _check_parts(segment, producer) or _check_pairs(segment, into, producer)
    if refusal is not None:
        return refusal
    if op.order is not None:
        return Refusal(
            "the kernel may choose the order of its sums", "the kernel states the order of its sums"
        )
    if any(result.port.kind.data not in _STORED for result in segment.results):
        return Refusal(
            "tiles and partial sums are stored", "the kernel has a result of another kind"
        )
    if rewriter.order.slices_after(_others(op, producer), producer) is None:
        found = "another kernel computes an operand from the gradients"
        return Refusal("the other operands are computed before the gradients", found)
    return None


def _others(op: MapOp, producer: AttentionSumOp) -> list[SSAValue]:
    """Return the operands of the kernel other than the gradients."""
    return [value for value in op.ports if value not in producer.outputs]


def _check_parts(segment: Segment, producer: AttentionSumOp) -> Refusal | None:
    if producer.value_dim is not None and isinstance(producer, AttentionDkvOp):
        found = f"value heads have {producer.value_columns} columns"
        return Refusal(
            "keys and values have the same number of columns, so that one epilogue fits both", found
        )
    whole = needs_whole_heads(segment)
    if whole is None or producer.parts.is_whole:
        return None
    found = f"the kernel needs {whole}, and heads have {producer.parts.columns} columns"
    return Refusal(
        "the number of columns of a head is a power of two, so that one tile holds a head", found
    )


def _check_pairs(segment: Segment, into: Segment, producer: AttentionSumOp) -> Refusal | None:
    head_dim = producer.head_dim.value.data
    pairing = segment.pairing
    if not pairs_in_heads(pairing, head_dim):
        found = f"the kernel pairs columns of different heads, which have {head_dim} columns"
        return Refusal("both columns of a pair belong to one head", found)
    if pairing != into.pairing and not (pairing is not None and _is_plain(into)):
        found = "the kernel reads single columns, and the epilogue reads pairs of columns"
        if pairing is not None:
            found = "the kernel and the epilogue pair different columns"
        return Refusal("the kernel and the epilogue pair the same columns", found)
    if not groups_in_heads(segment, head_dim):
        found = f"the kernel sums over more than the {head_dim} columns of a head"
        return Refusal("each group of columns lies within one head", found)
    return None


def _is_plain(segment: Segment) -> bool:
    """Return whether the accumulators are stored unchanged, column by column."""
    by_column = all(result.port.kind.data.is_per_column for result in segment.results)
    is_bare = by_column and len(segment.block.ops) == 1 and not segment.ports
    return segment.pairing is None and is_bare


def _fuse(op: MapOp, producer: AttentionSumOp, rewriter: FunctionRewriter) -> None:
    rewriter.passed(op, f"fused into the epilogue of {kernel_name(producer)}")
    rewriter.order.hoist(_others(op, producer), producer)
    (code,) = op.take_segments()
    outputs: list[SSAValue] = list(producer.outputs)
    editor = EpilogueEditor(producer, rewriter.order)
    into = editor.segments[0]
    if code.pairing is not None and into.pairing is None:
        _take_pairs(into, code.pairing)
    values: dict[SSAValue, SSAValue] = {}
    for index, (kind, value) in enumerate(code.ports):
        found: Sequence[SSAValue] = (
            into.yielded(outputs.index(value)) if value in outputs else into.add_port(kind, value)
        )
        values.update(zip(code.port_args(index), found, strict=True))
    into.append_code(code, values)
    editor.locations.append(op.location)
    for index, (result, old) in enumerate(zip(code.results, op.outputs, strict=True)):
        yielded = [values[value] for value in code.yielded(index)]
        editor.adopt(0, editor.add_result(0, result.port, result.type, yielded), old)
    op.operands = ()
    editor.commit()
    rewriter.order.erase(op)


def _take_pairs(segment: Segment, pairing: PairingAttr) -> None:
    """Pair the columns of a segment that stores its accumulators unchanged."""
    block = Block(arg_types=[f32] * (2 * segment.accumulator_count))
    for number, argument in enumerate(block.args):
        argument.name_hint = segment.block.args[number // 2].name_hint
    stored = [segment.yielded(index)[0] for index in range(len(segment.results))]
    places = [2 * segment.block.args.index(value) for value in stored]  # pyright: ignore
    block.add_op(YieldOp(*(block.args[place + lane] for place in places for lane in (0, 1))))
    segment.pairing, segment.body = pairing, Region(block)
