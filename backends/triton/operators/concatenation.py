"""Operators that store tensors and numbers one after the other: concatenations, padding, shifts."""

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import accumulate

from xdsl.dialects.builtin import DYNAMIC_INDEX
from xdsl.ir import Operation, SSAValue

from coda_ir.backends.triton.concat_kernel import Part, concat_kernel
from coda_ir.backends.triton.host.element_places import ElementPlaces
from coda_ir.backends.triton.host.literals import literal, written
from coda_ir.backends.triton.host.program import HostProgram
from coda_ir.backends.triton.numbered_elements_kernels import number_filling
from coda_ir.backends.triton.operators.launching import Writer, kernel_of, launch
from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import element_type_of, shape_of
from coda_ir.dialects.element_types import BY_ATTRIBUTE
from coda_ir.storage import (
    filling,
    is_filled_in_place,
    is_shifted_where_read,
    is_view,
    storage_root,
)

MAX_PARTS = 8
"""Tensors that one kernel joins: each program checks all of them for its elements."""


def _concat(host: HostProgram, op: coda.ConcatOp) -> None:
    if is_filled_in_place(op):
        _copy_others(host, op)
        return
    dim = op.dim.value.data
    if len(op.parts) <= MAX_PARTS and _has_kernel(op, op.parts, dim):
        starts = accumulate((shape_of(part)[dim] for part in op.parts), initial=0)
        parts = dict(zip(starts, op.parts, strict=False))
        numbers = [found.number for part in op.parts if (found := number_filling(part))]
        number = numbers[0] if numbers else 0
        others = {start: x for start, x in parts.items() if not _is_filled(x, number)}
        _launch(host, op, "concat", dim, others, number)
        return
    # PyTorch keeps the channels of images last only if they are last in all parts.
    has_formats = len(shape_of(op.result)) in (4, 5)
    dense = {x for x in op.parts if has_formats and _is_made(x)}
    parts = ", ".join(host.operand(x) if x in dense else host.variable(x) for x in op.parts)
    call = f"torch.cat([{parts}], {dim})"
    host.assign(op.result, call, is_dense=bool(dense) or not has_formats, hint="joined")


def _is_filled(value: SSAValue, number: float) -> bool:
    """Return whether all elements of a tensor are a number."""
    found = number_filling(value)
    return found is not None and repr(found.number) == repr(number)


def _is_made(value: SSAValue) -> bool:
    """Return whether a kernel or a call of PyTorch makes a tensor, which is no view."""
    return isinstance(value.owner, Operation) and not is_view(value.owner)


def _copy_others(host: HostProgram, op: coda.ConcatOp) -> None:
    """Copy the parts that no kernel has stored to their places."""
    dim, start = op.dim.value.data, 0
    for part in op.parts:
        extent, number = shape_of(part)[dim], filling(part)
        if storage_root(part) is not op.result:
            columns = f"{host.variable(op.result)}.narrow({dim}, {start}, {extent})"
            copied = (
                f"copy_({host.variable(part)})" if number is None else f"fill_({literal(number)})"
            )
            host.flush()
            host.lines.append(f"{columns}.{copied}")
        start += extent


def _has_kernel(op: Operation, parts: Sequence[SSAValue], dim: int) -> bool:
    """Return whether a kernel joins tensors: known extents, none 0, and a type it has."""
    values = (*parts, op.results[0])
    extents = [extent for value in values for extent in shape_of(value)[dim:]]
    known = BY_ATTRIBUTE.get(element_type_of(op.results[0]))
    has_type = known is not None and known.triton is not None
    return has_type and DYNAMIC_INDEX not in extents and 0 not in extents


def _launch(
    host: HostProgram,
    op: Operation,
    name: str,
    dim: int,
    parts: Mapping[int, SSAValue],
    number: float = 0,
) -> None:
    """Launch the kernel of tensors by their first index of dimension `dim`."""
    found = [_part(host, part, dim, start) for start, part in parts.items()]
    operands, places = [operand for operand, _ in found], [part for _, part in found]
    (result,) = op.results
    emit = partial(concat_kernel, result, dim=dim, parts=places, number=number)
    layout = (tuple(places), repr(number))
    kernel = kernel_of(host, op, lambda names: emit(names.fresh(name)), layout)
    launch(host, op, kernel, host.extents.size(host.dims(result)[:dim]), operands)


def _part(host: HostProgram, value: SSAValue, dim: int, start: int) -> tuple[str, Part]:
    """Return the tensor and the places of a part, of a dense copy if rows are not in order."""
    found = host.places(value)
    part = None if found is None else Part.of(found[1], dim, start)
    if found is not None and part is not None:
        return host.operand(found[0]), part
    dense = Part.of(ElementPlaces.dense(host.dims(value)), dim, start)
    assert dense is not None, "extents of columns are known"
    return host.operand(value), dense


def _shift(host: HostProgram, op: coda.ShiftOp) -> None:
    """Emit nothing if kernels load the shifted rows themselves."""
    if is_shifted_where_read(op):
        return
    dim = len(shape_of(op.x)) - 2
    if _has_kernel(op, [op.x], dim):
        _launch(host, op, "shift", dim, {op.distance: op.x})
        return
    call = f"shifted({host.variable(op.x)}, {op.distance})"
    host.assign(op.result, call, is_dense=True, hint="shifted")


def _pad(host: HostProgram, op: coda.PadOp) -> None:
    dim, start, _ = op.range
    if _has_kernel(op, [op.x], dim):
        _launch(host, op, "pad", dim, {start: op.x}, op.number)
        return
    x = host.variable(op.x)
    if op.after is None:
        extent = host.extents.of(host.dims(op.result)[dim])
    else:
        extent = f"{x}.shape[{dim}] + {start + op.after.value.data}"
    call = f"pad({x}, {dim}, {start}, {extent})"
    if op.number:
        after = f"{extent} - {start} - {x}.shape[{dim}]"
        around = [0, 0] * (len(host.dims(op.x)) - 1 - dim) + [start]
        counts = ", ".join(map(str, [*around, after]))
        call = f"torch.nn.functional.pad({x}, ({counts}), value={written(op.number)})"
    host.assign(op.result, call, is_dense=True, hint="padded")


WRITERS: Mapping[type, Writer] = {
    coda.ConcatOp: _concat,
    coda.PadOp: _pad,
    coda.ShiftOp: _shift,
}
