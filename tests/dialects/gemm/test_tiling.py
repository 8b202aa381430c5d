"""Column ranges under a schedule: every column in one tile, every group in one tile."""

import pytest
from support.programs import parse_mlir

from coda_ir.dialects.gemm import FusedOp, ScheduleAttr, Segment
from coda_ir.dialects.gemm.tiling import (
    column_ranges,
    group_sizes,
    partial_tiles,
    row_partial_tiles,
)


def segment_of(
    *weights: int, pairing: str = "", group: int | None = None, schedule: ScheduleAttr | None = None
) -> Segment:
    return fused_of(*weights, pairing=pairing, group=group, schedule=schedule).segments()[0]


def fused_of(
    *weights: int, pairing: str = "", group: int | None = None, schedule: ScheduleAttr | None = None
) -> FusedOp:
    """A GEMM with weights of these columns that reduces over groups and stores row partials."""
    types = [f"tensor<{n}x4xf32>" for n in weights]
    parameters = "".join(f", %w{i}: {type}" for i, type in enumerate(types))
    operands = ", ".join(f"%w{i} : {type}" for i, type in enumerate(types))
    reduction = f"%s = gemm.group_reduce add %a over {group} : f32" if group else ""
    yielded = "%s" if group else "%a"
    module = parse_mlir(f"""
        func.func @f(%x: tensor<?x4xf32>{parameters}) {{
          %r = gemm.fused %x : tensor<?x4xf32> columns({operands}) {pairing}
              -> (partial_row<add> : tensor<?x?xf32>) {{
          ^epilogue({"%a: f32, %b: f32" if pairing else "%a: f32"}):
            {reduction}
            gemm.yield {yielded} : f32
          }}
          func.return
        }}""")
    (op,) = (op for op in module.walk() if isinstance(op, FusedOp))
    op.schedule = schedule
    return op


def schedule(bn: int, bm: int = 16) -> ScheduleAttr:
    return ScheduleAttr.get("pointer", (bm, bn, 16), warps=4, stages=1)


@pytest.mark.parametrize(
    ("weights", "pairing", "expected"),
    [
        ((64,), "", [(0, 64, 4)]),
        ((65,), "", [(0, 65, 5)]),
        ((20, 33), "", [(0, 20, 2), (20, 33, 3)]),
        ((64,), "pair<adjacent>", [(0, 32, 4)]),
        ((20, 20), "pair<halves>", [(0, 20, 3)]),
        ((1,), "", [(0, 1, 1)]),
    ],
)
def test_ranges(weights: tuple[int, ...], pairing: str, expected: list[tuple[int, int, int]]):
    """Under tiles of 16 accumulator columns."""
    segment = segment_of(*weights, pairing=pairing)
    ranges = column_ranges(segment, schedule(16))
    assert [(r.offset, r.extent, r.tiles) for r in ranges] == expected
    assert row_partial_tiles(segment, schedule(16)) == sum(tiles for *_, tiles in expected)


@pytest.mark.parametrize("group", [1, 3, 4, 8, 12, 24])
@pytest.mark.parametrize("pairing", ["", "pair<halves, 24>"])
def test_groups_stay_together(group: int, pairing: str):
    size = 2 * group if pairing else group
    segment = segment_of(48, pairing=pairing, group=size if 48 % size == 0 else None)
    (columns,) = column_ranges(segment, schedule(64))
    assert columns.per_tile % columns.group == 0
    assert columns.padded_group >= columns.group
    assert columns.per_tile // columns.group * columns.padded_group <= columns.lanes
    assert columns.tiles * columns.per_tile >= columns.extent


def test_a_group_of_a_size_that_is_no_power_of_two_is_padded():
    (columns,) = column_ranges(segment_of(48, group=12), schedule(64))
    assert (columns.padded_group, columns.per_tile, columns.tiles) == (16, 48, 1)
    assert columns.is_padded


def test_groups_that_do_not_fit():
    with pytest.raises(ValueError, match="a tile of 16 columns cannot hold a group of 24"):
        column_ranges(segment_of(48, group=24), schedule(16))
    with pytest.raises(ValueError, match="groups of 24 do not divide 40 columns"):
        column_ranges(segment_of(40, group=24), schedule(64))


def test_dynamic_columns():
    with pytest.raises(ValueError, match="the number of columns is dynamic, expected a static N"):
        column_ranges(segment_of_dynamic(), schedule(16))


def segment_of_dynamic() -> Segment:
    module = parse_mlir("""
        func.func @f(%x: tensor<?x4xf32>, %w: tensor<?x4xf32>) {
          %r = gemm.fused %x : tensor<?x4xf32> columns(%w : tensor<?x4xf32>)
              -> (partial_row<add> : tensor<?x?xf32>) {
          ^epilogue(%a: f32):
            gemm.yield %a : f32
          }
          func.return
        }""")
    (op,) = (op for op in module.walk() if isinstance(op, FusedOp))
    return op.segments()[0]


def test_partial_tiles_of_a_result():
    op = fused_of(20, 33, schedule=schedule(16))
    assert partial_tiles(op, 0) == 5
    assert group_sizes(segment_of(48, group=12)) == [12]


@pytest.mark.parametrize(("bn", "partials"), [(128, 4), (256, 8)])
def test_sums_of_two_kinds_are_combined_over_parts_where_registers_are_left(bn: int, partials: int):
    module = parse_mlir("""
        func.func @f(%x: tensor<?x64xbf16>, %w: tensor<512x64xbf16>) {
          %r, %s = gemm.fused %x : tensor<?x64xbf16> columns(%w : tensor<512x64xbf16>)
              -> (partial_row<add> : tensor<?x?xf32>, partial_row<max> : tensor<?x?xf32>) {
          ^epilogue(%a: f32):
            gemm.yield %a, %a : f32, f32
          }
          func.return
        }""")
    (op,) = (op for op in module.walk() if isinstance(op, FusedOp))
    tiled = ScheduleAttr.get("warp_specialized", (128, bn, 64), warps=8, stages=3)
    assert row_partial_tiles(op.segments()[0], tiled) == partials
