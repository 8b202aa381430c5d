"""Operand and result ports of a tile: how a kernel loads an element and where it stores one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from math import prod
from operator import mul
from types import MappingProxyType
from typing import NamedTuple

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    BFloat16Type,
    Float8E4M3FNType,
    Float8E5M2Type,
    Float32Type,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue

from coda_ir.backends.triton.host_values import (
    HostValue,
    constant,
    joined,
    listed,
    nth_operand,
    nth_output,
)
from coda_ir.backends.triton.kernel import (
    WIDE_POINTER,
    KernelArgument,
    pointer_type,
    tl_type,
    triton_type,
)
from coda_ir.backends.triton.names import LocalNames
from coda_ir.diagnostics import CodaError
from coda_ir.dialects.coda.shapes import element_type_of, shape_of
from coda_ir.dialects.gemm import Combiner, Port, PortKind, ResultKind, is_wide_partial, region_type
from coda_ir.dialects.gemm.tables import has_one_row, repeated_dims
from coda_ir.dialects.gemm.tiling import known_tiles


class Layout(NamedTuple):
    """The layout of boxes in shared memory."""

    name: str
    """The constant of the module that holds it."""
    text: str
    """As Gluon prints it."""


@dataclass
class ArgumentList:
    """The run-time arguments of a kernel of `op`; each operand and output gets one pointer."""

    op: Operation
    names: LocalNames
    arguments: list[KernelArgument] = field(default_factory=list[KernelArgument])
    pitches: Mapping[SSAValue, int] = field(default_factory=dict[SSAValue, int])
    """Elements from one row of a tile or table to the next, where these are not its columns."""
    domain: SSAValue | None = None
    """An operand or a result with the row dimensions of the tile; None where it has one."""
    _by_value: dict[tuple[str, HostValue], str] = field(
        default_factory=dict[tuple[str, HostValue], str]
    )

    def place(self, value: SSAValue) -> HostValue:
        """The host's tensor of an operand, or of a result that is none."""
        operands, results = list[SSAValue](self.op.operands), list[SSAValue](self.op.results)
        if value in operands:
            return nth_operand(operands.index(value))
        return nth_output(results.index(value))

    def flattened_rows(self, value: SSAValue) -> HostValue:
        """The host's number of rows of an operand, with all dimensions but the last as one."""
        return self.place(value).rows_of(shape_of(value)[-1])

    def operand(self, value: SSAValue, default: str) -> str:
        """The parameter that points to the first element of an operand."""
        hint = f"{value.name_hint or default}_ptr"
        return self.add(hint, pointer_type(element_type_of(value)), self.place(value))

    def output(self, value: SSAValue, default: str) -> str:
        """The parameter that points to the first element of a result."""
        hint = f"{value.name_hint or default}_ptr"
        is_wide = is_wide_partial(value) and default == ResultKind.PARTIAL_ROW.value
        type = WIDE_POINTER if is_wide else pointer_type(element_type_of(value))
        return self.add(hint, type, self.place(value))

    def table_rows(self, value: SSAValue, default: str) -> str:
        """The number of rows of a table: a literal, or a parameter where it is dynamic."""
        leading = shape_of(value)[:-1]
        if DYNAMIC_INDEX not in leading:
            return str(prod(leading))
        return self.add(f"{value.name_hint or default}_rows", "i32", self.flattened_rows(value))

    def table_repeats(self, value: SSAValue, default: str) -> str:
        """The number of consecutive rows that take the same row of a table: a literal, or a
        parameter where it is dynamic.
        """
        behind = repeated_dims(shape_of(value))
        if self.domain is None or not behind:
            return "1"
        rows = shape_of(self.domain)[:-1]
        first = max(0, len(rows) - behind)
        if DYNAMIC_INDEX not in rows[first:]:
            return str(prod(rows[first:]))
        place = self.place(self.domain)
        factors = [
            place.shape(axis) if extent == DYNAMIC_INDEX else constant(extent)
            for axis, extent in enumerate(rows[first:], first)
            if extent != 1
        ]
        return self.add(f"{value.name_hint or default}_repeats", "i32", reduce(mul, factors))

    def has_all_rows(self, value: SSAValue) -> bool:
        """Return whether an operand has a row for each row of the tile."""
        if self.domain is None:
            return False
        rows = shape_of(self.domain)[:-1]
        return len(rows) > 0 and shape_of(value)[:-1] == rows

    def descriptor(
        self,
        value: SSAValue,
        extents: Sequence[HostValue | int],
        box: Sequence[int],
        default: str,
        *,
        strides: Sequence[HostValue | int] = (),
        view: str = "",
        is_never_empty: bool = True,
        layout: Layout | None = None,
    ) -> str:
        """The parameter of a descriptor that loads a `box` of a tensor, seen as `extents`.

        The memory is contiguous unless there are `strides`. `view` is what follows the tensor.
        There is no descriptor of nothing: of another row, where the tensor may be empty. `layout`
        is that of the box in shared memory, which Gluon states.
        """
        place, boxed = self.place(value), f"[{', '.join(map(str, box))}]"
        is_itself = is_never_empty and not view
        passed = place.tensor if is_itself else None
        if not is_never_empty:
            other = place.member(f"new_empty(1, {extents[-1]})")
            place = joined(place, " if ", place.member("numel()"), " else ", other)
        if not strides:
            columns = [extent for extent in extents[1:] if isinstance(extent, int)]
            strides = [prod(columns[axis:]) for axis in range(len(extents))]
        shape = joined(", [", listed(extents), "], [", listed(strides), f"], {boxed}")
        type, made = f"{triton_type(element_type_of(value))}{boxed}", "TensorDescriptor"
        if layout is not None:
            type, made = f"{type.replace(', ', ',')},{layout.text}", "TileDescriptor"
            shape = joined(shape, f", {layout.name}")
        hint = f"{value.name_hint or default}_desc"
        call = joined(f"{made}(", place, view, shape, ")")
        return self.add(hint, f"tensordesc<{type}>", replace(call, tensor=passed))

    def add(self, hint: str, type: str, value: HostValue) -> str:
        """The parameter that passes `value`, which is added unless it exists."""
        key = (type, value)
        if key not in self._by_value:
            name = self.names.fresh(hint)
            self._by_value[key] = name
            self.arguments.append(KernelArgument(name, type, value))
        return self._by_value[key]


@dataclass(frozen=True)
class ColumnIndex:
    """The columns of one accumulator: names of `tl` vectors, one element per lane."""

    name: str
    """Column indices, valid also on lanes without a column (where they repeat others)."""
    extent: int
    """Columns of a tensor that is indexed so."""
    mask: str | None
    """The lanes that have a column; None where all have."""


@dataclass(frozen=True)
class RowIndex:
    """The rows of a tile: names of `tl` vectors, one element per row."""

    name: str = "row"
    """64-bit row indices, valid also past the last row (where they repeat it)."""
    numbers: str = "rows"
    """32-bit row numbers, not clamped."""
    mask: str = "row_mask"


ROWS = RowIndex()


def load_port(
    port: Port,
    columns: ColumnIndex,
    arguments: ArgumentList,
    helpers: set[str],
    *,
    index: str | None = None,
) -> str:
    """The expression of a port's elements for a tile: float32 or integers, broadcastable.

    Loads need no mask: lanes without an element read another one. `index` is the `table_index`
    of a table that has one.
    """
    loaded = _loaded(port, columns, arguments, index)
    return extended(loaded, element_type_of(port.value), helpers)


def _loaded(port: Port, columns: ColumnIndex, arguments: ArgumentList, index: str | None) -> str:
    kind, value = port
    pointer = arguments.operand(value, kind.value)
    row, column = f"{ROWS.name}[:, None]", f"{columns.name}[None, :]"
    match kind:
        case PortKind.TILE | PortKind.HALF_TILE:
            pitch = arguments.pitches.get(value, columns.extent)
            return f"tl.load({pointer} + {row} * {pitch} + {column})"
        case PortKind.TILE_T:
            return f"tl.load({pointer} + {transposed_place(columns)})"
        case PortKind.ROW | PortKind.HALF_ROW:
            return f"tl.load({pointer} + {columns.name})[None, :]"
        case PortKind.COL:
            return f"tl.load({pointer} + {ROWS.name})[:, None]"
        case PortKind.SCALAR:
            return f"tl.load({pointer})"
        case PortKind.PARTIAL_ADD | PortKind.PARTIAL_MAX | PortKind.PARTIAL_LSE:
            raise AssertionError("partials are combined by the emitter of the segment")
        case PortKind.TABLE | PortKind.HALF_TABLE:
            if index is None:
                return f"tl.load({pointer} + {_table_column(port, columns)})[None, :]"
            return f"tl.load({pointer} + {index})"


def partial_extents(port: Port) -> tuple[Combiner, int, int]:
    """How the partials of a port combine, how many a row has, and the power of two that holds them.

    Raises CodaError where their number is not known.
    """
    tiles, combiner = known_tiles(port.value), port.kind.combiner
    assert combiner is not None, "expected a port of partials"
    if tiles is None:
        raise CodaError(
            f"gemm.fused: the number of partials of a {port.kind.value} port is not known",
            "let gemm.finalize combine them",
        )
    return combiner, tiles, 1 << (tiles - 1).bit_length()


def transposed_place(columns: ColumnIndex) -> str:
    """Where the element (m, n) is in a tensor of N x M."""
    return f"{columns.name}[None, :].to(tl.int64) * M + {ROWS.name}[:, None]"


def table_index(port: Port, columns: ColumnIndex, arguments: ArgumentList) -> str | None:
    """The index of element ((m // inner) mod R, n mod C) of a table of R x C; None where R is 1,
    and for other ports. Where C is 1, all columns have the same index.
    """
    if not port.kind.is_table:
        return None
    row = _table_row(port.value, arguments)
    width, column = shape_of(port.value)[-1], _table_column(port, columns)
    if row is None:
        return None
    pitch = arguments.pitches.get(port.value, width)
    start = f"{row}[:, None]" if pitch == 1 else f"{row}[:, None] * {pitch}"
    return start if width == 1 else f"{start} + {column}[None, :]"


def _table_row(table: SSAValue, arguments: ArgumentList) -> str | None:
    """The rows of a table for the rows of the tile; None where it has one row for all."""
    if arguments.has_all_rows(table):
        return ROWS.name
    height = arguments.table_rows(table, "table")
    if height == "1":
        return None
    repeats = arguments.table_repeats(table, "table")
    numbers = ROWS.numbers if repeats == "1" else f"{ROWS.numbers} // {repeats}"
    return f"({numbers} % {height}).to(tl.int64)"


def _table_column(port: Port, columns: ColumnIndex) -> str:
    width = shape_of(port.value)[-1]
    if width == DYNAMIC_INDEX:
        raise CodaError("the triton backend needs a table with a static last dimension")
    return columns.name if width == columns.extent else f"({columns.name} % {width})"


_FROM_FLOAT8: Mapping[Attribute, str] = MappingProxyType(
    {Float8E4M3FNType(): "from_f8e4m3", Float8E5M2Type(): "from_f8e5m2"}
)


def extended(loaded: str, type: Attribute, helpers: set[str]) -> str:
    """The elements of `type` that are loaded, in the type that kernels compute with."""
    if type in _FROM_FLOAT8:
        helper = _FROM_FLOAT8[type]
        helpers.add(helper)
        return f"{helper}({loaded})"
    computed = region_type(type)
    return loaded if computed == type else f"{loaded}.to({tl_type(computed)})"


def rounded(value: str, type: Attribute, helpers: set[str]) -> str:
    """`value`, float32 or an integer, as it is stored in a tensor of `type`."""
    if isinstance(type, Float32Type):
        return value
    helper = CONVERSIONS.get(type)
    if helper is None:
        return f"{value}.to({tl_type(type)})"
    helpers.add(helper)
    return f"{helper}({value})"


CONVERSIONS: Mapping[Attribute, str] = MappingProxyType(
    {
        BFloat16Type(): "to_bf16",
        Float8E4M3FNType(): "to_f8e4m3",
        Float8E5M2Type(): "to_f8e5m2",
    }
)
"""The helpers that round a float32 to narrow types."""


def mask_of(columns: ColumnIndex) -> str:
    """The mask of the elements of a tile that exist."""
    if columns.mask is None:
        return f"{ROWS.mask}[:, None]"
    return f"{ROWS.mask}[:, None] & {columns.mask}[None, :]"


Extent = tuple[bool, bool]
"""Whether a value of a region varies by row, by column."""


def port_extent(port: Port) -> Extent:
    match port.kind:
        case PortKind.ROW | PortKind.HALF_ROW:
            return False, True
        case PortKind.COL | PortKind.PARTIAL_ADD | PortKind.PARTIAL_MAX | PortKind.PARTIAL_LSE:
            return True, False
        case PortKind.SCALAR:
            return False, False
        case PortKind.TABLE | PortKind.HALF_TABLE:
            shape = shape_of(port.value)
            return not has_one_row(shape), shape[-1] != 1
        case _:
            return True, True


def spread_extents(
    block: Block, arguments: Sequence[tuple[SSAValue, Extent]]
) -> dict[SSAValue, Extent]:
    """How every value of a region varies, given that of the region's arguments."""
    extents = dict(arguments)
    for op in block.ops:
        if op.results:
            by_row = any(extents[operand][0] for operand in op.operands)
            by_column = any(extents[operand][1] for operand in op.operands)
            whole = op.name == "gemm.group_reduce"
            is_column = op.name == "gemm.column"
            extents[op.results[0]] = (by_row or whole, by_column or whole or is_column)
    return extents
