"""Which calls of PyTorch need to be asked for the same bits in every run."""

import pytest
import torch
from support.emitted import load_program
from xdsl.dialects import test
from xdsl.dialects.builtin import TensorType, f32, i64
from xdsl.ir import Attribute

from coda_ir.dialects.torch import CallOp, Determinism, VjpOp, determinism_of
from coda_ir.dialects.torch.determinism import LISTED

GIVEN, ON_REQUEST, STRICT, MISSING = Determinism


def call(name: str, element_type: Attribute = f32) -> CallOp:
    type = TensorType(element_type, [4])
    x = test.TestOp(result_types=[type]).results[0]
    return CallOp(f"aten.{name}.default", [x], "{0}", [type])


def vjp(name: str) -> VjpOp:
    op = call(name)
    return VjpOp(op.callee.data, op.inputs, op.outputs, "{0}", of=[0], wrt=[0])


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


@pytest.mark.parametrize(
    ("arguments", "needs"),
    [("{0}, [], {0}", GIVEN), ("{0}, [], {0}, True", ON_REQUEST)],
)
def test_what_is_put_is_no_sum(arguments: str, needs: Determinism) -> None:
    """A cache of keys is written at places of which none is there twice."""
    op = call("index_put")
    put = CallOp("aten.index_put.default", op.inputs, arguments, [op.outputs[0].type])
    assert determinism_of(put) == needs


def test_operators_that_are_listed_exist() -> None:
    missing = [name for name in LISTED if not hasattr(torch.ops.aten, name)]
    assert not missing


PROGRAM = """
func.func @f(%x: tensor<?xf32> {coda.dims = ["M"]}, %i: tensor<?xi64> {coda.dims = ["N"]},
             %d: tensor<?xf32> {coda.dims = ["N"]}) -> (tensor<?xf32>, tensor<?xf32>) {
  %a = torch.call "aten.index_add.default"(%x, %i, %d) {arguments = "{0}, 0, {1}, {2}", coda.dims = ["M"]} : (tensor<?xf32>, tensor<?xi64>, tensor<?xf32>) -> tensor<?xf32>
  %b = torch.vjp "aten.index_select.default"(%x, %i : tensor<?xf32>, tensor<?xi64>) of(%d : tensor<?xf32>) {arguments = "{0}, 0, {1}", of = [0], wrt = [0]} -> tensor<?xf32>
  func.return %a, %b : tensor<?xf32>, tensor<?xf32>
}
"""  # noqa: E501


def test_emitted_calls_ask_for_it() -> None:
    """Also in the derivative, and what was set before holds after it."""
    run = load_program(PROGRAM)
    modes: list[tuple[bool, bool]] = []
    ids, d = torch.tensor([2, 0, 2]), torch.randn(3)
    switch = torch._C._set_deterministic_algorithms  # pyright: ignore

    def spy(enabled: bool, *, warn_only: bool) -> None:
        modes.append((enabled, warn_only))
        switch(enabled, warn_only=warn_only)

    torch._C._set_deterministic_algorithms = spy  # pyright: ignore
    try:
        added, selected = run(torch.zeros(4), ids, d)
    finally:
        torch._C._set_deterministic_algorithms = switch  # pyright: ignore
    exact = torch.zeros(4).index_add(0, ids, d)
    assert torch.equal(added, exact) and torch.equal(selected, exact)
    assert modes == [(True, True), (False, False)] * 2
