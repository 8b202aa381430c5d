"""Ports that combine the partials of their rows, as kernels, against float64."""

from pathlib import Path

import pytest
import torch
from support.compiled_kernels import compiled
from support.device import on_device
from support.emitted import load_module, load_program
from support.gemm_programs import scaled_rows
from support.inputs import random_inputs
from support.kernel_harness import (
    check_against_reference,
    function_of,
    gemms_of,
    parse_module,
    random_arguments,
)

import coda_ir
from coda_ir.api import Lowering, find_entry, parse
from coda_ir.backends.reference import run_function
from coda_ir.backends.triton import emit_module
from coda_ir.backends.triton.aot import compile_kernels
from coda_ir.backends.triton.finalize_kernel import emit_finalize
from coda_ir.backends.triton.gemm_kernel import emit_gemm
from coda_ir.backends.triton.names import NameAllocator
from coda_ir.cost_model.rows import RowCounts
from coda_ir.diagnostics import CodaError
from coda_ir.dialects.gemm import FinalizeOp
from coda_ir.float64 import relative_error
from coda_ir.options import CompileOptions
from coda_ir.tuning.problem import Problem

pytestmark = pytest.mark.any_device

POINTER = 'pointer, "32x64x32", warps = 4, stages = 2, group_m = 2'
IN_PARTS = 'pointer, "64x64x32", warps = 1, stages = 1, group_m = 2'
TMA = 'tma, "64x64x32", warps = 4, stages = 2, group_m = 2'
WARP_SPECIALIZED = 'warp_specialized, "128x256x64", warps = 8, stages = 3, group_m = 2'
PING_PONG = 'ping_pong, "64x256x64", warps = 8, stages = 3, group_m = 2'


@pytest.mark.slow
@pytest.mark.parametrize(
    ("combiner", "tiles", "schedule", "rows"),
    [
        ("add", 1, POINTER, 1),
        ("add", 3, IN_PARTS, 70),
        ("max", 8, POINTER, 33),
        ("lse", 5, IN_PARTS, 65),
        ("lse", 33, TMA, 40),
        ("add", 16, TMA, 1),
        ("add", 3, WARP_SPECIALIZED, 130),
        ("max", 16, WARP_SPECIALIZED, 64),
        ("lse", 33, PING_PONG, 70),
        ("add", 1, PING_PONG, 1),
    ],
)
def test_combined(combiner: str, tiles: int, schedule: str, rows: int, tmp_path: Path):
    check_against_reference(scaled_rows(combiner, tiles, schedule), [rows], tmp_path)


@pytest.mark.parametrize("schedule", [POINTER, IN_PARTS, WARP_SPECIALIZED])
def test_in_pair_mode(schedule: str, tmp_path: Path):
    text = scaled_rows("add", 7, schedule, pairs=True)
    kernel = check_against_reference(text, [70], tmp_path)
    assert kernel.name == "gemm_finalize_glu"


def test_number_of_partials_has_to_be_known():
    module = parse_module(scaled_rows("add", "?", POINTER))
    (op,) = gemms_of(module)
    with pytest.raises(CodaError, match="number of partials of a partial_add port is not known"):
        emit_gemm(op, NameAllocator())


MAP = """
func.func @f(%x: tensor<?xNxbf16>, %p: tensor<?xTxf32>) -> (tensor<?xNxf32>, tensor<Nxf32>) {
  %y, %sums = gemm.map tile(%x : tensor<?xNxbf16>) partial_add(%p : tensor<?xTxf32>)
      -> (tile : tensor<?xNxf32>, partial_col<add> : tensor<?xNxf32>) {
  ^epilogue(%a : f32, %s : f32):
    %0 = arith.mulf %a, %s : f32
    gemm.yield %0, %0 : f32, f32
  }
  %z = gemm.finalize col (add %sums : tensor<?xNxf32>) -> (tensor<Nxf32>) {
  ^bb0(%a : f32):
    gemm.yield %a : f32
  }
  func.return %y, %z : tensor<?xNxf32>, tensor<Nxf32>
}
"""

MAP_OF_PAIRS = """
func.func @f(%x: tensor<?xNxbf16>, %p: tensor<?xTxf32>) -> tensor<?xNxf32> {
  %y = gemm.map pair<halves, N> tile(%x : tensor<?xNxbf16>) partial_add(%p : tensor<?xTxf32>)
      -> (tile : tensor<?xNxf32>) {
  ^epilogue(%a : f32, %b : f32, %s : f32):
    %0 = arith.mulf %b, %s : f32
    %1 = arith.subf %a, %s : f32
    gemm.yield %0, %1 : f32, f32
  }
  func.return %y : tensor<?xNxf32>
}
"""


MAP_WITH_POSITION = """
func.func @f(%x: tensor<?xNxbf16>, %p: tensor<?xTxf32>) -> tensor<?xNxf32> {
  %i = coda.positions {start = 7 : i64, step = 1 : i64} : () -> tensor<1xi64>
  %y = gemm.map tile(%x : tensor<?xNxbf16>) partial_add(%p : tensor<?xTxf32>)
      scalar(%i : tensor<1xi64>) -> (tile : tensor<?xNxf32>) {
  ^epilogue(%a : f32, %s : f32, %n : i64):
    %0 = arith.sitofp %n : i64 to f32
    %1 = arith.mulf %s, %0 : f32
    %2 = arith.addf %a, %1 : f32
    gemm.yield %2 : f32
  }
  func.return %y : tensor<?xNxf32>
}
"""


@pytest.mark.parametrize(
    ("text", "combiner", "tiles", "columns", "rows"),
    [
        (MAP, "add", 1, 5, 1),
        (MAP, "lse", 33, 600, 70),
        (MAP, "max", 300, 40, 19),
        (MAP_OF_PAIRS, "add", 7, 48, 130),
        (MAP_WITH_POSITION, "max", 3, 40, 33),
    ],
)
def test_of_maps(text: str, combiner: str, tiles: int, columns: int, rows: int):
    text = text.replace("_add(", f"_{combiner}(").replace("N", str(columns))
    text = text.replace("T", str(tiles))
    func = function_of(parse_module(text))
    arguments = random_arguments(func, [rows], torch.Generator().manual_seed(rows))
    found = load_program(text)(*arguments)
    results = [found] if isinstance(found, torch.Tensor) else found
    for got, exact in zip(results, run_function(func, arguments, "float64"), strict=True):
        assert got.shape == exact.shape and relative_error(got, exact) < 1e-6


def test_columns_of_a_map_have_to_be_known():
    text = MAP_OF_PAIRS.replace(" pair<halves, N>", "").replace("N", "?").replace("T", "3")
    text = text.replace("%b : f32, ", "").replace("%b", "%a").replace("%0, %1 : f32,", "%0 :")
    with pytest.raises(CodaError, match="partial_add port of a pointwise kernel is over a symbol"):
        emit_module(parse_module(text))


NORMS = """
const D = 128

fn norms(
    x: bf16[B, T, D], weight w: bf16[D, D], weight g: bf16[D], weight b: bf16[D],
    weight u: bf16[48, D], weight v: bf16[32, D],
) -> (bf16[B, T, 48], bf16[B, T, 32]) {
    y = linear(x, w)
    h = layer_norm(y, g, b, eps=1e-5)
    return relu(linear(h, u)), linear(h, v)
}
"""


STORED_NORMS = """
const D = 512

fn stored_norms(
    x: bf16[B, T, D], weight w: bf16[D, D], weight g: bf16[D], weight b: bf16[D],
    weight u: bf16[D, D], weight v: bf16[96, D],
) -> (bf16[B, T, D], bf16[B, T, 96]) {
    y = x + rms_norm(linear(x, w), g, eps=1e-6)
    z = linear(y, u)
    h = layer_norm(z, g, b, eps=1e-5)
    return y + h, linear(h, v)
}
"""
"""No tile has whole rows. The second norm moves past the GEMM that multiplies it, and is stored
with the residual."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "constants", "launches"),
    [
        ("examples/llama_layer.coda", {"D": 128, "F": 192, "HEAD": 32}, (5, 4)),
        (NORMS, {}, (4, 3)),
        (STORED_NORMS, {}, (7, 5)),
    ],
)
def test_programs(program: str, constants: dict[str, int], launches: tuple[int, int]):
    """Fewer kernels, and the numbers of before."""
    module = parse(program, constants=constants)
    arguments = random_inputs(find_entry(module), {"B": 2, "T": 70})
    exact = run_function(find_entry(module), arguments, "float64")
    errors: list[list[float]] = []
    for schedule, count in zip((" absorb=false", " absorb=true"), launches, strict=True):
        lowered = Lowering(module, CompileOptions(f"target=interpreter{schedule}")).module(
            "scheduled"
        )
        emitted = load_module(emit_module(lowered))
        assert len(emitted.KERNELS) == count
        results = on_device(emitted.run)(*arguments)
        stated = run_function(find_entry(lowered), arguments, "stated")
        errors += [list(map(relative_error, each, exact)) for each in (results, stated)]
    for before, after in zip(errors[:2], errors[2:], strict=True):
        assert all(b <= 1.05 * a + 1e-7 for a, b in zip(before, after, strict=True))


@pytest.mark.parametrize("schedule", [POINTER, TMA, WARP_SPECIALIZED])
def test_ahead_of_time(schedule: str):
    """Partials wait in registers for the end of the main loop, and need no others."""
    compiled(scaled_rows("add", 16, schedule), "sm_90")


COLUMNS = """
func.func @f(%p: tensor<?xNxf32>) -> tensor<Nxf32> {
  %y = gemm.finalize col (add %p : tensor<?xNxf32>) -> (tensor<Nxf32>) {
  ^bb0(%0: f32):
    gemm.yield %0 : f32
  }
  func.return %y : tensor<Nxf32>
}
"""


@pytest.mark.parametrize("combiner", ["add", "max", "lse"])
@pytest.mark.parametrize(("tiles", "columns"), [(1100, 3), (530, 20), (130, 2100), (1, 70)])
def test_columns(combiner: str, tiles: int, columns: int):
    """A program reads a block of the partials of 4 to 32 columns at a time, in several steps."""
    p = torch.randn(tiles, columns, generator=torch.Generator().manual_seed(tiles))
    text = COLUMNS.replace("N", str(columns)).replace("(add", f"({combiner}")
    combine = {"add": torch.sum, "max": torch.amax, "lse": torch.logsumexp}[combiner]
    found = load_program(text)(p)
    assert relative_error(found, combine(p.double(), 0)) < 1e-6


MOMENTS = """
func.func @f(%p: tensor<?x16xf32>, %q: tensor<?x16xf32>)
    -> (tensor<?x1xf32>, tensor<?xf32>, tensor<?xf32>) {
  %a, %b, %c = gemm.finalize row (add %p : tensor<?x16xf32>, lse %q : tensor<?x16xf32>)
      -> (tensor<?x1xf32>, tensor<?xf32>, tensor<?xf32>) {
  ^bb0(%0: f32, %1: f32):
    %2 = math.rsqrt %1 : f32
    %3 = arith.mulf %2, %0 : f32
    gemm.yield %2, %0, %3 : f32, f32, f32
  }
  func.return %a, %b, %c : tensor<?x1xf32>, tensor<?xf32>, tensor<?xf32>
}
"""


def test_a_finalize_stores_sums_and_their_product_ahead_of_time():
    """Triton 3.6 fails where the sums are columns."""
    op = next(op for op in parse_module(MOMENTS).walk() if isinstance(op, FinalizeOp))
    (kernel,) = compile_kernels(
        [emit_finalize(op, NameAllocator(), [16, 16], None)], "sm_90", jobs=1
    )
    assert not kernel.resources.spills


GATED = """
func.func @f(%x: tensor<128x128xbf16>, %w: tensor<64x128xbf16>, %b: tensor<64xbf16>,
    %u: tensor<128x1xbf16>, %r: tensor<128x64xbf16>, %a: tensor<128x64xbf16>)
    -> (tensor<128x64xbf16>, tensor<128x64xbf16>) {
  %y, %z = gemm.fused %x : tensor<128x128xbf16>
    schedule<tma, "128x64x64", warps = 4, stages = 3, group_m = 8>
    columns(%w : tensor<64x128xbf16>) col(%u : tensor<128x1xbf16>) row(%b : tensor<64xbf16>)
    tile(%r : tensor<128x64xbf16>) tile(%a : tensor<128x64xbf16>)
    -> (tile : tensor<128x64xbf16>, tile : tensor<128x64xbf16>) {
  ^bb0(%acc: f32, %gate: f32, %bias: f32, %residual: f32, %other: f32):
    %one = arith.constant 1.0 : f32
    %rest = arith.subf %one, %gate : f32
    %0 = arith.addf %acc, %bias : f32
    %1 = arith.addf %residual, %0 : f32
    %2 = arith.mulf %1, %gate : f32
    %3 = arith.mulf %other, %rest : f32
    %4 = arith.addf %2, %3 : f32
    gemm.yield %1, %4 : f32, f32
  }
  func.return %y, %z : tensor<128x64xbf16>, tensor<128x64xbf16>
}
"""


def test_a_gate_of_each_row_and_the_rest_of_it_ahead_of_time():
    """Triton 3.6 fails where both are columns."""
    compiled(GATED, "sm_90")


TABLE_OF_ONE = """
func.func @f(%x: tensor<?x16xf32> {coda.dims = ["M", 16]}, %w: tensor<48x16xf32>,
    %p: tensor<?xf32> {coda.dims = ["M"]}, %t: tensor<1xf32>) -> tensor<?x48xf32> {
  %y = gemm.fused %x : tensor<?x16xf32>
    schedule<pointer, "64x32x16", warps = 1, stages = 1, group_m = 2>
    columns(%w : tensor<48x16xf32>) col(%p : tensor<?xf32>) table(%t : tensor<1xf32>)
    -> (tile : tensor<?x48xf32>) {
  ^bb0(%acc: f32, %row: f32, %one: f32):
    %0 = arith.minnumf %row, %one : f32
    %1 = arith.addf %acc, %0 : f32
    gemm.yield %1 : f32
  }
  func.return %y : tensor<?x48xf32>
}
"""


def test_a_table_of_one_element_beside_an_element_of_each_row(tmp_path: Path):
    """The table is loaded for each column."""
    check_against_reference(TABLE_OF_ONE, [70], tmp_path)


def test_alone_as_tuning_measures_it():
    """The number of partials is known without the GEMM that makes them."""
    module = parse("examples/llama_layer.coda", constants={"D": 128, "F": 192, "HEAD": 32})
    lowered = Lowering(module, CompileOptions("target=interpreter absorb=true")).module("scheduled")
    readers = [op for op in gemms_of(lowered) if "partial_add" in str(op.segment_attrs)]
    assert len(readers) == 2
    for op in readers:
        problem = Problem.of(op, RowCounts({"B": 2, "T": 3}))
        assert problem is not None and problem.emit(op.schedule).source


@pytest.mark.parametrize(
    "rows, dim, is_known", [("M", 0, False), ("4096", 0, True), ("8, 512", 1, True)]
)
def test_kernels_know_how_many_partials_known_rows_have(rows: str, dim: int, is_known: bool):
    text = f"fn f(x: bf16[{rows}, 64]) {{ return sum(x * x, dim={dim}) }}"
    source = coda_ir.compile(text, device="cpu").source
    assert ("finalize_col_sum(partial_ptr, out_ptr, count)" in source) == is_known
