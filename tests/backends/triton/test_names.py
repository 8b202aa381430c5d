"""Names in emitted modules: nothing is called what the module uses of Python itself."""

import ast
import builtins
from collections.abc import Iterator

import pytest
import torch
from support.emitted import load_module
from support.goldens import EXAMPLES, small_example

from coda_ir.api import parse
from coda_ir.backends.triton import emit_module
from coda_ir.backends.triton.kernel import USED_BUILTINS, NameAllocator
from coda_ir.context import make_context
from coda_ir.pipeline import PassManager, parse_pipeline
from coda_ir.registry import get_all_passes

COPY_AND_PACK = """
func.func @f(%x: tensor<?x8xbf16>, %w: tensor<24x8xf32>, %g: tensor<8xf32>)
    -> (tensor<?x8xf32>, tensor<24xf32>) {
  %y = gemm.map tile(%x : tensor<?x8xbf16>) -> (tile : tensor<?x8xf32>) {
  ^epilogue(%a : f32):
    gemm.yield %a : f32
  }
  %v = gemm.pack_weight nk %w, %g : (tensor<24x8xf32>, tensor<8xf32>) -> tensor<24xf32>
  func.return %y, %v : tensor<?x8xf32>, tensor<24xf32>
}
"""
"""A kernel that only copies was named `map`, which the cache of packed weights calls."""


def test_kernels_do_not_hide_what_the_host_calls():
    emitted = load_module(emit_module(parse(COPY_AND_PACK, syntax="mlir")))
    x, w, g = torch.randn(5, 8).bfloat16(), torch.randn(24, 8), torch.randn(8)
    y, v = emitted.run(x, w, g)
    torch.testing.assert_close(y, x.float())
    torch.testing.assert_close(v, w @ g)


@pytest.mark.parametrize("name", USED_BUILTINS)
def test_builtins_are_no_names(name: str):
    assert NameAllocator().fresh(name) == f"{name}_1"


def test_used_builtins_are_listed():
    module = small_example(EXAMPLES / "llama_layer.coda")
    pipeline = parse_pipeline(
        "coda-to-gemm{fold-weights=true},schedule,plan-buffers", get_all_passes()
    )
    PassManager(pipeline).run(make_context(), module)
    packing = parse(COPY_AND_PACK, syntax="mlir")
    direct = emit_module(module, direct_launch=True)
    for source in (emit_module(module), emit_module(packing), direct):
        assert set(used_builtins(source)) <= {*USED_BUILTINS}


def used_builtins(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Name(id=name, ctx=ast.Load()) if name in vars(builtins):
                yield name
            case _:
                pass
