"""Types that the constructors of the block-level operators infer."""

from collections.abc import Callable

import pytest
from xdsl.dialects.builtin import DYNAMIC_INDEX, Float8E4M3FNType, TensorType, bf16, f32, i32, i64
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import broadcast_shapes, format_shape

D, F8 = DYNAMIC_INDEX, Float8E4M3FNType()


def tensor(*shape: int, element_type: Attribute = bf16) -> SSAValue:
    return Block(arg_types=[TensorType(element_type, shape)]).args[0]


X, W = tensor(D, 8), tensor(16, 8)
Q, KV = tensor(D, D, 16), tensor(D, D, 8)
ENDS = tensor(4, element_type=i32)
COS = tensor(D, 2, element_type=f32)
RATES, STATES = tensor(16, 4, element_type=f32), tensor(D, D, 4)
HEADS, HEAD_RATES = tensor(D, D, 2), tensor(2, element_type=f32)

CASES: dict[str, tuple[Callable[[], Operation], tuple[tuple[int, ...], Attribute]]] = {
    "add": (lambda: coda.AddOp(X, tensor(8)), ((D, 8), bf16)),
    "add of a larger rank": (lambda: coda.AddOp(tensor(8), X), ((D, 8), bf16)),
    "exp": (lambda: coda.ExpOp(X), ((D, 8), bf16)),
    "gelu": (lambda: coda.GeluOp(X), ((D, 8), bf16)),
    "softcap": (lambda: coda.SoftcapOp(X, 30.0), ((D, 8), bf16)),
    "cast": (lambda: coda.CastOp(X, f32), ((D, 8), f32)),
    "constant": (lambda: coda.ConstantOp(0.5, bf16), ((), bf16)),
    "integer constant": (lambda: coda.ConstantOp(3, i64), ((), i64)),
    "linear": (lambda: coda.LinearOp(X, W, tensor(16)), ((D, 16), bf16)),
    "wide linear": (lambda: coda.LinearOp(X, W, element_type=f32), ((D, 16), f32)),
    "matmul": (lambda: coda.MatmulOp(X, tensor(8, 16)), ((D, 16), bf16)),
    "scaled_linear": (
        lambda: coda.ScaledLinearOp(
            *(tensor(D, 300, element_type=F8), tensor(200, 300, element_type=F8)),
            *(tensor(D, 3, element_type=f32), tensor(2, 3, element_type=f32)),
            coda.BlocksAttr.get(),
        ),
        ((D, 200), f32),
    ),
    "low_bit_linear": (
        lambda: coda.LowBitLinearOp(
            *(X, tensor(1, 16, element_type=i32), tensor(1, 16), None),
            coda.QuantizedAttr.get(32, packing="k01234567"),
            kn=True,
        ),
        ((D, 16), bf16),
    ),
    "quantized_linear": (lambda: coda.QuantizedLinearOp(X, tensor(16, 8)), ((D, 16), bf16)),
    "wide quantized_linear": (
        lambda: coda.QuantizedLinearOp(
            X, tensor(16, 8, element_type=f32), coda.BlocksAttr.get(), element_type=f32
        ),
        ((D, 16), f32),
    ),
    "grouped_linear": (
        lambda: coda.GroupedLinearOp(X, tensor(4, 16, 8), ENDS, tensor(4, 16)),
        ((D, 16), bf16),
    ),
    "wide grouped_matmul": (
        lambda: coda.GroupedMatmulOp(X, tensor(4, 8, 16), ENDS, element_type=f32),
        ((D, 16), f32),
    ),
    "rms_norm": (lambda: coda.RMSNormOp(X, tensor(4), eps=1e-6, group=4), ((D, 8), bf16)),
    "layer_norm": (lambda: coda.LayerNormOp(X, [tensor(8)] * 2, eps=1e-6), ((D, 8), bf16)),
    "rms stats": (lambda: coda.NormStatsOp(X, "rms", 1e-6), ((D, 1), f32)),
    "softmax": (lambda: coda.SoftmaxOp(X), ((D, 8), bf16)),
    "reduce": (lambda: coda.ReduceOp(X, "lse", f32), ((D, 1), f32)),
    "glu": (lambda: coda.GluOp(X, "silu"), ((D, 4), bf16)),
    "glu of dynamic columns": (lambda: coda.GluOp(tensor(4, D), "silu"), ((4, D), bf16)),
    "rope": (lambda: coda.RopeOp(Q, COS, COS, head_dim=4), ((D, D, 16), bf16)),
    "selective_scan": (
        lambda: coda.SelectiveScanOp(Q, Q, RATES, STATES, STATES),
        ((D, D, 16), bf16),
    ),
    "selective_scan between states": (
        lambda: coda.SelectiveScanOp(
            *(Q, Q, RATES, STATES, STATES, tensor(D, 16, 4, element_type=f32)),
            final=True,
        ),
        ((D, D, 16), bf16),
    ),
    "ssd": (
        lambda: coda.SSDOp(Q, HEADS, HEAD_RATES, STATES, STATES, states=4),
        ((D, D, 16), bf16),
    ),
    "wide ssd": (
        lambda: coda.SSDOp(Q, HEADS, HEAD_RATES, STATES, STATES, states=2, element_type=f32),
        ((D, D, 16), f32),
    ),
    "ssd between states": (
        lambda: coda.SSDOp(
            *(Q, HEADS, HEAD_RATES, STATES, STATES, tensor(D, 2, 8, 4, element_type=f32)),
            states=4,
            final=True,
        ),
        ((D, D, 16), bf16),
    ),
    "delta_rule": (
        lambda: coda.DeltaRuleOp(KV, KV, Q, HEADS, HEADS, head_dim=4),
        ((D, D, 16), bf16),
    ),
    "wide delta_rule between states": (
        lambda: coda.DeltaRuleOp(
            *(KV, KV, Q, HEADS, HEADS, tensor(D, 2, 4, 8, element_type=f32)),
            head_dim=4,
            final=True,
            element_type=f32,
        ),
        ((D, D, 16), f32),
    ),
    "attention": (
        lambda: coda.AttentionOp(Q, KV, KV, head_dim=4, scale=0.5, softcap=2.0),
        ((D, D, 16), bf16),
    ),
    "attention of other values": (
        lambda: coda.AttentionOp(Q, KV, tensor(D, D, 6), head_dim=4, value_dim=3),
        ((D, D, 12), bf16),
    ),
    "loss": (lambda: coda.CrossEntropyOp(X, tensor(D, element_type=i64), -100, "mean"), ((), f32)),
    "losses": (
        lambda: coda.CrossEntropyOp(X, tensor(D, element_type=i64), -100, "none"),
        ((D,), f32),
    ),
    "embedding": (lambda: coda.EmbeddingOp(tensor(D, 3, element_type=i64), W), ((D, 3, 8), bf16)),
    "reshape": (lambda: coda.ReshapeOp(tensor(2, 6), (3, 4)), ((3, 4), bf16)),
    "transpose": (lambda: coda.TransposeOp(X, (1, 0)), ((8, D), bf16)),
    "slice": (lambda: coda.SliceOp(X, 1, 2, 5), ((D, 3), bf16)),
    "concat": (lambda: coda.ConcatOp([X, tensor(D, 4)], 1), ((D, 12), bf16)),
    "concat of dynamic extents": (lambda: coda.ConcatOp([X, X], 0), ((D, 8), bf16)),
}


@pytest.mark.parametrize("case", CASES)
def test_result_types(case: str):
    build, (shape, element_type) = CASES[case]
    op = build()
    op.verify()
    assert op.results[0].type == TensorType(element_type, shape)


def test_layer_stats_have_two_columns():
    op = coda.NormStatsOp(X, "layer", 1e-6)
    op.verify()
    assert [stat.type for stat in op.stats] == [TensorType(f32, (D, 1))] * 2


def test_layer_norm_names_its_parameters():
    weight, bias = tensor(8), tensor(8)
    op = coda.LayerNormOp(X, [weight, bias], eps=1e-6)
    assert (op.weight, op.bias) == (weight, bias)
    bare = coda.LayerNormOp(X, [], eps=1e-6)
    assert (bare.weight, bare.bias) == (None, None)


def test_group_size_is_all_columns_without_a_group():
    assert coda.RMSNormOp(X, eps=1e-6).group_size == 8
    assert coda.RMSNormOp(X, eps=1e-6, group=4).group_size == 4


def test_properties_are_given_once_and_exist():
    with pytest.raises(AssertionError, match=r"coda.softcap takes no \['cap'\]"):
        coda.SoftcapOp(X, 30.0, cap=2.0)
    with pytest.raises(AssertionError, match=r"coda.relu takes no \['alpha'\]"):
        coda.ReluOp(X, alpha=1.0)
    with pytest.raises(AssertionError, match=r"coda\.relu has no 1 properties"):
        coda.ReluOp(X, 1.0)


def test_operands_that_do_not_broadcast():
    with pytest.raises(VerifyException, match="operand 1 of shape 7 does not broadcast with"):
        coda.AddOp(X, tensor(7))


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ((D, 8), (8,), (D, 8)),
        ((D, 1), (D, 8), (D, 8)),
        ((), (3,), (3,)),
        ((D,), (4,), (4,)),
        ((2, 1, 3), (5, 1), (2, 5, 3)),
        ((2,), (3,), None),
    ],
)
def test_broadcast(a: tuple[int, ...], b: tuple[int, ...], expected: tuple[int, ...] | None):
    assert broadcast_shapes(a, b) == expected
    assert broadcast_shapes(b, a) == expected


def test_shapes_as_text():
    assert format_shape((D, 8)) == "?x8"
    assert format_shape(()) == "scalar"
