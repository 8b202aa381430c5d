"""Pass `accumulate-in-place`: let results overwrite tensors that the caller donates."""

from collections.abc import Iterator

from xdsl.dialects import arith
from xdsl.dialects.builtin import UnitAttr, f32
from xdsl.ir import BlockArgument, Operation, SSAValue

from coda_ir.dialects import gemm
from coda_ir.dialects.coda import EmbeddingOp
from coda_ir.dialects.coda.scan import StateSpaceModel
from coda_ir.dialects.coda.shapes import element_type_of, shape_of
from coda_ir.dialects.torch import CallOp
from coda_ir.dominance import depend_on, reached
from coda_ir.passes.layout.absorption import readers_of
from coda_ir.passes.support.editing import EpilogueEditor, is_scattered
from coda_ir.passes.support.function_pass import FunctionPass, FunctionRewriter, Refusal
from coda_ir.passes.support.legality import name_of
from coda_ir.passes.support.order import BlockOrder
from coda_ir.storage import is_donated, overwritten, reads_what_it_changes, storage_root


class AccumulateInPlacePass(FunctionPass):
    """Stores results that are computed elementwise from a donated tensor in the memory of that
    tensor.

        func.func @f(..., %grad {coda.donated})       func.func @f(..., %grad {coda.donated})
          %sum = gemm.fused ... tile(%grad)       ->    %sum = gemm.fused ... tile(%grad)
            -> (tile) { yield grad + acc }                -> (accumulate<0>) { yield grad + acc }

    This accumulates the gradients of several batches without a second tensor. It also accumulates a
    float32 sum to which several GEMMs add their products (see `stream-logits`) in the memory of the
    first. Legal iff the argument, or the partial sum, has no other use, and the result has its type
    and layout. A single number, such as a counter, may be read before.

    A call of PyTorch with an in-place variant, such as the storing of new keys in a cache, becomes
    that variant iff its first operand is donated and nothing reads that memory afterwards. So does
    one step of a state-space model with its states.
    """

    def run_on_function(self, rewriter: FunctionRewriter) -> None:
        for op in rewriter.ops:
            if isinstance(op, CallOp):
                _call_in_place(op, rewriter)
            if isinstance(op, StateSpaceModel) and op.is_step and op.final is not None:
                _states_in_place(op, rewriter)
            if not isinstance(op, gemm.FusedOp | gemm.MapOp) or is_scattered(op):
                continue
            if any(map(is_given_up, ports_of(op))):
                _store_in_place(op, rewriter)
            elif isinstance(op, gemm.FusedOp) and (found := _running_sum(op)) is not None:
                rewriter.passed(op, "accumulates its product into the running sum, in place")
                editor = EpilogueEditor(op, rewriter.order)
                (segment,) = editor.segments
                port = gemm.ResultPortAttr.accumulate(found)
                segment.results = [gemm.Result(port, segment.results[0].type)]
                editor.commit()


def ports_of(op: gemm.FusedOp | gemm.MapOp) -> Iterator[gemm.Port]:
    for segment in op.segments():
        yield from segment.ports


def is_given_up(port: gemm.Port) -> bool:
    """Return whether a port loads a tile, or a number, in whose memory a result may be stored."""
    is_tile = port.kind in (gemm.PortKind.TILE, gemm.PortKind.TILE_T) or not shape_of(port.value)
    return is_tile and isinstance(port.value, BlockArgument) and is_donated(port.value)


def _call_in_place(op: CallOp, rewriter: FunctionRewriter) -> None:
    memory = storage_root(op.inputs[0]) if op.fits_in_place else None
    if not isinstance(memory, BlockArgument) or not is_donated(memory):
        return
    name = name_of(memory)
    if not _is_whole(op.inputs[0]):
        rewriter.missed(op, Refusal(_WHOLE, f"the call changes a part or another view of {name}"))
    elif reads_what_it_changes(op):
        rewriter.missed(op, Refusal(_NOT_READ, f"the call also reads {name}, which it changes"))
    elif (reader := _reader_after(op, memory, rewriter.order)) is not None:
        found = f"{name} is used by {reader.name} afterwards"
        rewriter.missed(op, Refusal(_NOT_READ, found))
    else:
        rewriter.passed(op, f"{op.callee.data}: stores its result in the memory of {name}")
        op.in_place = UnitAttr()


def _states_in_place(op: StateSpaceModel, rewriter: FunctionRewriter) -> None:
    initial = op.initial
    if not isinstance(initial, BlockArgument) or not is_donated(initial):
        return
    if initial.has_more_than_one_use():
        found = f"{name_of(initial)} is donated without effect: it is also used elsewhere"
        rewriter.missed(op, Refusal("the overwritten tensor has no other use", found))
    else:
        rewriter.passed(op, f"stores its states in the memory of {name_of(initial)}")
        op.in_place = UnitAttr()


_WHOLE = "the overwritten tensor is a whole donated tensor"
_NOT_READ = "nothing else reads the overwritten tensor"


def _is_whole(value: SSAValue) -> bool:
    """Return whether a value is all of a donated tensor, possibly changed by in-place calls."""
    while (before := overwritten(value)) is not None:
        value = before
    return isinstance(value, BlockArgument)


def _reader_after(op: Operation, memory: SSAValue, order: BlockOrder) -> Operation | None:
    """Return the first operator after `op` that uses the old contents of the memory.

    What reads a finalize or an embedding may compute it, and so reads its operands.
    """
    users = {use.operation for value in _values_in(memory) for use in value.uses}
    users |= {
        reader
        for user in users
        if isinstance(user, gemm.FinalizeOp | EmbeddingOp)
        for reader in readers_of(user)
    }
    later = [user for user in users if order.position(user) > order.position(op)]
    return min(later, key=order.position, default=None)


def _values_in(memory: SSAValue) -> set[SSAValue]:
    """Return the values that share the memory of `memory`, which is one of them."""

    def views(value: SSAValue) -> Iterator[SSAValue]:
        results = (result for use in value.uses for result in use.operation.results)
        return (result for result in results if storage_root(result) is memory)

    return set(reached([memory], views))


def _store_in_place(op: gemm.FusedOp | gemm.MapOp, rewriter: FunctionRewriter) -> None:
    segments = op.segments()
    for segment in segments:
        for index, port in enumerate(segment.ports):
            if not is_given_up(port) or not _may_fit(segment, port):
                continue
            found = _result_in_place(op, segment, index, rewriter.order)
            number = rewriter.allowed(op, found)
            if number is not None:
                rewriter.passed(op, f"stores a result in the memory of {name_of(port.value)}")
                type = segment.results[number].type
                segment.results[number] = gemm.Result(gemm.ResultPortAttr.accumulate(index), type)
    editor = EpilogueEditor(op, rewriter.order)
    for edited, segment in zip(editor.segments, segments, strict=True):
        edited.results = segment.results
    editor.commit()


def _may_fit(segment: gemm.Segment, port: gemm.Port) -> bool:
    """Return whether a port loads a tile, or a number of the type of a result, as of a counter."""
    return bool(shape_of(port.value)) or any(r.type == port.value.type for r in segment.results)


def _running_sum(op: gemm.FusedOp) -> int | None:
    """Return the number of the port that loads a running sum of products, to which the only result
    of `op` adds its product; None if `op` computes anything else.
    """
    segments = op.segments()
    if len(segments) > 1 or len(segments[0].results) > 1 or segments[0].pairing is not None:
        return None
    (segment,) = segments
    added = segment.yielded(0)[0].owner
    if not isinstance(added, arith.AddfOp) or segment.accumulators[0] not in added.operands:
        return None
    for index, (kind, value) in enumerate(segment.ports):
        is_added = kind == gemm.PortKind.TILE and segment.port_args(index)[0] in added.operands
        if is_added and _is_sum_of_products(value) and value.type == segment.results[0].type:
            return index
    return None


def _is_sum_of_products(value: SSAValue) -> bool:
    """Return whether `value` is a float32 product, or a sum of products, without other uses."""
    op = value.owner
    if not isinstance(op, gemm.FusedOp) or len(op.outputs) > 1 or value.has_more_than_one_use():
        return False
    (segment,) = op.segments()
    port = segment.results[0].port
    if element_type_of(value) != f32 or segment.is_stored_transposed(port):
        return False
    is_product = not segment.ports and segment.yielded(0)[0] is segment.accumulators[0]
    return is_product or port.kind.data == gemm.ResultKind.ACCUMULATE


def _result_in_place(
    op: gemm.FusedOp | gemm.MapOp, segment: gemm.Segment, index: int, order: BlockOrder
) -> int | Refusal:
    """Return the result of `op` that can be stored in the tensor that port `index` loads."""
    kind, value = segment.ports[index]
    if _is_used_elsewhere(op, value, order):
        return Refusal(
            "the overwritten tensor has no other use",
            f"{name_of(value)} is donated without effect: it is also used elsewhere",
        )
    wanted = gemm.ResultKind.TILE_T if kind == gemm.PortKind.TILE_T else gemm.ResultKind.TILE
    for number, (port, type) in enumerate(segment.results):
        if port.kind.data == wanted and type == value.type and _reads(segment, number, index):
            return number
    return Refusal(
        "a result is computed from the tensor that it overwrites, and has its type and layout",
        f"{name_of(value)} is donated without effect: no result fits into its memory",
    )


def _is_used_elsewhere(op: gemm.FusedOp | gemm.MapOp, value: SSAValue, order: BlockOrder) -> bool:
    """Return whether an operator that may run after `op` uses `value`, or `op` uses it twice.

    Numbers may be read before.
    """
    if shape_of(value):
        return value.has_more_than_one_use()
    users = [use.operation for each in _values_in(value) for use in each.uses]
    return _reader_after(op, value, order) is not None or users.count(op) > 1


def _reads(segment: gemm.Segment, result: int, port: int) -> bool:
    """Return whether a result is computed from the elements of a port."""
    return depend_on(segment.yielded(result), segment.port_args(port))
