"""Kernel launches, whose results are new tensors or overwrite operands."""

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeAlias

from xdsl.ir import Operation, SSAValue

from coda_ir.backends.triton.argument_list import Moved, Pitch, ids_of
from coda_ir.backends.triton.equal_code import key_of
from coda_ir.backends.triton.host.literals import known_extent
from coda_ir.backends.triton.host.program import HostProgram
from coda_ir.backends.triton.host.views import View
from coda_ir.backends.triton.kernel import EmittedKernel
from coda_ir.backends.triton.map_kernel import MapSegment, emit_map
from coda_ir.backends.triton.names import NameAllocator
from coda_ir.backends.triton.operators.row_pitches import moved_operands, row_pitch, row_pitches
from coda_ir.backends.triton.split_k import workspace
from coda_ir.dialects.coda import EmbeddingOp, ShiftOp, extent_in, positions_in
from coda_ir.dialects.coda.shapes import shape_of
from coda_ir.dialects.gemm import MapOp
from coda_ir.storage import overwritten
from coda_ir.symbolic_shapes import Dims

Writer: TypeAlias = Callable[[HostProgram, Any], None]
"""Emits an operator of the class that it is for."""


def kernel_of(
    host: HostProgram,
    op: Operation,
    emit: Callable[[NameAllocator], EmittedKernel],
    layout: Hashable = None,
) -> EmittedKernel:
    """Return the kernel that `emit` makes, or an equal one that the module has already.

    With a `layout`, which has all that `emit` reads beside the operator, equal operators are
    emitted once.
    """
    return host.kernels.shared(op, None if layout is None else (key_of(op), layout), emit)


def kernel_named(
    host: HostProgram,
    op: Operation,
    name: str,
    emit: Callable[..., EmittedKernel],
    pitches: Mapping[SSAValue, Pitch] | None = None,
    **options: Hashable,
) -> EmittedKernel:
    """Return the kernel that `emit` makes of `op`, an unused name like `name`, `pitches` if they
    are given, and `options`; or an equal one. Other kernels of such an operator have another name.
    """
    given = () if pitches is None else (pitches,)
    layout = (name, by_operand(op, pitches or {}), *sorted(options.items()))
    return kernel_of(host, op, lambda names: emit(op, names.fresh(name), *given, **options), layout)


def by_operand(op: Operation, pitches: Mapping[SSAValue, Pitch]) -> tuple[Pitch | None, ...]:
    """Return the layout of operands, some of them ranges: the elements between starts of rows."""
    return tuple(pitches.get(operand) for operand in op.operands)


def launch(
    host: HostProgram,
    op: Operation,
    kernel: EmittedKernel,
    rows: str,
    operands: Sequence[str | View],
) -> None:
    outputs: list[str | View] = []
    for result in op.results:
        operand = overwritten(result)
        if operand is None:
            outputs.append(host.output(result))
        else:
            owned = operands[list(op.operands).index(operand)]
            assert isinstance(owned, str), "results are stored in separate variables"
            outputs.append(owned)
            host.overwrite(result, owned)
    outputs += workspace(host, kernel, rows, operands)
    host.launch(kernel, rows, operands, outputs)


def operands_of(
    host: HostProgram,
    op: Operation,
    ranges: Collection[SSAValue] = (),
    moved: Mapping[SSAValue, Moved] = MappingProxyType({}),
) -> list[str | View]:
    """Return the tensors of `op`'s operands: dense, except `ranges`, which keep their strides, and
    those that are `moved`, for which a kernel gets others.
    """
    in_place = [overwritten(result) for result in op.results]
    return [
        host.owned(operand)
        if operand in in_place and operand not in ranges
        else known_extent(operand, host.extents)
        if extent_in(operand) is not None
        else host.kernel_operand(moved[operand].source)
        if operand in moved
        else host.kernel_operand(operand, is_range=operand in ranges)
        for operand in op.operands
    ]


def rows_of(domain: Dims, columns: int) -> Dims:
    """Return the rows of a domain; all elements if it is taken as one column."""
    return domain[:-1] if domain and domain[-1] == columns else domain


def launch_map(host: HostProgram, op: Operation, segment: MapSegment, domain: Dims) -> None:
    pitches = row_pitches(host, segment)
    moved = moved_operands(segment)
    for value, (source, *_) in moved.items():
        pitch = row_pitch(host, source)
        if isinstance(value.owner, EmbeddingOp):
            host.check_index(value.owner.ids, shape_of(source)[0], None)
        if isinstance(value.owner, ShiftOp) and pitch is not None:
            pitches[value] = pitch
    name = None if isinstance(op, MapOp) else op.name.removeprefix("coda.")
    kernel = kernel_of(
        host,
        op,
        lambda names: emit_map(op, segment, names, name, pitches, moved),
        (by_operand(op, pitches), tuple(value in moved for value in op.operands))
        if all(place.is_transposed for place in moved.values())
        else None,
    )
    in_place = [overwritten(result) for result in op.results]
    operands: list[str | View] = [
        host.owned(value)
        if value in in_place
        else host.kernel_operand(moved[value].source, is_range=value in pitches)
        if value in moved
        else _map_operand(host, value, segment, is_range=value in pitches)
        for value in op.operands
    ]
    operands += [host.kernel_operand(ids) for ids in ids_of(moved)]
    launch(host, op, kernel, host.extents.size(rows_of(domain, segment.columns)), operands)


def _map_operand(
    host: HostProgram, value: SSAValue, segment: MapSegment, *, is_range: bool
) -> str | View:
    """Return the tensor of an operand, with its strides if it `is_range`; "None" for a constant or
    positions, which the kernel contains.
    """
    if is_range:
        return host.kernel_operand(value, is_range=True)
    if all(port.value is not value for port in segment.ports):
        return "None"
    if positions_in(value) is not None:
        return "None"
    if extent_in(value) is not None:
        return known_extent(value, host.extents)
    return host.kernel_operand(value)
