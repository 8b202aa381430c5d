"""Ports that combine the partials of their rows, as kernels, against float64."""

from pathlib import Path

import pytest
from support.compiled_kernels import compiled
from support.device import on_device
from support.emitted import load_module
from support.gemm_programs import scaled_rows
from support.inputs import random_inputs
from support.kernel_harness import check_against_reference, gemms_of, parse_module

from coda_ir.api import Lowering, find_entry, parse
from coda_ir.backends.reference import run_function
from coda_ir.backends.triton import emit_module
from coda_ir.backends.triton.gemm_kernel import emit_gemm
from coda_ir.backends.triton.names import NameAllocator
from coda_ir.cost_model.rows import RowCounts
from coda_ir.diagnostics import CodaError
from coda_ir.float64 import relative_error
from coda_ir.options import CompileOptions
from coda_ir.tuning.problem import Problem

pytestmark = pytest.mark.any_device

POINTER = 'pointer, "32x64x32", warps = 4, stages = 2, group_m = 2'
IN_PARTS = 'pointer, "64x64x32", warps = 1, stages = 1, group_m = 2'
TMA = 'tma, "64x64x32", warps = 4, stages = 2, group_m = 2'
WARP_SPECIALIZED = 'warp_specialized, "128x256x64", warps = 8, stages = 3, group_m = 2'
PING_PONG = 'ping_pong, "64x256x64", warps = 8, stages = 3, group_m = 2'


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


@pytest.mark.parametrize(
    ("program", "constants", "launches"),
    [
        ("examples/llama_layer.coda", {"D": 128, "F": 192, "HEAD": 32}, (5, 4)),
        (NORMS, {}, (4, 3)),
    ],
)
def test_programs(program: str, constants: dict[str, int], launches: tuple[int, int]):
    """Fewer kernels, and the numbers of before."""
    module = parse(program, constants=constants)
    arguments = random_inputs(find_entry(module), {"B": 2, "T": 70})
    exact = run_function(find_entry(module), arguments, "float64")
    errors: list[list[float]] = []
    for schedule, count in zip(("", " absorb=true"), launches, strict=True):
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


def test_alone_as_tuning_measures_it():
    """The number of partials is known without the GEMM that makes them."""
    module = parse("examples/llama_layer.coda", constants={"D": 128, "F": 192, "HEAD": 32})
    lowered = Lowering(module, CompileOptions("target=interpreter absorb=true")).module("scheduled")
    readers = [op for op in gemms_of(lowered) if "partial_add" in str(op.segment_attrs)]
    assert len(readers) == 2
    for op in readers:
        problem = Problem.of(op, RowCounts({"B": 2, "T": 3}))
        assert problem is not None and problem.emit(op.schedule).source
