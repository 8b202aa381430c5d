"""The warp that loads: the boxes of each column range, step after step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from xdsl.ir import Attribute, SSAValue

from coda_ir.backends.triton.kernel import indented, triton_type
from coda_ir.backends.triton.ports import ArgumentList
from coda_ir.backends.triton.warp_specialized.gluon import call, layout_name, layout_text
from coda_ir.dialects.coda.shapes import element_type_of, shape_of
from coda_ir.dialects.gemm import FusedOp, Layout, ScheduleAttr, Segment
from coda_ir.dialects.gemm.tiling import ColumnRange


@dataclass(frozen=True)
class WeightRows:
    """Consecutive columns of a weight, and where they go in a stage."""

    weight: int
    """Index of the weight in its term."""
    first: str
    """The first column: an expression of `tile`."""
    count: int
    place: int
    """The first column of the stage."""
    start: int = 0
    """With a stride of 2: which column of a pair."""
    stride: int = 1


def weight_rows(segment: Segment, columns: ColumnRange, tile: str) -> list[WeightRows]:
    """What the accumulators of tile number `tile` are multiplied with, side by side in a stage."""
    count = columns.lanes * columns.parts
    first, group = f"{tile} * {count}", segment.group_size
    weights = columns.weights
    if segment.pairing is None:
        return [WeightRows(weights[0], first, count, 0)]
    if segment.pairing.is_adjacent:
        return [WeightRows(weights[0], first, count, half * count, half, 2) for half in range(2)]
    if len(segment.weights) == 2:
        return [WeightRows(weights[half], first, count, half * count) for half in range(2)]
    assert group is not None
    step = min(count, group // 2)
    return [
        WeightRows(
            weights[0],
            _place_in_group(first, piece, group, half, segment.columns),
            step,
            half * count + piece,
        )
        for half in range(2)
        for piece in range(0, count, step)
    ]


def _place_in_group(first: str, piece: int, group: int, half: int, columns: int) -> str:
    """The column of pair `first + piece`: of its first or second half."""
    pair = f"({first} + {piece})" if piece else f"({first})"
    offset = f" + {half * group // 2}" if half else ""
    if group == columns:
        return f"{pair}{offset}"
    return f"{pair} // {group // 2} * {group} + {pair} % {group // 2}{offset}"


@dataclass
class BoxDescriptors:
    """The descriptors of a kernel: parameters that tell TMA where boxes of a tensor are."""

    op: FusedOp
    arguments: ArgumentList
    layouts: set[tuple[Attribute, tuple[int, int]]] = field(
        default_factory=set[tuple[Attribute, tuple[int, int]]]
    )
    """Element types and boxes whose layouts the module has to define."""

    def matrix(
        self, value: SSAValue, extents: tuple[str, str], box: tuple[int, int], default: str
    ) -> str:
        """The descriptor of a contiguous operand or result as rows x columns."""
        strides = (extents[1], "1")
        return self._add(value, self._place(value), extents, strides, box, default)

    def every_other(self, weight: SSAValue, start: int, box: tuple[int, int]) -> str:
        """The descriptor of rows `start`, `start + 2`, ... of an N x K weight."""
        n, k = shape_of(weight)
        view = f"{self._place(weight)}.view({n // 2}, {2 * k})[:, {start * k}:]"
        return self._add(weight, view, (str(n // 2), str(k)), (str(2 * k), "1"), box, "w")

    def _place(self, value: SSAValue) -> str:
        operands = list(self.op.operands)
        if value in operands:
            return f"{{operands[{operands.index(value)}]}}"
        return f"{{outputs[{list[SSAValue](self.op.results).index(value)}]}}"

    def _add(
        self,
        value: SSAValue,
        place: str,
        extents: Sequence[str],
        strides: Sequence[str],
        box: tuple[int, int],
        default: str,
    ) -> str:
        element = element_type_of(value)
        self.layouts.add((element, box))
        boxed = f"{triton_type(element)}[{box[0]},{box[1]}]"
        return self.arguments.add(
            f"{value.name_hint or default}_desc",
            f"tensordesc<{boxed},{layout_text(element, box)}>",
            f"TileDescriptor({place}, [{', '.join(extents)}], [{', '.join(strides)}], "
            f"[{box[0]}, {box[1]}], {layout_name(element, box)})",
        )


@dataclass(frozen=True)
class LoadEmitter:
    """Writes the loops that load the stages of a column range."""

    op: FusedOp
    schedule: ScheduleAttr
    descriptors: BoxDescriptors

    def emit(self, segment: Segment, columns: ColumnRange, tile: str) -> list[str]:
        """The statements for tile number `tile` (a name) of the range, one loop per term."""
        bm, _, bk = self.schedule.tile
        lines: list[str] = []
        for term, weights in enumerate(segment.terms):
            x = self.op.inputs[term]
            extents = ("{rows}", str(shape_of(x)[-1]))
            a = self.descriptors.matrix(x, extents, (bm, bk), "a")
            body = [
                "stage = step % STAGES",
                "mbarrier.wait(empty.index(stage), ((step // STAGES) & 1) ^ 1)",
                "mbarrier.expect(full.index(stage), STAGE_BYTES)",
                *_load(a, f"[tile_m * {bm}, k]", "a_stages.index(stage)"),
            ]
            for rows in weight_rows(segment, columns, tile):
                body += self._load_weight(segment, weights[rows.weight], rows)
            loop = f"for k in range(0, {self.op.depth(term)}, {bk}):"
            lines += [loop, *indented([*body, "step += 1"])]
        return lines

    def _load_weight(self, segment: Segment, weight: SSAValue, rows: WeightRows) -> list[str]:
        _, bn, bk = self.schedule.tile
        first, second = map(str, shape_of(weight))
        place = "b_stages.index(stage)"
        if segment.layout == Layout.KN:
            name = self.descriptors.matrix(weight, (first, second), (bk, rows.count), "w")
            return _load(name, f"[k, {rows.first}]", place)
        if rows.stride == 1:
            name = self.descriptors.matrix(weight, (first, second), (rows.count, bk), "w")
        else:
            name = self.descriptors.every_other(weight, rows.start, (rows.count, bk))
        if rows.count != bn:
            place += f".slice({rows.place}, {rows.count})"
        return _load(name, f"[{rows.first}, k]", place)


def _load(descriptor: str, corner: str, place: str) -> list[str]:
    arguments = (descriptor, corner, "full.index(stage)", place)
    return call("tma.async_copy_global_to_shared", arguments)
