"""Pass `place-parts`: let kernels store their results directly in a concatenation or a cache."""

from collections.abc import Sequence
from itertools import chain
from math import prod

from xdsl.dialects.builtin import DYNAMIC_INDEX
from xdsl.ir import Attribute, SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import (
    element_bytes,
    element_type_of,
    is_float,
    shape_of,
    tensor_type,
)
from coda_ir.dialects.gemm import MapOp, Port, PortKind, Result, ResultPortAttr
from coda_ir.dialects.gemm.places import PlaceAttr, adds_ones, columns_of, part_of
from coda_ir.dialects.torch import CallOp, StoredRow
from coda_ir.passes.layout.absorption import may_be_read_by
from coda_ir.passes.support.editing import EpilogueEditor, Site
from coda_ir.passes.support.fillers import filler
from coda_ir.passes.support.function_pass import FunctionPass, FunctionRewriter, OpInserter, Refusal
from coda_ir.passes.support.legality import name_of
from coda_ir.storage import ALIGNMENT, EXPAND, is_view, repeated_number, storage_root
from coda_ir.symbolic_shapes import Dim, Dims

MAX_COPIES = 1
"""Parts that are copied beside others: each takes a call, PyTorch's concatenation one for all."""


class PlacePartsPass(FunctionPass):
    """Lets kernels store parts of a concatenation, or a row of a cache, in place.

        %q = gemm.fused ... -> (tile)             %q = gemm.fused ... -> (tile at<0, 128, 192>)
        %r = gemm.fused ... -> (tile)       ->    %r = gemm.fused ... -> (tile at<128, 64, 192>)
        %a = coda.reshape %q : (... x H x 128)    (the same)
        %b = coda.reshape %r : (... x H x 64)
        %c = coda.concat %a, %b {dim = 3}

    A result with a place is stored in the memory of the concatenation, in runs of columns, here one
    run per head. A head that is repeated beside others, such as the rotary columns that the keys of
    multi-head latent attention share, is stored once for each of them (`at<128, 64, 192, 16>`).
    Runs of several rows are those of a sample, such as the keys of text and images in joint
    attention (arXiv 2403.03206), or stacked tensors. A pointwise kernel that stores a part also
    stores the parts that it reads (%x, f(%x)). Parts that no kernel computes are copied; padding
    with a number is filled.
    Legal iff the concatenation is the only use of the result, the extents of the joined dimension
    and those after it are known, and every run starts at a multiple of 16 bytes.

        %k = gemm.fused ... -> (tile)                         %k = gemm.fused ... scalar(%i)
        %h = coda.reshape %k : (Bx1xN) -> BxHx1xD       ->      -> (tile<0> at<0, D, S·D>)
        %c = torch.call "aten.index_put" (%cache, %i, %h)     (the same)

    If a kernel stores a row in place, such as the keys of a token in a cache of B x H x S x D, the
    call that stores it becomes a no-op. `tile<0>` means that port 0 has the row number. Legal iff
    the row has the extents of the cache, nothing reads or changes the cache between the kernel and
    the call, and the row number is known before the kernel runs. As in PyTorch, a row number out of
    range raises an error.
    """

    def run_on_function(self, rewriter: FunctionRewriter) -> None:
        for op in rewriter.ops:
            if isinstance(op, coda.PadOp):
                _join_padding(op, rewriter)
            elif isinstance(op, CallOp):
                _state_repetition(op, rewriter)
        for op in rewriter.ops:
            # Parts that follow one another in memory are tensors without a place.
            if isinstance(op, coda.ConcatOp) and op.dim.value.data > 0:
                _place_parts(op, rewriter)
            elif isinstance(op, CallOp) and (row := op.stored_row) is not None:
                value = _reshaped(row.values)
                refusal = _why_no_row(op, row, value, rewriter)
                if rewriter.accepts(op, refusal, f"{name_of(value)} is stored in place"):
                    _place(value, rewriter)


def _place_parts(op: coda.ConcatOp, rewriter: FunctionRewriter) -> None:
    readers = {n: reader for n in range(len(op.parts)) if (reader := _reader(op, n, rewriter))}
    refusals = [None if n in readers else _why_not_stored(part) for n, part in enumerate(op.parts)]
    copied = [
        refusal
        for part, refusal in zip(op.parts, refusals, strict=True)
        if refusal is not None and repeated_number(part) is None
    ]
    if None not in refusals:
        return
    for refusal in copied:
        rewriter.missed(op, refusal)
    if len(copied) > MAX_COPIES:
        return
    rewriter.passed(op, f"{refusals.count(None)} of its parts are stored in place")
    for number, other in readers.items():
        _store_again(op, number, other, rewriter)
    for number, refusal in enumerate(refusals):
        if refusal is None:
            # Other parts may be results of the same kernel, which an edit replaces.
            _place(columns_of(op.parts[number]), rewriter)


def _reader(op: coda.ConcatOp, number: int, rewriter: FunctionRewriter) -> int | None:
    """Return the number of another part whose pointwise kernel reads part `number`, or what that
    repeats; None if there is none, and if a kernel computes part `number`.
    """
    part, dims = op.parts[number], rewriter.shapes.dims
    runs = [shape_of(each)[op.dim.value.data :] for each in op.parts]
    start = sum(map(prod, runs[:number])) * element_bytes(part.type)
    is_computed = Site.of(columns_of(part)) is not None
    if is_computed or DYNAMIC_INDEX in chain(*runs) or start % ALIGNMENT:
        return None
    x = _without_ones(part)
    if not is_float(element_type_of(x)) or (_repeated(x) is not x and len(runs[number]) > 1):
        return None
    for index, other in enumerate(map(_without_ones, op.parts)):
        kernel = other.owner
        if not isinstance(kernel, MapOp) or kernel.segment().pairing or dims(other) != dims(x):
            continue
        if _repeated(x) in kernel.operands and _why_not_stored(op.parts[index]) is None:
            return index
    return None


def _without_ones(part: SSAValue) -> SSAValue:
    """Return the tensor to which `part` adds dimensions of extent 1, or `part` itself."""
    return part.owner.x if adds_ones(part.owner) else part


def _repeated(part: SSAValue) -> SSAValue:
    """Return the tensor that is repeated along dimensions as `part`, or `part` itself."""
    op = part.owner
    return op.inputs[0] if isinstance(op, CallOp) and op.callee.data == EXPAND else part


def _store_again(op: coda.ConcatOp, number: int, other: int, rewriter: FunctionRewriter) -> None:
    """Let the kernel of part `other` store part `number`, which it reads."""
    part, kernel = op.parts[number], _without_ones(op.parts[other]).owner
    assert isinstance(kernel, MapOp), "checked before"
    x, editor = _without_ones(part), EpilogueEditor(kernel, rewriter.order)
    lanes = editor.lanes_of(_repeated(x), 0, shape_of(x), half=False)
    index = editor.add_result(0, ResultPortAttr.tile(), tensor_type(x), lanes)
    (stored,) = editor.commit_and_locate(0, [index])
    stored.name_hint = part.name_hint
    view = part.owner
    if x is part or not isinstance(view, coda.ReshapeOp):
        op.operands[number] = stored
        return
    op.operands[number] = rewriter.before(op).again(view, [stored], shape_of(part))
    if not part.uses:
        rewriter.order.erase(view)


def _why_not_stored(part: SSAValue) -> Refusal | None:
    """Return the reason why no kernel can store `part` of a concatenation in its place."""
    value = columns_of(part)
    if Site.of(value, or_transposed=True) is None:
        return Refusal(
            "each part is a tile of a kernel in the same function",
            f"{name_of(part)} is copied: no kernel computes its elements one by one",
        )
    found = part_of(value)
    if found is None:
        return Refusal(
            "the concatenation is the only use of a part, and the extents of all parts are known",
            f"{name_of(value)} is copied: {_why_no_part(part)}",
        )
    if Site.of(value) is None and not found.place.has_rows_of(shape_of(value)):
        return Refusal(
            "a part that is stored transposed is a matrix, of which each run is a row",
            f"{name_of(value)} is copied: its runs have {found.place.width.data} elements",
        )
    return None if _is_aligned(value, found.place) else _why_unaligned(value, found.place)


def _why_no_part(part: SSAValue) -> str:
    if not (part.has_one_use() and columns_of(part).has_one_use()):
        return "it is also used elsewhere"
    return "it is concatenated along an unknown extent, or repeated in rows"


def _reshaped(values: SSAValue) -> SSAValue:
    return values.owner.x if isinstance(values.owner, coda.ReshapeOp) else values


def _why_no_row(
    op: CallOp, row: StoredRow, value: SSAValue, rewriter: FunctionRewriter
) -> Refusal | None:
    """Return why no kernel can store the row `value` for a call in place."""
    site, part, order = Site.of(value), part_of(value), rewriter.order
    if site is None or not (value.has_one_use() and row.values.has_one_use()):
        return Refusal(
            "the call is the only use of a tile of a kernel",
            f"{name_of(value)} is copied: no kernel computes its elements for this call alone",
        )
    whole, stored = (list(rewriter.shapes.dims(x)) for x in (op.inputs[0], row.values))
    whole[row.dim] = 1
    if part is None or stored != whole:
        return Refusal(
            "the row has the extents of the tensor, static ones after its dimension, and consists "
            "of whole rows of the tile, or of a part of one",
            f"{name_of(value)} is copied: {_extents(rewriter.shapes.written(value))} elements are "
            f"stored in rows of {_extents(whole)}",
        )
    runs = PlaceAttr.of(0, part.place.width.data, part.place.width.data)
    if not _is_aligned(value, runs):
        return _why_unaligned(value, runs)
    before = order.slices_after([row.number], site.op)
    if before is None or not all(map(is_view, before)):
        return Refusal(
            "the number of the row is known before the kernel runs",
            f"{name_of(value)} is copied: {name_of(row.number)} is computed after it",
        )
    memory, first, last = storage_root(part.whole), order.position(site.op), order.position(op)
    between = [each for each in rewriter.ops if first <= order.position(each) < last]
    values = (value for each in between for value in (*may_be_read_by(each), *each.results))
    if any(storage_root(value) is memory for value in values):
        return Refusal(
            "nothing makes or uses the tensor between the kernel and the call that changes it",
            f"{name_of(value)} is copied: {name_of(memory)} is made or used before the call",
        )
    return None


def _extents(dims: Sequence[Dim]) -> str:
    return " x ".join(map(str, dims))


def _is_aligned(value: SSAValue, place: PlaceAttr) -> bool:
    starts = (place.offset.data, place.period.data)
    return all(start * element_bytes(value.type) % ALIGNMENT == 0 for start in starts)


def _why_unaligned(value: SSAValue, place: PlaceAttr) -> Refusal:
    bytes = element_bytes(value.type)
    return Refusal(
        f"runs of elements start at multiples of {ALIGNMENT} bytes",
        f"{name_of(value)} is copied: its runs would start {place.offset.data * bytes} bytes "
        f"after multiples of {place.period.data * bytes}",
    )


def _place(value: SSAValue, rewriter: FunctionRewriter) -> None:
    site, found = Site.of(value, or_transposed=True), part_of(value)
    assert site is not None and found is not None, "legality was checked before"
    editor = EpilogueEditor(site.op, rewriter.order)
    segment = editor.segments[site.segment]
    port, type = segment.results[site.result]
    number = None
    if found.number is not None:
        rewriter.order.hoist([found.number], site.op)
        segment.add_port(PortKind.SCALAR, found.number)
        number = segment.ports.index(Port(PortKind.SCALAR, found.number))
    segment.results[site.result] = Result(port.at(found.place, number), type)
    editor.commit()


def _state_repetition(op: CallOp, rewriter: FunctionRewriter) -> None:
    """Express a call that repeats a head of columns in a concatenation as `coda.broadcast`."""
    use = op.outputs[0].get_unique_use() if op.callee.data == EXPAND else None
    if use is None or not isinstance(use.operation, coda.ConcatOp):
        return
    x, (result,) = op.inputs[0], op.outputs
    before, after = rewriter.shapes.dims(x), rewriter.shapes.dims(result)
    is_one_head = before == (*after[:-2], 1, after[-1]) and isinstance(after[-2], int)
    if is_one_head and Site.of(columns_of(x)) is not None:
        repeated = coda.BroadcastOp(x, shape_of(result))
        rewriter.replace(op, rewriter.before(op).insert(repeated))


def _join_padding(op: coda.PadOp, rewriter: FunctionRewriter) -> None:
    """Join constant columns that pad the tile of a kernel to the concatenation as parts."""
    x, added, (*rows, columns) = op.x, op.added, rewriter.shapes.dims(op.x)
    is_last = op.dim.value.data == len(rows) and isinstance(columns, int)
    if not is_last or added is None or not _can_be_padded(x, *added):
        return
    if not rewriter.shapes.are_declared(tuple(rows)):
        return
    insert, element = rewriter.before(op), element_type_of(x)
    first, last = (_filled(op.number, element, (*rows, count), insert) for count in added)
    joined = coda.ConcatOp([*first, x, *last], len(rows))
    rewriter.replace(op, insert.insert(joined))


def _can_be_padded(x: SSAValue, before: int, after: int) -> bool:
    """Return whether a kernel can store `x`, which has no other use, between what pads it."""
    value, width = columns_of(x), shape_of(x)[-1]
    if not width:
        return False
    place = PlaceAttr.of(before, width, before + width + after)
    is_only_use = x.has_one_use() and value.has_one_use()
    return Site.of(value) is not None and is_only_use and _is_aligned(value, place)


def _filled(number: float, element: Attribute, dims: Dims, insert: OpInserter) -> list[SSAValue]:
    """Return a tensor of these dimensions filled with a number, if there is one."""
    if not dims[-1]:
        return []
    return [insert.insert(op) for op in filler(number, element, dims)][1:]
