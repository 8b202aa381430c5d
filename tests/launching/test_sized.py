"""Programs of symbolic sizes, whose schedules are those for the sizes of their calls."""

import re
from dataclasses import replace

import pytest
import torch

import coda_ir
from coda_ir.api import CompiledFunction
from coda_ir.cache.origin import Origin
from coda_ir.context import make_context
from coda_ir.dialects.gemm import FusedOp
from coda_ir.float64 import relative_error
from coda_ir.lowering import Lowering
from coda_ir.options import CompileOptions
from coda_ir.passes.layout.schedule import SchedulePass
from coda_ir.sized import SizedExecutable, SizedLowerings, lower

LINEAR = """
fn f(x: f32[B, T, 16], w: f32[8, 16]) {
    return linear(x, w)
}
"""

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

GPU = CompileOptions(is_for_gpu=True)
CPU = torch.device("cpu")


def origin(text: str) -> Origin:
    return Origin({"text": text}, lambda _: coda_ir.parse(text))


def sized(text: str) -> SizedLowerings:
    return SizedLowerings(origin(text), CompileOptions())


def tensors(batch: int, time: int) -> list[torch.Tensor]:
    return [torch.randn(shape) for shape in ((batch, time, 16), (8, 16))]


def executable(lowerings: SizedLowerings) -> tuple[CompiledFunction, SizedExecutable]:
    function = CompiledFunction(lowerings, None, "triton", CPU)
    assert isinstance(function.executable, SizedExecutable)
    return function, function.executable


def test_calls_are_right_in_any_order_of_sizes(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("coda_ir.sized.FEW_ROWS", (1, 16))
    lowerings = sized(LINEAR)
    function, _ = executable(lowerings)
    for batch, time in ((2, 3), (1, 1), (1, 17), (4, 4)):
        x, w = tensors(batch, time)
        assert relative_error(function(x, w), function.reference([x, w])) < 1e-6
    found = lowerings._found  # pyright: ignore[reportPrivateUsage]
    assert list(found) == ["B=1,T=16", "B=1,T=1"]


def test_the_program_for_the_sizes_of_the_first_call_is_made_ahead():
    lowerings = sized(LINEAR)
    function, _ = executable(lowerings)
    function.prepare({"B": 1, "T": 1})
    assert str(lowerings.module("scheduled")) == str(
        lowerings({"B": 1, "T": 1}).module("scheduled")
    )


def test_schedules_do_not_depend_on_which_call_comes_first():
    """So that each run gives the same bits."""
    made: list[str] = []
    for first in ((1, 2), (4, 4), (13, 1)):
        lowerings = sized(LINEAR)
        function, sized_executable = executable(lowerings)
        function.prepare(dict(zip("BT", first, strict=True)))
        made.append(sized_executable.info.source)
    assert len(set(made)) == 1


def test_sizes_stand_for_their_bucket():
    text = """
fn f(x: f32[B, T, 16], y: f32[B, 16], w: f32[8, 16]) {
    return linear(x, w), linear(y, w)
}
"""
    lowerings = sized(text)
    function, _ = executable(lowerings)
    for batch, time in ((3, 5), (2, 400), (16, 1)):
        function.prepare({"B": batch, "T": time})
    found = lowerings._found  # pyright: ignore[reportPrivateUsage]
    assert list(found) == ["B=16,T=1", "B=16,T=64"]


def test_known_sizes_do_not_grow_without_end(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("coda_ir.sized.MAX_KNOWN_SIZES", 2)
    monkeypatch.setattr("coda_ir.sized.FEW_ROWS", (1,))
    function, sized_executable = executable(sized(LINEAR))
    for time in (3, 4, 5, 3):
        x, w = tensors(1, time)
        assert relative_error(function(x, w), function.reference([x, w])) < 1e-6
    known = sized_executable._by_size  # pyright: ignore[reportPrivateUsage]
    assert len(known) <= 2


def test_the_compiler_of_a_program_that_does_not_run_is_ended():
    class Compiler:
        ended = 0

        def end(self) -> None:
            self.ended += 1

    lowerings, compiler = sized(LINEAR), Compiler()
    function, _ = executable(lowerings)
    lowerings.unsized.compiler = compiler  # pyright: ignore[reportAttributeAccessIssue]
    function.prepare({"B": 16, "T": 1024})
    assert compiler.ended == 0
    function.prepare({"B": 1, "T": 1})
    assert compiler.ended == 1


def test_nothing_is_made_while_a_cuda_graph_is_captured(monkeypatch: pytest.MonkeyPatch):
    lowerings = sized(LINEAR)
    function, _ = executable(lowerings)
    monkeypatch.setattr("coda_ir.sized._is_capturing", lambda: True)
    x, w = tensors(1, 3)
    assert relative_error(function(x, w), function.reference([x, w])) < 1e-6
    assert str(lowerings.module("scheduled")) == str(lowerings.unsized.module("scheduled"))


def test_levels_without_schedules_are_shared():
    lowerings = sized(LINEAR)
    lowerings.unsized.module("scheduled")
    other = lowerings({"B": 1, "T": 1})
    assert other.module("gemm") is lowerings.unsized.module("gemm")
    other.module("scheduled")
    assert len(other.remarks) == len(lowerings.unsized.remarks)


@pytest.mark.parametrize(("tokens", "rows"), [(1, 16), (4096, 128), (None, 128)])
def test_tiles_of_experts(tokens: int | None, rows: int):
    """A token has eight rows: an expert has 256 of 4096 tokens, and 1024 of unknown ones."""
    sizes = None if tokens is None else f"T={tokens}"
    found = [gemm_of(text, sizes) for text in (EXPERTS, static(EXPERTS, tokens or 16384))]
    assert [tile_rows(op) for op in found] == [rows, rows]
    if tokens is not None:
        assert found[0].schedule == found[1].schedule


def static(text: str, tokens: int) -> str:
    text = re.sub(r" \{coda.dims = [^}]*\}", "", text)
    text = text.replace("%x: tensor<?", f"%x: tensor<{tokens}")
    text = text.replace("%x : tensor<?", f"%x : tensor<{tokens}")
    return text.replace("tensor<?", f"tensor<{8 * tokens}")


def gemm_of(text: str, sizes: str | None) -> FusedOp:
    module = coda_ir.parse(text)
    chosen = SchedulePass(target="sm_90", mainloop="warp_specialized", sizes=sizes)
    chosen.apply(make_context(), module)
    return next(op for op in module.walk() if isinstance(op, FusedOp))


def tile_rows(op: FusedOp) -> int:
    assert op.schedule is not None
    return op.schedule.block_m.data


def test_which_programs_have_some_for_sizes():
    """Those for GPUs, unless their options state sizes, or each program would keep weights."""
    assert isinstance(lower(origin(LINEAR), GPU), SizedLowerings)
    for options in (
        CompileOptions(),
        replace(GPU, schedule="sizes=B=1,T=1"),
        replace(GPU, fold_weights=True),
    ):
        assert isinstance(lower(origin(LINEAR), options), Lowering)
    static = sized(LINEAR.replace("B, T", "2, 3"))
    function = CompiledFunction(static, None, "triton", CPU)
    assert not isinstance(function.executable, SizedExecutable)
