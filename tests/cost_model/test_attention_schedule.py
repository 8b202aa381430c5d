"""How many programs share the heads of queries of a tile of the gradients of attention."""

import pytest

import coda_ir
from coda_ir.cost_model import DEVICES, attention_schedule
from coda_ir.dialects import gemm

GRADIENTS = """
func.func @f(%q: QUERIES, %m: LSE, %k: KEYS) -> (KEYS, KEYS) {
  %dk, %dv = gemm.attention_dkv (%q : QUERIES, %m : LSE, %m : LSE, %q : QUERIES, %k : KEYS,
      %k : KEYS) {head_dim = WIDTH : i64, causal = true} -> (tile : KEYS, tile : KEYS) {
  ^epilogue(%a : f32, %b : f32):
    gemm.yield %a, %b : f32, f32
  }
  func.return %dk, %dv : KEYS, KEYS
}
"""


@pytest.mark.parametrize(
    ("width", "heads", "of_keys", "fastest"),
    [(256, 16, 1, 8), (256, 16, 4, 2), (256, 16, 16, 1), (128, 32, 1, 16), (128, 32, 8, 2)],
)
def test_programs_that_share_the_heads_of_a_tile(
    width: int, heads: int, of_keys: int, fastest: int
):
    """The fastest of those that were measured on an H200, for 2 x 1024 tokens."""
    types = {
        "QUERIES": f"tensor<2x1024x{heads * width}xbf16>",
        "KEYS": f"tensor<2x1024x{of_keys * width}xbf16>",
        "LSE": f"tensor<2x{heads}x1024xf32>",
        "WIDTH": str(width),
    }
    text = GRADIENTS
    for name, type in types.items():
        text = text.replace(name, type)
    (op,) = (op for op in coda_ir.parse(text).walk() if isinstance(op, gemm.AttentionDkvOp))
    schedule = attention_schedule(op, DEVICES["h200"], "auto", 2048)
    assert schedule.split_k.data == fastest
