"""Programs beside the library's GEMMs and a compiler's kernels, by estimates."""

import pytest
from xdsl.dialects.builtin import UnitAttr

import coda_ir
from coda_ir.cost_model import DEVICES
from coda_ir.cost_model.attention import idle_factor
from coda_ir.cost_model.comparison import (
    HOST,
    Estimates,
    compare,
    connected,
    decomposed_attention_us,
)
from coda_ir.cost_model.copies import COPY_EFFICIENCY
from coda_ir.cost_model.library_gemm import (
    UNALIGNED,
    VECTOR_EFFICIENCY,
    LibraryGemm,
    products_us,
)
from coda_ir.cost_model.memory_times import KERNEL_US, kernel_us, moving_us, traffic
from coda_ir.cost_model.operator_times import (
    CALL_PASSES,
    COLUMN_SCAN_PASSES,
    FUNCTION_INSTRUCTIONS,
    GRADIENT_PRODUCTS,
    SCAN_PASSES,
    SORTED_US,
    SUM_PASSES,
    TOPK_US,
    UNALIGNED_BYTES,
    OperatorTimes,
)
from coda_ir.cost_model.packed_products import packed_products, saved_us
from coda_ir.cost_model.tables import (
    ATOMIC_US,
    ORDERED_US,
    SPREAD_US,
    SUM_US,
    TABLE_ROWS,
    TABLE_US,
    WARP,
    table_us,
)
from coda_ir.dialects import coda
from coda_ir.functions import functions_of
from coda_ir.lowering import Lowering
from coda_ir.options import CompileOptions
from coda_ir.storage import BOXED
from coda_ir.symbolic_shapes import SymbolicShapes

SM_90 = DEVICES["sm_90"]
SCHEDULE = "target=sm_90 mainloop=warp_specialized"

MLP = """
const D = {d}
const F = {f}
fn mlp(x: bf16[{rows}, D], weight g: bf16[F, D], weight u: bf16[F, D], weight w: bf16[D, F],
       weight n: bf16[D]) -> bf16[{rows}, D] {{
    h = rms_norm(x, n)
    return x + linear(silu(linear(h, g)) * linear(h, u), w)
}}
"""

ADAPTIVE = """
const D = 1152
fn block(x: bf16[8, 1024, D], weight w: bf16[4 * D, D], weight v: bf16[D, 4 * D],
         scale: bf16[8, 1, D], gate: bf16[8, 1, D]) -> bf16[8, 1024, D] {
    h = layer_norm(x) * scale
    return x + gate * linear(gelu_tanh(linear(h, w)), v)
}
"""


BOTTLENECK = """
fn f(x: bf16[4096, 16384], weight w: bf16[320, 16384], weight v: bf16[16384, 320])
    -> bf16[4096, 16384] {
    y = linear(silu(linear(x, w)), v)
    return linear(silu(linear(y, w)), v)
}
"""


def comparison_of(text: str, leftovers: str = "kernels") -> Estimates:
    options = CompileOptions(SCHEDULE, leftovers=leftovers)  # pyright: ignore[reportArgumentType]
    lowering = Lowering(coda_ir.parse(text), options)
    ((name, before),) = functions_of(lowering.module("block")).items()
    after = functions_of(lowering.module("scheduled"))
    return compare(before, after[name], after, SM_90)


@pytest.mark.parametrize(
    "rows, columns, depth, measured_us",
    [
        (2048, 1152, 1152, 10.3),
        (2048, 4608, 1152, 33.5),
        (4096, 6144, 1536, 106),
        (8192, 3072, 768, 58),
        (4096, 32000, 4096, 1418),
    ],
)
def test_the_library_takes_about_what_it_took(
    rows: int, columns: int, depth: int, measured_us: float
):
    """cuBLAS on one H100, in the models of benchmarks/fleet."""
    found = LibraryGemm(rows, columns, depth, 2, SM_90)
    assert found.us == pytest.approx(measured_us, rel=0.1)


HEAD = """
fn f(x: bf16[4096, 768], weight w: bf16[{columns}, 768]) -> bf16[4096, {columns}] {{
    return linear(x, w)
}}
"""


@pytest.mark.parametrize(
    ("columns", "measured_us", "padded_us"), [(50257, 3301, 508), (50258, 1279, 508)]
)
def test_the_library_is_slow_for_unaligned_rows(columns: int, measured_us: int, padded_us: int):
    """On an H100; a compiler pads the weight first."""
    module = coda_ir.parse(HEAD.format(columns=columns))
    (func,) = functions_of(module).values()
    (op,) = (op for op in func.body.block.ops if isinstance(op, coda.LinearOp))
    times = OperatorTimes.of(func, SM_90)
    assert times.library_us(op) == pytest.approx(measured_us, rel=0.06)
    assert times.library_us(op, is_compiled=True) == pytest.approx(padded_us, rel=0.06)


@pytest.mark.parametrize("columns, depth, measured_us", [(1536, 2048, 2608), (2048, 768, 1551)])
def test_rows_in_groups_take_about_what_they_took(columns: int, depth: int, measured_us: float):
    """`torch._grouped_mm` on one H100: 32768 tokens, each for 8 of 128 experts."""
    found = LibraryGemm(262144, columns, depth, 2, SM_90, 128)
    assert found.us == pytest.approx(measured_us, rel=0.15)
    assert LibraryGemm(128, columns, depth, 2, SM_90, 128).us > 1000 * 2 * 128 * columns * depth / (
        1e6 * SM_90.memory_gb_per_s
    )


def test_small_results_of_deep_products_are_shared():
    """One program would take as many steps as there are, the tile of 64 x 64 with the rest idle."""
    deep = LibraryGemm(128, 128, 65536, 2, SM_90)
    alone = 2 * 64 * 64 * 65536 * SM_90.processors / (1e6 * SM_90.matrix_tflops)
    assert deep.us < alone / 4


def test_float32_is_slower():
    assert (
        LibraryGemm(4096, 4096, 4096, 4, SM_90).us > 10 * LibraryGemm(4096, 4096, 4096, 2, SM_90).us
    )


def test_the_host_takes_longer_in_training():
    """A boxed function is a backward program."""
    module = Lowering(coda_ir.parse(MLP.format(d=64, f=64, rows=16)), CompileOptions(SCHEDULE))
    ((name, before),) = functions_of(module.module("block")).items()
    after = functions_of(module.module("scheduled"))
    plain = compare(before, after[name], after, SM_90)
    before.attributes[BOXED] = UnitAttr()
    trained = compare(before, after[name], after, SM_90)
    assert trained.fused > plain.fused
    assert trained.apart > plain.apart


def test_a_large_mlp_is_better_fused():
    found = comparison_of(MLP.format(d=4096, f=11008, rows=8192))
    assert found.fused < found.apart


def test_a_narrow_bottleneck_is_better_apart():
    """The library has tiles of 160 columns and programs that share a deep product."""
    found = comparison_of(BOTTLENECK)
    assert found.apart < found.fused


def test_a_compiler_computes_again_what_a_product_reads_as_well():
    """Its kernel stores what the product reads, and the other kernel reads only z and dy."""
    text = """
    func.func @f(%z: TENSOR, %x: TENSOR, %w: TENSOR) -> (TENSOR, TENSOR) {
      %t = coda.tanh %z : (TENSOR) -> TENSOR
      %s = coda.tanh %t : (TENSOR) -> TENSOR
      %p = coda.matmul %s, %w : (TENSOR, TENSOR) -> TENSOR
      %d = coda.matmul %x, %w : (TENSOR, TENSOR) -> TENSOR
      %g = coda.mul %d, READ : (TENSOR, TENSOR) -> TENSOR
      func.return %p, %g : TENSOR, TENSOR
    }
    """.replace("TENSOR", "tensor<8192x8192xbf16>")
    again, argument = (comparison_of(text.replace("READ", f"%{x}")) for x in ("t", "z"))
    stored_us = moving_us(2 * 8192 * 8192, SM_90)
    assert again.apart_gpu - argument.apart_gpu < 0.1 * stored_us


def test_long_pointwise_code_takes_as_long_as_its_instructions():
    text = "fn f(x: bf16[4096, 4096]) -> bf16[4096, 4096] { return y }"
    code = ["x"]
    for _ in range(8):
        code.append(f"tanh({code[-1]})")
    code[0] = "x * 2"
    short, few, many = (comparison_of(text.replace("y", code[n])).fused_gpu for n in (0, 4, 8))
    assert short == kernel_us(4 * 4096 * 4096, SM_90)
    assert many - few > 0.8 * few > 2 * short


def test_a_graph_counts_its_programs():
    kernels, graph = (comparison_of(ADAPTIVE, how) for how in ("kernels", "inductor"))
    assert kernels.apart == graph.apart
    assert graph.fused > 0


BESIDE_GEMM = """
fn f(x: bf16[512, 128, 4096], h: bf16[8, 64], weight w: bf16[64, 64]) {{
    return linear(h, w), {call}
}}
"""


def test_partials_of_pointwise_kernels_have_few_tiles():
    """Those of the statistics are not taken for as many as a symbol stands for."""
    found = comparison_of("""
fn f(x: bf16[12000, 1024], y: bf16[12000, 1024], weight w: bf16[1024, 1024],
     weight n: bf16[1024], weight b: bf16[1024]) -> bf16[12000, 1024] {
    return linear(layer_norm(x + y, n, b), w)
}
""")
    assert found.fused < found.apart


def test_a_convolution_is_not_joined_with_what_follows():
    one, two = (
        comparison_of(f"""
fn f(x: bf16[128, 256, 4096], h: bf16[8, 64], weight w: bf16[64, 64], k: bf16[256, 256, 3]) {{
    return linear(h, w), {call}
}}
""")
        for call in ("convolution(x, k, padding=[1])", "relu(convolution(x, k, padding=[1]))")
    )
    kernel = kernel_us(2**29, SM_90)
    assert two.apart_gpu - one.apart_gpu == pytest.approx(kernel)
    assert two.fused_gpu - one.fused_gpu == pytest.approx(kernel)


@pytest.mark.parametrize("view", ["{}", "reshape({}, [65536, 4096])", "transpose({})"])
def test_a_compiler_joins_operators_through_views(view: str):
    joined = comparison_of(BESIDE_GEMM.format(call=f"cumsum({view.format('relu(x)')})"))
    assert joined.apart == comparison_of(BESIDE_GEMM.format(call="cumsum(x)")).apart


def test_a_compiler_reads_a_tensor_once_for_operators_of_as_many_elements():
    one, two = (comparison_of(BESIDE_GEMM.format(call=f)) for f in ("relu(x)", "relu(x), silu(x)"))
    assert two.apart - one.apart == pytest.approx(moving_us(2**29, SM_90))


DERIVATIVE = """
func.func @f(%x: tensor<512x128x4096xbf16>, %dy: tensor<512x128x4096xbf16>, %h: tensor<8x64xbf16>,
             %w: tensor<64x64xbf16> {coda.weight})
    -> (tensor<8x64xbf16>, tensor<512x128x4096xbf16>) {
  %y = coda.linear %h, %w : (tensor<8x64xbf16>, tensor<64x64xbf16>) -> tensor<8x64xbf16>
  %dx = torch.vjp "aten.cumsum.default"(%x : tensor<512x128x4096xbf16>)
    of(%dy : tensor<512x128x4096xbf16>) {arguments = "{0}, -1", of = [0], wrt = [0]}
    -> tensor<512x128x4096xbf16>
  func.return %y, %dx : tensor<8x64xbf16>, tensor<512x128x4096xbf16>
}
"""


def test_library_calls_of_two_kernels():
    """A compiler reads the operand of a norm of groups twice; PyTorch computes again what it
    differentiates.
    """
    one, norm = (
        comparison_of(BESIDE_GEMM.format(call=call))
        for call in ("relu(x)", "group_norm(x, groups=8)")
    )
    derivative = comparison_of(DERIVATIVE)
    one_us, two_us, three_us = (kernel_us(n * 2**29, SM_90) for n in (1, 2, 3))
    assert norm.apart - one.apart == pytest.approx(one_us)
    assert derivative.fused - one.fused == pytest.approx(three_us)
    assert derivative.apart - one.apart == pytest.approx(three_us - two_us)


def test_a_compiler_computes_cheap_code_again_where_it_is_read():
    """In both kernels between products, instead of a kernel that stores it for them; not what a
    program returns, what exceeds the tensors that it reads again, or reductions.
    """
    text = """
fn f(x: bf16[8192, 1024], a: bf16[8192, 1024], b: bf16[8192, 1024], c: bf16[8192, 1024],
     d: bf16[8192, 1024], weight w: bf16[1024, 1024]) {{
    h = {}
    y = silu(linear(x, w)) * h
    return silu(linear(y, w)) * h{}
}}
"""

    def kernels(code: str, more: str = "") -> float:
        (func,) = functions_of(coda_ir.parse(text.format(code, more))).values()
        found = compare(func, func, {}, SM_90).apart_host
        return (found - HOST.base - HOST.graph - 2 * HOST.library) / HOST.compiled

    assert kernels("x") == kernels("relu(x)") == kernels("x + a + b + c") == 2
    assert kernels("relu(x)", ", h") == kernels("x + a + b + c + d") == kernels("softmax(x)") == 3


def test_running_sums_take_longer_in_a_program():
    one, rows, columns = (
        comparison_of(BESIDE_GEMM.format(call=call))
        for call in ("relu(x)", "cumsum(x)", "cumsum(x, dim=0)")
    )
    assert rows.apart == columns.apart == pytest.approx(one.apart)
    for sums, passes in ((rows, SCAN_PASSES), (columns, COLUMN_SCAN_PASSES)):
        assert sums.fused - one.fused == pytest.approx(moving_us((passes - 1) * 2**30, SM_90))


NORM_OF_TWO_DIMENSIONS = """
func.func @f(%x: {type}) -> {type} {{
  %y = torch.call "aten.layer_norm.default"(%x) {{arguments = "{{0}}, [4, 8]"}} : ({type}) -> {type}
  func.return %y : {type}
}}
"""


def test_sums_of_rows_take_longer_in_a_program():
    (func,) = functions_of(coda_ir.parse(SUMMED)).values()
    (op,) = (op for op in func.body.block.ops if isinstance(op, coda.SumToOp))
    times = OperatorTimes.of(func, SM_90)
    moved = times.traffic([op])
    assert times.call_us(op, is_compiled=True) == kernel_us(moved, SM_90)
    assert times.call_us(op) == kernel_us(int(SUM_PASSES * moved), SM_90)


@pytest.mark.parametrize(("rows", "passes"), [(9, 100), (450, CALL_PASSES)])
def test_norms_of_few_rows_take_longer_in_a_program(rows: int, passes: int):
    text = NORM_OF_TWO_DIMENSIONS.format(type=f"tensor<{rows}x4x8xf32>")
    (func,) = functions_of(coda_ir.parse(text)).values()
    op, _ = func.body.block.ops
    times = OperatorTimes.of(func, SM_90)
    assert times.call_us(op) == kernel_us(passes * times.traffic([op]), SM_90)


@pytest.mark.parametrize(
    ("call", "sizes", "program_us", "compiler_us"),
    [
        ("group_norm(x, groups=32)", "2, 512, 64, 64", 49.2, None),
        ("group_norm(x, groups=32)", "2, 1280, 32, 32", 35.1, None),
        ("group_norm(x, groups=32)", "4, 320, 64, 64", 41.2, None),
        ("convolution(x, k, padding=[1, 1])", "2, 512, 64, 64", 80.8, 56.7),
        ("convolution(x, k, padding=[1, 1])", "2, 1280, 32, 32", 176, 105),
    ],
)
def test_calls_for_images_take_about_what_they_took(
    call: str, sizes: str, program_us: float, compiler_us: float | None
):
    """On one H200."""
    channels = sizes.split(", ")[1]
    text = f"""
fn f(x: bf16[{sizes}], k: bf16[{channels}, {channels}, 3, 3]) {{
    return {call}
}}
"""
    (func,) = functions_of(coda_ir.parse(text)).values()
    op, _ = func.body.block.ops
    times = OperatorTimes.of(func, DEVICES["h200"])
    assert times.call_us(op) == pytest.approx(program_us, rel=0.25)
    if compiler_us is not None:
        assert times.call_us(op, is_compiled=True) == pytest.approx(compiler_us, rel=0.25)


def test_a_kernel_finds_activations_in_the_cache():
    """On an H100, after the kernel that stored them."""
    for bytes, measured_us in ((17e6, 4.4), (34e6, 8.2), (67e6, 20), (226e6, 73)):
        assert kernel_us(int(bytes), SM_90) == pytest.approx(measured_us, abs=3.5)


SCANNED = """
fn f(
    x: bf16[8, LENGTH, 256], dt: bf16[8, LENGTH, COLUMNS], a: f32[RATES],
    b: bf16[8, LENGTH, 16], c: bf16[8, LENGTH, 16], weight w: bf16[64, 256],
) {
    return linear(x, w), SCAN
}
"""


@pytest.mark.parametrize(
    ("scan", "columns", "rates"),
    [
        ("ssd(x, dt, a, b, c, states=16)", 4, "4"),
        ("selective_scan(x, dt, a, b, c)", 256, "256, 16"),
    ],
)
def test_scans_grow_with_their_length(scan: str, columns: int, rates: str):
    """Apart, a compiler moves states; here they stay on chip."""
    text = SCANNED.replace("SCAN", scan).replace("COLUMNS", str(columns)).replace("RATES", rates)
    short, long = (comparison_of(text.replace("LENGTH", str(n))) for n in (2**15, 2**17))
    assert long.apart > 2 * short.apart
    assert long.fused < long.apart


def test_groups_are_connected_where_they_may_be():
    module = coda_ir.parse("""
        fn f(x: bf16[4, 8], y: bf16[4, 8]) -> (bf16[4, 8], bf16[4, 8]) {
            a = silu(x)
            return a + y, relu(y)
        }""")
    (func,) = functions_of(module).values()
    ops = [op for op in func.body.block.ops if isinstance(op, coda.ElementwiseOp)]
    silu, add, relu = sorted(
        ops, key=lambda op: ["coda.silu", "coda.add", "coda.relu"].index(op.name)
    )
    assert connected(ops, lambda a, b: True) == [[silu, add], [relu]]
    assert connected(ops, lambda a, b: False) == [[silu], [add], [relu]]
    assert connected(ops, lambda a, b: False, [(relu, silu)]) == [[silu, relu], [add]]
    shapes = SymbolicShapes(func)
    assert traffic([silu, add], shapes) == 3 * 4 * 8 * 2
    assert traffic([silu], shapes) + traffic([add], shapes) == 5 * 4 * 8 * 2


def test_attention_with_scores_grows_with_them():
    assert decomposed_attention_us(2**24, 64, SM_90) == pytest.approx(
        2 * decomposed_attention_us(2**23, 64, SM_90)
    )


ATTENDED = """
fn f(x: bf16[8, 128, 256], mask: TYPE[128, 128], weight w: bf16[256, 256]) -> bf16[8, 128, 256] {
    y = linear(x, w)
    return ATTENTION
}
"""
CALLED = (
    "func.func @f(%x: tensor<8x4x128x64xbf16>, %m: tensor<128x128xbf16>, %h: tensor<8x64xbf16>, "
    "%w: tensor<64x64xbf16> {coda.weight}) -> (tensor<8x64xbf16>, tensor<8x4x128x64xbf16>) {\n"
    "%y = coda.linear %h, %w : (tensor<8x64xbf16>, tensor<64x64xbf16>) -> tensor<8x64xbf16>\n"
    '%a = torch.call "aten.scaled_dot_product_attention.default"(%x, %m) '
    '{arguments = "{0}, {0}, {0}, {1}"} : (tensor<8x4x128x64xbf16>, tensor<128x128xbf16>) '
    "-> tensor<8x4x128x64xbf16>\n"
    "func.return %y, %a : tensor<8x64xbf16>, tensor<8x4x128x64xbf16>\n}"
)


@pytest.mark.parametrize(
    ("type", "attention", "is_left"),
    [
        ("bf16", "attention(y, y, y, head_dim=64, mask=mask)", True),
        ("f32", "attention(y, y, y, head_dim=64, mask=mask)", False),
        ("bf16", "attention(y, y, y, head_dim=64, causal=true)", False),
    ],
)
def test_masked_attention_that_pytorch_keeps(type: str, attention: str, *, is_left: bool):
    """A mask of another type has a kernel of this compiler."""
    found = comparison_of(ATTENDED.replace("TYPE", type).replace("ATTENTION", attention))
    assert found.masked == (decomposed_attention_us(8 * 4 * 128 * 128, 64, SM_90) if is_left else 0)


def test_a_call_of_masked_attention_counts_as_the_operator():
    assert comparison_of(CALLED).masked == decomposed_attention_us(8 * 4 * 128 * 128, 64, SM_90)


DECOMPOSED = """
func.func @f(%q: tensor<64x512x1024xbf16>, %w: tensor<1024x1024xbf16> {coda.weight})
    -> tensor<64x512x1024xbf16> {
  %y = coda.linear %q, %w : (tensor<64x512x1024xbf16>, tensor<1024x1024xbf16>)
    -> tensor<64x512x1024xbf16>
  %a, %l = coda.attention %y, %y, %y {WIDE head_dim = 64 : i64, causal = true} :
    (tensor<64x512x1024xbf16>, tensor<64x512x1024xbf16>, tensor<64x512x1024xbf16>)
    -> tensor<64x512x1024xbf16> lse tensor<64x16x512xf32>
  %dq, %dk, %dv = coda.attention_grad %q, %a, %l, %y, %y, %y {WIDE head_dim = 64 : i64,
    causal = true} : (tensor<64x512x1024xbf16>, tensor<64x512x1024xbf16>, tensor<64x16x512xf32>,
    tensor<64x512x1024xbf16>, tensor<64x512x1024xbf16>, tensor<64x512x1024xbf16>)
    -> (tensor<64x512x1024xbf16>, tensor<64x512x1024xbf16>, tensor<64x512x1024xbf16>)
  func.return %dq : tensor<64x512x1024xbf16>
}
"""


def test_a_compiler_stores_scores_that_were_decomposed_in_float32():
    plain, wide = (
        comparison_of(DECOMPOSED.replace("WIDE", w)) for w in ("", "coda.decomposed = f32,")
    )
    decomposed = decomposed_attention_us(64 * 16 * 512 * 512, 64, SM_90, products=1)
    assert wide.apart - plain.apart == pytest.approx((1 + GRADIENT_PRODUCTS) * decomposed)
    assert 0 < wide.fused - plain.fused < decomposed, "a product for the exact moment"


@pytest.mark.parametrize(
    ("sizes", "options", "measured_us"),
    [
        ("2, 2048, 2048", "head_dim=128", 109),
        ("2, 2048, 2048", "head_dim=128, causal=true", 82),
        ("2, 2048, 2048", "head_dim=128, mask=m", 210),
        ("2, 2048, 2048", "head_dim=128, mask=m, causal=true", 210),
        ("16, 1025, 1024", "head_dim=64", 225),
    ],
)
def test_attention_takes_about_what_it_took(sizes: str, options: str, measured_us: float):
    """cuDNN on one H100, in blocks of 16 heads."""
    module = coda_ir.parse(f"""
fn f(x: bf16[{sizes}], m: bf16[2048, 2048]) -> bf16[{sizes}] {{
    return attention(x, x, x, {options})
}}
""")
    (func,) = functions_of(module).values()
    (op,) = (op for op in func.body.block.ops if isinstance(op, coda.AttentionOp))
    times = OperatorTimes.of(func, SM_90)
    assert times.attention_us(op) + times.masked_us(op) == pytest.approx(measured_us, rel=0.12)


FEW_TOKENS = """
fn f(x: bf16[4096, {rows}, 256], weight w: bf16[256, 256]) {{
    y = linear(x, w)
    return attention(y, y, y, head_dim=64)
}}
"""


def test_a_compiler_stores_scores_where_a_model_writes_products():
    """Attention of few tokens takes a tile for each head instead. Unaligned keys are slow."""

    def found(rows: int, *, is_decomposed: bool = True) -> Estimates:
        text = str(coda_ir.parse(FEW_TOKENS.format(rows=rows)))
        mark = "{coda.decomposed = bf16, head_dim" if is_decomposed else "{head_dim"
        return comparison_of(text.replace("{head_dim", mark))

    tiles_us = 4 * 4096 * 4 * 128 * 128 * 64 / (1e6 * SM_90.matrix_tflops)
    assert found(16).fused_gpu > tiles_us > found(16).apart_gpu
    assert found(16, is_decomposed=False).apart_gpu > tiles_us
    stored = moving_us(8 * 4096 * 4 * 128 * 128, SM_90)
    assert found(128).apart_gpu - found(128).fused_gpu > stored / 2
    assert found(129).apart_gpu > 1.5 * found(128).apart_gpu


def test_gradients_of_attention_take_longer_if_their_tiles_do_not_occupy_the_gpu():
    assert idle_factor(96, 128, 1024) == idle_factor(96, 16, 1024) == (100 / 96 + 1) / 2
    assert idle_factor(2, 1024) == 100 / 16
    assert idle_factor(512, 128) == 1


@pytest.mark.parametrize(("type", "passes"), [("bool", (11, 3)), ("bf16", (0, 0))])
def test_attention_makes_numbers_of_truth_values(type: str, passes: tuple[int, int]):
    text = f"""
fn f(x: bf16[2, 1024, 1024], m: {type}[2, 8, 1024, 1024]) -> bf16[2, 1024, 1024] {{
    return attention(x, x, x, head_dim=128, mask=m)
}}
"""
    (func,) = functions_of(coda_ir.parse(text)).values()
    (op,) = (op for op in func.body.block.ops if isinstance(op, coda.AttentionOp))
    times = OperatorTimes.of(func, SM_90)
    for is_compiled, count in zip((False, True), passes, strict=True):
        us = times.masked_us(op, is_compiled=is_compiled) - times.attention_us(op)
        assert us == pytest.approx(moving_us(count * 2 * 8 * 1024**2, SM_90))


def test_pytorch_has_no_kernel_for_masked_heads_of_odd_widths():
    found, narrow = (
        comparison_of(f"""
fn f(x: bf16[8, 256, {16 * width}], m: bf16[256, 256], h: bf16[8, 64], weight w: bf16[64, 64]) {{
    return linear(h, w), attention(x, x, x, head_dim={width}, mask=m)
}}
""")
        for width in (12, 8)
    )
    scores_us = moving_us(UNALIGNED_BYTES * 8 * 16 * 256 * 256, SM_90)
    assert found.fused_gpu - narrow.fused_gpu > 0.9 * scores_us
    assert found.apart_gpu - narrow.apart_gpu < 0.1 * scores_us


SUMMED = """
func.func @f(%x: tensor<4096x8192xbf16>) -> tensor<8192xbf16> {
  %s = coda.sum_to %x : (tensor<4096x8192xbf16>) -> tensor<8192xbf16>
  func.return %s : tensor<8192xbf16>
}
"""


@pytest.mark.parametrize(
    ("call", "functions"), [("relu(x)", 0), ("gelu(x)", 1), ("softmax(x)", 1), ("gelu(silu(x))", 2)]
)
def test_a_compiler_computes_functions_at_most_as_fast_as_its_kernels_move_bytes(
    call: str, functions: int
):
    found, moved = (comparison_of(BESIDE_GEMM.format(call=c)).apart_gpu for c in (call, "relu(x)"))
    computing = functions * FUNCTION_INSTRUCTIONS * 2**28 / (0.5e6 * SM_90.vector_tflops)
    expected = max(0.0, computing + KERNEL_US - kernel_us(2**30, SM_90))
    assert found - moved == pytest.approx(expected)


def test_a_compiler_leaves_the_largest_of_rows_to_pytorch():
    text = """
fn f(x: bf16[64, {}, {}], h: bf16[8, 64], weight w: bf16[64, 64]) {{
    largest, _ids = topk(x, 4)
    return linear(h, w), largest
}}
"""
    many, few = (comparison_of(text.format(*shape)).apart_gpu for shape in ((512, 64), (64, 512)))
    assert many - few == pytest.approx(TOPK_US * 64 * (512 - 64), rel=0.01)


PACKED = """
func.func @f(%x: tensor<4096x1024xbf16>, %y: tensor<4096x1024xbf16>, %w: tensor<2048x1024xbf16>)
    -> (tensor<4096x1024xbf16>, tensor<4096x1024xbf16>, tensor<2048x1024xbf16>) {
  %u = coda.slice %w {dim = 0 : i64, start = 0 : i64, stop = 1024 : i64} :
    (tensor<2048x1024xbf16>) -> tensor<1024x1024xbf16>
  %v = coda.slice %w {dim = 0 : i64, start = 1024 : i64, stop = 2048 : i64} :
    (tensor<2048x1024xbf16>) -> tensor<1024x1024xbf16>
  %a = coda.linear %x, %u : (tensor<4096x1024xbf16>, tensor<1024x1024xbf16>)
    -> tensor<4096x1024xbf16>
  %b = coda.linear OF, %v : (tensor<4096x1024xbf16>, tensor<1024x1024xbf16>)
    -> tensor<4096x1024xbf16>
  %c = coda.matmul %a, %u : (tensor<4096x1024xbf16>, tensor<1024x1024xbf16>)
    -> tensor<4096x1024xbf16>
  %d = coda.matmul %b, %v : (tensor<4096x1024xbf16>, tensor<1024x1024xbf16>)
    -> tensor<4096x1024xbf16>
  %s = coda.add %c, %d : (tensor<4096x1024xbf16>, tensor<4096x1024xbf16>) -> tensor<4096x1024xbf16>
  %e = coda.weight_gradient %a, %x : (tensor<4096x1024xbf16>, tensor<4096x1024xbf16>)
    -> tensor<1024x1024xbf16>
  %g = coda.weight_gradient %b, %x : (tensor<4096x1024xbf16>, tensor<4096x1024xbf16>)
    -> tensor<1024x1024xbf16>
  %h = coda.concat %e, %g {dim = 0 : i64} : (tensor<1024x1024xbf16>, tensor<1024x1024xbf16>)
    -> tensor<2048x1024xbf16>
  func.return %b, %s, %h : tensor<4096x1024xbf16>, tensor<4096x1024xbf16>, tensor<2048x1024xbf16>
}
"""


@pytest.mark.parametrize("of", ["%x", "%y"])
def test_a_compiler_multiplies_by_a_packed_weight_once(of: str):
    """Then, the columns, the depth or the rows of the parts add up; not those of other rows."""
    (func,) = functions_of(coda_ir.parse(PACKED.replace("OF", of))).values()
    times = OperatorTimes.of(func, SM_90)
    found = {group[0].name: saved_us(group, times) for group in packed_products(func.body.block)}
    sizes = {
        "coda.linear": ((4096, 1024, 1024), (4096, 2048, 1024)),
        "coda.matmul": ((4096, 1024, 1024), (4096, 1024, 2048)),
        "coda.weight_gradient": ((1024, 1024, 4096), (2048, 1024, 4096)),
    }
    saved = {
        name: 2 * LibraryGemm(*part, 2, SM_90).us - LibraryGemm(*whole, 2, SM_90).us
        for name, (part, whole) in sizes.items()
    }
    if of != "%x":
        del saved["coda.linear"]
    assert found == pytest.approx(saved)


def test_a_compiler_sums_rows_in_two_kernels():
    """Launches of both take the host 18 us, in a graph of 60."""
    (func,) = functions_of(coda_ir.parse(SUMMED)).values()
    assert compare(func, func, {}, SM_90).apart == HOST.base + 60 + 2 * 18


def test_batches_of_products_take_as_long_as_their_operations():
    """Without tensor cores for float32; the bytes are those of a kernel of float32 in both."""
    text = """
fn f(x: TYPE[32, 2048, DEPTH], h: bf16[8, 64], weight w: bf16[64, 64]) {
    return linear(h, w), x @ transpose(x)
}
"""
    few, many = (
        comparison_of(text.replace("TYPE", "f32").replace("DEPTH", str(depth)))
        for depth in (512, 1024)
    )
    added_us = 2 * 32 * 2048**2 * 512 / (1e6 * VECTOR_EFFICIENCY * SM_90.vector_tflops)
    assert many.apart - few.apart == pytest.approx(added_us)
    assert many.fused - few.fused == pytest.approx(added_us)


@pytest.mark.parametrize("rows", [8, 5, 1])
def test_products_of_small_matrices(rows: int):
    """The library fills few of its tiles, and compilers pad rows; an own kernel moves its bytes, as
    the library's for vectors does.
    """
    text = f"fn f(x: bf16[2048, {rows}, 8], y: bf16[2048, 8, 1024]) {{ return x @ y }}"
    (func,) = functions_of(coda_ir.parse(text)).values()
    found = compare(func, func, {}, SM_90)
    moving = kernel_us(2 * 2048 * (8 * rows + 1024 * (8 + rows)), SM_90)
    library = products_us(2048, (rows, 1024, 8), SM_90, is_f32=False)
    padding = kernel_us(2 * 2 * 2048 * 8 * rows, SM_90) if rows == 5 else 0.0
    assert found.fused_gpu == moving
    assert found.apart_gpu == pytest.approx(max(moving, library + padding))


def test_large_products_without_aligned_rows():
    """They take longer by their operations; compilers pad them."""
    text = "fn f(x: bf16[64, 512, 273], y: bf16[64, 273, 512]) { return x @ y }"
    (func,) = functions_of(coda_ir.parse(text)).values()
    found = compare(func, func, {}, SM_90)
    library = products_us(64, (512, 512, 273), SM_90, is_f32=False)
    padding = 2 * kernel_us(2 * 2 * 64 * 512 * 273, SM_90)
    assert found.fused_gpu == pytest.approx(UNALIGNED[2] * library)
    assert found.apart_gpu == pytest.approx(library + padding)


ADDED = (
    "func.func @f(%x: tensor<8x64xbf16>, %i: tensor<SIZEx64xi64>, %s: tensor<SIZEx64xbf16>, "
    "%w: tensor<64x64xbf16> {coda.weight}) -> (tensor<8x64xbf16>, tensor<8x64xbf16>) {\n"
    "%y = coda.linear %x, %w : (tensor<8x64xbf16>, tensor<64x64xbf16>) -> tensor<8x64xbf16>\n"
    '%a = torch.call "aten.CALL"(%x, %i, %s) {arguments = "{0}, 0, {1}, {2}"} : '
    "(tensor<8x64xbf16>, tensor<SIZEx64xi64>, tensor<SIZEx64xbf16>) -> tensor<8x64xbf16>\n"
    "func.return %y, %a : tensor<8x64xbf16>, tensor<8x64xbf16>\n}"
)


def test_sums_at_indices_are_sorted_in_programs_only():
    """`scatter` without a sum gives the same bits anyway; PyTorch moves its bytes several times."""

    def found(call: str, size: int) -> Estimates:
        return comparison_of(ADDED.replace("CALL", call).replace("SIZE", str(size)))

    size = 2**16
    added, put = (found(call, size) for call in ("scatter_add.default", "scatter.src"))
    assert added.fused_gpu - put.fused_gpu == pytest.approx(SORTED_US * size * 64, rel=0.05)
    assert added.apart_gpu == put.apart_gpu
    small, large = (found("scatter.src", size) for size in (2**20, 2**21))
    compiled = large.apart_gpu - small.apart_gpu
    assert large.fused_gpu - small.fused_gpu == pytest.approx(CALL_PASSES * compiled)


GRADIENT = """
func.func @f(%q: tensor<Bx512x1024xbf16>, %l: tensor<Bx16x512xf32>, %m: tensor<512x512xbf16>)
    -> tensor<Bx512x1024xbf16> {
  %dq, %dk, %dvDM = coda.attention_grad %q, %q, %l, %q, %q, %q mask(%m : tensor<512x512xbf16>)
    {head_dim = 64 : i64, causal = false} : (tensor<Bx512x1024xbf16>, tensor<Bx512x1024xbf16>,
    tensor<Bx16x512xf32>, tensor<Bx512x1024xbf16>, tensor<Bx512x1024xbf16>, tensor<Bx512x1024xbf16>)
    -> (tensor<Bx512x1024xbf16>, tensor<Bx512x1024xbf16>, tensor<Bx512x1024xbf16>OF)
  func.return %dq : tensor<Bx512x1024xbf16>
}
"""


def test_gradients_of_masks_in_a_fixed_order_leave_processors_idle():
    """A block of threads for each head; a mask that wants no gradient has kernels of its own."""

    def longer(batch: int, name: str, type: str) -> float:
        text = GRADIENT.replace("Bx", f"{batch}x").replace("DM", name).replace("OF", type)
        module = coda_ir.parse(text)
        (func,) = functions_of(module).values()
        (op,) = (op for op in func.body.block.ops if isinstance(op, coda.AttentionGradOp))
        return OperatorTimes.of(func, SM_90).fixed_order_us(op)

    wanted = ", %dm", " mask tensor<512x512xbf16>"
    handled = longer(16, *wanted)
    assert 0 < handled < longer(4, *wanted) < longer(2, *wanted)
    assert longer(2, "", "") == 0


@pytest.mark.parametrize("type", ["i1", "bf16"])
def test_masks_are_read_by_own_kernels(type: str):
    text = GRADIENT.replace("Bx", "2x").replace("DM", "").replace("OF", "")
    text = text.replace("512x512xbf16", f"512x512x{type}").replace("return %dq", "return %dk")
    found = comparison_of(text)
    scores_us = decomposed_attention_us(2 * 16 * 512 * 512, 64, SM_90)
    assert (found.masked, found.read) == (0, GRADIENT_PRODUCTS * scores_us)


TABLE = """
func.func @f(%i: tensor<ROWSxi64>, %d: tensor<ROWSxCxbf16>) -> tensor<4096xCxbf16> {
  %t = coda.embedding_grad %i, %d : (tensor<ROWSxi64>, tensor<ROWSxCxbf16>) -> tensor<4096xCxbf16>
  func.return %t : tensor<4096xCxbf16>
}
"""


def test_sums_in_a_narrow_table_wait_for_each_other():
    """Each number in a graph, and each index in a program; not if rows are as wide as a warp, and
    less if ids are not computed, as from positions.
    """
    rows = 2**18
    spread = TABLE.replace("ROWS", str(rows))
    given, more = (comparison_of(spread.replace("xC", f"x{c}")) for c in (8, 16))
    assert more.apart_gpu - given.apart_gpu == pytest.approx(SPREAD_US * rows * 8, rel=0.2)
    adding = "  %j = coda.add %i, %i : (ROWS, ROWS) -> ROWS\n"
    adding = adding.replace("ROWS", f"tensor<{rows}xi64>")
    text = spread.replace("  %t =", f"{adding}  %t =").replace("grad %i", "grad %j")
    narrow, wider, wide = (comparison_of(text.replace("xC", f"x{c}")) for c in (8, 16, WARP))
    assert wider.apart - narrow.apart == pytest.approx(ATOMIC_US * rows * 8, rel=0.05)
    assert wide.apart < narrow.apart / 2
    assert wide.fused < ORDERED_US * rows < narrow.fused


def test_a_compiler_adds_up_tables_in_float32():
    text = TABLE.replace("ROWS", str(TABLE_ROWS)).replace("xC", "x256")
    (func,) = functions_of(coda_ir.parse(text)).values()
    (op,) = (op for op in func.body.block.ops if isinstance(op, coda.EmbeddingGradOp))
    times = OperatorTimes.of(func, SM_90)
    zeros_and_sums_us = moving_us(2 * 4 * TABLE_ROWS * 256, SM_90)
    found = (table_us(op, times), table_us(op, times, is_compiled=True))
    assert found == (TABLE_US, zeros_and_sums_us)


def test_a_small_table_takes_no_sort():
    text = TABLE.replace("ROWS", "8192").replace("4096xC", "4x64").replace("xC", "x64")
    (func,) = functions_of(coda_ir.parse(text)).values()
    (op,) = (op for op in func.body.block.ops if isinstance(op, coda.EmbeddingGradOp))
    assert table_us(op, OperatorTimes.of(func, SM_90)) == SUM_US * 8192 * 4 * 64 < 1


def test_symbols_have_one_size_in_all_estimates():
    known = comparison_of(MLP.format(d=4096, f=11008, rows=2048))
    unknown = comparison_of(MLP.format(d=4096, f=11008, rows="M"))
    assert (unknown.fused, unknown.apart) == pytest.approx((known.fused, known.apart), rel=0.02)


def test_a_convolution_over_patches_is_slow_in_the_library():
    """The library would run the convolution that was raised to a linear map."""
    text = """
fn f(x: bf16[64, 196, 768], weight w: bf16[768, 768], weight v: bf16[768, 768])
    -> bf16[64, 196, 768] {
    return linear(silu(linear(x, w)), v)
}
"""
    module = coda_ir.parse(text)
    first = next(op for op in module.walk() if isinstance(op, coda.LinearOp))
    times: list[float] = []
    for _ in range(2):
        lowering = Lowering(module.clone(), CompileOptions(SCHEDULE))
        ((name, before),) = functions_of(lowering.module("block")).items()
        after = functions_of(lowering.module("scheduled"))
        times.append(compare(before, after[name], after, SM_90).apart_gpu)
        first.attributes[coda.PATCHES] = UnitAttr()
    assert times[1] - times[0] == pytest.approx(600, rel=0.2)


TRANSPOSED = """
fn f(x: bf16[64, 256, 3136], weight w: bf16[256, 256], weight n: bf16[256]) {{
    return {call}
}}
"""


def test_a_kernel_waits_for_the_copy_of_what_it_reads_transposed():
    """A compiler reads it in place, in the kernel of the norm."""
    found, plain = (
        comparison_of(TRANSPOSED.format(call=f"silu(linear(layer_norm({x}, n), w))"))
        for x in ("transpose(x)", "reshape(x, [64, 3136, 256])")
    )
    assert found.apart_gpu == plain.apart_gpu
    copy_us = kernel_us(2 * 2 * 64 * 256 * 3136, SM_90)
    assert found.fused_gpu - plain.fused_gpu == pytest.approx(copy_us)


SPLIT_HEADS = """
const D = 512
fn f(x: bf16[16, 512, D], weight w: bf16[D, D], k: bf16[{shape}]) {{
    y = linear(x, w)
    q = {q}
    return q @ transpose(k)
}}
"""
HEADS = "transpose(reshape(y, [16, 512, 8, 64]), [0, 2, 1, 3])"


@pytest.mark.parametrize(
    ("shape", "q"), [("128, 512, 64", f"reshape({HEADS}, [{{}}])"), ("16, 8, 512, 64", HEADS)]
)
def test_rows_of_heads_are_copied_where_they_become_a_batch(shape: str, q: str):
    """A product merges the dimensions of its batch. Kernels move them."""
    found, plain = (
        comparison_of(SPLIT_HEADS.format(q=q.format(shape), shape=shape))
        for q in (q, "reshape(y, [{}])")
    )
    copy_us = kernel_us(2 * 2 * 16 * 512 * 512, SM_90)
    assert found.fused_gpu - plain.fused_gpu == pytest.approx(copy_us)
    assert found.apart_gpu - plain.apart_gpu == pytest.approx(copy_us)


def test_concatenations_read_heads_in_place_and_copy_transposed_columns():
    """A compiler's kernel reads both in place."""
    text = """
fn f(x: bf16[16, 512, 512], weight w: bf16[512, 512], y: bf16[16, 8, {rows}, {columns}]) {{
    q = reshape(linear(x, w), [{shape}])
    return concat(y, {q}, dim=2)
}}
"""
    heads, plain, transposed, flat = (
        comparison_of(text.format(q=q, shape=shape, rows=8, columns=columns))
        for q, shape, columns in (
            ("transpose(q, [0, 2, 1, 3])", "16, 512, 8, 64", 64),
            ("q", "16, 8, 512, 64", 64),
            ("transpose(q, [0, 2, 3, 1])", "16, 512, 8, 64", 512),
            ("q", "16, 8, 64, 512", 512),
        )
    )
    copy_us = kernel_us(2 * 2 * 16 * 512 * 512, SM_90)
    assert heads.fused_gpu == plain.fused_gpu
    assert transposed.fused_gpu - flat.fused_gpu == pytest.approx(copy_us)
    assert transposed.apart_gpu == pytest.approx(flat.apart_gpu)


def test_products_of_transposed_rows_need_a_copy_everywhere():
    found, plain = (
        comparison_of(TRANSPOSED.format(call=f"silu(linear({x}, w))"))
        for x in ("transpose(x)", "reshape(x, [64, 3136, 256])")
    )
    assert found.apart - plain.apart > found.fused - plain.fused > 0


def test_products_read_transposed_matrices_in_place():
    """A compiler stores no second copy of what they read transposed."""
    text = """
fn f(x: bf16[512, 512, 512], h: bf16[8, 64], weight w: bf16[64, 64]) {{
    y = relu(x)
    return linear(h, w), x @ {b}
}}
"""
    transposed, plain = (comparison_of(text.format(b=b)) for b in ("transpose(y)", "y"))
    assert transposed.apart == plain.apart


def test_rows_that_kernels_shift_are_read_once():
    shifted, plain = (
        comparison_of(BESIDE_GEMM.format(call=f"relu({x}) + x")) for x in ("shift(x, 1)", "x")
    )
    assert shifted == plain


CHANNELS = """
fn f(x: bf16[512, 512, 512], h: bf16[8, 64], weight w: bf16[64, 64]) {{
    y = relu(x)
    return linear(h, w), {a} @ {b}
}}
"""


def test_the_library_copies_matrices_without_contiguous_rows():
    """Columns are as good as rows. No kernel before a product stores channels apart: both operands
    are copied.
    """
    rows, columns, channels = (
        comparison_of(CHANNELS.format(a=f"transpose(y, {a})", b=f"transpose(y, {b})"))
        for a, b in (
            ("[0, 1, 2]", "[0, 2, 1]"),
            ("[0, 2, 1]", "[1, 0, 2]"),
            ("[2, 0, 1]", "[2, 1, 0]"),
        )
    )
    assert rows == columns
    bytes = 2 * 2 * 512**3
    library_us = KERNEL_US + bytes / (1e3 * COPY_EFFICIENCY * SM_90.memory_gb_per_s)
    assert channels.fused - rows.fused == pytest.approx(2 * kernel_us(bytes, SM_90))
    assert channels.apart - rows.apart == pytest.approx(2 * library_us)
