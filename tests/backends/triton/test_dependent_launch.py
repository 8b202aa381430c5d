"""Launches that overlap: what kernels wait for, in the text and in what it compiles to."""

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from support.emitted import load_module
from support.gemm_programs import residual_norm
from support.inputs import random_inputs
from support.kernel_harness import check_against_reference, parse_module
from xdsl.dialects.builtin import ModuleOp

from coda_ir.api import Lowering, find_entry, parse
from coda_ir.backends.triton import emit_module
from coda_ir.backends.triton.aot import compile_kernels
from coda_ir.backends.triton.module import emit_program
from coda_ir.context import make_context
from coda_ir.diagnostics import CodaError
from coda_ir.dialects.gemm import DEPENDENT_ATTRIBUTE
from coda_ir.options import CompileOptions
from coda_ir.passes.layout.overlap_launches import OverlapLaunchesPass

PROGRAM = """
func.func @f(%x: tensor<?x128xbf16>, %w: tensor<256x128xbf16>, %v: tensor<64x256xbf16>)
    -> tensor<?x64xbf16> {{
  %y, %p = gemm.fused %x : tensor<?x128xbf16>
      schedule<{schedule}>
      columns(%w : tensor<256x128xbf16>)
      -> (tile : tensor<?x256xbf16>, partial_row<add> : tensor<?x?xf32>) {{
  ^epilogue(%acc : f32):
    gemm.yield %acc, %acc : f32, f32
  }} attributes {{coda.dependent}}
  %s = gemm.finalize row (add %p : tensor<?x?xf32>) -> (tensor<?x1xf32>) {{
  ^epilogue(%sum : f32):
    gemm.yield %sum : f32
  }} attributes {{coda.dependent}}
  %a = gemm.map tile(%y : tensor<?x256xbf16>) col(%s : tensor<?x1xf32>)
      -> (tile : tensor<?x256xbf16>) {{
  ^epilogue(%0 : f32, %1 : f32):
    %2 = arith.mulf %0, %1 : f32
    gemm.yield %2 : f32
  }} attributes {{coda.dependent}}
  %z = gemm.fused %a : tensor<?x256xbf16>
      schedule<{schedule}>
      columns(%v : tensor<64x256xbf16>) -> (tile : tensor<?x64xbf16>) {{
  ^epilogue(%acc : f32):
    gemm.yield %acc : f32
  }}
  func.return %z : tensor<?x64xbf16>
}}
"""

SCHEDULES = (
    'pointer, "64x64x64", warps = 4, stages = 2, group_m = 2',
    'tma, "64x64x64", warps = 4, stages = 2, group_m = 2',
    'warp_specialized, "128x64x64", warps = 8, stages = 3, group_m = 2',
)

MEMORY = re.compile(r"\b(ld\.global|st\.global|cp\.async|atom\.|red\.)")
"""Instructions of PTX that access global memory."""


@pytest.mark.parametrize("schedule", SCHEDULES, ids=lambda text: text.split(",")[0])
def test_instructions(schedule: str):
    """A kernel waits before it accesses memory, and starts the next one after that."""
    program = emit_program(parse_module(PROGRAM.format(schedule=schedule)))
    # The kernels without a GEMM have no schedule.
    kernels = program.kernels if schedule == SCHEDULES[0] else program.kernels[::3]
    compiled = compile_kernels(kernels, "sm_90", "ptx")
    *dependent, plain = zip(kernels, compiled, strict=True)
    for kernel, machine in dependent:
        code = machine.text[machine.text.index(".entry") :]
        assert kernel.is_dependent and machine.resources.spills == 0
        assert code.count("griddepcontrol.wait") == 1
        assert "griddepcontrol.launch_dependents" in code
        wait = code.index("griddepcontrol.wait")
        assert MEMORY.search(code) is not None
        if "setmaxnreg" not in code:
            # Warps that load and compute are told to begin, wherever their text is.
            assert all(found.start() > wait for found in MEMORY.finditer(code))
            assert wait < code.index("griddepcontrol.launch_dependents")
    kernel, machine = plain
    assert not kernel.is_dependent and "griddepcontrol" not in machine.text


def test_groups_of_warps_begin_after_the_wait():
    program = emit_program(parse_module(PROGRAM.format(schedule=SCHEDULES[2])))
    source = program.kernels[0].source
    wait, begin = "gluon_wait_for_earlier_kernels()", "gl.warp_specialize("
    assert source.count(wait) == 1 and source.index(wait) < source.index(begin)
    load = source[: source.index("_compute(")]
    assert load.rstrip().index("gluon_start_next_kernel()") > load.index("step += 1")


def test_groups_of_warps_in_the_simulator(tmp_path: Path):
    text = residual_norm("bf16", 72, 264, SCHEDULES[2])
    text = text.replace("f32, f32, f32\n  }", "f32, f32, f32\n  } attributes {coda.dependent}")
    assert check_against_reference(text, [130], tmp_path).is_dependent


def test_launches():
    """The option is there for each kernel that waits, in both kinds of launches."""
    module = parse_module(PROGRAM.format(schedule=SCHEDULES[0]))
    for direct in (False, True):
        source = emit_module(module, direct_launch=direct)
        assert source.count("**OVERLAPPING,") == 3
        assert load_module(source).OVERLAPPING == {}, "Triton interprets"


def layer() -> ModuleOp:
    return parse("examples/llama_layer.coda", constants={"D": 128, "F": 192, "HEAD": 32})


def test_numbers():
    """Nothing but the launches changes, so that results are the same bit by bit."""
    module = layer()
    arguments = random_inputs(find_entry(module), {"B": 1, "T": 5})
    plain = Lowering(module, CompileOptions("target=interpreter")).module("scheduled")
    overlapping = plain.clone()
    OverlapLaunchesPass().apply(make_context(), overlapping)
    sources = [emit_module(each) for each in (plain, overlapping)]
    assert "OVERLAPPING" not in sources[0]
    results = [load_module(source).run(*arguments) for source in sources]
    assert all(a.equal(b) for a, b in zip(*results, strict=True))


def test_other_targets_are_refused():
    with pytest.raises(CodaError, match="target 'sm_80' has no programmatic dependent launch"):
        Lowering(layer(), CompileOptions("target=sm_80 pdl=true")).module("scheduled")


@pytest.mark.parametrize(("rows", "target"), [(1, "sm_90"), (64, "sm_90"), (1, "sm_80")])
def test_default_for_few_rows(rows: int, target: str):
    options = CompileOptions(f'target={target} sizes="B=1,T={rows}"')
    module = Lowering(layer(), options).module("scheduled")
    kernels = [op for op in module.walk() if op.name.startswith("gemm.") and op.regions]
    is_dependent = rows == 1 and target == "sm_90"
    assert kernels and all((DEPENDENT_ATTRIBUTE in op.attributes) == is_dependent for op in kernels)


def test_option_of_the_schedule():
    module = Lowering(layer(), CompileOptions("target=sm_90 pdl=true absorb=true")).module(
        "scheduled"
    )
    kernels = [op for op in module.walk() if op.name.startswith("gemm.") and op.regions]
    assert kernels and all(DEPENDENT_ATTRIBUTE in op.attributes for op in kernels)


TWO_OF_FOUR_BITS = """
fn two(
    x: bf16[1, 512],
    weight w: i32[64, 512], weight w_scales: bf16[4, 512], weight w_zeros: i32[4, 64],
    weight v: i32[64, 512], weight v_scales: bf16[4, 512], weight v_zeros: i32[4, 64],
) -> bf16[1, 512] {
    y = low_bit_linear(x, w, w_scales, w_zeros, packing="k01234567", transposed=true)
    return low_bit_linear(y, v, v_scales, v_zeros, packing="k01234567", transposed=true)
}
"""
SPLIT = CompileOptions("target=sm_90 split_k=2")


EXPERTS = (Path(__file__).parents[2] / "filecheck/passes/overlap_launches.mlir").read_text()
"""Its function `experts` has GEMMs of single rows."""


def experts(*, overlap: bool = True) -> ModuleOp:
    module = parse_module(EXPERTS[EXPERTS.index("func.func @experts") :])
    if overlap:
        OverlapLaunchesPass().apply(make_context(), module)
    return module


def test_weights_are_read_before_the_wait():
    """Also those of the groups whose numbers the kernel before the one before has computed."""
    words = emit_program(Lowering(parse(TWO_OF_FOUR_BITS), SPLIT).module("scheduled")).kernels
    router, first, *rest = emit_program(experts()).kernels
    assert all(kernel.is_dependent for kernel in (router, first))
    for machine in compile_kernels([words[1], *rest[-2:]], "sm_90", "ptx"):
        code = machine.text[machine.text.index(".entry") :]
        wait = code.index("griddepcontrol.wait")
        accesses = [(found.group(), found.start() > wait) for found in MEMORY.finditer(code)]
        assert code.count("griddepcontrol.wait") == 1
        assert {kind for kind, is_after in accesses if not is_after} == {"ld.global"}
        assert ("ld.global", True) in accesses


def test_inputs_are_read_after_the_wait():
    module = Lowering(parse(TWO_OF_FOUR_BITS), SPLIT).module("scheduled")
    entry = find_entry(module)
    x, *weights = random_inputs(entry, {})
    emitted: Any = load_module(emit_module(module))
    (expected,) = emitted.run(x, *weights)
    missing = torch.full_like(x, float("nan"))
    emitted.wait_for_earlier_kernels = lambda: missing.copy_(x)
    assert emitted.run(missing, *weights)[0].equal(expected)


def test_steps_ahead_are_the_first_ones():
    """The sums have the order that they have without, and therefore the same bits."""
    arguments = random_inputs(find_entry(experts()), {})
    sources = [emit_module(experts(overlap=overlap)) for overlap in (False, True)]
    assert [source.count("AHEAD=") for source in sources] == [0, 2]
    results = [load_module(source).run(*arguments) for source in sources]
    assert results[0][0].equal(results[1][0])
