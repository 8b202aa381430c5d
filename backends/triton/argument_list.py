"""The run-time arguments of a kernel, without duplicates."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from math import prod
from operator import mul
from typing import NamedTuple, TypeAlias

from xdsl.dialects.builtin import DYNAMIC_INDEX
from xdsl.ir import Operation, SSAValue

from coda_ir.backends.triton.host_values import (
    HostValue,
    constant,
    joined,
    listed,
    nth_operand,
    nth_output,
)
from coda_ir.backends.triton.kernel import WIDE_POINTER, KernelArgument, pointer_type, triton_type
from coda_ir.backends.triton.names import LocalNames
from coda_ir.dialects.coda import PositionsOp, extent_in, positions_in
from coda_ir.dialects.coda.shapes import element_type_of, shape_of
from coda_ir.dialects.gemm import ResultKind, is_wide_partial
from coda_ir.dialects.gemm.tables import row_runs


class Layout(NamedTuple):
    """The layout of boxes in shared memory."""

    name: str
    """The constant of the module that holds it."""
    text: str
    """As Gluon prints it."""


class RowRuns(NamedTuple):
    """The starts of the rows of a permuted tensor, as a stride along each row dimension."""

    extents: tuple[int, ...]
    """Extents of the row dimensions, from the last to the second; all rows determine the first."""
    strides: tuple[int, ...]
    """Elements between neighbours along each dimension, from the last one to the first."""


Pitch: TypeAlias = int | RowRuns
"""The elements between the starts of rows, or where they start if that is not one number."""


def row_start(row: str, pitch: Pitch | str) -> str:
    """Return where row number `row` starts. Numbers of rows fit in 32 bits, in which divisions take
    a fraction of the time.
    """
    if not isinstance(pitch, RowRuns):
        return f"{row} * {pitch}"
    terms, number = list[str](), f"{row}.to(tl.int32)"
    for extent, stride in zip(pitch.extents, pitch.strides, strict=False):
        terms.append(f"({number} % {extent}).to(tl.int64) * {stride}")
        number = f"{number} // {extent}"
    terms.append(f"({number}).to(tl.int64) * {pitch.strides[-1]}")
    return f"({' + '.join(terms)})"


class Moved(NamedTuple):
    """The place of an operand's elements in another tensor, which the kernel gets instead."""

    source: SSAValue
    """The other tensor."""
    shift: int = 0
    """The positions by which the rows of a tile are later than those of the other tensor."""
    stride: int = 1
    """Elements of the other tensor from one of a row to the next."""
    offset: int = 0
    """Elements before the first one of a row."""
    is_transposed: bool = False
    """True if the rows are columns of the other tensor."""
    ids: SSAValue | None = None
    """The numbers of the rows of the other tensor, which is a table that is looked up."""


def ids_of(moved: Mapping[SSAValue, Moved]) -> list[SSAValue]:
    """Return the tensors of ids by which rows are looked up, which a kernel gets after its
    operands. Positions are computed, not passed.
    """
    found = (place.ids for place in moved.values() if place.ids is not None)
    return list(dict.fromkeys(ids for ids in found if positions_in(ids) is None))


@dataclass
class ArgumentList:
    """The run-time arguments of a kernel of `op`; each operand and output gets one pointer."""

    op: Operation
    names: LocalNames
    arguments: list[KernelArgument] = field(default_factory=list[KernelArgument])
    pitches: Mapping[SSAValue, Pitch] = field(default_factory=dict[SSAValue, Pitch])
    """Elements from one row of an operand to the next, where these are not its columns."""
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
        """Return the host's tensor of an operand, of ids, or of a result that is neither."""
        operands, results = (
            [*self.op.operands, *ids_of(self.moved)],
            list[SSAValue](self.op.results),
        )
        if value in operands:
            return nth_operand(operands.index(value))
        return nth_output(results.index(value))

    def flattened_rows(self, value: SSAValue) -> HostValue:
        """Return the host's number of rows of an operand, with all leading dimensions as one."""
        place, columns = self.place(value), shape_of(value)[-1]
        if columns == DYNAMIC_INDEX:
            return place.member("shape[:-1].numel()")
        return place.rows_of(columns)

    def pitch(self, value: SSAValue) -> Pitch:
        """Return the elements of an operand from one row to the next, or where its rows start."""
        return self.pitches.get(value, shape_of(value)[-1])

    def operand(self, value: SSAValue, default: str) -> str:
        """Return the parameter that points to the first element of an operand."""
        holder = self._holder(value)
        hint = f"{holder.name_hint or default}_ptr"
        return self.add(hint, pointer_type(element_type_of(value)), self.place(holder))

    def _holder(self, value: SSAValue) -> SSAValue:
        """Return the first operand for which the kernel gets the same tensor as for `value`."""
        if value not in self.moved:
            return value
        source = self.moved[value].source
        return next(x for x, moved in self.moved.items() if moved.source is source)

    def output(self, value: SSAValue, default: str) -> str:
        """Return the parameter that points to the first element of a result."""
        hint = f"{value.name_hint or default}_ptr"
        is_wide = is_wide_partial(value) and default == ResultKind.PARTIAL_ROW.value
        type = WIDE_POINTER if is_wide else pointer_type(element_type_of(value))
        return self.add(hint, type, self.place(value))

    def table_runs(self, value: SSAValue) -> list[tuple[str, str]]:
        """Return the number of rows of each run of a table (`row_runs`), and how many consecutive
        rows share one of them: literals, or parameters if they are dynamic.
        """
        table = shape_of(value)
        domain = table if self.domain is None else shape_of(self.domain)
        runs = row_runs(table, domain)
        before = len(domain) - len(table)
        extents = [table[run.start - before : run.stop - before] for run in runs]
        is_only = len(runs) == 1
        return [
            (self._rows_of_run(value, run, known, is_only=is_only), self._repeats(value, run))
            for run, known in zip(runs, extents, strict=True)
        ]

    def _rows_of_run(
        self, value: SSAValue, run: range, extents: Sequence[int], *, is_only: bool
    ) -> str:
        if DYNAMIC_INDEX not in extents:
            return str(prod(extents))
        has_no_rows = self.computed(value) is not None or self.is_looked_up(value)
        if has_no_rows or not is_only:
            return self.add("positions", "i32", self._rows_in_domain(run))
        return self.add(f"{value.name_hint or 'table'}_rows", "i32", self.flattened_rows(value))

    def _repeats(self, value: SSAValue, run: range) -> str:
        if self.domain is None or run.stop == len(shape_of(self.domain)) - 1:
            return "1"
        return self._product_of_rows(run.stop, f"{value.name_hint or 'table'}_repeats")

    def is_looked_up(self, value: SSAValue) -> bool:
        """Return whether ids select the rows of an operand from a table."""
        return value in self.moved and self.moved[value].ids is not None

    def computed(self, value: SSAValue) -> PositionsOp | None:
        """Return the operator that computes the elements of an operand without memory."""
        return positions_in(value) if self.has_positions else None

    def extent(self, value: SSAValue) -> str | None:
        """Return the parameter of an operand that is an extent; None for a tensor."""
        if extent_in(value) is None:
            return None
        hint = value.name_hint or "extent"
        return self.add(hint, "i32", replace(self.place(value), tensor=None))

    def _rows_in_domain(self, axes: range) -> HostValue:
        """Return the host's number of rows in some dimensions of the domain."""
        assert self.domain is not None
        place, shape = self._rows_of(self.domain), shape_of(self.domain)
        return reduce(mul, [place.shape(axis) for axis in axes if shape[axis] != 1])

    def _rows_of(self, value: SSAValue) -> HostValue:
        """Return the host's tensor that has the row dimensions of an operand or a result: of rows
        that are looked up, it is that of the ids.
        """
        ids = self.moved[value].ids if value in self.moved else None
        return self.place(value if ids is None else ids)

    def sample_rows(self, samples: int) -> str:
        """Return the number of rows of each sample, given the number of leading sample dimensions:
        a literal, or a parameter if it is dynamic.
        """
        return self._product_of_rows(samples, "sample_rows")

    def _product_of_rows(self, first: int, hint: str) -> str:
        assert self.domain is not None, "rows of samples have dimensions"
        rows = shape_of(self.domain)[:-1]
        if DYNAMIC_INDEX not in rows[first:]:
            return str(prod(rows[first:]))
        place = self._rows_of(self.domain)
        factors = [
            place.shape(axis) if extent == DYNAMIC_INDEX else constant(extent)
            for axis, extent in enumerate(rows[first:], first)
            if extent != 1
        ]
        return self.add(hint, "i32", reduce(mul, factors))

    def sample_tiles(self, output: SSAValue) -> str:
        """Return the parameter for the number of partials per column of each sample."""
        hint = f"{output.name_hint or 'partial'}_tiles"
        return self.add(hint, "i32", self.place(output).shape(-2))

    def positions(self, value: SSAValue) -> str:
        """Return the number of positions of a sample: a literal, or a parameter if dynamic."""
        extent = shape_of(value)[-2]
        if extent != DYNAMIC_INDEX:
            return str(extent)
        over = value if self.domain is None else self.domain
        return self.add("positions", "i32", self._rows_of(over).shape(len(shape_of(over)) - 2))

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
        copy: str = "",
    ) -> str:
        """Return the parameter of a descriptor that loads a `box` of a tensor, seen as `extents`.

        The memory is contiguous unless there are `strides`. `view` is what follows the tensor.
        There is no descriptor of nothing: of another row, where the tensor may be empty. `layout`
        is that of the box in shared memory, which Gluon states. `copy` is the host function that
        copies the tensor where a descriptor requires it.
        """
        place, boxed = self.place(value), f"[{', '.join(map(str, box))}]"
        is_itself = is_never_empty and not view and not copy
        passed = place.tensor if is_itself else None
        if copy:
            place = joined(f"{copy}(", place, ")")
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
        """Return the parameter that passes `value`, added if it does not exist."""
        key = (type, value)
        if key not in self._by_value:
            name = self.names.fresh(hint)
            self._by_value[key] = name
            self.arguments.append(KernelArgument(name, type, value))
        return self._by_value[key]
