"""Warp-specialized kernels in the simulator, against float64, and compiled ahead of time."""

import re
from pathlib import Path

import pytest
from support import gemm_programs as programs, gradient_programs as gradients
from support.kernel_harness import check_against_reference, gemms_of, parse_module
from support.machine_code import ambiguous_places

from coda_ir.backends.triton.aot import compile_kernels
from coda_ir.backends.triton.gemm_kernel import emit_gemm
from coda_ir.backends.triton.names import NameAllocator
from coda_ir.diagnostics import CodaError
from coda_ir.dialects.gemm import ScheduleAttr
from coda_ir.dialects.gemm.buffers import SHARED_MEMORY, Moves, Staging, moves_of, stage_bytes
from coda_ir.dialects.gemm.tiling import ColumnCuts, ColumnRange, column_ranges
from coda_ir.dialects.gemm.warp_specialized import staging

pytestmark = pytest.mark.any_device


def schedule(columns: int = 256, stages: int = 3, group_m: int = 2) -> str:
    return (
        f'warp_specialized, "128x{columns}x64", warps = 8, stages = {stages}, group_m = {group_m}'
    )


def ping_pong(tile: str = "128x128", stages: int = 4) -> str:
    return f'ping_pong, "{tile}x64", warps = 8, stages = {stages}, group_m = 2'


def sum_of_tiles(count: int, dtype: str = "bf16") -> str:
    """A GEMM to which `count` tiles are added."""
    tile = f"tensor<?x264x{dtype}>"
    values = range(count)
    elements = [f"%t{i} : f32" for i in values]
    ports = ", ".join(f"%x{i} : {tile}" for i in values)
    sums = "".join(f"    %s{i + 1} = arith.addf %s{i}, %t{i} : f32\n" for i in values)
    return f"""
func.func @f(%x : tensor<?x72xbf16>, %w : tensor<264x72xbf16>, {ports}) -> {tile} {{
  %y = gemm.fused %x : tensor<?x72xbf16> schedule<{schedule()}>
      columns(%w : tensor<264x72xbf16>) tile({ports}) -> (tile : {tile}) {{
  ^epilogue(%s0 : f32, {", ".join(elements)}):
{sums}    gemm.yield %s{count} : f32
  }}
  func.return %y : {tile}
}}
"""


def different_ranges(schedule: str, dtype: str) -> str:
    """A GEMM of three ranges of columns: the first has a port, the last is summed only."""
    return f"""
func.func @f(%x : tensor<?x?x72xbf16>, %w : tensor<264x72xbf16>, %wv : tensor<136x72xbf16>,
             %ws : tensor<200x72xbf16>, %r : tensor<?x?x264x{dtype}>)
    -> (tensor<?x?x264x{dtype}>, tensor<?x?x264xbf16>, tensor<?x?x136xbf16>, tensor<?x?x?xf32>) {{
  %y, %z, %v, %s = gemm.fused %x : tensor<?x?x72xbf16> schedule<{schedule}>
      columns(%w : tensor<264x72xbf16>) tile(%r : tensor<?x?x264x{dtype}>)
        -> (tile : tensor<?x?x264x{dtype}>, tile : tensor<?x?x264xbf16>) {{
      ^epilogue(%acc : f32, %res : f32):
        %a = arith.addf %acc, %res : f32
        gemm.yield %a, %acc : f32, f32
      }}
      columns(%wv : tensor<136x72xbf16>) -> (tile : tensor<?x?x136xbf16>) {{
      ^epilogue(%acc : f32):
        gemm.yield %acc : f32
      }}
      columns(%ws : tensor<200x72xbf16>) -> (partial_row<add> : tensor<?x?x?xf32>) {{
      ^epilogue(%acc : f32):
        gemm.yield %acc : f32
      }}
  func.return %y, %z, %v, %s
      : tensor<?x?x264x{dtype}>, tensor<?x?x264xbf16>, tensor<?x?x136xbf16>, tensor<?x?x?xf32>
}}
"""


def biased_ranges(schedule: str, k: int = 64, n: int = 64) -> str:
    """A GEMM of three ranges of columns, each with a bias."""
    weights = ", ".join(f"%w{i} : tensor<{n}x{k}xbf16>, %b{i} : tensor<{n}xbf16>" for i in range(3))
    result = f"tensor<?x{n}xbf16>"
    ranges = "".join(
        f"""
      columns(%w{i} : tensor<{n}x{k}xbf16>) row(%b{i} : tensor<{n}xbf16>) -> (tile : {result}) {{
      ^epilogue(%acc : f32, %bias : f32):
        %sum = arith.addf %acc, %bias : f32
        gemm.yield %sum : f32
      }}"""
        for i in range(3)
    )
    return f"""
func.func @f(%x : tensor<?x{k}xbf16>, {weights}) -> ({", ".join([result] * 3)}) {{
  %q, %k, %v = gemm.fused %x : tensor<?x{k}xbf16> schedule<{schedule}>{ranges}
  func.return %q, %k, %v : {", ".join([result] * 3)}
}}
"""


def unused_products(schedule: str) -> str:
    """A GEMM whose result is another tensor."""
    return f"""
func.func @f(%x : tensor<?x72xbf16>, %w : tensor<264x72xbf16>, %r : tensor<?x264xbf16>)
    -> tensor<?x264xbf16> {{
  %y = gemm.fused %x : tensor<?x72xbf16> schedule<{schedule}>
      columns(%w : tensor<264x72xbf16>) tile(%r : tensor<?x264xbf16>)
        -> (tile : tensor<?x264xbf16>) {{
      ^epilogue(%acc : f32, %res : f32):
        gemm.yield %res : f32
      }}
  func.return %y : tensor<?x264xbf16>
}}
"""


def different_layouts(schedule: str) -> str:
    """A GEMM of two weights, one of them K x N."""
    return f"""
func.func @f(%x : tensor<?x72xbf16>, %w : tensor<264x72xbf16>, %v : tensor<72x264xbf16>)
    -> (tensor<?x264xbf16>, tensor<?x264xbf16>) {{
  %y, %z = gemm.fused %x : tensor<?x72xbf16> schedule<{schedule}>
      columns(%w : tensor<264x72xbf16>) -> (tile : tensor<?x264xbf16>) {{
      ^epilogue(%acc : f32):
        gemm.yield %acc : f32
      }}
      columns(%v : tensor<72x264xbf16>) kn -> (tile : tensor<?x264xbf16>) {{
      ^epilogue(%acc : f32):
        gemm.yield %acc : f32
      }}
  func.return %y, %z : tensor<?x264xbf16>, tensor<?x264xbf16>
}}
"""


class TestNumbers:
    @pytest.mark.parametrize(
        ("rows", "k", "n"), [(1, 64, 256), (300, 72, 264), (129, 200, 512), (64, 8, 8)]
    )
    def test_residual_and_statistics(self, rows: int, k: int, n: int, tmp_path: Path):
        text = programs.residual_norm("bf16", k, n, schedule())
        kernel = check_against_reference(text, [rows], tmp_path)
        assert kernel.language == "gluon" and "gl.warp_specialize" in kernel.source

    @pytest.mark.parametrize(("layout", "dtype"), [("kn", "bf16"), ("nk", "f16")])
    @pytest.mark.parametrize("columns", [64, 128])
    def test_layouts_and_tiles(self, columns: int, layout: str, dtype: str, tmp_path: Path):
        text = programs.residual_norm(dtype, 136, 200, schedule(columns), layout)
        check_against_reference(text, [2, 75], tmp_path)

    @pytest.mark.parametrize(("layout", "rows", "n"), [("nk", 300, 400), ("kn", 75, 192)])
    def test_tiles_of_192_columns(self, layout: str, rows: int, n: int, tmp_path: Path):
        """They are multiplied in two pieces, whose subtiles follow one another."""
        text = programs.residual_norm("bf16", 136, n, schedule(192), layout)
        kernel = check_against_reference(text, [rows], tmp_path)
        assert "accumulate_in_pieces" in kernel.source and "split_pieces(acc, 3)" in kernel.source

    def test_float32_tiles_of_192_columns(self, tmp_path: Path):
        text = gradients.norm_gradient(264, 72, schedule(192), normed=False)
        kernel = check_against_reference(text, [150], tmp_path)
        assert "split_pieces(acc, 6)" in kernel.source

    @pytest.mark.parametrize("rows", [1, 200])
    def test_weight_gradients_in_tiles_of_192_columns(self, rows: int, tmp_path: Path):
        text = gradients.merged_weight_gradients("bf16", 136, (192, 576), schedule(192))
        check_against_reference(text, [rows], tmp_path)

    @pytest.mark.parametrize("pairing", ["two weights", "halves", "adjacent", "halves, 32"])
    @pytest.mark.parametrize("stages", [2, 4])
    def test_gated_activation(self, pairing: str, stages: int, tmp_path: Path):
        text = programs.swiglu("bf16", 136, 352, schedule(stages=stages), pairing)
        assert "_glu" in check_against_reference(text, [150], tmp_path).name

    @pytest.mark.parametrize("columns", [48, 80, 112])
    def test_halves_that_end_inside_of_a_tile(self, columns: int, tmp_path: Path):
        """A box of the first half may go on in the second: these lanes have no column."""
        text = programs.swiglu("bf16", 136, columns, schedule(128), "halves")
        check_against_reference(text, [150], tmp_path)

    def test_five_tiles(self, tmp_path: Path):
        text = gradients.swiglu_gradient("bf16", (72, 136), 264, schedule())
        check_against_reference(text, [150], tmp_path)

    def test_float32_tiles(self, tmp_path: Path):
        """Two of them that are loaded and one that is stored fit in subtiles of 32 columns."""
        text = gradients.norm_gradient(264, 72, schedule(), normed=False)
        kernel = check_against_reference(text, [150], tmp_path)
        assert "split_columns(acc, 8)" in kernel.source

    def test_five_float32_tiles_that_are_loaded(self, tmp_path: Path):
        """The result is stored from the buffer of one of them."""
        kernel = check_against_reference(sum_of_tiles(5, "f32"), [130], tmp_path)
        assert "split_columns(acc, 8)" in kernel.source

    @pytest.mark.parametrize("how", ["warp-specialized", "ping-pong"])
    @pytest.mark.parametrize("dtype", ["bf16", "f32"])
    def test_ranges_that_move_tiles_and_others(self, how: str, dtype: str, tmp_path: Path):
        """One loads tiles, one only stores, and one does neither."""
        text = different_ranges(schedule(128) if how == "warp-specialized" else ping_pong(), dtype)
        check_against_reference(text, [2, 130], tmp_path)

    @pytest.mark.parametrize("schedule", [schedule(128), ping_pong()])
    def test_ranges_with_one_step(self, schedule: str, tmp_path: Path):
        """They share the products, which compilers would otherwise make of common places."""
        kernel = check_against_reference(biased_ranges(schedule), [300], tmp_path)
        assert kernel.source.count(" accumulate(") == 1
        kernel = check_against_reference(biased_ranges(schedule, 72), [150], tmp_path)
        assert kernel.source.count(" accumulate(") == 3

    @pytest.mark.parametrize("schedule", [schedule(64), schedule(192), ping_pong()])
    def test_products_that_are_not_used(self, schedule: str, tmp_path: Path):
        """Warps wait for them all the same, and release their stages."""
        check_against_reference(unused_products(schedule), [300], tmp_path)

    def test_float32_tiles_by_turns(self, tmp_path: Path):
        """Each of two groups has half of the room."""
        text = gradients.norm_gradient(264, 72, ping_pong("64x256", 3))
        kernel = check_against_reference(text, [150], tmp_path)
        assert "split_columns(acc, 8)" in kernel.source

    @pytest.mark.parametrize("head", [64, 128])
    def test_rotary_embedding_beside_plain_columns(self, head: int, tmp_path: Path):
        text = programs.qkv_rope("bf16", 72, head, (4, 2), schedule(128))
        check_against_reference(text, [2, 70], tmp_path)

    def test_statistics_of_heads(self, tmp_path: Path):
        text = programs.qkv_rope("bf16", 72, 128, (2, 2), schedule(), norm=True)
        check_against_reference(text, [1, 130], tmp_path)

    @pytest.mark.parametrize("lse", ["f32", "f64"])
    def test_logits_that_are_not_stored(self, lse: str, tmp_path: Path):
        text = programs.lm_head("bf16", 72, 330, schedule(), lse=lse)
        check_against_reference(text, [130], tmp_path)

    @pytest.mark.parametrize("depths", [(40, 200), (72,)])
    @pytest.mark.parametrize("layout", ["kn", "nk"])
    def test_sums_of_products(self, depths: tuple[int, ...], layout: str, tmp_path: Path):
        text = gradients.input_gradient("bf16", depths, 264, schedule(), layout)
        check_against_reference(text, [200], tmp_path)

    @pytest.mark.parametrize("rows", [1, 200])
    def test_weight_gradients(self, rows: int, tmp_path: Path):
        text = gradients.merged_weight_gradients("bf16", 136, (256, 512), schedule())
        kernel = check_against_reference(text, [rows], tmp_path)
        assert kernel.runs_without_rows and kernel.arguments[-1].name == "K"
        assert kernel.description.startswith("136 x 768 x K GEMM in tiles")

    @pytest.mark.parametrize("rows", [1, 200])
    @pytest.mark.parametrize("loop", ["warp_specialized", "ping_pong"])
    def test_weight_gradient_of_a_packed_projection(self, loop: str, rows: int, tmp_path: Path):
        """The rows of the result are not those that are summed up."""
        text = gradients.packed_weight_gradient(
            "bf16", 136, (128, 256), schedule(128) if loop == "warp_specialized" else ping_pong()
        )
        check_against_reference(text, [rows], tmp_path)


class TestUnalignedRows:
    """Results whose rows start at no multiples of 16 bytes."""

    @pytest.mark.parametrize("rows", [1, 5, 150])
    @pytest.mark.parametrize(
        ("columns", "dtype", "vectors"),
        [(257, "bf16", [1, 1]), (262, "f32", [2, 2]), (131, "f32", [1, 1]), (252, "bf16", [4, 4])],
    )
    def test_neighbours_are_stored_by_neighbours(
        self, columns: int, dtype: str, vectors: list[int], rows: int, tmp_path: Path
    ):
        text = programs.unaligned(columns, 72, schedule(), dtype)
        kernel = check_against_reference(text, [rows], tmp_path)
        calls = re.findall(r"(\d),\s+8,?\s+\)", kernel.source)
        assert [int(vector) for vector in calls] == vectors

    @pytest.mark.parametrize("tile", ["128x128", "64x256"])
    def test_by_turns(self, tile: str, tmp_path: Path):
        check_against_reference(programs.unaligned(257, 72, ping_pong(tile, 3)), [150], tmp_path)

    @pytest.mark.parametrize("columns", [64, 192])
    def test_narrow_tiles(self, columns: int, tmp_path: Path):
        check_against_reference(programs.unaligned(451, 72, schedule(columns)), [130], tmp_path)

    def test_pairs(self, tmp_path: Path):
        text = programs.swiglu("f16", 136, 357, schedule(stages=4))
        check_against_reference(text, [130], tmp_path)

    @pytest.mark.slow
    @pytest.mark.parametrize("dtype", ["bf16", "f32"])
    def test_beside_aligned_results(self, dtype: str, tmp_path: Path):
        text = different_ranges(schedule(), dtype).replace("136", "139")
        check_against_reference(text, [2, 70], tmp_path)

    def test_ahead_of_time(self):
        """As many registers as an aligned result takes, no spills, and stores of whole vectors."""
        for columns, stored in ((50257, "b16"), (30522, "b32"), (51860, "v2.b32")):
            text = programs.swiglu("bf16", 768, columns, schedule())
            (op,) = gemms_of(parse_module(text))
            (compiled,) = compile_kernels([emit_gemm(op, NameAllocator())], "sm_90", "ptx")
            assert (compiled.resources.spills, compiled.resources.registers) == (0, 168)
            assert set(re.findall(r"st\.global\.([.\w]+)", compiled.text)) == {stored}
            assert "cp.async.bulk.tensor.2d.global.shared" not in compiled.text


class TestPingPong:
    """Groups that take tiles in turns."""

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("tile", "stages", "rows"), [("128x128", 4, 300), ("64x256", 3, 129), ("128x64", 2, 1)]
    )
    def test_residual_and_statistics(self, tile: str, stages: int, rows: int, tmp_path: Path):
        text = programs.residual_norm("bf16", 200, 520, ping_pong(tile, stages))
        kernel = check_against_reference(text, [rows], tmp_path)
        assert kernel.description.endswith("ping-pong")

    def test_gated_activation(self, tmp_path: Path):
        text = programs.swiglu("bf16", 136, 352, ping_pong(stages=3), "two weights")
        check_against_reference(text, [150], tmp_path)

    def test_rotary_embedding_beside_plain_columns(self, tmp_path: Path):
        text = programs.qkv_rope("bf16", 72, 64, (4, 2), ping_pong())
        check_against_reference(text, [2, 70], tmp_path)

    @pytest.mark.parametrize("rows", [1, 200])
    def test_weight_gradients(self, rows: int, tmp_path: Path):
        text = gradients.merged_weight_gradients("bf16", 136, (256, 128, 512), ping_pong())
        kernel = check_against_reference(text, [rows], tmp_path)
        # The first two ranges differ in what is loaded, and in where it is stored.
        assert kernel.source.count("accumulate(") == 2
        assert "# dy0, dy1: tiles 0 to 2 of 7\n        if tile_n < 3:" in kernel.source

    def test_sums_over_rows_of_a_whole_tile(self, tmp_path: Path):
        text = gradients.input_gradient("bf16", (72,), 264, ping_pong(), "nk")
        assert "partial_col" in text
        check_against_reference(text, [150], tmp_path)


class TestStaging:
    def found(self, text: str) -> Staging | str:
        (op,) = gemms_of(parse_module(text))
        assert op.schedule is not None
        return staging(ColumnCuts(op), op.schedule)

    def test_tiles_of_all_subtiles_wait_in_buffers_that_results_are_stored_from(self):
        text = programs.residual_norm("bf16", 72, 512, schedule())
        found = self.found(text)
        assert isinstance(found, Staging)
        assert [shape[:2] for shape in found.loads] == [(128, 64)]
        assert (found.depth, found.stores_in_place) == (4, True)
        # Of two results one takes turns with itself, while the other goes where the tile was.
        moves = self.moves(text)
        assert found.in_place(moves) == {1: 0}
        assert [(*shape[:2], count) for shape, count in found.stores.items()] == [(128, 64, 1)]
        assert found.under_way(moves) == 1
        tile = ScheduleAttr.get("warp_specialized", (128, 256, 64), warps=8, stages=3)
        assert found.bytes + 3 * stage_bytes(tile) < SHARED_MEMORY

    def test_fewer_buffers_beside_more_stages(self):
        text = programs.residual_norm("bf16", 72, 512, schedule(stages=4))
        found = self.found(text)
        assert isinstance(found, Staging)
        assert (found.depth, found.stores_in_place, *found.stores.values()) == (1, True, 1)
        assert found.under_way(self.moves(text)) == 1

    def test_buffers_of_several_shapes(self):
        """Two results in bfloat16, stored in twos, have what room is left; of the subtiles
            dh | dh, dh in bfloat16, normed | dh | dh, dh in bfloat16, normed
        each waits for the one buffer of dh in float32.
        """
        text = gradients.norm_gradient(512, 72, schedule())
        found, moves = self.found(text), self.moves(text)
        assert isinstance(found, Staging)
        assert [(*shape[:2], n) for shape, n in found.stores.items()] == [
            (128, 32, 1),
            (128, 64, 2),
        ]
        assert found.under_way(moves) == 0

    @pytest.mark.parametrize(("stages", "lanes"), [(4, 128), (5, 64)])
    def test_room_for_sums_of_columns(self, stages: int, lanes: int):
        """Stages and a float32 tile fit beside each other, but not beside what the sums take."""
        tile = f'warp_specialized, "128x128x64", warps = 8, stages = {stages}, group_m = 2'
        text = gradients.input_gradient("bf16", (256,), 512, tile)
        text = text.replace("tensor<?x512xbf16>", "tensor<?x512xf32>")
        assert isinstance(self.found(text), Staging)
        assert self.columns(text).lanes == lanes
        buffers, stage = 128 * 128 * 4, 2 * (128 + 128) * 64
        assert buffers + stages * stage < SHARED_MEMORY
        assert (buffers + stages * stage + 8 * 128 * 4 < SHARED_MEMORY) == (lanes == 128)

    @pytest.mark.parametrize(
        ("tile", "stages", "lanes"),
        [("bf16", 3, 64), ("f32", 3, 32), ("f32", 2, 32), ("bf16", 4, 64)],
    )
    def test_parts_are_as_wide_as_fits(self, tile: str, stages: int, lanes: int):
        text = gradients.norm_gradient(512, 72, schedule(stages=stages), normed=False, tile=tile)
        assert isinstance(self.found(text), Staging)
        assert self.columns(text).lanes == lanes

    def columns(self, text: str) -> ColumnRange:
        (op,) = gemms_of(parse_module(text))
        (segment,) = op.segments()
        assert op.schedule is not None
        (columns,) = column_ranges(segment, op.schedule)
        return columns

    def moves(self, text: str) -> Moves:
        (op,) = gemms_of(parse_module(text))
        (segment,) = op.segments()
        return moves_of(segment, self.columns(text), 128)

    @pytest.mark.parametrize(
        ("text", "reason"),
        [
            (programs.residual_norm("f32", 72, 512, schedule()), "do not multiply float32"),
            (programs.residual_norm("bf16", 70, 512, schedule()), "140 bytes"),
            (programs.residual_norm("bf16", 72, 250, schedule()), "500 bytes"),
            (programs.residual_norm("bf16", 72, 512, schedule(stages=5)), "5 stages"),
            (programs.residual_norm("bf16", 72, 512, schedule(32)), "a tile of 32 columns"),
            (programs.qkv_rope("bf16", 72, 96, (4, 2), schedule()), "48 columns"),
            (sum_of_tiles(6), "moves 7 tiles"),
            (different_layouts(schedule()), "some of its weights are K x N"),
            (gradients.norm_gradient(512, 72, schedule(stages=4)), "do not fit beside 4 stages"),
            (
                programs.residual_norm(
                    "bf16", 72, 512, schedule().replace("128x", "256x").replace("8", "8", 1)
                ),
                "a tile of 256 rows",
            ),
            (programs.swiglu("bf16", 136, 352, schedule(192)), "a power of two for pairs"),
            (programs.residual_norm("bf16", 72, 512, ping_pong("128x256")), "at most 128 x 128"),
            (programs.residual_norm("bf16", 72, 512, ping_pong("32x256")), "expected 64 or 128"),
        ],
    )
    def test_what_cannot_run_so(self, text: str, reason: str):
        (op,) = gemms_of(parse_module(text))
        with pytest.raises(CodaError, match=reason) as error:
            emit_gemm(op, NameAllocator())
        is_for_pairs = "pairs" in reason
        assert ("tma or the pointer main loop" in str(error.value)) is not is_for_pairs


@pytest.mark.parametrize(("k", "n"), [(64, 64), (64, 128), (128, 64)])
def test_places_of_operands_of_ranges(k: int, n: int):
    """Those that a range has computed were used by the next one, which had not computed them."""
    (op,) = gemms_of(parse_module(biased_ranges(ping_pong(stages=6), k, n)))
    (compiled,) = compile_kernels([emit_gemm(op, NameAllocator())], "sm_90", "ptx")
    assert not ambiguous_places(compiled.text)


def test_ahead_of_time():
    """No spills, the widest products, registers moved from the warp that loads to the others."""
    texts = [
        programs.residual_norm("bf16", 2048, 2048, schedule()),
        programs.swiglu("bf16", 2048, 5632, schedule(stages=4)),
        gradients.merged_weight_gradients("bf16", 2048, (2048, 512), schedule()),
        programs.residual_norm("bf16", 2048, 2048, ping_pong("64x256")),
        programs.residual_norm("bf16", 2048, 1152, schedule(192)),
        programs.lm_head("bf16", 2048, 32000, schedule()),
        gradients.swiglu_gradient("bf16", (2048,), 5632, schedule()),
        gradients.norm_gradient(2048, 5632, schedule(), normed=False),
    ]
    names = NameAllocator()
    kernels = [emit_gemm(op, names) for text in texts for op in gemms_of(parse_module(text))]
    for kernel, compiled in zip(kernels, compile_kernels(kernels, "sm_90", "ptx"), strict=True):
        assert compiled.resources.spills == 0, compiled.resources
        assert compiled.resources.shared_memory <= SHARED_MEMORY
        widest = (64, 128) if "in_pieces" in kernel.source else (256,)
        for columns in widest:
            assert f"wgmma.mma_async.sync.aligned.m64n{columns}k16.f32.bf16" in compiled.text
        assert "setmaxnreg.dec.sync.aligned.u32 \t24" in compiled.text
        # Two neighbours in float32 are eight bytes; what changes its layout is read by sixteen.
        vectors = {"v2"} if "FP32" in "".join(kernel.constants) else set[str]()
        assert set(re.findall(r"ld\.shared\.(v\d)", compiled.text)) <= vectors
