"""`gemm.finalize` as a kernel: tile partials combined to vectors, then a scalar region."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from xdsl.ir import SSAValue

from coda_ir.backends.triton.dependent_launch import Launch
from coda_ir.backends.triton.epilogue import RegionEmitter
from coda_ir.backends.triton.host_values import ROW_COUNT, nth_operand, nth_output
from coda_ir.backends.triton.kernel import WIDE_POINTER, EmittedKernel, KernelArgument, pointer_type
from coda_ir.backends.triton.kernel_text import (
    Reduction,
    emitted,
    load,
    next_power_of_2,
    over_blocks,
    pointer_argument,
    reduction,
    rounded,
)
from coda_ir.backends.triton.names import LocalNames, NameAllocator
from coda_ir.dialects.coda import extent_in
from coda_ir.dialects.coda.shapes import element_type_of, shape_of
from coda_ir.dialects.gemm import Combiner, FinalizeOp, PortKind, is_wide_partial

WIDEST_BLOCK = {"row": 32, "col": 128}
"""Partials of an element that a program of many elements reads at a time, at most, by axis."""

PROGRAM_ELEMENTS = {"row": 1024, "col": 4096}
"""Partials that a program reads at a time, at most: more of columns, which are neighbours."""

MAX_ELEMENTS = {"row": 128, "col": 32}
PROGRAMS, MIN_COLUMNS = 128, 8
"""Programs that columns are divided among, and columns of a program at least: 32 bytes of a row. On
an H100, 1536 partials of 160 columns took 3.5 us, and 10.7 with 32 columns a program."""

MIN_PARTIALS = 1024
"""Partials that a program of columns reads at a time, at least, if there are enough. On an H200,
49152 columns took 5.2 us with 32 columns a program."""

UNKNOWN_TILES = 1024
IDENTITY = {Combiner.ADD: "0.0", Combiner.MAX: 'float("-inf")', Combiner.LSE: 'float("-inf")'}


def emit_finalize(
    op: FinalizeOp, names: NameAllocator, tiles: Sequence[int | None], elements: int | None
) -> EmittedKernel:
    """Emit a kernel in which one thread block combines the partials of a block of elements in a
    fixed order.

    An element is a row of the (M x tiles) partials of axis `row`, or a column of the (tiles x N)
    partials of axis `col`, or of those of a sample; `rows` of the launch is the number of elements.
    `tiles` has the number of tiles of each partial, and `elements` their number, where these are
    known. No tiles give the identity of the combiner.
    """
    return _FinalizeEmitter(op, names, tiles, elements).emit()


@dataclass
class _FinalizeEmitter:
    op: FinalizeOp
    module_names: NameAllocator
    tiles: Sequence[int | None]
    elements: int | None
    arguments: list[KernelArgument] = field(default_factory=list[KernelArgument])
    lines: list[str] = field(default_factory=list[str])

    def emit(self) -> EmittedKernel:
        self.name = self.module_names.fresh(self._name())
        self.names = LocalNames()
        combined = [
            name
            for index, (kind, value) in enumerate(self.op.partial_list)
            for name in self._combine(index, kind, value)
        ]
        extra = [self._load_port(index) for index in range(len(self.op.port_list))]
        arguments = self.op.body.block.args
        ports = zip(arguments[len(combined) :], self.op.port_list, strict=True)
        scalars = [argument for argument, port in ports if port.kind == PortKind.SCALAR]
        region = RegionEmitter(self.names, scalars=scalars).emit(
            self.op.body.block, dict(zip(arguments, [*combined, *extra], strict=True))
        )
        self.lines += region.lines
        for index, value in enumerate(region.yields):
            self._store(index, value)
        self.arguments.append(KernelArgument("count", "i32", ROW_COUNT))
        block, launch = self.block, Launch.of(self.op)
        lines = [
            *launch.wait_and_start_next(),
            f"element = tl.program_id(0) * {block} + tl.arange(0, {block})",
            "exists = element < count",
            *self.lines,
        ]
        return emitted(
            self.name,
            self.arguments,
            lines,
            summary=f"reduction of tile partials by {self.op.axis.data}",
            grid=ROW_COUNT.ceiling(block),
            launch=launch,
            num_warps=4 if self.is_by_row else 8,
        )

    @property
    def is_by_row(self) -> bool:
        return self.op.axis.data == "row"

    @property
    def sample_columns(self) -> int | None:
        """The number of columns, if these have partials for each sample."""
        shape = shape_of(self.op.partials[0])
        return None if self.is_by_row or len(shape) == 2 else shape[-1]

    @property
    def most_elements(self) -> int:
        """The most elements of a program: few for few columns, which many programs then read."""
        most = MAX_ELEMENTS[self.op.axis.data]
        if self.elements is None:
            return most
        elements = next_power_of_2(self.elements)
        if not self.is_by_row:
            most = max(most, MIN_PARTIALS // next_power_of_2(self._most_tiles))
            most = min(most, max(MIN_COLUMNS, elements // PROGRAMS))
        return min(most, elements)

    @property
    def _most_tiles(self) -> int:
        return max(UNKNOWN_TILES if tiles is None else tiles for tiles in self.tiles)

    @property
    def block(self) -> int:
        """The elements of a program: fewer if each has many partials."""
        widest = max(map(self._tile_block, self.tiles))
        return min(self.most_elements, PROGRAM_ELEMENTS[self.op.axis.data] // widest)

    def _name(self) -> str:
        kinds = [kind.value.replace("add", "sum") for kind, _ in self.op.partial_list]
        math = [o.name[5:] for o in self.op.body.block.ops if o.name.startswith("math.")]
        axis = [] if self.is_by_row else ["col"]
        return "_".join(["finalize", *axis, *dict.fromkeys([*kinds, *math])])

    def _tile_block(self, tiles: int | None) -> int:
        """Return how many partials of an element are read at a time: more if elements are few."""
        if self.op.order is not None:
            return self.op.order["partials"]
        axis = self.op.axis.data
        widest = max(WIDEST_BLOCK[axis], PROGRAM_ELEMENTS[axis] // self.most_elements)
        return min(widest, UNKNOWN_TILES if tiles is None else next_power_of_2(tiles))

    def _combine(self, index: int, kind: Combiner, partial: SSAValue) -> list[str]:
        """Return the names of the combined partials, one per element, and the rest of wide ones."""
        base = self.names.fresh(partial.name_hint, "partial")
        pointer = self.names.fresh(f"{base}_ptr")
        place = nth_operand(index)
        is_wide = is_wide_partial(partial)
        type = WIDE_POINTER if is_wide else pointer_type(element_type_of(partial))
        self.arguments.append(KernelArgument(pointer, type, place))
        tiles, axis = self.tiles[index], -1 if self.is_by_row else -2
        extent = str(tiles)
        if tiles is None:
            extent = self.names.fresh(f"{base}_tiles")
            self.arguments.append(KernelArgument(extent, "i32", place.shape(axis)))
        tile, inside = self.names.fresh("tile"), self.names.fresh("inside")
        block = self._tile_block(tiles)
        sweep = _Sweep(self, base, pointer, extent, tiles, block, is_wide, tile, inside)
        total = self.names.fresh(f"{base}_{'sum' if kind == Combiner.ADD else kind.value}")
        if kind == Combiner.ADD:
            sweep.reduce(total, "sum", base, "0.0")
        elif kind == Combiner.MAX:
            sweep.reduce(total, "max", base, IDENTITY[kind])
        elif is_wide:
            return self._combine_wide_lse(sweep, base, total)
        else:
            self._combine_lse(sweep, base, total)
        return [total]

    def _combine_wide_lse(self, sweep: _Sweep, base: str, total: str) -> list[str]:
        """Combine a logsumexp in float64: return the nearest float32, and the remainder."""
        wide, rest = self.names.fresh(f"{base}_wide"), self.names.fresh(f"{base}_rest")
        self._combine_lse(sweep, base, wide)
        self.lines += [f"{total} = {wide}.to(tl.float32)", f"{rest} = rest_of({wide}, {total})"]
        return [total, rest]

    def _combine_lse(self, sweep: _Sweep, base: str, total: str) -> None:
        """Combine a logsumexp without subtracting an infinite maximum, which is then the result."""
        largest = self.names.fresh(f"{base}_max")
        shift = self.names.fresh(f"{base}_shift")
        sweep.reduce(largest, "max", base, IDENTITY[Combiner.LSE])
        self.lines.append(f'{shift} = tl.where(tl.abs({largest}) == float("inf"), 0.0, {largest})')
        exponentials = self.names.fresh(f"{base}_exp_sum")
        difference, logarithm = f"{base} - {shift}[:, None]", f"tl.log({exponentials})"
        if sweep.is_wide:
            difference, logarithm = f"({difference}).to(tl.float32)", f"{logarithm}.to(tl.float64)"
        sweep.reduce(exponentials, "sum", f"tl.exp({difference})", IDENTITY[Combiner.LSE])
        self.lines.append(f"{total} = {shift} + {logarithm}")

    def _load_port(self, index: int) -> str:
        kind, value = self.op.port_list[index]
        argument = self.op.body.block.args[index - len(self.op.port_list)]
        name = self.names.fresh(argument.name_hint or value.name_hint, kind.value)
        place, type = nth_operand(len(self.op.partials) + index), element_type_of(value)
        if extent_in(value) is not None:
            number = self.names.fresh("extent")
            self.arguments.append(KernelArgument(number, "i32", replace(place, tensor=None)))
            self.lines.append(f"{name} = tl.cast({number}, tl.int64)")
            return name
        pointer = self.names.fresh(f"{name}_ptr")
        self.arguments.append(pointer_argument(pointer, type, place))
        if kind == PortKind.COL:
            self.lines.append(f"{name} = {load(f'{pointer} + element', type, 'exists')}")
        else:
            self.lines.append(f"{name} = {load(pointer, type, None)}")
        return name

    def _store(self, index: int, value: str) -> None:
        output = self.op.outputs[index]
        pointer = self.names.fresh(f"{output.name_hint or 'out'}_ptr")
        type = element_type_of(output)
        self.arguments.append(pointer_argument(pointer, type, nth_output(index)))
        stored = rounded(value, type)
        self.lines.append(f"tl.store({pointer} + element, {stored}, mask=exists)")


@dataclass
class _Sweep:
    """A loop that reads the partials of the elements, block by block, as the variable `name`."""

    emitter: _FinalizeEmitter
    name: str
    pointer: str
    extent: str
    tiles: int | None
    block: int
    is_wide: bool
    """True where the partials are float64."""
    tile: str
    inside: str
    """Names for the numbers of the partials, and for whether they exist. Blocks of different sizes
    need separate names, because a loop in Triton cannot change the shape of a variable."""
    in_registers: str | None = None
    """The value that replaced missing partials, if one block holds all partials of an element."""

    def reduce(
        self, total: str, kind: Literal["sum", "max"], expression: str, missing: str
    ) -> None:
        """Reduce `expression` over all partials to `total`; absent ones are read as `missing`."""
        lines, elements = self.emitter.lines, self.emitter.block
        combined = self._reduction(kind, total, expression)
        if self.tiles is not None and self.tiles <= self.block:
            if self.in_registers != missing:
                lines += self._read(f"tl.arange(0, {self.block})", missing)
                self.in_registers = missing
            lines.append(f"{total} = {combined.combined}")
            return
        type = "tl.float64" if self.is_wide and kind == "max" else "tl.float32"
        read = self._read(f"start + tl.arange(0, {self.block})", missing)
        if self.emitter.op.order is not None:
            lines.append(f"{total} = tl.full(({elements},), {combined.identity}, {type})")
            lines += over_blocks(self.extent, self.block, [*read, combined.update])
            return
        # Lanes depend on each other only after the loop.
        lanes = self.emitter.names.fresh(f"{self.name}_lanes")
        both = f"{lanes} + {expression}" if kind == "sum" else f"maximum({lanes}, {expression})"
        lines += [
            f"{lanes} = tl.full(({elements}, {self.block}), {combined.identity}, {type})",
            *over_blocks(self.extent, self.block, [*read, f"{lanes} = {both}"]),
            f"{total} = {self._reduction(kind, total, lanes).combined}",
        ]

    def _reduction(self, kind: Literal["sum", "max"], total: str, element: str) -> Reduction:
        # Triton 3.6 does not compile a kernel that stores two columns of sums and their product.
        return reduction(
            kind, total, element, is_column=False, is_ordered=self.emitter.op.order is not None
        )

    def _read(self, tiles: str, identity: str) -> list[str]:
        place = f"{self.pointer} + {self._place()}"
        return [
            f"{self.tile} = {tiles}[None, :]",
            f"{self.inside} = exists[:, None] & ({self.tile} < {self.extent})",
            f"{self.name} = tl.load({place}, mask={self.inside}, other={identity})",
        ]

    def _place(self) -> str:
        """Return where the partials of a block are."""
        columns, element = self.emitter.sample_columns, "element[:, None]"
        if self.emitter.is_by_row:
            return f"{element}.to(tl.int64) * {self.extent} + {self.tile}"
        if columns is None:
            return f"{self.tile}.to(tl.int64) * count + {element}"
        row = f"({element} // {columns} * {self.extent} + {self.tile}).to(tl.int64)"
        return f"{row} * {columns} + {element} % {columns}"
