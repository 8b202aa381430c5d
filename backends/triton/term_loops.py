"""Main loops of sums of products and of transposed inputs, written out in the kernel.

acc = tl.zeros((BLOCK_M, 128), SUM_TYPE)
for k in range(0, 4096, BLOCK_K):
    a = load_depth(dq_rows, k, 4096, 1, BLOCK_K, 1)
    acc = dot(a, load_depth(wq_ptr + column[None, :], k, 4096, 2048, BLOCK_K, 0), acc)
for k in range(0, 1024, BLOCK_K):
    ...
acc = acc.to(tl.float32)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field

from xdsl.ir import SSAValue

from coda_ir.backends.triton.kernel import KernelArgument, indented, triton_type
from coda_ir.backends.triton.mainloop import (
    ColumnTile,
    TmaMainLoop,
    corners,
    descriptor,
    sum_type,
    usable_box,
)
from coda_ir.backends.triton.ports import ArgumentList
from coda_ir.dialects.coda.shapes import element_type_of, shape_of
from coda_ir.dialects.gemm import FusedOp, Layout, ScheduleAttr


@dataclass
class TermLoop(ABC):
    """One loop over K per input of `op`, into the accumulators of one column range."""

    op: FusedOp
    schedule: ScheduleAttr
    arguments: ArgumentList
    helpers: set[str]
    imports: frozenset[str] = frozenset()
    depths: list[str] = field(default_factory=list[str])
    """K of each input: a number, or the name of a parameter."""

    def __post_init__(self) -> None:
        self.depths = [self._depth(index) for index in range(len(self.op.inputs))]

    def _depth(self, index: int) -> str:
        """The flattened rows of a transposed input are known when the kernel is launched."""
        if not self.op.is_transposed:
            return str(self.op.depth(index))
        if not index:
            return "K"
        x = self.op.inputs[index]
        place = f"{{operands[{list(self.op.operands).index(x)}]}}"
        return self.arguments.add("K", "i32", f"{place}.numel() // {shape_of(x)[-1]}")

    def prologue(self) -> list[str]:
        """Statements before all column ranges."""
        return []

    def emit(self, tile: ColumnTile) -> list[str]:
        """Statements that assign the accumulators; see `MainLoop.emit`."""
        self.helpers |= {"SUM_TYPE", "dot"}
        shape, sum = f"(BLOCK_M, {tile.width})", sum_type(self.op)
        lines = [f"{name} = tl.zeros({shape}, {sum})" for name in tile.accumulators]
        places = self.places(tile)
        for term, weights in enumerate(tile.segment.terms):
            body = [f"a = {self.load_input(term)}"]
            for index, (name, place) in enumerate(zip(tile.accumulators, places, strict=True)):
                weight = tile.weight(index, weights)
                body.append(f"b = {self.load_weight(term, tile, weight, place)}")
                body.append(f"{name} = dot(a, b, {name})")
            lines += [*self._loop(term), *indented(body)]
        return [*lines, *(f"{name} = {name}.to(tl.float32)" for name in tile.accumulators)]

    def _loop(self, term: int) -> list[str]:
        """The head of the loop over K of an input: over all of it, or over the part of a split."""
        depth = self.depths[term]
        if self.schedule.split_k.data > 1:
            self.helpers.add("depths_of_split")
            return [
                f"first, last = depths_of_split({depth}, split, SPLIT_K, BLOCK_K)",
                "for k in range(first, last, BLOCK_K):",
            ]
        if self.op.is_transposed:
            self.helpers.add("bound")
            depth = f"bound({depth})"
        return [f"for k in range(0, {depth}, BLOCK_K):"]

    @abstractmethod
    def places(self, tile: ColumnTile) -> list[str]:
        """For each accumulator, where its columns of a weight are."""

    @abstractmethod
    def load_input(self, term: int) -> str:
        """The expression of BM x BK elements of an input."""

    @abstractmethod
    def load_weight(self, term: int, tile: ColumnTile, weight: SSAValue, place: str) -> str:
        """The expression of BK x BN elements of a weight."""


@dataclass
class PointerTermLoop(TermLoop):
    """Loads through pointers: portable, for every layout and alignment."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.rows = [
            self.arguments.names.fresh(f"{x.name_hint or 'x'}_rows") for x in self.op.inputs
        ]

    def prologue(self) -> list[str]:
        lines: list[str] = []
        for name, x, depth in zip(self.rows, self.op.inputs, self.depths, strict=True):
            stride = "" if self.op.is_transposed else f" * {depth}"
            lines.append(f"{name} = {self.arguments.operand(x, 'x')} + row[:, None]{stride}")
        return lines

    def places(self, tile: ColumnTile) -> list[str]:
        return tile.weight_columns()

    def load_input(self, term: int) -> str:
        step = str(shape_of(self.op.x)[-1]) if self.op.is_transposed else "1"
        return self._load(self.rows[term], term, step, 1)

    def load_weight(self, term: int, tile: ColumnTile, weight: SSAValue, place: str) -> str:
        pointer, depth = self.arguments.operand(weight, "w"), self.depths[term]
        segment = tile.segment
        if segment.layout == Layout.KN:
            step = str(segment.weight_columns(tile.columns.weights[0]))
            return self._load(f"{pointer} + {place}[None, :]", term, step, 0)
        wide = ".to(tl.int64)" if segment.columns * int(depth) >= 2**31 else ""
        return self._load(f"{pointer} + {place}[None, :]{wide} * {depth}", term, "1", 0)

    def _load(self, pointers: str, term: int, step: str, axis: int) -> str:
        helper = "load_steps" if self.op.is_transposed else "load_depth"
        self.helpers.add(helper)
        return f"{helper}({pointers}, k, {self.depths[term]}, {step}, BLOCK_K, {axis})"


@dataclass
class TmaTermLoop(TermLoop):
    """Loads boxes through Hopper's TMA, which gives zeros past the end of K."""

    imports: frozenset[str] = TmaMainLoop.imports

    def places(self, tile: ColumnTile) -> list[str]:
        box = usable_box(tile.segment, tile.columns)
        return [corner[1:-1].removesuffix(",") for corner in corners(tile, box)]

    def load_input(self, term: int) -> str:
        x, bm = self.op.inputs[term], self.schedule.block_m.data
        if not self.op.is_transposed:
            extents = ("{rows}", self.depths[term])
            box = (bm, self.schedule.block_k.data)
            return f"{self._descriptor(x, extents, box, 'a')}.load((tile_m * BLOCK_M, k))"
        extents = (self._rows(term), str(shape_of(x)[-1]))
        box = (self.schedule.block_k.data, bm)
        return f"tl.trans({self._descriptor(x, extents, box, 'a')}.load((k, tile_m * BLOCK_M)))"

    def load_weight(self, term: int, tile: ColumnTile, weight: SSAValue, place: str) -> str:
        box, bk = usable_box(tile.segment, tile.columns), self.schedule.block_k.data
        view = tuple(map(str, box.view))
        if tile.segment.layout == Layout.KN:
            depth = self._rows(term) if self.op.is_transposed else self.depths[term]
            name = self._descriptor(weight, (depth, *view), (bk, *box.block), "w")
            load, shape = f"{name}.load((k, {place}))", f"(BLOCK_K, {tile.width})"
            return load if len(view) == 1 else f"tl.reshape({load}, {shape})"
        self.helpers.add("load_box")
        name = self._descriptor(weight, (*view, self.depths[term]), (*box.block, bk), "w")
        corner = f"({place},)" if len(view) == 1 else f"({place})"
        return f"tl.trans(load_box({name}, {corner}, k, {tile.width}, BLOCK_K))"

    def _rows(self, term: int) -> str:
        """The flattened rows of an input, at least 1: there is no descriptor of nothing."""
        rows = "{rows}"
        if term:
            argument = next(a for a in self.arguments.arguments if a.name == self.depths[term])
            rows = f"({argument.value})"
        return f"{rows} or 1"

    def _descriptor(
        self, value: SSAValue, extents: Sequence[str], box: Sequence[int], default: str
    ) -> str:
        place = f"{{operands[{list(self.op.operands).index(value)}]}}"
        if self.op.is_transposed:
            place = f"{place} if {place}.numel() else {place}.new_empty(1, {extents[-1]})"
        argument = descriptor(place, triton_type(element_type_of(value)), extents, box)
        return self.arguments.add(f"{value.name_hint or default}_desc", *argument)


def depth_argument() -> KernelArgument:
    """The parameter K of a kernel whose inputs are transposed: all their dimensions but one."""
    return KernelArgument("K", "i32", "{rows}")
