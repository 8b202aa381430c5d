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
from coda_ir.dialects.coda import PositionsOp, positions_in
from coda_ir.dialects.coda.shapes import element_type_of, shape_of, stores_floats
from coda_ir.dialects.gemm import Combiner, Port, PortKind, ResultKind, is_wide_partial, region_type
from coda_ir.dialects.gemm.tables import has_one_row, repeated_dims
from coda_ir.dialects.gemm.tiling import known_tiles


class Layout(NamedTuple):
    """The layout of boxes in shared memory."""

    name: str
    """The constant of the module that holds it."""
    text: str
    """As Gluon prints it."""


class Moved(NamedTuple):
    """Where the elements of an operand are in another tensor, which the kernel gets for it."""

    source: SSAValue
    """The other tensor."""
    shift: int = 0
    """The positions by which the rows of a tile are later than those of the other tensor."""
    stride: int = 1
    """Elements of the other tensor from one of a row to the next."""
    offset: int = 0
    """Elements before the first one of a row."""


@dataclass
class ArgumentList:
    """The run-time arguments of a kernel of `op`; each operand and output gets one pointer."""

    op: Operation
    names: LocalNames
    arguments: list[KernelArgument] = field(default_factory=list[KernelArgument])
    pitches: Mapping[SSAValue, int] = field(default_factory=dict[SSAValue, int])
    """Elements from one row of a tile or table to the next, where these are not its columns."""
    moved: Mapping[SSAValue, Moved] = field(default_factory=dict["SSAValue", "Moved"])
    """Operands whose elements lie elsewhere in the tensor that the kernel gets for them."""
    domain: SSAValue | None = None
    """An operand or a result with the row dimensions of the tile; None where it has one."""
    has_positions: bool = False
    """True if positions are computed, and not loaded."""
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
        place, columns = self.place(value), shape_of(value)[-1]
        if columns == DYNAMIC_INDEX:
            return place.member("shape[:-1].numel()")
        return place.rows_of(columns)

    def operand(self, value: SSAValue, default: str) -> str:
        """The parameter that points to the first element of an operand."""
        holder = self._holder(value)
        hint = f"{holder.name_hint or default}_ptr"
        return self.add(hint, pointer_type(element_type_of(value)), self.place(holder))

    def _holder(self, value: SSAValue) -> SSAValue:
        """The first operand for which the kernel gets the same tensor as for `value`."""
        if value not in self.moved:
            return value
        source = self.moved[value].source
        return next(x for x, moved in self.moved.items() if moved.source is source)

    def output(self, value: SSAValue, default: str) -> str:
        """The parameter that points to the first element of a result."""
        hint = f"{value.name_hint or default}_ptr"
        is_wide = is_wide_partial(value) and default == ResultKind.PARTIAL_ROW.value
        type = WIDE_POINTER if is_wide else pointer_type(element_type_of(value))
        return self.add(hint, type, self.place(value))

    def table_rows(self, value: SSAValue) -> str:
        """The number of rows of a table: a literal, or a parameter where it is dynamic."""
        leading = shape_of(value)[:-1]
        if DYNAMIC_INDEX not in leading:
            return str(prod(leading))
        if self.computed(value) is not None:
            return self.add("positions", "i32", self._rows_in_domain(leading))
        return self.add(f"{value.name_hint or 'table'}_rows", "i32", self.flattened_rows(value))

    def computed(self, value: SSAValue) -> PositionsOp | None:
        """Return what computes the elements of an operand that no tensor has."""
        return positions_in(value) if self.has_positions else None

    def _rows_in_domain(self, leading: Sequence[int]) -> HostValue:
        """The host's number of rows of a table whose `leading` dimensions are not 1 where they are
        those of the domain.
        """
        assert self.domain is not None
        first, place = len(shape_of(self.domain)) - 1 - len(leading), self.place(self.domain)
        return reduce(mul, [place.shape(first + axis) for axis, n in enumerate(leading) if n != 1])

    def table_repeats(self, value: SSAValue) -> str:
        """The number of consecutive rows that take the same row of a table: a literal, or a
        parameter where it is dynamic.
        """
        behind = repeated_dims(shape_of(value))
        if self.domain is None or not behind:
            return "1"
        first = max(0, len(shape_of(self.domain)) - 1 - behind)
        return self._product_of_rows(first, f"{value.name_hint or 'table'}_repeats")

    def sample_rows(self, samples: int) -> str:
        """The rows of each sample, where the first `samples` dimensions are those of the samples:
        a literal, or a parameter where it is dynamic.
        """
        return self._product_of_rows(samples, "sample_rows")

    def _product_of_rows(self, first: int, hint: str) -> str:
        assert self.domain is not None, "rows of samples have dimensions"
        rows = shape_of(self.domain)[:-1]
        if DYNAMIC_INDEX not in rows[first:]:
            return str(prod(rows[first:]))
        place = self.place(self.domain)
        factors = [
            place.shape(axis) if extent == DYNAMIC_INDEX else constant(extent)
            for axis, extent in enumerate(rows[first:], first)
            if extent != 1
        ]
        return self.add(hint, "i32", reduce(mul, factors))

    def sample_tiles(self, output: SSAValue) -> str:
        """The number of partials that each sample has of a column, a parameter."""
        hint = f"{output.name_hint or 'partial'}_tiles"
        return self.add(hint, "i32", self.place(output).shape(-2))

    def positions(self, value: SSAValue) -> str:
        """The number of positions of a sample: a literal, or a parameter where it is dynamic."""
        extent = shape_of(value)[-2]
        if extent != DYNAMIC_INDEX:
            return str(extent)
        over = value if self.domain is None else self.domain
        return self.add("positions", "i32", self.place(over).shape(len(shape_of(over)) - 2))

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

    lanes: str = "[None, :]"
    """How the vector is broadcast to the tile: along its rows, unless these hold the columns."""
    count: str | None = None
    """The parameter with the number of columns, where `extent` is dynamic."""
    stored: str = ""
    """Column indices for masked stores, which need not be valid elsewhere; empty for `name`."""
    first: str = ""
    """The first column as a number, where each lane has the column after that of the lane before,
    and `width` columns follow each multiple of it; else empty."""
    width: int = 0

    @property
    def of_stores(self) -> str:
        return self.stored or self.name

    def are_in_groups_of(self, group: int) -> bool:
        """Return whether all columns of a tile are in one group of so many columns."""
        return bool(self.first) and group % self.width == 0

    def pitch(self, width: int) -> int | str:
        """The elements from one row of a tensor with `width` columns to the next."""
        return self.count if width == DYNAMIC_INDEX and self.count else width


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
    rows: RowIndex = ROWS,
) -> str:
    """The expression of a port's elements for a tile: float32 or integers, broadcastable.

    Loads need no mask: lanes without an element read another one. `index` is the `table_index`
    of a table that has one.
    """
    place = _place_in(port, columns, arguments, index=index, rows=rows)
    computed = arguments.computed(port.value)
    if computed is not None:
        return _position(computed, place)
    pointer = arguments.operand(port.value, port.kind.value)
    if port.kind in (PortKind.TILE, PortKind.HALF_TILE) and port.value in arguments.moved:
        loaded = _load_shifted(port.value, pointer, columns, arguments)
    else:
        offset, lanes = ("", "") if place is None else (f" + {place[0]}", place[1])
        loaded = f"tl.load({pointer}{offset}){lanes}"
    return extended(loaded, element_type_of(port.value), helpers)


def _place_in(
    port: Port, columns: ColumnIndex, arguments: ArgumentList, *, index: str | None, rows: RowIndex
) -> tuple[str, str] | None:
    """Where the elements of a port are in its tensor, and how a vector of them is broadcast to the
    tile; None for a single element."""
    row, column = f"{rows.name}[:, None]", f"{columns.name}{columns.lanes}"
    match port.kind:
        case PortKind.TILE | PortKind.HALF_TILE:
            pitch = arguments.pitches.get(port.value, columns.extent)
            return f"{row} * {pitch} + {column}", ""
        case PortKind.TILE_T:
            return transposed_place(columns), ""
        case PortKind.ROW | PortKind.HALF_ROW:
            if port.value in arguments.moved:
                _, _, stride, offset = arguments.moved[port.value]
                return f"{columns.name} * {stride} + {offset}", columns.lanes
            return columns.name, columns.lanes
        case PortKind.GROUP_ROW | PortKind.HALF_GROUP_ROW:
            return f"row_group * {columns.extent} + {columns.name}", columns.lanes
        case PortKind.COL:
            return rows.name, "[:, None]"
        case PortKind.SCALAR:
            return None
        case PortKind.PARTIAL_ADD | PortKind.PARTIAL_MAX | PortKind.PARTIAL_LSE:
            raise AssertionError("partials are combined by the emitter of the segment")
        case PortKind.TABLE | PortKind.HALF_TABLE | PortKind.GROUP | PortKind.HALF_GROUP:
            if index is None:
                return _table_column(port, columns)
            return index, ""


def _position(positions: PositionsOp, place: tuple[str, str] | None) -> str:
    """start + step times the place of an element, which nothing is loaded for."""
    start, step = positions.first_and_step
    type = tl_type(element_type_of(positions.result))
    if place is None:
        return f"tl.full((1, 1), {start}, {type})"
    offset, lanes = place
    index = offset if offset.isidentifier() else f"({offset})"
    number = f"{index}{lanes}.to({type})"
    scaled = number if step == 1 else f"{number} * {step}"
    return f"{start} + {scaled}" if start else scaled


def _load_shifted(
    value: SSAValue, pointer: str, columns: ColumnIndex, arguments: ArgumentList
) -> str:
    """The rows of a tile some positions before or behind; zeros outside of the sample."""
    pitch, column = arguments.pitches.get(value, columns.extent), f"{columns.name}{columns.lanes}"
    by = arguments.moved[value].shift
    if by == 0:
        return f"tl.load({pointer} + {ROWS.name}[:, None] * {pitch} + {column})"
    positions = arguments.positions(value)
    position = f"{ROWS.name} % {positions}"
    is_inside = f"{position} >= {by}" if by > 0 else f"{position} < {positions} - {-by}"
    row = f"({ROWS.name} - {by})" if by > 0 else f"({ROWS.name} + {-by})"
    zero = "0.0" if stores_floats(element_type_of(value)) else "0"
    return (
        f"tl.load({pointer} + {row}[:, None] * {pitch} + {column}, "
        f"mask=({is_inside})[:, None], other={zero})"
    )


def partial_extents(port: Port) -> tuple[Combiner, int, int]:
    """Return how the partials of a port combine, how many a row has, and the power of two that
    holds them.

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


def table_index(
    port: Port, columns: ColumnIndex, arguments: ArgumentList, rows: RowIndex = ROWS
) -> str | None:
    """The index of element ((m // inner) mod R, n mod C) of a table of R x C, or of the group that
    n is in; None where R is 1, and for other ports. Where C is 1, all columns have the same index.
    """
    if not port.kind.is_table:
        return None
    row = _table_row(port.value, arguments, rows)
    width, (column, lanes) = shape_of(port.value)[-1], _table_column(port, columns)
    if row is None:
        return None
    pitch = arguments.pitches.get(port.value, columns.pitch(width))
    start = f"{row}[:, None]" if pitch == 1 else f"{row}[:, None] * {pitch}"
    return start if width == 1 else f"{start} + {column}{lanes}"


def _table_row(table: SSAValue, arguments: ArgumentList, rows: RowIndex) -> str | None:
    """The rows of a table for the rows of the tile; None where it has one row for all."""
    if arguments.has_all_rows(table):
        return rows.name
    height = arguments.table_rows(table)
    if height == "1":
        return None
    repeats = arguments.table_repeats(table)
    numbers = rows.numbers if repeats == "1" else f"{rows.numbers} // {repeats}"
    return f"({numbers} % {height}).to(tl.int64)"


def _table_column(port: Port, columns: ColumnIndex) -> tuple[str, str]:
    """The columns of a table, and how they are broadcast to the tile."""
    width = shape_of(port.value)[-1]
    if width == columns.extent:
        return columns.name, columns.lanes
    if width == DYNAMIC_INDEX:
        raise CodaError("the triton backend needs a table with a static last dimension")
    if not port.kind.is_group:
        return f"({columns.name} % {width})", columns.lanes
    is_one, group = _is_one_group(port, columns), columns.extent // width
    return (
        f"({columns.first if is_one else columns.name} // {group})",
        "" if is_one else columns.lanes,
    )


def _is_one_group(port: Port, columns: ColumnIndex) -> bool:
    """Return whether the rows of a tile take one element of a port each, as all columns of the tile
    are in one group."""
    shape = shape_of(port.value)
    is_by_row = port.kind.is_group and not has_one_row(shape)
    return is_by_row and columns.are_in_groups_of(columns.extent // shape[-1])


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
"""Two facts: a value of a region varies by row, and by column."""


def port_extent(port: Port, columns: ColumnIndex) -> Extent:
    """The extent of a port's elements; those of one that has columns are loaded for `columns`."""
    match port.kind:
        case PortKind.ROW | PortKind.HALF_ROW | PortKind.GROUP_ROW | PortKind.HALF_GROUP_ROW:
            return False, True
        case PortKind.COL | PortKind.PARTIAL_ADD | PortKind.PARTIAL_MAX | PortKind.PARTIAL_LSE:
            return True, False
        case PortKind.SCALAR:
            return False, False
        case PortKind.TABLE | PortKind.HALF_TABLE | PortKind.GROUP | PortKind.HALF_GROUP:
            shape = shape_of(port.value)
            return not has_one_row(shape), shape[-1] != 1 and not _is_one_group(port, columns)
        case _:
            return True, True


def spread_extents(
    block: Block, arguments: Sequence[tuple[SSAValue, Extent]]
) -> dict[SSAValue, Extent]:
    """Return how every value of a region varies, given that of the region's arguments."""
    extents = dict(arguments)
    for op in block.ops:
        if op.results:
            by_row = any(extents[operand][0] for operand in op.operands)
            by_column = any(extents[operand][1] for operand in op.operands)
            whole = op.name == "gemm.group_reduce"
            is_column = op.name == "gemm.column"
            extents[op.results[0]] = (by_row or whole, by_column or whole or is_column)
    return extents
