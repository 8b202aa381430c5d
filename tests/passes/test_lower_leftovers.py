"""Calls of programs in graphs of inference and of training."""

from pathlib import Path

import pytest
from xdsl.dialects.func import CallOp

from coda_ir.context import make_context
from coda_ir.mlir.reader import read_module
from coda_ir.passes.layout import leftover_cost
from coda_ir.passes.pipelines.lower_leftovers import LowerLeftoversPass

GOLDEN = Path(__file__).parents[1] / "filecheck" / "passes" / "lower_leftovers.mlir"

BACKWARD = """
func.func @backward(%dy: tensor<4xf32>) -> tensor<4xf32> attributes {coda.boxed} {
  func.return %dy : tensor<4xf32>
}
"""


@pytest.mark.parametrize("first", [True, False], ids=["forward first", "backward first"])
def test_calls_take_longer_beside_a_backward(monkeypatch: pytest.MonkeyPatch, *, first: bool):
    monkeypatch.setattr(leftover_cost, "CALL_US", -1.0)
    monkeypatch.setattr(leftover_cost, "TRAINED_CALL_US", 1e9)
    text = GOLDEN.read_text().split("// -----")[0]
    both = text + BACKWARD if first else BACKWARD + text
    for given, becomes_graph in ((text, True), (both, False)):
        module = read_module(given, "module.mlir")
        LowerLeftoversPass().apply(make_context(), module)
        assert any(isinstance(op, CallOp) for op in module.walk()) is becomes_graph
