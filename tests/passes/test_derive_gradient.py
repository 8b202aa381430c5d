"""Gradients of every operator: PyTorch's autograd and central differences, in float64."""

from collections.abc import Mapping, Sequence

import pytest
import torch
from support.gradient_cases import (
    BINARY,
    HEADS,
    ONES,
    QKV,
    SHAPES,
    SIZES,
    SQUARE,
    TABLES,
    UNARY,
    Case,
    Ops,
    Values,
    X,
    attention,
    chosen,
    divided,
    of,
    of_call,
    positive,
    raised,
)
from support.gradients import assert_gradcheck, assert_gradients, differentiated, joint_of
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    bf16,
    f16,
    f32,
    f64,
    i32,
    i64,
)

from coda_ir.backends.reference import run_function
from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import shape_of
from coda_ir.dialects.torch import CallOp, Torch
from coda_ir.frontends.coda_text import parse_text
from coda_ir.passes.gradient.derivatives import NOT_DIFFERENTIATED, RULES

DELTA_RULE: Mapping[str, tuple[int | str, ...]] = {
    **dict.fromkeys("qk", ("B", "T", 6)),
    "v": ("B", "T", 8),
    **dict.fromkeys(("beta", "decay"), ("B", "T", 4)),
}

CASES: dict[str, Case] = {
    **{name: Case(HEADS, build) for name, build in UNARY.items()},
    **{
        f"{name} {number}": Case({"a": a, "b": b}, of(make))
        for name, make in BINARY.items()
        for number, (a, b) in enumerate(SHAPES)
    },
    **{f"div {number}": Case({"a": a, "b": b}, divided) for number, (a, b) in enumerate(SHAPES)},
    **{f"power {number}": Case({"a": a, "b": b}, raised) for number, (a, b) in enumerate(SHAPES)},
    "mul of one value": Case(X, lambda v: coda.MulOp(v.x, v.x)),
    "maximum of one value": Case(X, lambda v: coda.MaximumOp(v.x, v.x)),
    **{name: positive(op) for name, op in coda.REAL_FUNCTIONS.items() if op.OF_POSITIVE},
    **{f"where {number}": Case({"a": a, "b": b}, chosen) for number, (a, b) in enumerate(SHAPES)},
    "an extent that one operand states": Case(
        {"a": ("M", 8), "b": (3, 8)}, of(coda.MulOp), sizes=(SIZES,)
    ),
    "cast to bf16": Case(X, lambda v: coda.CastOp(v.x, bf16)),
    "cast to f32": Case(X, lambda v: coda.CastOp(v.x, f32), types={"x": bf16}),
    "linear": Case({"x": ("B", "T", 8), "w": (6, 8)}, of(coda.LinearOp)),
    "linear with bias": Case({"x": ("M", 8), "w": (6, 8), "b": (6,)}, of(coda.LinearOp)),
    "linear of one row": Case({"x": (8,), "w": (6, 8)}, of(coda.LinearOp)),
    "wide linear": Case(
        {"x": ("M", 8), "w": (6, 8), "b": (6,)},
        lambda v: coda.LinearOp(v.x, v.w, v.b, element_type=f32),
        types={"x": bf16, "w": bf16, "b": bf16},
    ),
    "linear of an open extent": Case({"x": ("M", "N"), "w": ("S", "N")}, of(coda.LinearOp)),
    "quantized_linear": Case(
        {"x": ("B", "T", 8), "w": (6, 8)},
        of(coda.QuantizedLinearOp),
        types={"x": f32, "w": f32},
    ),
    "quantized_linear of a wide weight": Case(
        {"x": ("M", 300), "w": (200, 300)},
        lambda v: coda.QuantizedLinearOp(v.x, v.w, coda.BlocksAttr.get(), element_type=f32),
        types={"x": bf16, "w": f32},
    ),
    "quantized_linear with a quantized gradient of the weight": Case(
        {"x": (2, 3, 8), "w": (6, 8)},
        lambda v: coda.QuantizedLinearOp(v.x, v.w, None, True),
        types={"x": f32, "w": f32},
    ),
    "matmul": Case({"x": ("B", "T", 8), "w": (8, 6)}, of(coda.MatmulOp)),
    "weight_gradient": Case({"dy": ("B", "T", 8), "x": ("B", "T", 6)}, of(coda.WeightGradientOp)),
    "grouped_linear": Case(
        {"x": ("M", 8), "w": (3, 12, 8), "ends": (3,), "b": (3, 12)},
        of(coda.GroupedLinearOp),
        wrt=("x", "w", "b"),
        types={"ends": i32},
    ),
    "grouped_matmul": Case(
        {"x": ("M", 8), "w": (3, 8, 12), "ends": (3,)},
        of(coda.GroupedMatmulOp),
        types={"ends": i32},
    ),
    "grouped_weight_gradient": Case(
        {"dy": ("M", 8), "x": ("M", 12), "ends": (3,)},
        of(coda.GroupedWeightGradientOp),
        types={"ends": i32},
    ),
    "rms_norm": Case(HEADS, lambda v: coda.RMSNormOp(v.x, eps=0.1)),
    "rms_norm with weight": Case(
        {"x": ("B", "T", 8), "w": (8,)}, lambda v: coda.RMSNormOp(v.x, v.w, eps=0.1)
    ),
    "rms_norm of heads": Case(
        {"x": ("B", "T", 8), "w": (4,)}, lambda v: coda.RMSNormOp(v.x, v.w, eps=0.1, group=4)
    ),
    "rms_norm of an open extent": Case(
        {"x": ("M", "N"), "w": ("N",)}, lambda v: coda.RMSNormOp(v.x, v.w, eps=0.1)
    ),
    "rms_norm with a wide weight": Case(
        {"x": ("M", 8), "w": (8,)},
        lambda v: coda.RMSNormOp(v.x, v.w, eps=0.1),
        types={"x": bf16, "w": f32},
    ),
    "layer_norm": Case(HEADS, lambda v: coda.LayerNormOp(v.x, [], eps=0.1)),
    "layer_norm with weight": Case(
        {"x": ("M", 8), "w": (8,)}, lambda v: coda.LayerNormOp(v.x, [v.w], eps=0.1)
    ),
    "layer_norm with weight and bias": Case(
        {"x": ("B", "T", 8), "w": (8,), "b": (8,)},
        lambda v: coda.LayerNormOp(v.x, [v.w, v.b], eps=0.1),
    ),
    "layer_norm with a bias alone": Case(
        {"x": ("M", 8), "b": (8,)},
        lambda v: coda.LayerNormOp(v.x, [v.b], eps=0.1, bias_only=True),
    ),
    "rms stats": Case(HEADS, lambda v: coda.NormStatsOp(v.x, "rms", 0.1)),
    "layer stats": Case(HEADS, lambda v: coda.NormStatsOp(v.x, "layer", 0.1)),
    "stats of an open extent": Case(
        {"x": ("M", "N")}, lambda v: coda.NormStatsOp(v.x, "layer", 0.1)
    ),
    **{
        f"reduce {kind} of {what}": Case({"x": dims}, of(coda.ReduceOp, kind))
        for kind in coda.ReduceOp.KINDS
        for what, dims in (
            ("columns", ("B", "T", 8)),
            ("an open extent", ("M", "N")),
            ("one", (1,)),
        )
    },
    "reduce to f32": Case(X, lambda v: coda.ReduceOp(v.x, "mean", f32), types={"x": bf16}),
    **{
        f"reduce {kind} of f64 to f32": Case(X, of(coda.ReduceOp, kind, f32), types={"x": f64})
        for kind in coda.ReduceOp.KINDS
    },
    **{
        f"{kind} stats of f64": Case(X, of(coda.NormStatsOp, kind, 0.1), types={"x": f64})
        for kind in ("rms", "layer")
    },
    "rms_norm of f64": Case(X, lambda v: coda.RMSNormOp(v.x, eps=0.1), types={"x": f64}),
    "layer_norm of f64": Case(X, lambda v: coda.LayerNormOp(v.x, [], eps=0.1), types={"x": f64}),
    "softmax of f64": Case(X, of(coda.SoftmaxOp), types={"x": f64}),
    **{
        f"softmax that is rounded to {type}": Case(
            X, lambda v, type=type: (y := coda.SoftmaxOp(v.x), coda.CastOp(y.result, type))
        )
        for type in (bf16, f16)
    },
    "sum_to": Case(HEADS, lambda v: coda.SumToOp(v.x, (8,))),
    "sum_to ones": Case(HEADS, lambda v: coda.SumToOp(v.x, (DYNAMIC_INDEX, 1, 8))),
    "sum_to a scalar": Case(HEADS, lambda v: coda.SumToOp(v.x, ())),
    "broadcast": Case({"x": ("M", 1)}, lambda v: coda.BroadcastOp(v.x, (DYNAMIC_INDEX, 8))),
    "broadcast like": Case(
        {"x": (8,), "y": ("M", 8)},
        lambda v: coda.BroadcastOp(v.x, (DYNAMIC_INDEX, 8), v.y),
        wrt=("x",),
    ),
    **{
        f"glu {name}": Case({"x": ("B", "T", 8)}, of(coda.GluOp, name), sizes=(SIZES,))
        for name in coda.ACTIVATIONS
    },
    **{
        f"rope {layout}{' per column' * per_column}{' transposed' * transposed}": Case(
            TABLES | ({"cos": ("T", 4), "sin": ("T", 4)} if per_column else {}),
            of(
                coda.RopeOp,
                head_dim=4,
                layout=layout,
                per_column=per_column,
                transposed=transposed,
            ),
        )
        for layout in coda.ROPE_LAYOUTS
        for per_column in (False, True)
        for transposed in (False, True)
    },
    "rope of two heads of tables": Case(
        {"x": ("B", "T", 16), "cos": ("B", "T", 4), "sin": ("B", "T", 4)},
        of(coda.RopeOp, head_dim=4, table_heads=2),
    ),
    "attention": Case(QKV, attention()),
    "attention causal": Case(SQUARE, attention(causal=True)),
    "attention causal of more keys": Case(QKV, attention(causal=True, window=2)),
    "attention capped": Case(SQUARE, attention(causal=True, scale=0.3, softcap=2.0)),
    "attention with sinks": Case({**QKV, "sinks": (4,)}, attention(sinks=True)),
    "attention with a mask": Case({**QKV, "mask": (4, "T", "S")}, attention(mask=True)),
    "attention of other values": Case(
        {**SQUARE, "v": ("B", "T", 6)}, attention(causal=True, value_dim=3)
    ),
    "attention of one tensor": Case(
        {"x": ("T", 8)}, lambda v: coda.AttentionOp(v.x, v.x, v.x, head_dim=4, causal=True)
    ),
    **{
        f"cross_entropy {reduction}": Case(
            {"logits": ("B", "T", 8), "target": ("B", "T")},
            of(coda.CrossEntropyOp, ignore_index=3, reduction=reduction),
            types={"target": i64},
            sizes=(SIZES,),
        )
        for reduction in coda.LOSS_REDUCTIONS
    },
    "selective_scan": Case(
        {
            **dict.fromkeys(("u", "dt"), ("B", "T", 8)),
            "a": (8, 3),
            **dict.fromkeys("bc", ("B", "T", 3)),
        },
        of(coda.SelectiveScanOp),
    ),
    "selective_scan between states": Case(
        {
            **dict.fromkeys(("u", "dt"), ("B", "T", 8)),
            "a": (8, 3),
            **dict.fromkeys("bc", ("B", "T", 3)),
            "initial": ("B", 8, 3),
        },
        of(coda.SelectiveScanOp, final=True),
    ),
    "ssd": Case(
        {
            "x": ("B", "T", 8),
            "dt": ("B", "T", 4),
            "a": (4,),
            **dict.fromkeys("bc", ("B", "T", 6)),
        },
        of(coda.SSDOp, states=3),
    ),
    "ssd between states": Case(
        {
            "x": ("B", "T", 8),
            "dt": ("B", "T", 4),
            "a": (4,),
            **dict.fromkeys("bc", ("B", "T", 6)),
            "initial": ("B", 4, 2, 3),
        },
        of(coda.SSDOp, states=3, final=True),
    ),
    "delta_rule": Case(DELTA_RULE, of(coda.DeltaRuleOp, head_dim=3)),
    "delta_rule between states": Case(
        {**DELTA_RULE, "initial": ("B", 4, 3, 2)}, of(coda.DeltaRuleOp, head_dim=3, final=True)
    ),
    "embedding": Case(
        {"ids": ("B", "T"), "table": (9, 8)}, of(coda.EmbeddingOp), types={"ids": i64}
    ),
    "embedding with padding": Case(
        {"ids": ("B", "T"), "table": (9, 8)},
        of(coda.EmbeddingOp, padding_idx=3),
        types={"ids": i64},
    ),
    "embedding of an open extent": Case(
        {"ids": ("B", "T"), "table": ("N", 8)}, of(coda.EmbeddingOp), types={"ids": i64}
    ),
    "embedding_grad": Case(
        {"ids": ("B", "T"), "dy": ("B", "T", 8)},
        lambda v: coda.EmbeddingGradOp(v.ids, v.dy, 9),
        types={"ids": i64},
    ),
    "index": Case(
        {"x": ("M", 9, 8), "ids": ("B", "T")}, of(coda.IndexOp, dim=1), types={"ids": i64}
    ),
    "index of rows": Case(
        {"x": (9, 40), "ids": ("B", "T")}, of(coda.IndexOp, dim=0), types={"ids": i64}
    ),
    "index of matrices": Case(
        {"x": (9, 4, 10), "ids": ("M",)}, of(coda.IndexOp, dim=0), types={"ids": i64}
    ),
    "index of short rows": Case(
        {"x": (9, 10), "ids": ("M",)}, of(coda.IndexOp, dim=0), types={"ids": i64}
    ),
    "gather": Case({"x": ("M", 8), "ids": ("M", 3)}, of(coda.GatherOp, dim=1), types={"ids": i64}),
    "index by an order": Case(
        {"x": ("M", 8), "s": ("M",)},
        lambda v: (
            order := coda.SortOp(v.s, dim=0, descending=True),
            coda.IndexOp(v.x, order.ids, dim=0),
        ),
        wrt=("x",),
    ),
    "index by the inverse of an order": Case(
        {"x": ("M", 8), "s": ("M",)},
        lambda v: (
            order := coda.SortOp(v.s, dim=0, descending=True),
            inverse := coda.SortOp(order.ids, dim=0, descending=False),
            coda.IndexOp(v.x, inverse.ids, dim=0),
        ),
        wrt=("x",),
    ),
    "topk and scatter": Case(
        {"x": ("M", 8), "y": ("M", 3)},
        lambda v: (top := coda.TopkOp(v.x, k=3, dim=-1), coda.ScatterOp(v.x, top.ids, v.y, dim=-1)),
    ),
    "topk": Case(
        {"x": ("M", 8)},
        lambda v: (top := coda.TopkOp(v.x, k=3, dim=1), coda.ExpOp(top.result)),
    ),
    "sort": Case(
        {"x": ("T", 8)},
        lambda v: (order := coda.SortOp(v.x, dim=0, descending=True), coda.ExpOp(order.result)),
    ),
    "cumsum": Case(HEADS, of(coda.CumsumOp, dim=1)),
    "group_norm": Case(
        {"x": ("B", 8, "T", 3), "w": (8,), "b": (8,)},
        lambda v: coda.GroupNormOp(v.x, [v.w, v.b], 4, 0.1),
    ),
    "coda.convolution": Case(
        {"x": ("B", 4, 5), "w": (6, 2, 3), "b": (6,)},
        of(coda.ConvolutionOp, stride=[2], padding=[1], dilation=[1], groups=2),
    ),
    "shift": Case(HEADS, of(coda.ShiftOp, 2)),
    "shift of scaled rows": Case(
        {**HEADS, "w": (8,)},
        lambda v: (s := coda.ShiftOp(v.x, -1), coda.MulOp(s.result, v.w)),
    ),
    "reshape": Case({"x": ("M", 8)}, lambda v: coda.ReshapeOp(v.x, (DYNAMIC_INDEX, 2, 4))),
    "reshape that joins": Case(HEADS, lambda v: coda.ReshapeOp(v.x, (DYNAMIC_INDEX, 8))),
    "transpose": Case(HEADS, lambda v: coda.TransposeOp(v.x, (2, 0, 1))),
    "slice": Case({"x": ("B", "T", 8)}, lambda v: coda.SliceOp(v.x, 2, 3, 7)),
    "slice of an open extent": Case(HEADS, lambda v: coda.SliceOp(v.x, 1, 0, 1)),
    "slices of rows in other shapes": Case(
        {"x": ("M", 8)},
        lambda v: (
            first := coda.SliceOp(v.x, 1, 0, 3),
            rows := coda.ReshapeOp(v.x, (1, DYNAMIC_INDEX, 8)),
            last := coda.SliceOp(rows, 2, 3, 8),
            flat := coda.ReshapeOp(last, (DYNAMIC_INDEX, 5)),
            coda.ConcatOp([flat, first], 1),
        ),
    ),
    "pad": Case(HEADS, lambda v: coda.PadOp(v.x, 2, 3, 12)),
    "pad of an open extent": Case(
        {"x": ("B", "T", 8)},
        lambda v: coda.PadOp.around(v.x, 1, 2, 1, value=1.5),
        sizes=({**SIZES, "B": 7, "?": 7}, {**ONES, "B": 4, "?": 4}),
    ),
    "concat": Case({"a": ("M", 8), "b": ("M", 3)}, lambda v: coda.ConcatOp([v.a, v.b], 1)),
    "concat of open extents": Case(
        {"a": ("B", "T", 4), "b": ("B", "S", 4)},
        lambda v: coda.ConcatOp([v.a, v.b, v.a], 1),
        sizes=({**SIZES, "B": 13, "?": 13}, {**ONES, "B": 3, "?": 3}),
    ),
    "detach": Case(X, lambda v: (d := coda.DetachOp(v.x), coda.MulOp(v.x, d.result))),
    "stored": Case(X, lambda v: coda.StoredOp(v.x)),
    "call": Case(HEADS, of_call("aten.cumsum.default", "{0}, 1", ("B", "T", 8))),
    "call of integers": Case(
        {"x": ("M", 8), "i": ("M", 8)},
        of_call("aten.mul.Tensor", "{0}, {1}", ("M", 8)),
        types={"i": i64},
    ),
    "call that asks for a size": Case(
        {"x": ("M", 8), "y": ("M", 8)},
        of_call("aten.div.Scalar", "{0}, size({1}, 0)", ("M", 8)),
        wrt=("x", "y"),
    ),
    "call that picks a result": Case(
        HEADS, of_call("aten.topk.default", "{0}, 2", ("B", "T", 2), positions=[0])
    ),
    "convolution": Case(
        {"x": ("B", 4, "T"), "w": (6, 2, 3), "b": (6,)},
        of_call("aten.conv1d.default", "{0}, {1}, {2}, padding=[1], groups=2", ("B", 6, "T")),
        wrt=("x", "w", "b"),
    ),
    "convolution with steps": Case(
        {"x": ("B", 3, 9, 7), "w": (2, 3, 3, 2)},
        of_call("aten.conv2d.default", "{0}, {1}, None, [2, 1], [1, 0], [1, 2]", ("B", 2, 5, 5)),
        wrt=("w",),
    ),
    "convolution of any dimensions": Case(
        {"x": ("B", 3, 9, 7), "w": (2, 3, 3, 2), "b": (2,)},
        of_call(
            "aten.convolution.default",
            "{0}, {1}, {2}, [2, 1], [1, 0], [1, 2], False, [0, 0], 1",
            ("B", 2, 5, 5),
        ),
        wrt=("x", "w", "b"),
    ),
    "convolution without a batch": Case(
        {"x": (3, "T"), "w": (2, 3, 1)},
        of_call("aten.conv1d.default", "{0}, {1}", (2, "T")),
        wrt=("x", "w"),
    ),
    "call without a derivative": Case(X, of_call("aten.floor.default", "{0}", ("M", 8))),
}


KINKED = (
    "detach",
    "sign",
    "call without a derivative",
    "maximum of one value",
    "embedding with padding",
)
"""Operators that central differences do not determine: steps, and those without a gradient by
definition."""


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_gradients(name: str):
    case = CASES[name]
    for seed, sizes in enumerate(case.sizes):
        module = case.module()
        joint = assert_gradients(module, sizes, case.wrt, seed=seed)
        assert joint.argument_gradients
        if seed == 0 and name not in KINKED:
            assert_gradcheck(module, joint, sizes, seed=7)


def test_weight_that_rounds_to_one():
    """The gradient of rounded weights keeps what is left where 1 minus a weight cancels."""
    case = Case(X, lambda v: (p := coda.SoftmaxOp(v.x), coda.CastOp(p.result, bf16)))
    joint = joint_of(case.module())
    x = torch.randn(64, 8) + torch.tensor([8.0, *[0.0] * 7])
    dy = torch.randn(64, 8).bfloat16()
    assert (x.softmax(-1).bfloat16() == 1).any()
    _, gradient = run_function(joint.func, [x, dy], "stated")
    exact = x.double().requires_grad_()
    (expected,) = torch.autograd.grad(exact.softmax(-1), exact, dy.double())
    error, size = (t.square().sum(-1) for t in (gradient - expected, expected))
    assert (error < 2**-12 * size).all()


def test_rows_whose_numbers_count_from_the_end():
    joint = joint_of(CASES["index of rows"].module())
    x, ids = torch.randn(9, 40), torch.tensor([[-1, 8, 0], [-9, 3, 3]])
    dy = torch.randn(2, 3, 40)
    *_, gradient = run_function(joint.func, [x, ids, dy], "stated")
    exact = torch.zeros(9, 40).index_put((ids,), dy, accumulate=True)
    torch.testing.assert_close(gradient, exact)


def test_every_rule_is_tested():
    for operator in Torch.operations:
        assert (operator in RULES) != (operator in NOT_DIFFERENTIATED), operator.name
    tested = {type(op) for case in CASES.values() for op in case.module().walk()}
    assert set(RULES) <= tested, [rule.__name__ for rule in set(RULES) - tested]


def dropout(callee: str, arguments: str) -> Case:
    return Case(X, of_call(callee, arguments, ("M", 8), random=True))


@pytest.mark.parametrize(
    "case",
    [
        dropout("aten.dropout.default", "{0}, 0.25, True"),
        dropout("aten.native_dropout.default", "{0}, 0.25, True"),
        Case(
            X,
            of_call(
                "aten.native_dropout.default",
                "{0}, 0.25, True",
                ("M", 8),
                random=True,
                positions=[0],
            ),
        ),
    ],
)
def test_dropout_keeps_the_same_elements_backward(case: Case):
    joint = joint_of(case.module())
    seed = torch.randn(9, 8, dtype=torch.float64)
    kept, gradient = run_function(joint.func, [torch.ones(9, 8, dtype=torch.float64), seed])
    assert ((kept == 0) | (kept == 1 / 0.75)).all() and kept.any() and not kept.all()
    torch.testing.assert_close(gradient, seed * kept, rtol=1e-12, atol=0)


def test_what_only_sees_a_shape_is_a_constant():
    """Dropout that is decomposed: the random numbers have no gradient, their product has."""

    def build(v: Values) -> Ops:
        noise = CallOp("aten.rand_like.default", [v.x], "{0}", [v.x.type], random=True)
        return noise, coda.MulOp(v.x, noise.outputs[0])

    joint = joint_of(Case(X, build).module())
    x, seed = torch.randn(2, 3, 8, dtype=torch.float64)
    y, gradient = run_function(joint.func, [x, seed])
    torch.testing.assert_close(gradient, seed * y / x, rtol=1e-12, atol=0)


@pytest.mark.parametrize("names", [("ids", "x"), ("x", "ids")])
def test_what_lends_an_extent_to_positions_is_a_constant(names: Sequence[str]):
    types = {"ids": "i64[T, 1]", "x": "f32[T, 8]"}
    parameters = ", ".join(f"{name}: {types[name]}" for name in names)
    table = "cos(cast(reshape(arange(T), [T, 1]), f32))"
    module = parse_text(f"fn f({parameters}) {{\n    return x * {table} + cast(ids, f32)\n}}", "f")
    joint = joint_of(module)
    seed = torch.randn(5, 8, dtype=torch.float64)
    given = {"ids": torch.ones(5, 1, dtype=torch.int64), "x": torch.ones(5, 8).double()}
    _, gradient = run_function(joint.func, [*(given[name] for name in names), seed])
    expected = seed * torch.arange(5).double().cos()[:, None]
    torch.testing.assert_close(gradient, expected, rtol=1e-12, atol=0)


def test_gradients_of_slices_are_joined_through_reshapes():
    joint = joint_of(CASES["slices of rows in other shapes"].module())
    gradient = joint.func.body.block.last_op
    assert gradient is not None
    owner = gradient.operands[-1].owner
    assert isinstance(owner, coda.ConcatOp)
    assert [shape_of(part)[1] for part in owner.parts] == [3, 5]


def test_an_argument_of_integers_is_a_constant():
    case = CASES["embedding"]
    joint = joint_of(case.module())
    assert differentiated(joint) == [1]
