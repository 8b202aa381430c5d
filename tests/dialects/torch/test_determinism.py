"""Calls of PyTorch that give the same bits in every run only on request."""

import pytest
import torch
from xdsl.dialects import test
from xdsl.dialects.builtin import TensorType, f32, i64
from xdsl.ir import Attribute

from coda_ir.dialects.torch import CallOp, Determinism, VjpOp, determinism_of
from coda_ir.dialects.torch.determinism import LISTED

GIVEN, ON_REQUEST, STRICT, MISSING = Determinism


def call(
    name: str,
    element_type: Attribute = f32,
    arguments: str = "{0}",
    rank: int = 1,
    result: Attribute | None = None,
) -> CallOp:
    types = [TensorType(type, [4] * rank) for type in (element_type, result or element_type)]
    x = test.TestOp(result_types=types[:1]).results[0]
    callee = name if "." in name else f"{name}.default"
    return CallOp(f"aten.{callee}", [x], arguments, types[1:])


def vjp(name: str, arguments: str = "{0}") -> VjpOp:
    op = call(name, arguments=arguments)
    return VjpOp(op.callee.data, op.inputs, op.outputs, arguments, of=[0], wrt=[0])


@pytest.mark.parametrize(
    ("name", "of_call", "of_derivative"),
    [
        ("exp", GIVEN, GIVEN),
        ("matmul", GIVEN, GIVEN),
        ("index_select", GIVEN, ON_REQUEST),
        ("scatter_add", ON_REQUEST, ON_REQUEST),
        ("conv2d", GIVEN, ON_REQUEST),
        ("conv_transpose2d", ON_REQUEST, ON_REQUEST),
        ("_scaled_dot_product_flash_attention", GIVEN, STRICT),
        ("adaptive_avg_pool2d", GIVEN, MISSING),
        ("cumsum", MISSING, MISSING),
        ("embedding_dense_backward", ON_REQUEST, GIVEN),
        ("_scaled_dot_product_flash_attention_backward", STRICT, GIVEN),
        ("upsample_bilinear2d_backward", MISSING, GIVEN),
    ],
)
def test_needs(name: str, of_call: Determinism, of_derivative: Determinism) -> None:
    assert determinism_of(call(name)) == of_call
    if not name.endswith("_backward"):
        assert determinism_of(vjp(name)) == of_derivative


def test_sums_of_integers_are_exact() -> None:
    assert determinism_of(call("cumsum", i64)) == GIVEN
    assert determinism_of(call("cumsum", i64, "{0}, 0, dtype=torch.float32", result=f32)) == MISSING


@pytest.mark.parametrize(
    ("name", "arguments", "needs"),
    [
        ("index_put", "{0}, [], {0}", GIVEN),  # as a cache of keys: no place is there twice
        ("index_put", "{0}, [], {0}, True", ON_REQUEST),
        ("index_put", "{0}, [], {0}, accumulate=True", ON_REQUEST),
        ("scatter.src", "{0}, 0, {0}, {0}", GIVEN),
        ("scatter.reduce", "{0}, 0, {0}, {0}, reduce='add'", ON_REQUEST),
        ("scatter.value_reduce", "{0}, 0, {0}, 2.0, reduce='multiply'", MISSING),
        ("scatter_reduce.two", "{0}, 0, {0}, {0}, 'mean'", ON_REQUEST),
        ("scatter_reduce.two", "{0}, 0, {0}, {0}, 'amax'", GIVEN),
        ("scatter_reduce.two", "{0}, 0, {0}, {0}, 'prod', include_self=False", MISSING),
        ("index_reduce", "{0}, 0, {0}, {0}, 'mean'", MISSING),
        ("_embedding_bag_dense_backward", "{0}, {0}, {0}, {0}, {0}, 8, False, 0", ON_REQUEST),
        ("_embedding_bag_dense_backward", "{0}, {0}, {0}, {0}, {0}, 8, False, 2", MISSING),
        ("median.dim", "{0}, 0", MISSING),
        ("median", "{0}", GIVEN),
    ],
)
def test_arguments_count(name: str, arguments: str, needs: Determinism) -> None:
    assert determinism_of(call(name, arguments=arguments)) == needs


@pytest.mark.parametrize(
    ("name", "arguments", "needs"),
    [
        ("pad", "{0}, [1, 1]", GIVEN),
        ("pad", "{0}, [1, 1], 'replicate'", ON_REQUEST),
        ("pad", "{0}, [1, 1], 'reflect'", MISSING),
        ("_embedding_bag", "{0}, {0}, {0}", ON_REQUEST),
        ("_embedding_bag", "{0}, {0}, {0}, False, 2", MISSING),
    ],
)
def test_arguments_count_in_derivatives(name: str, arguments: str, needs: Determinism) -> None:
    assert determinism_of(vjp(name, arguments)) == needs


def test_losses_of_images_have_none() -> None:
    assert determinism_of(call("cross_entropy_loss", rank=2)) == GIVEN
    assert determinism_of(call("cross_entropy_loss", rank=4)) == MISSING


def test_operators_that_are_listed_exist() -> None:
    missing = [name for name in LISTED if not hasattr(torch.ops.aten, name)]
    assert not missing
