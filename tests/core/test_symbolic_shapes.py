"""Symbolic sizes and the shape rules that carry symbols through a function."""

import time

import pytest
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    ArrayAttr,
    DictionaryAttr,
    IndexType,
    IntegerAttr,
    ModuleOp,
    NoneAttr,
    StringAttr,
    TensorType,
    bf16,
    f32,
    i1,
    i64,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.parser import Parser

from coda_ir.context import make_context
from coda_ir.dialects import coda
from coda_ir.shape_rules import reshape_dims
from coda_ir.symbolic_shapes import (
    Dims,
    SymbolicShapes,
    SymbolicSize,
    dims_attribute,
    element_bytes,
)

D = DYNAMIC_INDEX


def make_func(*arguments: Dims, element_types: tuple[Attribute, ...] = ()) -> FuncOp:
    """A function whose arguments have these dims; the body is empty."""
    types = [
        TensorType(element, [dim if isinstance(dim, int) else DYNAMIC_INDEX for dim in dims])
        for dims, element in zip(arguments, element_types or (bf16,) * len(arguments), strict=True)
    ]
    func = FuncOp("f", (types, []))
    func.arg_attrs = ArrayAttr(
        DictionaryAttr(
            {
                "coda.dims": ArrayAttr(
                    StringAttr(dim) if isinstance(dim, str) else IntegerAttr(dim, 64)
                    for dim in dims
                )
            }
        )
        for dims in arguments
    )
    return func


@pytest.mark.parametrize(
    ("size", "divisor", "quotient"),
    [
        ("6*B*T + 4*T", "2*T", "3*B + 2"),
        ("L*L - 4", "L + 2", "L - 2"),
        ("2*L + 4", "L + 2", "2"),
        ("0", "T", "0"),
        ("6*T", "4", None),
        ("T + 1", "T", None),
        ("B", "T", None),
        ("B", "0", None),
    ],
)
def test_divides_sizes_only_exactly(size: str, divisor: str, quotient: str | None):
    found = SymbolicSize.of(size).divided(SymbolicSize.of(divisor))
    assert found == (None if quotient is None else SymbolicSize.of(quotient))


def dims_after(func: FuncOp, *ops: Operation) -> list[Dims]:
    """The dims of every result of `ops`, put into the body of `func`."""
    func.body.block.add_ops(ops)
    shapes = SymbolicShapes(func)
    return [shapes.dims(result) for op in ops for result in op.results]


def arguments(*dims: Dims) -> tuple[FuncOp, list[SSAValue]]:
    func = make_func(*dims)
    return func, list(func.args)


class TestSymbolicSize:
    def test_prints_terms_by_descending_degree(self):
        size = SymbolicSize.product(["M", 16384]) + SymbolicSize.product(["T", "B", 2]) + 4
        assert str(size) == "2*B*T + 16384*M + 4"

    def test_addition_collects_like_terms_and_drops_zero(self):
        m = SymbolicSize.product(["M"])
        assert str(m + m) == "2*M"
        assert str(m - m) == "0"
        assert str(4 + m * -1) == "-M + 4"

    def test_multiplication_distributes(self):
        m, one = SymbolicSize.product(["M"]), SymbolicSize.constant(1)
        assert (m + one) * (m - one) == SymbolicSize.product(["M", "M"]) - 1

    def test_evaluate(self):
        size = SymbolicSize.product(["B", "T", 8]) + 3
        assert size.evaluate({"B": 2, "T": 5}) == 83

    def test_evaluate_names_the_unbound_symbol(self):
        with pytest.raises(KeyError, match="T"):
            SymbolicSize.product(["B", "T"]).evaluate({"B": 2})

    def test_int_needs_a_constant(self):
        assert int(SymbolicSize.product([2, 3])) == 6
        with pytest.raises(ValueError, match="depends on M"):
            int(SymbolicSize.product(["M"]))

    def test_products_may_be_factors(self):
        assert str(SymbolicSize.product(["32*B*T", 2])) == "64*B*T"
        assert str(SymbolicSize.product(["B", 2, "L - 2"])) == "2*B*L - 4*B"


@pytest.mark.parametrize(
    "type, expected", [(bf16, 2), (f32, 4), (i64, 8), (i1, 1), (IndexType(), 8)]
)
def test_element_bytes(type: Attribute, expected: int):
    assert element_bytes(type) == expected
    assert element_bytes(TensorType(type, [3])) == expected


def test_element_bytes_of_a_type_without_size():
    with pytest.raises(TypeError, match="has no size"):
        element_bytes(NoneAttr())


@pytest.mark.parametrize(
    "source, shape, expected",
    [
        (("B", "T", 4096), (D, 4096), ("B*T", 4096)),
        (("M", 4096), (D, 128), ("32*M", 128)),
        (("M", 128), (D, 4096), ("d0", 4096)),
        (("B", "T", 4096), (D, D, 32, 128), ("B", "T", 32, 128)),
        (("B*T", 4096), (D, D, 4096), ("d0", "d1", 4096)),
        ((6, 4), (D, 8), (3, 8)),
        ((0, "T"), (0, D, 1), (0, "T", 1)),
    ],
)
def test_reshape(source: Dims, shape: tuple[int, ...], expected: Dims):
    named = tuple("?" if isinstance(dim, str) and dim[0] == "d" else dim for dim in expected)
    assert reshape_dims(source, shape) == named
    if all(isinstance(dim, int) or "*" not in dim for dim in source):
        func, (x,) = arguments(source)
        (dims,) = dims_after(func, coda.ReshapeOp(x, shape))
        assert dims == expected


class TestRules:
    def test_elementwise_broadcast_keeps_the_symbol(self):
        func, (x, w) = arguments(("B", "T", 8), (8,))
        assert dims_after(func, coda.MulOp(w, x)) == [("B", "T", 8)]

    def test_static_extent_wins_over_a_symbol(self):
        func, (x, y) = arguments(("M", "N"), ("M", 8))
        assert dims_after(func, coda.AddOp(x, y)) == [("M", 8)]

    def test_linear_and_matmul(self):
        func, (x, w, v) = arguments(("B", "T", 8), (16, 8), (8, "V"))
        ops = [coda.LinearOp(x, w), coda.MatmulOp(x, v)]
        assert dims_after(func, *ops) == [("B", "T", 16), ("B", "T", "V")]

    def test_norms_rope_and_attention_keep_the_shape(self):
        func, (x, cos, sin) = arguments(("B", "T", 8), ("T", 2), ("T", 2))
        ops = [
            coda.RMSNormOp(x, eps=1e-6),
            coda.LayerNormOp(x, [], eps=1e-6),
            coda.SoftmaxOp(x),
            coda.RopeOp(x, cos, sin, head_dim=4),
            coda.AttentionOp(x, x, x, head_dim=4, causal=True),
            coda.CastOp(x, f32),
        ]
        assert dims_after(func, *ops) == [("B", "T", 8)] * 6

    def test_scans_keep_the_shape(self):
        func, (u, a, b) = arguments(("B", "T", 8), (8, 4), ("B", "T", 4))
        assert dims_after(func, coda.SelectiveScanOp(u, u, a, b, b)) == [("B", "T", 8)]

    def test_models_of_heads_keep_the_shape(self):
        func, (x, dt, a, b) = arguments(("B", "T", 8), ("B", "T", 2), (2,), ("B", "T", 4))
        assert dims_after(func, coda.SSDOp(x, dt, a, b, b, states=4)) == [("B", "T", 8)]
        assert dims_after(func, coda.DeltaRuleOp(b, b, x, dt, dt, head_dim=4)) == [("B", "T", 8)]

    def test_reductions_leave_one_column(self):
        func, (x,) = arguments(("M", 8))
        ops = [coda.ReduceOp(x, "sum"), coda.NormStatsOp(x, "layer", 1e-5)]
        assert dims_after(func, *ops) == [("M", 1)] * 3

    def test_glu_halves_the_columns(self):
        func, (x, y) = arguments(("M", 8), ("M", "N"))
        assert dims_after(func, coda.GluOp(x, "silu")) == [("M", 4)]
        assert dims_after(func, coda.GluOp(y, "silu")) == [("M", "d0")]

    def test_cross_entropy_and_embedding(self):
        func = make_func(("B", "T", 32), ("B", "T"), (32, 8), element_types=(bf16, i64, bf16))
        logits, target, table = func.args
        ops = [
            coda.CrossEntropyOp(logits, target, -100, "none"),
            coda.CrossEntropyOp(logits, target, -100, "mean"),
            coda.EmbeddingOp(target, table),
        ]
        assert dims_after(func, *ops) == [("B", "T"), (), ("B", "T", 8)]

    def test_shape_operators(self):
        func, (x, y) = arguments(("B", "T", 8), ("B", "S", 8))
        ops = [
            coda.TransposeOp(x, [0, 2, 1]),
            coda.SliceOp(x, 2, 0, 4),
            coda.ConcatOp([x, x], 2),
            coda.ConcatOp([x, y], 1),
        ]
        assert dims_after(func, *ops) == [
            ("B", 8, "T"),
            ("B", "T", 4),
            ("B", "T", 16),
            ("B", "d0", 8),
        ]


def test_fresh_symbols_avoid_the_declared_ones():
    func, (x, y) = arguments(("d0", 8), ("2*d2", 8))
    ops = [coda.ConcatOp([x, y], 0), coda.ConcatOp([y, x], 0)]
    assert dims_after(func, *ops) == [("d1", 8), ("d3", 8)]


def test_arguments_without_metadata_get_fresh_symbols():
    func = FuncOp("f", ([TensorType(bf16, [D, 8]), TensorType(bf16, [D, 8])], []))
    shapes = SymbolicShapes(func)
    assert [shapes.dims(argument) for argument in func.args] == [("d0", 8), ("d1", 8)]


def test_symbols_that_a_view_declares_elsewhere_do_not_keep_their_order():
    func, (x,) = arguments((2, "T", "P"))
    padded = coda.PadOp(x, 2, 1, D, after=0)
    view = coda.ReshapeOp(padded, (2, D, D))
    view.attributes["coda.dims"] = dims_attribute((2, "?", "T"))
    assert dims_after(func, padded, view) == [(2, "T", "d0"), (2, "d1", "T")]


def test_sizes_of_a_value_and_of_an_operator():
    func, (x, w) = arguments(("B", "T", 8), (16, 8))
    linear, square = coda.LinearOp(x, w), coda.MulOp(x, x)
    func.body.block.add_ops([linear, square])
    shapes = SymbolicShapes(func)
    assert str(shapes.numel(x)) == "8*B*T"
    assert str(shapes.bytes(x)) == "16*B*T"
    assert str(shapes.rows(x)) == "B*T"
    assert str(shapes.traffic(linear)) == "48*B*T + 256"
    assert str(shapes.traffic(square)) == "32*B*T", "x is read once"


def test_sums_are_written_out_in_sizes():
    func, (x, y) = arguments(("B", "N", 8), ("B", "T", 8))
    both = coda.ConcatOp([x, y], 1)
    more = coda.ConcatOp([both, y], 1)
    rows = coda.ReshapeOp(more, (D, 8))
    func.body.block.add_ops([both, more, rows])
    shapes = SymbolicShapes(func)
    assert shapes.dims(more.result) == ("B", "d1", 8)
    assert shapes.written(more.result) == ("B", "N + 2*T", 8)
    assert shapes.written(rows.result) == ("B*N + 2*B*T", 8)
    assert str(shapes.traffic(both)) == "32*B*N + 32*B*T"


def test_operators_made_later_are_added_on_demand():
    func, (x, w) = arguments(("M", 8), (16, 8))
    shapes = SymbolicShapes(func)
    linear = coda.LinearOp(x, w)
    func.body.block.add_op(linear)
    assert shapes.dims(linear.result) == ("M", 16)


@pytest.mark.slow
def test_ten_thousand_operators_take_seconds_not_minutes():
    func, (x,) = arguments(("M", 8))
    value = x
    for _ in range(10_000):
        op = coda.SiluOp(value)
        func.body.block.add_op(op)
        value = op.result
    ModuleOp([func])
    start = time.perf_counter()
    assert SymbolicShapes(func).dims(value) == ("M", 8)
    assert time.perf_counter() - start < 5


GEMM_LEVEL = """
func.func @f(
    %x: tensor<?x8xbf16> {coda.dims = ["M", 8]}, %w: tensor<32x8xbf16> {coda.dims = [32, 8]},
    %v: tensor<?x8xbf16> {coda.dims = ["V", 8]}, %t: tensor<?xi64> {coda.dims = ["M"]},
    %b: tensor<8xbf16> {coda.dims = [8]}, %q: tensor<8x8xf32>) {
  %h, %s, %g = gemm.fused %x : tensor<?x8xbf16> SCHEDULE
      columns(%w : tensor<32x8xbf16>)
      -> (tile : tensor<?x32xbf16>, partial_row<add> : tensor<?x?xf32>,
        partial_row<max> : tensor<?x?xf32>) {
  ^epilogue(%acc : f32):
    gemm.yield %acc, %acc, %acc : f32, f32, f32
  }
  %l, %k, %c = gemm.fused %x : tensor<?x8xbf16> SCHEDULE
      columns(%v : tensor<?x8xbf16>) col(%t : tensor<?xi64>)
      -> (partial_row<lse> : tensor<?x?xf32>, select<0> : tensor<?xf32>,
          partial_col<add> : tensor<?x?xf32>) {
  ^epilogue(%acc : f32, %target : i64):
    gemm.yield %acc, %acc, %acc : f32, f32, f32
  }
  %r = gemm.finalize row (add %s : tensor<?x?xf32>) -> (tensor<?x1xf32>) {
  ^epilogue(%sum : f32):
    gemm.yield %sum : f32
  }
  %d = gemm.finalize col (add %c : tensor<?x?xf32>) -> (tensor<?xf32>) {
  ^epilogue(%sum : f32):
    gemm.yield %sum : f32
  }
  %m = gemm.map tile(%x : tensor<?x8xbf16>) row(%b : tensor<8xbf16>) -> (tile : tensor<?x8xbf16>) {
  ^epilogue(%e : f32, %f : f32):
    gemm.yield %e : f32
  }
  %n, %o = gemm.fused transposed %x : tensor<?x8xbf16> SCHEDULE
      columns(%x : tensor<?x8xbf16>) kn tile_t(%q : tensor<8x8xf32>)
      -> (tile_t : tensor<8x8xbf16>, accumulate<0> : tensor<8x8xf32>) {
  ^epilogue(%acc : f32, %old : f32):
    gemm.yield %acc, %old : f32, f32
  }
  %y = gemm.fused %x : tensor<?x8xbf16> + %x : tensor<?x8xbf16> SCHEDULE
      columns(%v : tensor<?x8xbf16>) + (%v : tensor<?x8xbf16>) -> (tile_t : tensor<?x?xbf16>) {
  ^epilogue(%acc : f32):
    gemm.yield %acc : f32
  }
  %p = gemm.map col(%r : tensor<?x1xf32>) row(%b : tensor<8xbf16>) -> (tile : tensor<?x8xbf16>) {
  ^epilogue(%e : f32, %f : f32):
    gemm.yield %e : f32
  }
  %slopes = coda.reshape %b : (tensor<8xbf16>) -> tensor<8x1x1xbf16>
  %keys = coda.reshape %d : (tensor<?xf32>) -> tensor<1x1x?xf32>
  %outer = gemm.map col(%slopes : tensor<8x1x1xbf16>) table(%keys : tensor<1x1x?xf32>)
      -> (tile : tensor<8x1x?xf32>) {
  ^epilogue(%e : f32, %f : f32):
    gemm.yield %f : f32
  }
  %u = gemm.pack_weight nk %v, %b :
      (tensor<?x8xbf16>, tensor<8xbf16>) -> tensor<?xf32>
  func.return
}
"""


def gemm_level_dims(schedule: str) -> dict[str, Dims]:
    """The dims of the results of GEMM_LEVEL by name."""
    module = Parser(make_context(), GEMM_LEVEL.replace("SCHEDULE", schedule)).parse_module()
    module.verify()
    (func,) = module.ops
    assert isinstance(func, FuncOp)
    shapes = SymbolicShapes(func)
    results = (result for op in func.body.block.ops for result in op.results)
    return {result.name_hint or "": shapes.dims(result) for result in results}


SUMS_OF_SAMPLES = """
func.func @f(%x: tensor<4x5x300x6xf32>) -> tensor<4x5x?x6xf32> {
  %p = gemm.map tile(%x : tensor<4x5x300x6xf32>)
      -> (partial_col<add> : tensor<4x5x?x6xf32>) {
    ^bb0(%a: f32):
      gemm.yield %a : f32
  }
  func.return %p : tensor<4x5x?x6xf32>
}
"""


class TestGemmLevel:
    def test_without_a_schedule_the_number_of_tiles_is_a_symbol(self):
        dims = gemm_level_dims("")
        assert dims["h"] == ("M", 32)
        assert dims["s"] == dims["g"] == ("M", "tiles0"), "partials of a segment share it"
        assert dims["l"] == ("M", "tiles1")
        assert dims["c"] == ("row_tiles0", "V")

    def test_with_a_schedule_the_number_of_tiles_is_known(self):
        dims = gemm_level_dims('schedule<pointer, "64x16x16", warps = 4, stages = 2, group_m = 8>')
        assert dims["s"] == ("M", 2)
        assert dims["l"] == ("M", "tiles0"), "V is a symbol"

    def test_other_results(self):
        dims = gemm_level_dims("")
        assert dims["k"] == ("M",)
        assert dims["r"] == ("M", 1)
        assert dims["d"] == ("V",)
        assert dims["m"] == dims["p"] == ("M", 8)
        assert dims["u"] == ("V",)
        assert dims["outer"] == (8, 1, "V"), "only a table tells the columns"

    @pytest.mark.parametrize("samples, tiles", [("4x5", 3), ("0x5", 0)])
    def test_tiles_of_samples_are_counted_in_the_rows_of_one(self, samples: str, tiles: int):
        text = SUMS_OF_SAMPLES.replace("4x5", samples)
        (func,) = Parser(make_context(), text).parse_module().ops
        assert isinstance(func, FuncOp)
        assert list(SymbolicShapes(func).usual_tiles.values()) == [tiles]

    def test_gradients(self):
        dims = gemm_level_dims("")
        assert dims["n"] == dims["o"] == (8, 8)
        assert dims["y"] == ("V", "M")
