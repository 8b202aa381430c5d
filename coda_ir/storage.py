"""Values that share memory: views, replaced operands, parts of a concatenation, roots."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import prod
from typing import TypeGuard

from xdsl.dialects.builtin import DYNAMIC_INDEX, IntAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import BlockArgument, Operation, SSAValue

from coda_ir.dialects import coda, gemm
from coda_ir.dialects.coda.scan import StateSpaceModel
from coda_ir.dialects.coda.shapes import element_bytes, shape_of
from coda_ir.dialects.gemm.places import PlaceAttr, columns_of, part_of
from coda_ir.dialects.torch import CallOp

DONATED = "coda.donated"
"""The attribute of an argument that its caller gives up: results may be stored in its memory."""

OWN = "coda.own"
"""The attribute of a result that shares memory with no argument, and with no other such result: its
caller may change it in place. Results with the same number may be views of one another.
"""

BOXED = "coda.boxed"
"""The attribute of a function that empties the list of its arguments, to free them early."""

VIEW_OPS = (
    coda.ReshapeOp,
    coda.TransposeOp,
    coda.SliceOp,
    coda.ShiftOp,
    coda.BroadcastOp,
    coda.BarrierOp,
)


def is_trained(func: FuncOp) -> bool:
    """Return whether a function is a forward or backward program: the module has a boxed one."""
    block = func.parent_block()
    beside = (func,) if block is None else block.ops
    return any(isinstance(op, FuncOp) and BOXED in op.attributes for op in beside)


def is_view(owner: object) -> bool:
    """Return whether the results of an operator may share the memory of its first operand."""
    is_call_with_view = isinstance(owner, CallOp) and owner.view is not None and owner.inputs
    return isinstance(owner, VIEW_OPS) or bool(is_call_with_view)


def overwritten(value: SSAValue) -> SSAValue | None:
    """Return the operand in whose memory `value` is stored: that of an `accumulate`, of an in-place
    call of PyTorch, or the states of a state-space model.
    """
    op = value.owner
    if isinstance(op, StateSpaceModel):
        return op.initial if op.in_place is not None and value is op.final else None
    if isinstance(op, CallOp) and op.in_place is not None:
        return op.inputs[0]
    if not isinstance(op, gemm.FusedOp | gemm.MapOp):
        return None
    attrs = op.segment_attrs.data if isinstance(op, gemm.FusedOp) else (op.segment_attr,)
    outputs, first_port = iter(op.outputs), 0
    for attr in attrs:
        for port, output in zip(attr.results, outputs, strict=False):
            if output is value and port.kind.data == gemm.ResultKind.ACCUMULATE:
                assert isinstance(port.index, IntAttr)
                return op.ports[first_port + port.index.data]
        first_port += len(attr.ports)
    return None


def is_shifted_where_read(op: coda.ShiftOp) -> bool:
    """Return whether only pointwise kernels read the result; they load the rows of its operand."""
    return shape_of(op.result)[-1] != DYNAMIC_INDEX and all(
        isinstance(use.operation, gemm.MapOp)
        and _is_port(use.operation, op.result, gemm.PortKind.TILE)
        for use in op.result.uses
    )


def may_be_looked_up(op: coda.EmbeddingOp) -> bool:
    """Return whether a kernel may load rows of a table by ids: a whole tensor of known size."""
    is_known = min(shape_of(op.table)) > 0
    return is_known and bool(shape_of(op.ids)) and not is_view(op.table.owner)


def is_looked_up_where_read(op: Operation) -> bool:
    """Return whether `op` is an embedding that one pointwise kernel reads, as a tile or a table: it
    loads the rows itself. The ids are no other operand of the kernel; where the kernel takes its
    domain from the rows, the ids are a tensor in memory, which has their extents.
    """
    if not isinstance(op, coda.EmbeddingOp) or not may_be_looked_up(op):
        return False
    use, kinds = op.result.get_unique_use(), (gemm.PortKind.TILE, gemm.PortKind.TABLE)
    if (
        use is None
        or not isinstance(kernel := use.operation, gemm.MapOp)
        or op.ids in kernel.operands
    ):
        return False
    if not any(_is_port(kernel, op.result, kind) for kind in kinds):
        return False
    return coda.positions_in(op.ids) is None or kernel.segment().domain_value is not op.result


def read_by(op: Operation) -> Iterator[SSAValue]:
    """Yield the operands of `op`, and what is looked up for them."""
    for operand in op.operands:
        yield operand
        looked_up = operand.owner
        if isinstance(looked_up, Operation) and is_looked_up_where_read(looked_up):
            yield from looked_up.operands


def is_transposed_matrix(value: SSAValue) -> bool:
    """Return whether `value` is a matrix of known size whose rows are columns of another one;
    kernels with tiles of many rows read it in place.
    """
    op = value.owner
    is_matrix = isinstance(op, coda.TransposeOp) and op.permutation == (1, 0)
    return is_matrix and DYNAMIC_INDEX not in shape_of(value)


ROWS_TRANSPOSED = (1, 0, 2)
"""The transpose between (B x T x N) and (T x B x N)."""


def has_transposed_rows(value: SSAValue) -> bool:
    """Return whether a result of attention (B x T x N) is stored as (T x B x N): all that reads it
    is that transpose, and its kernel or PyTorch's stores any order of rows.
    """
    op = value.owner
    if isinstance(op, coda.AttentionOp):
        return value is op.result and _is_only_transposed(value)
    if not isinstance(op, gemm.AttentionSumOp) or value not in op.outputs:
        return False
    segment = op.segment()
    kinds = {result.port.kind.data for result in segment.results}
    knows_rows = any(kind not in _PORTS_WITHOUT_ROWS for kind, _ in segment.ports)
    if knows_rows or not kinds <= {gemm.ResultKind.TILE, gemm.ResultKind.PARTIAL_COL}:
        return False
    tiles = [
        output
        for result, output in zip(segment.results, segment.outputs, strict=True)
        if result.port.kind.data == gemm.ResultKind.TILE
    ]
    return value in tiles and all(map(_is_only_transposed, tiles))


_PORTS_WITHOUT_ROWS = (gemm.PortKind.ROW, gemm.PortKind.HALF_ROW, gemm.PortKind.SCALAR)


def _is_only_transposed(value: SSAValue) -> bool:
    readers = [use.operation for use in value.uses]
    is_transposed = all(
        isinstance(op, coda.TransposeOp) and op.permutation == ROWS_TRANSPOSED for op in readers
    )
    return is_transposed and bool(readers) and 1 not in shape_of(value)[:-1]


def _is_port(op: gemm.MapOp, value: SSAValue, kind: gemm.PortKind) -> bool:
    """Return whether `op` reads `value` by ports of `kind` only, over a domain of its columns,
    which are stated, and stores nothing in its place.
    """
    segment, columns = op.segment(), shape_of(value)[-1:]
    kinds = {port.kind for port in segment.ports if port.value is value}
    tiles = [shape_of(port.value) for port in segment.ports if port.kind == gemm.PortKind.TILE]
    stored = [type for port, type, *_ in segment.results if port.kind.data == gemm.ResultKind.TILE]
    tiles += [type.get_shape() for type in stored]
    is_stated = all(shape[-1:] == columns for shape in tiles)
    is_read = all(overwritten(result) is not value for result in op.results)
    return kinds == {kind} and is_stated and is_read


ALIGNMENT = 16
"""Bytes of which a part of a concatenation starts at a multiple: vector loads and TMA need it."""


def placement(value: SSAValue) -> SSAValue | None:
    """Return the tensor in whose memory a kernel stores `value`: joined, or changed in place."""
    if place_of(value) is not None:
        part = part_of(value)
        assert part is not None, "the verifier has checked the place"
        return part.whole
    use = value.get_unique_use()
    if use is None or not isinstance(use.operation, coda.ConcatOp):
        return None
    return use.operation.result if _has_rows_in_place(use.operation) else None


def place_of(value: SSAValue) -> PlaceAttr | None:
    """Return the place of a kernel's result among a concatenation's columns, if it states one."""
    op = value.owner
    if not isinstance(op, gemm.FusedOp | gemm.MapOp):
        return None
    attrs = op.segment_attrs.data if isinstance(op, gemm.FusedOp) else (op.segment_attr,)
    ports = [port for attr in attrs for port in attr.results]
    place = next(
        port.place for port, output in zip(ports, op.outputs, strict=True) if output is value
    )
    return place if isinstance(place, PlaceAttr) else None


def is_filled_in_place(joined: coda.ConcatOp) -> bool:
    """Return whether kernels store parts of a concatenation in place: all of its rows, or some of
    its columns while the others are copied.
    """
    return _has_rows_in_place(joined) or any(map(is_placed, joined.parts))


def is_placed(part: SSAValue) -> bool:
    """Return whether a kernel stores a part of a concatenation of columns in place."""
    return place_of(columns_of(part)) is not None


def is_stored_by_kernel(op: Operation) -> bool:
    """Return whether a call in place has nothing to do, since a kernel stores the row for it."""
    row = op.stored_row if isinstance(op, CallOp) else None
    if row is None:
        return False
    stored = row.values.owner
    return place_of(stored.x if isinstance(stored, coda.ReshapeOp) else row.values) is not None


EXPAND = "aten.expand.default"
"""The call that repeats a tensor along dimensions of any size."""


def repeats(op: object) -> TypeGuard[coda.BroadcastOp | CallOp]:
    """Return whether `op` is a view of its first operand, which it repeats along dimensions."""
    is_call = isinstance(op, CallOp) and op.callee.data == EXPAND
    return is_call or isinstance(op, coda.BroadcastOp)


def filling(part: SSAValue) -> coda.ConstantOp | None:
    """Return the number that fills a constant part of a concatenation."""
    use = part.get_unique_use()
    joined = None if use is None else use.operation
    is_filled = isinstance(joined, coda.ConcatOp) and is_filled_in_place(joined)
    return repeated_number(part) if is_filled else None


def repeated_number(value: SSAValue) -> coda.ConstantOp | None:
    """Return the number that every element of `value` equals."""
    op = value.owner
    if not isinstance(op, CallOp) or op.callee.data != EXPAND:
        return None
    number = op.inputs[0].owner
    return number if isinstance(number, coda.ConstantOp) else None


def _has_rows_in_place(joined: coda.ConcatOp) -> bool:
    """Return whether kernels store all parts of a concatenation of rows in place.

    Each part is the result of a kernel without another use, of a size that is known.
    """
    if joined.dim.value.data != 0 or DYNAMIC_INDEX in shape_of(joined.result):
        return False
    return all(
        isinstance(part.owner, gemm.FusedOp | gemm.MapOp | gemm.FinalizeOp)
        and part.has_one_use()
        and overwritten(part) is None
        and prod(shape_of(part)) * element_bytes(part.type) % ALIGNMENT == 0
        for part in joined.parts
    )


def storage_root(value: SSAValue) -> SSAValue:
    """Return the value whose memory `value` shares; `value` itself if it has its own."""
    while (shared := _shared_with(value)) is not None:
        value = shared
    return value


def _shared_with(value: SSAValue) -> SSAValue | None:
    """Return the value of which `value` is a view, that it overwrites, or whose part it is."""
    if is_view(value.owner):
        assert isinstance(value.owner, Operation)
        return value.owner.operands[0]
    operand = overwritten(value)
    return placement(value) if operand is None else operand


def stale_reads(ops: Iterable[Operation]) -> Iterator[tuple[Operation, CallOp]]:
    """Yield each operator that reads a tensor after a call in place has changed it, and the call;
    a call that changes a tensor which it also reads as another operand is its own reader.

    Such a program is wrong: the operator is to read what was there before. Kernels that overwrite
    an operand with other uses copy it first.
    """
    changed: dict[SSAValue, CallOp] = {}
    for op in ops:
        if isinstance(op, CallOp) and op.in_place is not None and reads_what_it_changes(op):
            yield op, op
        for value in read_by(op) if changed and not is_view(op) else ():
            call = changed.get(storage_root(value))
            if call is not None and not _holds(value, call.outputs[0]):
                yield op, call
        if isinstance(op, CallOp) and op.in_place is not None:
            changed[storage_root(op.inputs[0])] = op


def reads_what_it_changes(op: CallOp) -> bool:
    """Return whether another operand of a call shares the memory of the one that it changes; what
    a kernel stores in the result for the call does not count.
    """
    changed, *others = read_by(op)
    return any(
        storage_root(value) is storage_root(changed) and not _holds(value, op.results[0])
        for value in others
    )


def _holds(value: SSAValue, changed: SSAValue) -> bool:
    """Return whether `value` is `changed`, a view of it, or what a later change made of it."""
    shared: SSAValue | None = value
    while shared is not None and shared is not changed:
        shared = _shared_with(shared)
    return shared is changed


def is_donated(argument: BlockArgument) -> bool:
    """Return whether the caller of a function gives up the memory of an argument."""
    func = argument.owner.parent_op()
    if not isinstance(func, FuncOp) or func.arg_attrs is None:
        return False
    return DONATED in func.arg_attrs.data[argument.index].data


def last_uses(
    ops: Iterable[Operation], root: Callable[[SSAValue], SSAValue] = storage_root
) -> Mapping[Operation, Sequence[SSAValue]]:
    """Return the roots whose last use is in each operator; an unused result counts as one."""
    last = {root(value): op for op in ops for value in (*op.results, *read_by(op))}
    by_op = defaultdict[Operation, list[SSAValue]](list)
    for value, op in last.items():
        by_op[op].append(value)
    return by_op


def only_kernels_read(value: SSAValue) -> bool:
    """Return whether kernels of the GEMM level alone read a value and its views."""
    return all(
        only_kernels_read(op.results[0])
        if isinstance(op := use.operation, VIEW_OPS)
        else isinstance(op, gemm.FusedOp | gemm.MapOp | gemm.FinalizeOp | gemm.AttentionSumOp)
        for use in value.uses
    )


def may_be_overwritten(value: SSAValue) -> bool:
    """Return whether no other use needs the memory of `value`, so that its only use may store a
    result there: that of a kernel's result, or of a donated argument, without other views.
    """
    while is_view(value.owner):
        assert isinstance(value.owner, Operation)
        value = value.owner.operands[0]
        if value.has_more_than_one_use():
            return False
    if isinstance(value, BlockArgument):
        return is_donated(value)
    return isinstance(
        value.owner, gemm.FusedOp | gemm.MapOp | gemm.FinalizeOp | gemm.AttentionSumOp
    )
