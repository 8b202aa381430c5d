"""Properties of single passes, of coda-to-gemm and of pipelines in any order."""

from collections.abc import Sequence
from itertools import cycle

from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.transforms.common_subexpression_elimination import CommonSubexpressionElimination
from xdsl.transforms.dead_code_elimination import DeadCodeElimination

from coda_ir.context import make_context
from coda_ir.diagnostics import CodaError
from coda_ir.dominance import misplaced_use
from coda_ir.passes import get_all_passes
from coda_ir.passes.algebra.defer_norms import MODULATED
from coda_ir.passes.algebra.place_column_scale import PlaceColumnScalePass
from coda_ir.passes.layout.absorb_finalize import AbsorbFinalizePass
from coda_ir.passes.layout.plan_buffers import PlanBuffersPass
from coda_ir.passes.layout.schedule import SchedulePass
from coda_ir.passes.layout.unfuse_gemms import UnfuseGemmsPass
from coda_ir.passes.pipelines.coda_to_gemm import CodaToGemmPass
from coda_ir.remarks import collect_remarks
from generator.case import Case
from generator.choices import Choices
from generator.round_trip import FORMS, check_round_trip
from generator.violations import Violation, expected_to_work

EVERY_PASS = "every pass preserves meaning"
EVERY_PIPELINE = "every pipeline preserves meaning"
IDEMPOTENT = "coda-to-gemm twice is coda-to-gemm"

TARGETS = ("interpreter", "portable", "sm_80", "sm_90", "gfx942")


def size_of(module: ModuleOp) -> int:
    return sum(1 for _ in module.walk())


def verify(module: ModuleOp) -> None:
    """Verify what the verifiers of the operators do, and what they do not: values are defined
    before they are used, and nothing outside of the module uses them.
    """
    module.verify()
    if (misplaced := misplaced_use(module)) is not None:
        raise misplaced[1]
    for op in module.walk():
        arguments = [
            each for region in op.regions for block in region.blocks for each in block.args
        ]
        users = (use.operation for value in (*op.results, *arguments) for use in value.uses)
        stray = next((user for user in users if user.parent is None), None)
        assert stray is None, f"{op.name} is used by a {stray.name} outside of the module"


def apply(case: Case, step: ModulePass, module: ModuleOp, property: str, where: str) -> None:
    """Apply one pass; it does not blow the module up, and its remarks render."""
    before = size_of(module)
    with collect_remarks() as remarks, expected_to_work(property, where):
        step.apply(make_context(), module)
        for remark in remarks:
            assert str(remark) and remark.to_dict()["message"]
    case.remarks += remarks
    if size_of(module) > 40 * before + 200:
        raise Violation(property, where, "the module has grown more than 40 times")


def lower_to_gemm(
    case: Case, *, fold_weights: bool = False, leftovers: str = "kernels"
) -> ModuleOp:
    """The program after coda-to-gemm, which preserves its meaning.

    Where weights are folded, norms move past GEMMs with the modulation of each sample as well. The
    module is verified, and its meaning checked, at the end. Where that fails, the steps are
    tried one by one.
    """
    pipeline = CodaToGemmPass(
        fold_weights=fold_weights,
        leftovers=leftovers,
        modulated_norms="always" if fold_weights else "auto",
    )
    module = case.program.module.clone()
    try:
        for step in pipeline.steps():
            apply(case, step, module, EVERY_PASS, step.name)
        with expected_to_work(EVERY_PASS, pipeline.name):
            verify(module)
        case.check_meaning(module, EVERY_PASS, pipeline.name)
    except Violation:
        check_steps(case, pipeline.steps(), EVERY_PASS)
        raise
    return module


def check_steps(case: Case, steps: Sequence[ModulePass], property: str) -> ModuleOp:
    """Apply `steps` in order; each one preserves the meaning and leaves what reads back."""
    module = case.program.module.clone()
    text = str(module)
    # The module after each pass in one form in turn: nothing costs more than the four together.
    forms = cycle(FORMS)
    for step in steps:
        apply(case, step, module, property, step.name)
        with expected_to_work(property, step.name):
            before, text = text, str(module)
            verify(module)
        if text != before:
            case.check_meaning(module, property, step.name)
            check_round_trip(module, f"after {step.name}", [next(forms)])
    return module


def check_every_pass(case: Case) -> None:
    check_steps(case, CodaToGemmPass().steps(), EVERY_PASS)


def check_random_pipeline(case: Case, choices: Choices) -> None:
    """Any passes in any order, each with any options."""
    check_steps(case, draw_pipeline(choices), EVERY_PIPELINE)


MAKE_OTHER_FUNCTIONS = {
    "derive-gradient",
    "differentiate",
    "drop-zero-gradients",
    "save-or-recompute",
}
"""Passes for derivatives: what they make does not compute what the function did."""


def draw_pipeline(choices: Choices) -> list[ModulePass]:
    others = (CommonSubexpressionElimination(), DeadCodeElimination())
    names = sorted(set(get_all_passes()) - MAKE_OTHER_FUNCTIONS)
    steps: list[ModulePass] = []
    if choices.chance(50):
        # In an order that fits, with steps missing, repeated or exchanged.
        steps = [s for s in CodaToGemmPass().steps() if not choices.chance(30)]
    for _ in range(choices.integer(1, 8)):
        new = choices.pick(others) if choices.chance(20) else _draw_pass(choices, names)
        steps.insert(choices.below(len(steps) + 1), new)
    return steps


def _draw_pass(choices: Choices, names: Sequence[str]) -> ModulePass:
    name = choices.pick(names)
    match name:
        case "coda-to-gemm":
            return CodaToGemmPass(
                fold_weights=choices.chance(50), modulated_norms=choices.pick(MODULATED)
            )
        case "place-column-scale":
            return PlaceColumnScalePass(fold=choices.chance(70))
        case "schedule":
            return SchedulePass(target=choices.pick(TARGETS))
        case "unfuse-gemms":
            return UnfuseGemmsPass(choices.pick(("kernels", "library")))
        case _:
            return get_all_passes()[name]()()


def check_idempotent(case: Case, lowered: ModuleOp) -> None:
    """A second coda-to-gemm keeps the meaning; where it finds more to do, that is noted."""
    again = lowered.clone()
    text = str(again)
    for step in CodaToGemmPass().steps():
        apply(case, step, again, IDEMPOTENT, step.name)
        before, text = text, str(again)
        if text != before:
            case.notes.append(f"second run: {step.name} finds more to do")
    if text != str(lowered):
        case.check_meaning(again, IDEMPOTENT, "coda-to-gemm twice")


def call_programs(case: Case) -> None:
    """The GEMMs in programs that the other operators call."""
    module = lower_to_gemm(case, leftovers="graphs")
    check_round_trip(module, "calls programs")


def take_apart(case: Case, lowered: ModuleOp, by: str) -> ModuleOp:
    """The program with the epilogues of its GEMMs in kernels of their own; its meaning stays."""
    module = lowered.clone()
    step = UnfuseGemmsPass(by)
    apply(case, step, module, EVERY_PASS, step.name)
    with expected_to_work(EVERY_PASS, step.name):
        verify(module)
    case.check_meaning(module, EVERY_PASS, step.name)
    return module


def schedule(
    case: Case,
    lowered: ModuleOp,
    target: str,
    *,
    mainloop: str = "pointer",
    absorb: bool = False,
) -> ModuleOp:
    """The program with schedules and buffers; its meaning stays.

    With `absorb`, GEMMs combine the partials of their rows wherever that is legal.
    Raises CodaError where the pass `schedule` says that it cannot schedule it.
    """
    module = lowered.clone()
    where = f"schedule for {target}"
    with expected_to_work("block = GEMM level = scheduled", where):
        try:
            SchedulePass(target=target, mainloop=mainloop).apply(make_context(), module)
            if absorb:
                AbsorbFinalizePass(always=True).apply(make_context(), module)
        except CodaError as error:
            raise Violation("block = GEMM level = scheduled", where, str(error)) from error
        PlanBuffersPass().apply(make_context(), module)
        verify(module)
    case.check_meaning(module, "block = GEMM level = scheduled", where)
    return module
