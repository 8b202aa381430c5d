"""The kernel that pads a tensor with a number, along one dimension, or moves its rows."""

from math import prod

from xdsl.dialects.builtin import DYNAMIC_INDEX

from coda_ir.backends.triton.argument_list import Pitch, row_start
from coda_ir.backends.triton.copy_kernel import ELEMENTS
from coda_ir.backends.triton.host.literals import written
from coda_ir.backends.triton.host_values import ROW_COUNT, nth_operand, nth_output
from coda_ir.backends.triton.kernel import EmittedKernel, KernelArgument
from coda_ir.backends.triton.kernel_text import (
    emitted,
    next_power_of_2,
    pointer_argument,
    rows_of_tiles,
)
from coda_ir.dialects.coda import PadOp, ShiftOp
from coda_ir.dialects.coda.shapes import element_type_of, is_float, shape_of
from coda_ir.dialects.element_types import BY_ATTRIBUTE


def has_pad_kernel(op: PadOp | ShiftOp) -> bool:
    """Return whether a kernel pads or shifts: of the dimension and those after it, all extents are
    known and none is 0, and kernels have the type.
    """
    dim, known = padded_dim(op), BY_ATTRIBUTE.get(element_type_of(op.x))
    extents = (*shape_of(op.x)[dim:], *shape_of(op.result)[dim:])
    has_type = known is not None and known.triton is not None
    return has_type and DYNAMIC_INDEX not in extents and 0 not in extents


def padded_dim(op: PadOp | ShiftOp) -> int:
    """Return the dimension that is padded, or along which elements move."""
    return op.range[0] if isinstance(op, PadOp) else len(shape_of(op.x)) - 2


def pad_kernel(op: PadOp | ShiftOp, name: str, pitch: Pitch | None) -> EmittedKernel:
    """Emit the kernel, for rows of all elements of the padded dimension and those after it.

    `pitch`: the elements between the starts of rows of x, or where they start, if x is a view.
    """
    dim, type = padded_dim(op), element_type_of(op.x)
    start, given = (op.range[1], op.number) if isinstance(op, PadOp) else (op.distance, 0)
    columns, kept = (prod(shape_of(value)[dim:]) for value in (op.result, op.x))
    before = start * prod(shape_of(op.x)[dim + 1 :])
    width = min(next_power_of_2(columns), ELEMENTS)
    height, tiles = ELEMENTS // width, -(-columns // width)
    number = written(float(given) if is_float(type) else given)
    return emitted(
        name,
        [
            pointer_argument("x_ptr", type, nth_operand(0)),
            pointer_argument("out_ptr", type, nth_output(0)),
            KernelArgument("M", "i32", ROW_COUNT),
        ],
        [
            *rows_of_tiles(height, width, columns),
            f"is_kept = inside & (column >= {before}) & (column < {before + kept})",
            f"place = {row_start('row.to(tl.int64)', kept if pitch is None else pitch)}",
            f"value = tl.load(x_ptr + place + (column - {before}), mask=is_kept, other={number})",
            f"tl.store(out_ptr + row.to(tl.int64) * {columns} + column, value, mask=inside)",
        ],
        summary=f"a tensor between numbers: {before} before {kept} elements of {columns}",
        grid=ROW_COUNT.ceiling(height) * tiles,
    )
