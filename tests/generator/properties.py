"""The properties of every random program, by name, and how often the nightly run checks each."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp

from coda_ir.dialects.gemm import FusedOp
from coda_ir.passes.fusion.convert_linear_to_gemm import ConvertLinearToGemmPass
from coda_ir.passes.layout.state_reduction_order import StateReductionOrderPass
from generator.block_programs import block_program
from generator.case import Case
from generator.choices import Choices
from generator.coda_programs import coda_program
from generator.coda_text import check_text
from generator.emitted import check_emitted
from generator.gemm_programs import gemm_program
from generator.gradients import check_gradients
from generator.lowering import (
    EVERY_PASS,
    apply,
    call_programs,
    check_every_pass,
    check_idempotent,
    check_random_pipeline,
    lower_to_gemm,
    schedule,
    take_apart,
)
from generator.program import Generator
from generator.round_trip import check_round_trip
from generator.rounding import Rounding, check_stated

KINDS: Mapping[str, Generator] = {
    "block": block_program,
    "gemm": gemm_program,
    "coda": coda_program,
}
"""The kinds of programs."""

SHARES = ("block",) * 12 + ("gemm",) * 5 + ("coda",) * 3
"""The kinds of program 0, 1, ... of a run, which repeat."""


def round_trip(case: Case, choices: Choices) -> None:
    check_round_trip(case.program.module, "as generated")
    check_round_trip(_lowered(case), "GEMM level")


def fused(case: Case, choices: Choices) -> None:
    """coda-to-gemm preserves the meaning in float64."""
    _lowered(case)


def text(case: Case, choices: Choices) -> None:
    if case.program.text is not None:
        check_text(case.program.text, case.program.module)


def every_pass(case: Case, choices: Choices) -> None:
    check_every_pass(case)


def any_pipeline(case: Case, choices: Choices) -> None:
    check_random_pipeline(case, choices)


def folded_weights(case: Case, choices: Choices) -> None:
    lower_to_gemm(case, fold_weights=True)


def programs(case: Case, choices: Choices) -> None:
    call_programs(case)


def idempotent(case: Case, choices: Choices) -> None:
    check_idempotent(case, _lowered(case))


def levels(case: Case, choices: Choices) -> None:
    """Block level, GEMM level and scheduled, in float64 and in stated precision."""
    lowered = _lowered(case)
    target = choices.pick(("interpreter", "portable", "sm_90"))
    scheduled = schedule(case, lowered, target, absorb=choices.chance(50))
    rounding = _rounding(case)
    check_stated(rounding, lowered, "GEMM level")
    check_stated(rounding, scheduled, "scheduled")


def emitted_triton(case: Case, choices: Choices) -> None:
    scheduled = schedule(case, _lowered(case), "interpreter", absorb=choices.chance(50))
    check_emitted(case, _rounding(case), scheduled)


def emitted_for_hopper(case: Case, choices: Choices) -> None:
    """Warp-specialized GEMMs beside all else; most programs are too narrow for them."""
    mainloop = choices.pick(("warp_specialized", "ping_pong"))
    scheduled = schedule(case, _lowered(case), "sm_90", mainloop=mainloop)
    gemms = (op for op in scheduled.walk() if isinstance(op, FusedOp))
    if any(gemm.schedule is not None and gemm.schedule.is_warp_specialized for gemm in gemms):
        check_emitted(case, _rounding(case), scheduled)


def emitted_apart(case: Case, choices: Choices) -> None:
    """The products of GEMMs stored, by kernels or by PyTorch's library, and epilogues on them."""
    apart = take_apart(case, _lowered(case), choices.pick(("library", "kernels")))
    scheduled = schedule(case, apart, "interpreter")
    rounding = _rounding(case)
    check_stated(rounding, scheduled, "products apart")
    check_emitted(case, rounding, scheduled)


def emitted_unfused(case: Case, choices: Choices) -> None:
    """The block level as it is, with only its linear maps as GEMMs."""
    module = case.program.module.clone()
    for step in (ConvertLinearToGemmPass(), StateReductionOrderPass()):
        apply(case, step, module, EVERY_PASS, step.name)
    check_emitted(case, _rounding(case), schedule(case, module, "interpreter"))


def gradients(case: Case, choices: Choices) -> None:
    """The derived backward is PyTorch's, and stays so through the passes."""
    if case.program.is_block_level:
        check_gradients(case, choices)


def _lowered(case: Case) -> ModuleOp:
    """The program after coda-to-gemm, once per case."""
    if case.lowered is None:
        case.lowered = lower_to_gemm(case)
    return case.lowered


def _rounding(case: Case) -> Rounding:
    """Return how far from float64 the program may be, once per case."""
    if case.rounding is None:
        case.rounding = Rounding(case)
    return case.rounding


@dataclass(frozen=True)
class Property:
    check: Callable[[Case, Choices], None]
    every: int
    """The nightly run checks it on one in so many programs."""


PROPERTIES: Mapping[str, Property] = {
    "coda-to-gemm": Property(fused, 1),
    "levels": Property(levels, 2),
    "gradients": Property(gradients, 8),
    "text": Property(text, 1),
    "round trip": Property(round_trip, 10),
    "every pass": Property(every_pass, 40),
    "any pipeline": Property(any_pipeline, 8),
    "folded weights": Property(folded_weights, 8),
    "called programs": Property(programs, 8),
    "idempotent": Property(idempotent, 10),
    "emitted triton": Property(emitted_triton, 2),
    "emitted for Hopper": Property(emitted_for_hopper, 3),
    "emitted apart": Property(emitted_apart, 6),
    "emitted unfused": Property(emitted_unfused, 7),
}


def make_case(choices: Choices, kind: str, seed: int = 0) -> Case:
    """A program of a kind, with verified IR, and data that the seed chooses."""
    program = KINDS[kind](choices)
    program.module.verify()
    return Case(program, seed)
