"""Tiles of experts, which have several rows of each token."""

import re

import pytest

import coda_ir
from coda_ir.context import make_context
from coda_ir.dialects.gemm import FusedOp, ScheduleAttr
from coda_ir.passes.layout.schedule import SchedulePass

EXPERTS = """
func.func @f(%x: tensor<?x4096xbf16> {coda.dims = ["T", 4096 : i64]}, %ends: tensor<128xi32>,
    %w: tensor<128x4096x4096xbf16>, %ids: tensor<?xi64> {coda.dims = ["8*T"]})
    -> tensor<?x4096xbf16> {
  %y = gemm.fused %x : tensor<?x4096xbf16> groups(%ends : tensor<128xi32>)
    gather(%ids : tensor<?xi64>)
    columns(%w : tensor<128x4096x4096xbf16>) -> (tile : tensor<?x4096xbf16>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  func.return %y : tensor<?x4096xbf16>
}
"""


@pytest.mark.parametrize(("tokens", "rows"), [(1, 1), (4, 16), (4096, 128), (None, 128)])
def test_tiles_of_experts(tokens: int | None, rows: int):
    """A token has eight rows, each of another expert: an expert has 256 of 4096 tokens, and 1024
    of unknown ones.
    """
    sizes = None if tokens is None else f"T={tokens}"
    found = [schedule(text, sizes) for text in (EXPERTS, static(EXPERTS, tokens or 16384))]
    assert [each.block_m.data for each in found] == [rows, rows]
    if tokens is not None:
        assert found[0] == found[1]


def static(text: str, tokens: int) -> str:
    text = re.sub(r" \{coda.dims = [^}]*\}", "", text)
    text = re.sub(r"(%x ?: tensor<)\?", rf"\g<1>{tokens}", text)
    return text.replace("tensor<?", f"tensor<{8 * tokens}")


def schedule(text: str, sizes: str | None) -> ScheduleAttr:
    module = coda_ir.parse(text)
    chosen = SchedulePass(target="sm_90", mainloop="warp_specialized", sizes=sizes)
    chosen.apply(make_context(), module)
    (op,) = [op for op in module.walk() if isinstance(op, FusedOp)]
    assert op.schedule is not None
    return op.schedule
