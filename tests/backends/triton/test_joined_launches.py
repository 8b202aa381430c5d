"""Kernels of one program that run in the program before: results, and where they must not join."""

from typing import Any, cast

import pytest
import torch
from support.emitted import load_module

from coda_ir.api import compile, parse
from coda_ir.backends.triton import emit_module
from coda_ir.backends.triton.host_values import (
    ROW_COUNT,
    HostValue,
    constant,
    joined,
    nth_operand,
)
from coda_ir.backends.triton.module import emit_program
from coda_ir.context import make_context
from coda_ir.pipeline import PassManager, parse_pipeline
from coda_ir.registry import get_all_passes

pytestmark = pytest.mark.any_device

ROUTER = """fn router(x: f32[{rows}, 16]) {{
    values, ids = topk(softmax(x), 2)
    {between}
    return values / sum(values), ids, sort_order
}}
"""
ORDER = "_, sort_order = sort(reshape(ids, [6]))"


def run(text: str, x: torch.Tensor) -> tuple[tuple[str, ...], tuple[torch.Tensor, ...]]:
    function = cast(Any, compile(text, device="cpu"))
    return function.kernels, function(x)


def check_router(x: torch.Tensor, weights: torch.Tensor, ids: torch.Tensor) -> None:
    values, expected = x.double().softmax(-1).topk(2)
    assert torch.equal(ids, expected)
    exact = values / values.sum(-1, keepdim=True)
    torch.testing.assert_close(weights.double(), exact, rtol=1e-6, atol=0)


def test_steps_of_a_router() -> None:
    x = torch.randn(3, 16)
    text = ROUTER.format(rows=3, between="sort_order = gather(x, ids)")
    kernels, (weights, ids, scores) = run(text, x)
    assert len(kernels) == 1
    check_router(x, weights, ids)
    assert torch.equal(scores, x.gather(1, ids))


def test_a_call_of_pytorch_reads_what_was_stored_before() -> None:
    x = torch.randn(3, 16)
    kernels, (weights, ids, order) = run(ROUTER.format(rows=3, between=ORDER), x)
    assert len(kernels) == 2
    check_router(x, weights, ids)
    assert torch.equal(order, ids.flatten().sort(stable=True).indices)


@pytest.mark.parametrize("rows", ["M", 300])
def test_several_programs_do_not_join(rows: int | str) -> None:
    x = torch.randn(300, 16)
    kernels, (weights, ids, _) = run(ROUTER.format(rows=rows, between="sort_order = ids"), x)
    assert len(kernels) > 1
    check_router(x, weights, ids)


def test_a_kernel_that_packs_weights_is_in_the_module() -> None:
    module = parse("""
        func.func @f(%x: tensor<?x8xf32>, %w: tensor<9x8xf32> {coda.weight},
                     %v: tensor<8xf32> {coda.weight}) -> (tensor<?x8xf32>, tensor<9xf32>) {
          %0 = gemm.pack_weight nk %w, %v : (tensor<9x8xf32>, tensor<8xf32>) -> tensor<9xf32>
          func.return %x, %0 : tensor<?x8xf32>, tensor<9xf32>
        }""")
    x, w, v = torch.randn(2, 8), torch.randn(9, 8), torch.randn(8)
    _, packed = load_module(emit_module(module)).run(x, w, v)
    torch.testing.assert_close(packed.double(), w.double() @ v.double(), rtol=0, atol=1e-5)


def test_a_step_is_named_as_a_function_that_it_calls() -> None:
    module = parse("""
        func.func @f(%x: tensor<3x5xf32>) -> tensor<3x5xf32> {
          %0 = coda.cos %x : (tensor<3x5xf32>) -> tensor<3x5xf32>
          %1 = coda.sin %0 : (tensor<3x5xf32>) -> tensor<3x5xf32>
          func.return %1 : tensor<3x5xf32>
        }""")
    emitted = load_module(emit_module(module))
    assert len(emitted.KERNELS) == 1
    x = torch.randn(3, 5)
    torch.testing.assert_close(emitted.run(x).double(), x.double().cos().sin(), rtol=0, atol=1e-6)


SPLIT = 'pointer, "16x16x16", warps = 4, stages = 2, group_m = 1, split_k = 3'
GEMM = f"""
func.func @f(%x: tensor<2x70xf32>, %w: tensor<16x70xf32>) -> (tensor<2x3xf32>, tensor<2x3xi64>) {{
  %s = gemm.fused %x : tensor<2x70xf32>
    schedule<{SPLIT}>
    columns(%w : tensor<16x70xf32>) -> (tile : tensor<2x16xf32>) {{
    ^bb0(%acc: f32):
      %0 = math.exp %acc : f32
      gemm.yield %0 : f32
    }}
  %v, %i = coda.topk %s {{k = 3 : i64, dim = 1 : i64}} : (tensor<2x16xf32>)
      -> (tensor<2x3xf32>, tensor<2x3xi64>)
  func.return %v, %i : tensor<2x3xf32>, tensor<2x3xi64>
}}
"""


def test_the_last_program_of_a_split_tile_goes_on(tmp_path: Any) -> None:
    """Whichever program that is: in the interpreter, programs follow one another."""
    module = parse(GEMM)
    PassManager(parse_pipeline("plan-buffers", get_all_passes())).run(make_context(), module)
    emitted = load_module(emit_module(module), tmp_path)
    assert len(emitted.KERNELS) == 1
    x, w = torch.randn(2, 70), torch.randn(16, 70)
    values, ids = emitted.run(x, w)
    exact, expected = (x.double() @ w.double().T).exp().topk(3)
    assert torch.equal(ids, expected)
    torch.testing.assert_close(values.double(), exact, rtol=1e-4, atol=0)


def two_gemms(first: str, second: str, attributes: str = "") -> str:
    """Return the source of two GEMMs of one program, with these schedules."""
    gemm = """gemm.fused %{x} : tensor<64x64xbf16>
    schedule<{schedule}, group_m = 1>
    columns(%w : tensor<64x64xbf16>) kn -> (tile : tensor<64x64xbf16>) {{
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }}"""
    return emit_module(
        parse(f"""
func.func @f(%x: tensor<64x64xbf16>, %w: tensor<64x64xbf16>) -> tensor<64x64xbf16> {{
  %y = {gemm.format(x="x", schedule=first)}
  %z = {gemm.format(x="y", schedule=second)} {attributes}
  func.return %z : tensor<64x64xbf16>
}}""")
    )


POINTER, TMA = (f'{loop}, "64x64x64", warps = 4, stages = 2' for loop in ("pointer", "tma"))


@pytest.mark.parametrize(
    ("first", "second", "are_joined"),
    [
        (POINTER, POINTER, True),
        (POINTER, TMA, False),
        (TMA, POINTER, False),
        (POINTER, POINTER.replace("stages = 2", "stages = 3"), False),
    ],
)
def test_kernels_of_descriptors_or_other_stages_do_not_join(
    first: str, second: str, are_joined: bool
) -> None:
    assert ("gemm_then_gemm" in two_gemms(first, second)) is are_joined


def test_a_tile_that_does_not_wait_is_not_launched_early() -> None:
    """The step after it may be one that waits: the programs of the tile read memory before."""
    step = """gemm.map tile(%s : tensor<2x16xf32>) -> (tile : tensor<2x16xf32>) {
    ^bb0(%t: f32):
      gemm.yield %t : f32
    } attributes {coda.dependent}"""
    text = GEMM[: GEMM.index("  %v, %i")].replace(
        "(tensor<2x3xf32>, tensor<2x3xi64>) {", "tensor<2x16xf32> {"
    )
    source = emit_module(parse(f"{text}  %t = {step}\n  func.return %t : tensor<2x16xf32>\n}}"))
    host = source[source.index("\ndef run(") :]
    assert "_then_" in host and "OVERLAPPING" not in host


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (ROW_COUNT.ceiling(16) * 4, 4),
        (ROW_COUNT.ceiling(1) * constant(3), 24),
        (constant(17).ceiling(8), 3),
        (nth_operand(0).shape(0).ceiling(8) * ROW_COUNT, None),
        (constant("SIZE"), None),
        (joined("min(", ROW_COUNT, ", 4)"), None),
    ],
)
def test_numbers_of_host_expressions_for_8_rows(value: HostValue, number: int | None) -> None:
    assert value.count(8) == number


VIEW = """
func.func @f(%dy: tensor<1x16x16xbf16>,
    %y: tensor<1x16x16xbf16>, %lse: tensor<1x1x16xf32>,
    %x: tensor<16x16xbf16>)
    -> (tensor<1x16x16xbf16>, tensor<1x16x16xbf16>, tensor<1x16x16xbf16>) {
  %q = coda.reshape %x : (tensor<16x16xbf16>) -> tensor<1x16x16xbf16>
  %dq, %dk, %dv = coda.attention_grad %dy, %y, %lse, %q, %q, %q {head_dim = 16 : i64, causal = true}
      : (tensor<1x16x16xbf16>, tensor<1x16x16xbf16>, tensor<1x1x16xf32>,
         tensor<1x16x16xbf16>, tensor<1x16x16xbf16>, tensor<1x16x16xbf16>)
      -> (tensor<1x16x16xbf16>, tensor<1x16x16xbf16>, tensor<1x16x16xbf16>)
  func.return %dq, %dk, %dv : tensor<1x16x16xbf16>, tensor<1x16x16xbf16>, tensor<1x16x16xbf16>
}
"""


def test_programs_by_the_size_of_a_view_do_not_join() -> None:
    module = parse(VIEW)
    passes = "coda-to-gemm,schedule{target=sm_90},plan-buffers"
    PassManager(parse_pipeline(passes, get_all_passes())).run(make_context(), module)
    emitted = emit_program(module, direct_launch=True)
    assert [kernel.name for kernel in emitted.kernels] == ["attention_dq", "attention_dkv"]
