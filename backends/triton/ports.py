"""Operand and result ports of a tile: loads and stores of elements."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    BFloat16Type,
    Float8E4M3FNType,
    Float8E5M2Type,
    Float32Type,
)
from xdsl.ir import Attribute, Block, SSAValue

from coda_ir.backends.triton.argument_list import ArgumentList, row_start
from coda_ir.backends.triton.kernel import tl_type
from coda_ir.diagnostics import LoweringError
from coda_ir.dialects.coda import PositionsOp, positions_in
from coda_ir.dialects.coda.shapes import element_type_of, shape_of, stores_floats
from coda_ir.dialects.gemm import Combiner, FusedOp, Port, PortKind, region_type
from coda_ir.dialects.gemm.tables import has_one_row
from coda_ir.dialects.gemm.tiling import known_tiles


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
    """The subscript that broadcasts the vector to the tile: along rows unless these are columns."""
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

    def pitch(self, width: int) -> int | str:
        """Return the number of elements between starts of rows of a tensor with `width` columns."""
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
    *,
    index: str | None = None,
    rows: RowIndex = ROWS,
) -> str:
    """Return the expression of a port's elements for a tile: float32 or integers, a vector where
    there is one for each row, else broadcastable.

    Loads need no mask: lanes without an element read another one. `index` is the `table_index`
    of a table that has one.
    """
    place = _place_in(port, columns, arguments, index=index, rows=rows)
    computed = arguments.computed(port.value)
    if computed is not None:
        return _position(computed, place)
    extent = arguments.extent(port.value)
    if extent is not None:
        return f"tl.cast({extent}, tl.int64)"
    pointer = arguments.operand(port.value, port.kind.value)
    if index is None and _is_moved_tile(port, arguments):
        loaded = _load_moved(port.value, pointer, columns, arguments)
    else:
        offset, lanes = ("", "") if place is None else (f" + {place[0]}", place[1])
        loaded = f"tl.load({pointer}{offset}){lanes}"
    return extended(loaded, element_type_of(port.value))


def _place_in(
    port: Port, columns: ColumnIndex, arguments: ArgumentList, *, index: str | None, rows: RowIndex
) -> tuple[str, str] | None:
    """Return where the elements of a port are in its tensor, and how those for each column are
    broadcast to the tile; None for a single element.
    """
    if index is not None:
        return index, ""
    row, column = f"{rows.name}[:, None]", f"{columns.name}{columns.lanes}"
    match port.kind:
        case PortKind.TILE | PortKind.HALF_TILE:
            pitch = arguments.pitches.get(port.value, columns.extent)
            return f"{row_start(row, pitch)} + {column}", ""
        case PortKind.TILE_T:
            return transposed_place(columns), ""
        case PortKind.ROW | PortKind.HALF_ROW:
            if port.value in arguments.moved:
                moved = arguments.moved[port.value]
                return f"{columns.name} * {moved.stride} + {moved.offset}", columns.lanes
            return columns.name, columns.lanes
        case PortKind.GROUP_ROW | PortKind.HALF_GROUP_ROW:
            return f"row_group * {columns.extent} + {columns.name}", columns.lanes
        case PortKind.COL:
            return rows.name, ""
        case PortKind.GATHER_COL | PortKind.SCATTER_COL:
            return f"{_moved_rows(port, arguments, rows)}.to(tl.int64)", ""
        case PortKind.SCALAR:
            return None
        case PortKind.PARTIAL_ADD | PortKind.PARTIAL_MAX | PortKind.PARTIAL_LSE:
            raise AssertionError("partials are combined by the emitter of the segment")
        case PortKind.TABLE | PortKind.HALF_TABLE | PortKind.GROUP | PortKind.HALF_GROUP:
            return _table_column(port, columns)


def _is_moved_tile(port: Port, arguments: ArgumentList) -> bool:
    return port.kind in (PortKind.TILE, PortKind.HALF_TILE) and port.value in arguments.moved


def _moved_rows(port: Port, arguments: ArgumentList, rows: RowIndex) -> str:
    """Return the numbers of the rows from which a port takes its elements for those of the tile."""
    assert isinstance(arguments.op, FusedOp)
    ids = arguments.op.rows_of_port(port.kind)
    assert ids is not None, "verified"
    return f"tl.load({arguments.operand(ids, 'ids')} + {rows.name})"


def _position(positions: PositionsOp, place: tuple[str, str] | None) -> str:
    """Return start + step times the place of an element, for which nothing is loaded."""
    start, step = positions.first_and_step
    type = tl_type(element_type_of(positions.result))
    if place is None:
        return f"tl.cast({start}, {type})"
    offset, lanes = place
    index = offset if offset.isidentifier() else f"({offset})"
    number = f"{index}{lanes}.to({type})"
    scaled = number if step == 1 else f"{number} * {step}"
    return f"{start} + {scaled}" if start else scaled


def _load_moved(
    value: SSAValue, pointer: str, columns: ColumnIndex, arguments: ArgumentList
) -> str:
    """Return the rows of a tile some positions before or after, with zeros outside of the sample;
    or rows that are columns of a matrix, whose number is known; or elements some numbers apart.
    """
    pitch, column = arguments.pitches.get(value, columns.extent), f"{columns.name}{columns.lanes}"
    moved = arguments.moved[value]
    if moved.is_transposed:
        # Not the rows of the tile, which repeat the last one: neighbours have to be seen as such.
        numbers, count = f"{ROWS.numbers}[:, None]", shape_of(value)[0]
        place = f"{column}.to(tl.int64) * {count} + {numbers}"
        return f"tl.load({pointer} + {place}, mask={numbers} < {count}, other=0)"
    if moved.stride > 1:
        element = f"({ROWS.name}[:, None] * {columns.extent} + {column})"
        place = f"{element} * {moved.stride} + {moved.offset}"
        return f"tl.load({pointer} + {place})"
    by = moved.shift
    if by == 0:
        return f"tl.load({pointer} + {row_start(f'{ROWS.name}[:, None]', pitch)} + {column})"
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
    """Return the combiner of a port's partials, their number in a row, and the power of two that
    holds them.

    Raises CodaError where their number is not known.
    """
    tiles, combiner = known_tiles(port.value), port.kind.combiner
    assert combiner is not None, "expected a port of partials"
    if tiles is None:
        raise LoweringError(
            f"the number of partials of a {port.kind.value} port is not known",
            "let gemm.finalize combine them",
        )
    return combiner, tiles, 1 << (tiles - 1).bit_length()


def transposed_place(columns: ColumnIndex, pitch: int | str = "M", first: int = 0) -> str:
    """Return where the element (m, n) is in a tensor of N x M, or in rows of `pitch` elements of
    another tensor, each after the `first` of them.
    """
    row = f"({ROWS.name} + {first})" if first else ROWS.name
    return f"{columns.name}[None, :].to(tl.int64) * {pitch} + {row}[:, None]"


def table_index(
    port: Port, columns: ColumnIndex, arguments: ArgumentList, rows: RowIndex = ROWS
) -> str | None:
    """Return the index of element ((m // inner) mod R, n mod C) of a table of R x C, or of the
    group of n; None if R is 1, and for other ports. If C is 1, all columns have the same index.
    Where rows are looked up, it is that of element (id, n) of the table.
    """
    if arguments.is_looked_up(port.value):
        return _looked_up(port.value, columns, arguments, rows)
    if not port.kind.is_table:
        return None
    row = _table_row(port.value, arguments, rows)
    width, (column, lanes) = shape_of(port.value)[-1], _table_column(port, columns)
    if row is None:
        return None
    pitch = arguments.pitches.get(port.value, columns.pitch(width))
    start = f"{row}[:, None]" if pitch == 1 else f"{row}[:, None] * {pitch}"
    return start if width == 1 else f"{start} + {column}{lanes}"


def _looked_up(
    value: SSAValue, columns: ColumnIndex, arguments: ArgumentList, rows: RowIndex
) -> str:
    """Return the index of the elements that ids select. An id that is no row ends the program."""
    table, ids = arguments.moved[value].source, arguments.moved[value].ids
    assert ids is not None, "expected an operand that is looked up"
    row = _table_row(value, arguments, rows) or "tl.full((1,), 0, tl.int64)"
    positions = positions_in(ids)
    if positions is None:
        id = f"tl.load({arguments.operand(ids, 'ids')} + {row}).to(tl.int64)"
    else:
        id = f"({_position(positions, (row, ''))}).to(tl.int64)"
    start = f"checked_index({id}, {shape_of(table)[0]}, 0)[:, None]"
    return f"{start} * {columns.extent} + {columns.name}{columns.lanes}"


def _table_row(table: SSAValue, arguments: ArgumentList, rows: RowIndex) -> str | None:
    """Return the rows of a table for the rows of the tile; None if it has one row for all."""
    if arguments.has_all_rows(table):
        return rows.name
    place = ""
    for height, repeats in arguments.table_runs(table):
        numbers = rows.numbers if repeats == "1" else f"{rows.numbers} // {repeats}"
        place = (f"({place}) * {height} + " if place else "") + f"{numbers} % {height}"
    return f"({place}).to(tl.int64)" if place else None


def _table_column(port: Port, columns: ColumnIndex) -> tuple[str, str]:
    """Return the columns of a table, and how they are broadcast to the tile."""
    width = shape_of(port.value)[-1]
    if width == columns.extent:
        return columns.name, columns.lanes
    if width == DYNAMIC_INDEX:
        raise LoweringError("the triton backend needs a table with a static last dimension")
    if not port.kind.is_group:
        return f"({columns.name} % {width})", columns.lanes
    is_one, group = _is_one_group(port, columns), columns.extent // width
    return (
        f"({columns.first if is_one else columns.name} // {group})",
        "" if is_one else columns.lanes,
    )


def _is_one_group(port: Port, columns: ColumnIndex) -> bool:
    """Return whether each row of a tile takes one element: all its columns are in one group."""
    shape = shape_of(port.value)
    if not port.kind.is_group or has_one_row(shape):
        return False
    group = columns.extent // shape[-1]
    return bool(columns.first) and group % columns.width == 0


_FROM_FLOAT8: Mapping[Attribute, str] = MappingProxyType(
    {Float8E4M3FNType(): "from_f8e4m3", Float8E5M2Type(): "from_f8e5m2"}
)


def extended(loaded: str, type: Attribute) -> str:
    """Return loaded elements of `type` in the type in which kernels compute."""
    if type in _FROM_FLOAT8:
        helper = _FROM_FLOAT8[type]
        return f"{helper}({loaded})"
    computed = region_type(type)
    return loaded if computed == type else f"{loaded}.to({tl_type(computed)})"


def rounded(value: str, type: Attribute) -> str:
    """Return `value`, float32 or an integer, rounded as a tensor of `type` stores it."""
    if isinstance(type, Float32Type):
        return value
    helper = CONVERSIONS.get(type)
    if helper is None:
        return f"{value}.to({tl_type(type)})"
    return f"{helper}({value})"


CONVERSIONS: Mapping[Attribute, str] = MappingProxyType(
    {BFloat16Type(): "to_bf16", Float8E4M3FNType(): "to_f8e4m3", Float8E5M2Type(): "to_f8e5m2"}
)
"""The helpers that round a float32 to narrow types."""


def mask_of(columns: ColumnIndex) -> str:
    """Return the mask of the existing elements of a tile."""
    if columns.mask is None:
        return f"{ROWS.mask}[:, None]"
    return f"{ROWS.mask}[:, None] & {columns.mask}[None, :]"


Extent = tuple[bool, bool]
"""Two facts: a value of a region varies by row, and by column."""


def port_extent(port: Port, columns: ColumnIndex) -> Extent:
    """Return the extent of a port's elements; a port with columns is loaded for `columns`."""
    match port.kind:
        case PortKind.ROW | PortKind.HALF_ROW | PortKind.GROUP_ROW | PortKind.HALF_GROUP_ROW:
            return False, True
        case PortKind.COL | PortKind.GATHER_COL | PortKind.SCATTER_COL:
            return True, False
        case PortKind.PARTIAL_ADD | PortKind.PARTIAL_MAX | PortKind.PARTIAL_LSE:
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
    """Return the extent of every value of a region, given those of arguments and known others."""
    extents = dict(arguments)
    for op in block.ops:
        if op.results and op.results[0] not in extents:
            by_row = any(extents[operand][0] for operand in op.operands)
            by_column = any(extents[operand][1] for operand in op.operands)
            whole = op.name == "gemm.group_reduce"
            is_column = op.name == "gemm.column"
            extents[op.results[0]] = (by_row or whole, by_column or whole or is_column)
    return extents
