"""Kernels store rows of caches that calls in place would store: numbers, layouts, main loops."""

import re
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from support.device import DEVICE, on_device
from support.emitted import load_module
from support.kernel_harness import gemms_of
from torch import Tensor

from coda_ir.api import parse
from coda_ir.backends.triton import emit_module
from coda_ir.backends.triton.aot import compile_kernels
from coda_ir.backends.triton.gemm_kernel import emit_gemm
from coda_ir.backends.triton.names import NameAllocator
from coda_ir.context import make_context
from coda_ir.cost_model.rows import RowCounts
from coda_ir.dialects.gemm import FusedOp
from coda_ir.dialects.gemm.tiling import ColumnCuts
from coda_ir.dialects.gemm.warp_specialized import staging
from coda_ir.passes.layout.accumulate_in_place import AccumulateInPlacePass
from coda_ir.passes.layout.place_parts import PlacePartsPass
from coda_ir.passes.layout.unfusing import unfuse
from coda_ir.tuning.problem import Problem

pytestmark = [
    pytest.mark.any_device,
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
]

B, S, D = 3, 7, 32
"""Sequences, rows of a cache, columns of a head."""

PROGRAM = """
func.func @f(
    %x : tensor<3x1x72xbf16>, %w : tensor<96x72xbf16>, %v : tensor<64x72xbf16>,
    %keys : tensor<KEYSxbf16> {coda.donated}, %values : tensor<VALUESxbf16> {coda.donated},
    %at : tensor<1xi64>, %to : tensor<1xi64>) -> (tensor<KEYSxbf16>, tensor<VALUESxbf16>) {
  %k, %u = gemm.fused %x : tensor<3x1x72xbf16> schedule<SCHEDULE>
      columns(%w : tensor<96x72xbf16>) pair<halves, 32> -> (tile : tensor<3x1x96xbf16>) {
      ^epilogue(%a : f32, %b : f32):
        %s = arith.subf %a, %b : f32
        gemm.yield %s, %b : f32, f32
      }
      columns(%v : tensor<64x72xbf16>) -> (tile : tensor<3x1x64xbf16>) {
      ^epilogue(%acc : f32):
        gemm.yield %acc : f32
      }
  %kh = coda.reshape %k : (tensor<3x1x96xbf16>) -> tensor<NEW_KEYSxbf16>
  %uh = coda.reshape %u : (tensor<3x1x64xbf16>) -> tensor<NEW_VALUESxbf16>
  %k1 = torch.call "aten.index_put.default"(%keys, %at, %kh) {arguments = "KEYS_ARGUMENTS"}
    : (tensor<KEYSxbf16>, tensor<1xi64>, tensor<NEW_KEYSxbf16>) -> tensor<KEYSxbf16>
  %v1 = torch.call "aten.index_copy.default"(%values, %to, %uh) {arguments = "{0}, DIM, {1}, {2}"}
    : (tensor<VALUESxbf16>, tensor<1xi64>, tensor<NEW_VALUESxbf16>) -> tensor<VALUESxbf16>
  func.return %k1, %v1 : tensor<KEYSxbf16>, tensor<VALUESxbf16>
}
"""

LAYOUTS = {"heads first": 2, "rows first": 1}
"""The dimension of the rows in caches of B x H x S x D and of B x S x H x D."""

LOOPS = {
    "pointer": 'pointer, "16x32x16", warps = 4, stages = 1, group_m = 2',
    "split": 'pointer, "16x32x16", warps = 4, stages = 1, group_m = 2, split_k = 3',
    "tma": 'tma, "16x32x64", warps = 4, stages = 3, group_m = 2',
}


def text_of(layout: str, schedule: str = LOOPS["pointer"]) -> str:
    dim = LAYOUTS[layout]

    def cache(heads: int, rows: int) -> str:
        return "x".join(map(str, (B, *((heads, rows) if dim == 2 else (rows, heads)), D)))

    replaced = {
        "NEW_KEYS": cache(3, 1),
        "NEW_VALUES": cache(2, 1),
        "KEYS_ARGUMENTS": f"{{0}}, [{'None, ' * dim}{{1}}], {{2}}",
        "KEYS": cache(3, S),
        "VALUES": cache(2, S),
        "DIM": str(dim),
        "SCHEDULE": schedule,
    }
    text = PROGRAM
    for old, new in replaced.items():
        text = re.sub(rf"\b{old}(?=x|\b)", lambda _, new=new: new, text)
    return text


def stored(text: str) -> Any:
    """The program after the passes that store in place."""
    module = parse(text)
    for step in (AccumulateInPlacePass(), PlacePartsPass()):
        step.apply(make_context(), module)
    module.verify()
    return module


def draw(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape))).bfloat16()


def check(source: str, layout: str, at: int) -> None:
    """The caches have a new row, in the memory that they had, and are as before elsewhere."""
    assert "index_put" not in source and "index_copy" not in source
    dim = LAYOUTS[layout]
    x, w, v = draw(B, 1, 72), draw(96, 72), draw(64, 72)
    caches = [draw(B, heads, S, D).transpose(1, dim % 2 + 1).contiguous() for heads in (3, 2)]
    expected = [cache.double() for cache in caches]
    a, b = F.linear(x.double(), w.double()).reshape(B, 3, 2, 16).unbind(2)
    rows = torch.cat([a - b, b], -1), F.linear(x.double(), v.double()).reshape(B, 2, D)
    for cache, row in zip(expected, rows, strict=True):
        cache.select(dim, at).copy_(row)
    given = [x, w, v, *caches, torch.tensor([at]), torch.tensor([at % S])]
    found = on_device(load_module(source).run)(*given)
    for cache, result in zip(expected, found, strict=True):
        torch.testing.assert_close(result.double(), cache, rtol=2**-7, atol=1e-2)
    if DEVICE == "cpu":
        assert [y.data_ptr() for y in found] == [cache.data_ptr() for cache in caches]


@pytest.mark.parametrize("at", [0, S - 1, -2])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_each_layout(layout: str, at: int):
    check(emit_module(stored(text_of(layout))), layout, at)


def test_split_k():
    check(emit_module(stored(text_of("heads first", LOOPS["split"]))), "heads first", 4)


@pytest.mark.skipif(DEVICE != "cpu", reason="on a GPU a number that is no row ends the program")
def test_a_number_that_is_no_row():
    source = emit_module(stored(text_of("heads first")))
    caches = [draw(B, heads, S, D) for heads in (3, 2)]
    given = [draw(B, 1, 72), draw(96, 72), draw(64, 72), *(x.clone() for x in caches)]
    for at, to, message in (
        (S, 0, f"at: row 0 has {S}, expected -{S} to {S - 1}"),
        (-S - 1, 0, f"at: row 0 has {-S - 1}, expected -{S} to {S - 1}"),
        (0, -1, f"to: row 0 has -1, expected 0 to {S - 1}"),
    ):
        with pytest.raises(IndexError, match=f"{message}$"):
            load_module(source).run(*given, torch.tensor([at]), torch.tensor([to]))
        assert all(map(torch.equal, given[3:], caches))


def test_compiled_ahead_of_time():
    (op,) = gemms_of(stored(text_of("heads first", LOOPS["tma"])))
    (compiled,) = compile_kernels([emit_gemm(op, NameAllocator())], "sm_90", "ptx")
    assert "trap" in str(compiled.text) or "__assertfail" in str(compiled.text)


def test_boxes_have_no_row_that_is_known_late():
    schedule = 'warp_specialized, "128x64x64", warps = 8, stages = 3, group_m = 2'
    (op,) = gemms_of(stored(text_of("heads first", schedule)))
    assert op.schedule is not None
    obstacle = staging(ColumnCuts(op), op.schedule)
    assert "row that is known when the kernel runs" in str(obstacle)


def test_products_apart_from_their_epilogue():
    """The pointwise kernels after the products of a library store the rows."""
    module = stored(text_of("rows first"))
    (op,) = gemms_of(module)
    op.schedule = None
    unfuse(op, "library")
    module.verify()
    check(emit_module(module), "rows first", 3)


def test_what_is_tuned_has_no_cache():
    (op,) = gemms_of(stored(text_of("heads first")))
    found = Problem.of(op, RowCounts({}))
    assert isinstance(op, FusedOp) and found is not None
    found.module.verify()
    assert " at<" not in found.text
