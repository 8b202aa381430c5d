"""Kernels store their results where a concatenation has them: numbers, main loops, schedules."""

import re
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from support.device import DEVICE, on_device
from support.emitted import load_module
from support.gluon_simulator import Settings, load_module as load_simulated
from support.kernel_harness import gemms_of
from torch import Tensor

import coda_ir
from coda_ir.api import parse
from coda_ir.backends.triton import emit_module
from coda_ir.backends.triton.aot import compile_kernels
from coda_ir.backends.triton.gemm_kernel import emit_gemm
from coda_ir.backends.triton.names import NameAllocator
from coda_ir.context import make_context
from coda_ir.cost_model.rows import RowCounts
from coda_ir.dialects.gemm import FusedOp, ScheduleAttr
from coda_ir.dialects.gemm.tiling import column_ranges
from coda_ir.float64 import relative_error
from coda_ir.lowering import Lowering
from coda_ir.passes.layout.place_parts import PlacePartsPass
from coda_ir.passes.layout.unfusing import unfuse, why_not_unfused
from coda_ir.tuning.problem import Problem

pytestmark = [
    pytest.mark.any_device,
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
]

JOINED = """
func.func @f(%x : tensor<?x72xbf16>, %w : tensor<256x72xbf16>, %v : tensor<128x72xbf16>)
    -> tensor<?x4x96xbf16> {
  %q, %r = gemm.fused %x : tensor<?x72xbf16> schedule<SCHEDULE>
      columns(%w : tensor<256x72xbf16>) -> (tile : tensor<?x256xbf16>) {
      ^epilogue(%acc : f32):
        gemm.yield %acc : f32
      }
      columns(%v : tensor<128x72xbf16>) pair<halves, 32> -> (tile : tensor<?x128xbf16>) {
      ^epilogue(%a : f32, %b : f32):
        %s = arith.subf %a, %b : f32
        %t = arith.addf %a, %b : f32
        gemm.yield %s, %t : f32, f32
      }
  %qs = coda.reshape %q : (tensor<?x256xbf16>) -> tensor<?x4x64xbf16>
  %rs = coda.reshape %r : (tensor<?x128xbf16>) -> tensor<?x4x32xbf16>
  %c = coda.concat %qs, %rs {dim = 2 : i64}
    : (tensor<?x4x64xbf16>, tensor<?x4x32xbf16>) -> tensor<?x4x96xbf16>
  func.return %c : tensor<?x4x96xbf16>
}
"""

SHARED = """
func.func @f(%x : tensor<?x72xbf16>, %w : tensor<256x72xbf16>, %v : tensor<32x72xbf16>)
    -> tensor<?x4x96xbf16> {
  %q, %r = gemm.fused %x : tensor<?x72xbf16> schedule<SCHEDULE>
      columns(%w : tensor<256x72xbf16>) -> (tile : tensor<?x256xbf16>) {
      ^epilogue(%acc : f32):
        gemm.yield %acc : f32
      }
      columns(%v : tensor<32x72xbf16>) -> (tile : tensor<?x32xbf16>) {
      ^epilogue(%acc : f32):
        gemm.yield %acc : f32
      }
  %qs = coda.reshape %q : (tensor<?x256xbf16>) -> tensor<?x4x64xbf16>
  %rs = coda.reshape %r : (tensor<?x32xbf16>) -> tensor<?x1x32xbf16>
  %each = coda.broadcast %rs : (tensor<?x1x32xbf16>) -> tensor<?x4x32xbf16>
  %c = coda.concat %qs, %each {dim = 2 : i64}
    : (tensor<?x4x64xbf16>, tensor<?x4x32xbf16>) -> tensor<?x4x96xbf16>
  func.return %c : tensor<?x4x96xbf16>
}
"""
"""The columns of %v stand beside those of each head of %w."""

STREAMS = """
func.func @f(%x : tensor<?x50x72xbf16>, %y : tensor<?x7x72xbf16>, %w : tensor<192x72xbf16>)
    -> tensor<?x57x3x64xbf16> {
  %a = gemm.fused %x : tensor<?x50x72xbf16> schedule<SCHEDULE>
      columns(%w : tensor<192x72xbf16>) -> (tile : tensor<?x50x192xbf16>) {
      ^epilogue(%acc : f32):
        gemm.yield %acc : f32
      }
  %b = gemm.fused %y : tensor<?x7x72xbf16> schedule<SCHEDULE>
      columns(%w : tensor<192x72xbf16>) pair<halves, 64> -> (tile : tensor<?x7x192xbf16>) {
      ^epilogue(%s : f32, %t : f32):
        gemm.yield %t, %s : f32, f32
      }
  %as = coda.reshape %a : (tensor<?x50x192xbf16>) -> tensor<?x50x3x64xbf16>
  %bs = coda.reshape %b : (tensor<?x7x192xbf16>) -> tensor<?x7x3x64xbf16>
  %c = coda.concat %bs, %as {dim = 1 : i64}
    : (tensor<?x7x3x64xbf16>, tensor<?x50x3x64xbf16>) -> tensor<?x57x3x64xbf16>
  func.return %c : tensor<?x57x3x64xbf16>
}
"""
"""The rows of two GEMMs, 7 and 50 of each sample."""

FACTORS = """
func.func @f(%x : tensor<?x144xbf16>, %w : tensor<256x72xbf16>, %v : tensor<72x256xbf16>)
    -> (tensor<?x128xbf16>, tensor<?x128xbf16>) {
  %a = coda.slice %x {dim = 1 : i64, start = 0 : i64, stop = 72 : i64}
    : (tensor<?x144xbf16>) -> tensor<?x72xbf16>
  %b = coda.slice %x {dim = 1 : i64, start = 72 : i64, stop = 144 : i64}
    : (tensor<?x144xbf16>) -> tensor<?x72xbf16>
  %turns = coda.reshape %w : (tensor<256x72xbf16>) -> tensor<128x2x72xbf16>
  %even = coda.slice %turns {dim = 1 : i64, start = 0 : i64, stop = 1 : i64}
    : (tensor<128x2x72xbf16>) -> tensor<128x1x72xbf16>
  %odd = coda.slice %turns {dim = 1 : i64, start = 1 : i64, stop = 2 : i64}
    : (tensor<128x2x72xbf16>) -> tensor<128x1x72xbf16>
  %w0 = coda.reshape %even : (tensor<128x1x72xbf16>) -> tensor<128x72xbf16>
  %w1 = coda.reshape %odd : (tensor<128x1x72xbf16>) -> tensor<128x72xbf16>
  %v0 = coda.slice %v {dim = 1 : i64, start = 0 : i64, stop = 128 : i64}
    : (tensor<72x256xbf16>) -> tensor<72x128xbf16>
  %v1 = coda.slice %v {dim = 1 : i64, start = 128 : i64, stop = 256 : i64}
    : (tensor<72x256xbf16>) -> tensor<72x128xbf16>
  %y = gemm.fused %b : tensor<?x72xbf16> schedule<SCHEDULE>
      columns(%w0 : tensor<128x72xbf16>, %w1 : tensor<128x72xbf16>) pair<halves>
        -> (half : tensor<?x128xbf16>) {
      ^epilogue(%s : f32, %t : f32):
        %0 = arith.subf %s, %t : f32
        gemm.yield %0 : f32
      }
  %z = gemm.fused %a : tensor<?x72xbf16> + %b : tensor<?x72xbf16> schedule<SCHEDULE>
      columns(%v0 : tensor<72x128xbf16>) + (%v1 : tensor<72x128xbf16>) kn
        -> (tile : tensor<?x128xbf16>) {
      ^epilogue(%acc : f32):
        gemm.yield %acc : f32
      }
  func.return %y, %z : tensor<?x128xbf16>, tensor<?x128xbf16>
}
"""
"""Factors are ranges of columns, and every other row."""

GRADIENTS = """
func.func @f(%x : tensor<?x144xbf16>, %d : tensor<?x256xbf16>) -> tensor<128x2x72xbf16> {
  %h = coda.slice %x {dim = 1 : i64, start = 72 : i64, stop = 144 : i64}
    : (tensor<?x144xbf16>) -> tensor<?x72xbf16>
  %a = coda.slice %d {dim = 1 : i64, start = 0 : i64, stop = 128 : i64}
    : (tensor<?x256xbf16>) -> tensor<?x128xbf16>
  %b = coda.slice %d {dim = 1 : i64, start = 128 : i64, stop = 256 : i64}
    : (tensor<?x256xbf16>) -> tensor<?x128xbf16>
  %even, %odd = gemm.fused transposed %h : tensor<?x72xbf16> schedule<SCHEDULE>
      columns(%a : tensor<?x128xbf16>) kn -> (tile_t : tensor<128x72xbf16>) {
      ^epilogue(%acc : f32):
        gemm.yield %acc : f32
      }
      columns(%b : tensor<?x128xbf16>) kn -> (tile_t : tensor<128x72xbf16>) {
      ^epilogue(%acc : f32):
        gemm.yield %acc : f32
      }
  %first = coda.reshape %even : (tensor<128x72xbf16>) -> tensor<128x1x72xbf16>
  %second = coda.reshape %odd : (tensor<128x72xbf16>) -> tensor<128x1x72xbf16>
  %c = coda.concat %first, %second {dim = 1 : i64}
    : (tensor<128x1x72xbf16>, tensor<128x1x72xbf16>) -> tensor<128x2x72xbf16>
  func.return %c : tensor<128x2x72xbf16>
}
"""
"""Tiles that are stored transposed are every other row of a tensor."""

LOOPS = {
    "pointer": 'pointer, "16x32x16", warps = 4, stages = 1, group_m = 2',
    "split": 'pointer, "16x32x16", warps = 4, stages = 1, group_m = 2, split_k = 3',
    "warp-specialized": 'warp_specialized, "128x256x64", warps = 8, stages = 3, group_m = 2',
    "narrow": 'warp_specialized, "128x64x64", warps = 8, stages = 3, group_m = 2',
    "ping-pong": 'ping_pong, "128x128x64", warps = 8, stages = 4, group_m = 2',
}


def draw(*shape: int, scale: float = 1.0) -> Tensor:
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.randn(shape, generator=generator) * scale


def placed(schedule: str, text: str = JOINED) -> Any:
    module = parse(text.replace("SCHEDULE", schedule))
    PlacePartsPass().apply(make_context(), module)
    module.verify()
    return module


def more_than_a_tile(loop: str) -> int:
    return 150 if '"128x' in LOOPS[loop] else 20


@pytest.mark.slow
@pytest.mark.parametrize("is_one_row", [True, False])
@pytest.mark.parametrize("loop", LOOPS)
def test_every_main_loop(loop: str, is_one_row: bool):
    """Two ranges of a GEMM, one in pairs, whose last tiles are not full."""
    check(emit_module(placed(LOOPS[loop])), 1 if is_one_row else more_than_a_tile(loop))


@pytest.mark.slow
@pytest.mark.parametrize("loop", LOOPS)
def test_columns_beside_those_of_each_head(loop: str):
    module = placed(LOOPS[loop], SHARED)
    assert "at<64, 32, 96, 4>" in str(module)
    rows = more_than_a_tile(loop)
    x, w, v, found = joined(emit_module(module), rows, 32)
    q, k = F.linear(x, w).reshape(rows, 4, 64), F.linear(x, v)[:, None].expand(rows, 4, 32)
    torch.testing.assert_close(found, torch.cat([q, k], -1), rtol=2**-8, atol=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("samples", [1, 3])
@pytest.mark.parametrize("loop", LOOPS)
def test_rows_of_each_sample(loop: str, samples: int):
    """Tiles that have rows of several samples store them at places of their own."""
    module = placed(LOOPS[loop], STREAMS)
    assert {f"at<{7 * 192}, {50 * 192}, ", f"at<0, {7 * 192}, "} <= set(
        re.findall(r"at<\d+, \d+, ", str(module))
    )
    shapes = (samples, 50, 72), (samples, 7, 72), (192, 72)
    x, y, w, found = run(emit_module(module), *shapes)
    a, b = F.linear(x, w).reshape(-1, 50, 3, 64), F.linear(y, w).reshape(-1, 7, 3, 64)
    expected = torch.cat([b.roll(32, -1), a], 1)
    torch.testing.assert_close(found, expected, rtol=2**-8, atol=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("loop", [*LOOPS, "tma"])
def test_parts_that_are_multiplied(loop: str):
    """They are read in place, and so are parts of weights stored whose gradients they are."""
    schedule = LOOPS.get(loop, LOOPS["pointer"].replace("pointer", "tma"))
    rows = 20 if loop not in LOOPS else more_than_a_tile(loop)
    x, w, v, y, z = run(emit_module(placed(schedule, FACTORS)), (rows, 144), (256, 72), (72, 256))
    turns = F.linear(x[:, 72:], w).reshape(rows, 128, 2)
    torch.testing.assert_close(y, turns[..., 0] - turns[..., 1], rtol=2**-8, atol=1e-2)
    exact = x[:, :72] @ v[:, :128] + x[:, 72:] @ v[:, 128:]
    torch.testing.assert_close(z, exact, rtol=2**-8, atol=1e-2)
    x, d, c = run(emit_module(placed(schedule, GRADIENTS)), (rows, 144), (rows, 256))
    exact = (d.T @ x[:, 72:]).reshape(2, 128, 72).transpose(0, 1)
    torch.testing.assert_close(c, exact, rtol=2**-8, atol=1e-2)


def joined(source: str, rows: int, columns: int) -> tuple[Tensor, ...]:
    """The arguments and the result of a program, in float64."""
    return run(source, (rows, 72), (256, 72), (columns, 72))


def run(source: str, *shapes: tuple[int, ...]) -> tuple[Tensor, ...]:
    """Random arguments and the result of a program that copies nothing, in float64."""
    assert not any(each in source for each in ("torch.cat", ".copy_(", "\ndef copy"))
    given = [draw(*shape).bfloat16() for shape in shapes]
    is_simulated = "gluon" in source and DEVICE == "cpu"
    module: Any = load_simulated(source, Settings(0, 1)) if is_simulated else load_module(source)
    found: Any = on_device(module.run)(*given)
    results = [found] if isinstance(found, Tensor) else found
    return tuple(tensor.double() for tensor in (*given, *results))


def check(source: str, rows: int) -> None:
    """The program joins both products."""
    x, w, v, found = joined(source, rows, 128)
    q = F.linear(x, w).reshape(rows, 4, 64)
    a, b = F.linear(x, v).reshape(rows, 4, 2, 16).unbind(2)
    torch.testing.assert_close(found, torch.cat([q, a - b, a + b], -1), rtol=2**-8, atol=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("text", [JOINED, SHARED, STREAMS], ids=["heads", "one head", "rows"])
@pytest.mark.parametrize("loop", ["warp-specialized", "ping-pong"])
def test_compiled_ahead_of_time(loop: str, text: str):
    op = gemms_of(placed(LOOPS[loop], text))[-1]
    (compiled,) = compile_kernels([emit_gemm(op, NameAllocator())], "sm_90", "ptx")
    assert "cp.async.bulk.tensor" in str(compiled.text)


def test_a_box_has_one_place():
    """Parts are as narrow as the runs of columns; where none is, the main loop is refused."""
    (op,) = gemms_of(placed(LOOPS["warp-specialized"]))
    schedule = op.schedule
    assert schedule is not None
    plain, pairs = (column_ranges(segment, schedule)[0] for segment in op.segments())
    assert (plain.lanes, pairs.lanes) == (64, 16)
    changes = ("128x72", "256x72"), ("?x128", "?x256"), ("halves, 32", "halves, 8")
    changes += ("4x64x", "32x8x"), ("4x32x", "32x8x"), ("4x96x", "32x16x")
    text = JOINED.replace("SCHEDULE", LOOPS["pointer"])
    for old, new in changes:
        text = text.replace(old, new)
    module = parse(text)
    assert column_ranges(gemms_of(module)[0].segments()[0], schedule)
    PlacePartsPass().apply(make_context(), module)
    (op,) = gemms_of(module)
    assert op.segments()[0].results[0].port.is_placed
    with pytest.raises(ValueError, match="a box has 16 columns, expected a divisor of 8"):
        column_ranges(op.segments()[0], schedule)


PROGRAMS: dict[str, tuple[str, tuple[str, ...]]] = {
    "heads": (
        """q = rope(linear(x, wq), cos, sin, head_dim=8)
        c = concat(reshape(linear(x, w), [B, T, 3, 16]), reshape(q, [B, T, 3, 8]))
        return reshape(c, [B, T, 72])""",
        (),
    ),
    "shared": (
        """k = broadcast(reshape(linear(x, wq), [B, T, 1, 24]), [B, T, 3, 24])
        return reshape(concat(reshape(linear(x, w), [B, T, 3, 16]), k), [B, T, 120])""",
        (),
    ),
    "rows": ("return concat(silu(linear(x, w)), linear(x, wq), linear(x, w) * 2)", ()),
    "gate": ("return concat(silu(linear(x, w)) * linear(x, w), linear(x, wq))", ()),
    "pointwise": ("return concat(exp(x) - 1, linear(x, w))", ()),
    "argument": ("return concat(x, linear(x, w))", ("copy",)),
    "samples": (
        """q = linear(tail, wq) * 3
        return concat(q, silu(linear(head, wq)), tail[:, :, 0:24] * 2, dim=1)""",
        (),
    ),
    "stacked": (
        """halves = concat(reshape(tail, [B, 1, 3, 48]), reshape(exp(tail), [B, 1, 3, 48]), dim=1)
        return reshape(halves, [B, 288])""",
        (),
    ),
    "padded": (
        "return pad(reshape(linear(x, w), [B, T, 3, 16]), 8, 16, value=-2)",
        ("fill", "fill"),
    ),
    "twice": (
        """c = concat(linear(x, wq), linear(x, wq) + 1)
        return concat(linear(c, w), c)""",
        ("copy",),
    ),
}
"""The joined values, and the calls beside the kernels."""


def text_of(name: str, dtype: str) -> str:
    return f"""fn f(
        x: {dtype}[B, T, 48],
        w: {dtype}[48, 48],
        wq: {dtype}[24, 48],
        cos: f32[T, 4],
        sin: f32[T, 4],
        head: {dtype}[B, 2, 48],
        tail: {dtype}[B, 3, 48],
    ) {{
        {PROGRAMS[name][0]}
    }}"""


def inputs(b: int, t: int, dtype: torch.dtype) -> list[Tensor]:
    angles = draw(t, 4)
    tensors = [draw(b, t, 48), draw(48, 48, scale=0.15), draw(24, 48, scale=0.15)]
    streams = [draw(b, 2, 48), draw(b, 3, 48)]
    tables = [angles.cos(), angles.sin()]
    return [*(x.to(dtype) for x in tensors), *tables, *(x.to(dtype) for x in streams)]


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["bf16", "f32"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name: str, dtype: str):
    """Close to float64 in any size, and nothing is concatenated."""
    text = text_of(name, dtype)
    function = coda_ir.compile(text, device=DEVICE)
    steps = PROGRAMS[name][1]
    source = function.source
    assert "torch.cat" not in source
    assert source.count(".copy_(") == steps.count("copy")
    assert source.count(".fill_(") == steps.count("fill")
    for sizes in [(2, 5), (1, 1), (3, 17)]:
        given = inputs(*sizes, torch.bfloat16 if dtype == "bf16" else torch.float32)
        found = on_device(function)(*given)
        assert found.is_contiguous()
        assert relative_error(found, function.reference(given)) < (
            1e-2 if dtype == "bf16" else 1e-6
        )


@pytest.mark.slow
@pytest.mark.parametrize("name", ["heads", "shared", "gate"])
def test_gradients(name: str):
    text = text_of(name, "f32")
    gradients: list[tuple[Tensor, ...]] = []
    for target in ("triton", "reference"):
        function: Any = coda_ir.compile(text, device=DEVICE, training=True, target=target)
        given = inputs(2, 5, torch.float32)
        wrt = [x.requires_grad_() for x in given[:3]]
        y = on_device(function)(*given)
        gradients.append(torch.autograd.grad(y, wrt, draw(*y.shape)))
    torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-4)


def gemm_of(text: str) -> FusedOp:
    module = Lowering(coda_ir.parse(text)).module("gemm")
    return next(op for op in module.walk() if isinstance(op, FusedOp))


@pytest.mark.parametrize(("name", "results"), [("heads", 2), ("shared", 2), ("samples", 1)])
def test_what_is_tuned_has_the_places(name: str, results: int):
    """The GEMM by itself stores parts of tensors, too, beside zeros."""
    found = Problem.of(gemm_of(text_of(name, "bf16")), RowCounts({"B": 2, "T": 8}))
    assert found is not None
    found.module.verify()
    assert found.text.count(" at<") == results
    schedule = 'pointer, "16x32x16", warps = 4, stages = 1, group_m = 2'
    (op,) = gemms_of(placed(schedule))
    assert isinstance(op.schedule, ScheduleAttr)
    assert ".fill_(0.0)" in found.emit(op.schedule).source


def test_library_calls_store_no_parts():
    module = placed(LOOPS["pointer"])
    (op,) = gemms_of(module)
    schedule, op.schedule = op.schedule, None
    refusal = why_not_unfused(op, "library")
    assert refusal is not None and "part of another tensor" in refusal.found
    assert why_not_unfused(op, "kernels") is None
    unfuse(op, "kernels")
    module.verify()
    gemms_of(module)[0].schedule = schedule
    assert str(module).count(" at<") == 2
    check(emit_module(module), 19)
