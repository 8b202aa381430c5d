"""Derivatives of random programs: PyTorch's in float64, at every level of the pipeline."""

from collections.abc import Callable, Sequence

import torch
from support.gradients import autograd, differentiated
from support.joints import run_split
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import CallOp, FuncOp
from xdsl.passes import ModulePass

from coda_ir.context import make_context
from coda_ir.equivalence.rounding import perturbed
from coda_ir.float64 import relative_error
from coda_ir.passes.gradient.derive_gradient import DeriveGradientPass, NoDerivativeError
from coda_ir.passes.pipelines.differentiate import DifferentiatePass
from coda_ir.passes.support.joint import SUFFIX, Joint
from coda_ir.signatures import signature_of
from generator.arguments import arguments_of
from generator.case import DIGIT, NOISE, TOLERANCE, Case
from generator.choices import Choices
from generator.emitted import check_emitted
from generator.lowering import check_steps, lower_to_gemm, schedule, verify
from generator.program import Program
from generator.rounding import Rounding
from generator.violations import Violation, expected_to_work

DERIVED = "derived gradients are PyTorch's"
SPLIT = "forward and backward compute what the joint does"

REFUSALS = (
    "rotary embedding",
    "their number is not known",
    "an argument with a gradient",
    "float8 is too narrow",
    "dequantize the weight in training",
    "need the states of all rows again",
    "which takes rows of whole 16 bytes",
)
"""The reasons for which a program of the block level may be refused."""


def check_gradients(case: Case, choices: Choices) -> None:
    """The gradients of every function, and what the passes make of its joint function."""
    for func in case.program.functions:
        if any(isinstance(op, CallOp) for op in func.walk()):
            case.notes.append("not differentiated: it calls a function")
            continue
        derived = derive(case, func, choices)
        if derived is None:
            continue
        joint, of_joint = derived
        if not check_autograd(case, func, joint, of_joint):
            continue
        check_split(case, func, joint, of_joint)
        lowered = lower_to_gemm(of_joint)
        if choices.chance(5):
            check_steps(of_joint, _steps_on_joints(), DERIVED)
        if choices.chance(25) and is_drawn_alike(joint, of_joint):
            scheduled = schedule(of_joint, lowered, "interpreter")
            check_emitted(of_joint, Rounding(of_joint), scheduled)
        case.remarks += of_joint.remarks
        case.notes += of_joint.notes


def _steps_on_joints() -> Sequence[ModulePass]:
    """The steps of `differentiate` between the derivation and the choice of what is saved."""
    steps = DifferentiatePass().steps()
    names = [step.name for step in steps]
    return steps[names.index("derive-gradient") + 1 : names.index("save-or-recompute")]


def derive(case: Case, func: FuncOp, choices: Choices) -> tuple[Joint, Case] | None:
    """The joint of a function, alone in a module, as a program; None where it is refused."""
    module = ModuleOp([func.clone()])
    name = func.sym_name.data
    wrt = draw_wrt(func, choices)
    with expected_to_work(DERIVED, "derive-gradient"):
        try:
            DeriveGradientPass(name, wrt).apply(make_context(), module)
        except NoDerivativeError as error:
            if not any(reason in str(error) for reason in REFUSALS):
                raise Violation(DERIVED, "derive-gradient", str(error)) from error
            reason = str(error).splitlines()[0].rpartition(": ")[2]
            case.notes.append(f"not differentiated: {reason}")
            return None
        verify(module)
    alone = [op for op in module.ops if isinstance(op, FuncOp)][-1].clone()
    alone.sym_visibility = None
    joint = Joint.of(alone)
    assert joint is not None
    of_joint = Case(
        Program(ModuleOp([alone]), case.program.extents, case.program.hazards), case.seed
    )
    of_joint.arguments = {alone.sym_name.data: joint_arguments(case, name)}
    return joint, of_joint


def draw_wrt(func: FuncOp, choices: Choices) -> tuple[str, ...]:
    """Seldom only some of the arguments; without names, what the pass takes by default."""
    if not choices.chance(25):
        return ()
    specs = signature_of(func).arguments
    # Values in float8 are stored, and have no gradients.
    floats = [s.name for s in specs if s.dtype.is_floating_point and s.dtype.itemsize > 1]
    return tuple(choices.subset(floats))


def joint_arguments(case: Case, name: str) -> list[torch.Tensor]:
    """The arguments of the function, and a gradient for each result of floats, but for float8."""
    generator = torch.Generator().manual_seed(case.seed)
    func = next(each for each in case.program.functions if each.sym_name.data == name)
    specs = signature_of(func).results
    seeds = [
        torch.randn(result.shape, generator=generator, dtype=torch.float64).to(spec.dtype)
        for result, spec in zip(case.exact[name], specs, strict=True)
        if spec.dtype.is_floating_point and spec.dtype.itemsize > 1
    ]
    return [*case.arguments[name], *seeds]


def is_drawn_alike(joint: Joint, of_joint: Case) -> bool:
    """Return whether other random arguments of the joint have shapes that fit its results, too."""
    drawn = arguments_of(joint.func, of_joint.program.extents, of_joint.seed)
    known = of_joint.arguments[joint.func.sym_name.data]
    return [tensor.shape for tensor in drawn] == [tensor.shape for tensor in known]


def check_autograd(case: Case, func: FuncOp, joint: Joint, of_joint: Case) -> bool:
    """Return whether results and gradients are PyTorch's; false where they are not finite."""
    name = func.sym_name.data
    arguments = of_joint.arguments[name + SUFFIX]
    count = joint.primal_arguments
    seeds = [seed.double() for seed in arguments[count:]]
    with expected_to_work(DERIVED, "reference"):
        actual = of_joint.exact[name + SUFFIX]
        results, gradients = autograd(func, arguments[:count], differentiated(joint), seeds)
    expected = [*results, *gradients]
    if case.program.hazards and not all(each.isfinite().all() for each in (*actual, *expected)):
        case.notes.append("not differentiated: values or gradients are not finite")
        return False

    def noise(index: int) -> float:
        """The error of PyTorch's result where the arguments differ in their last digits: all of it
        where the terms of a gradient cancel.
        """
        random = torch.Generator().manual_seed(0)
        moved = [perturbed(each.double(), random, DIGIT) for each in arguments[:count]]
        results, gradients = autograd(func, moved, differentiated(joint), seeds)
        return NOISE * relative_error([*results, *gradients][index], expected[index])

    check_close(joint, of_joint, actual, expected, DERIVED, "derive-gradient", noise)
    return True


def check_close(
    joint: Joint,
    of_joint: Case,
    actual: Sequence[torch.Tensor],
    expected: Sequence[torch.Tensor],
    property: str,
    where: str,
    noise: Callable[[int], float] = lambda _: 0.0,
) -> None:
    """Every result within rounding of float64: that of the result, or of its condition, or the
    `noise` of what is expected.
    """
    for index, (got, wanted) in enumerate(zip(actual, expected, strict=True)):
        error, name = relative_error(got, wanted), joint.func.sym_name.data
        if (
            not error <= TOLERANCE
            and not error <= of_joint.noise(name, index)
            and not error <= noise(index)
        ):
            message = f"{joint.result_name(index)} has a relative error of {error:.1e}"
            raise Violation(property, where, message)


def check_split(case: Case, func: FuncOp, joint: Joint, of_joint: Case) -> None:
    """The pipeline `differentiate`, whose two functions are called one after the other."""
    module, name = ModuleOp([func.clone()]), func.sym_name.data
    first = joint.primal_results
    gradients = range(first, first + len(joint.argument_gradients))
    wrt = tuple(joint.result_name(index).removeprefix("d_") for index in gradients)
    arguments = joint_arguments(case, name)
    names = [joint.argument_name(index) for index in range(len(arguments))]
    with expected_to_work(SPLIT, "differentiate"):
        DifferentiatePass(name, wrt).apply(make_context(), module)
        verify(module)
        outputs = run_split(module, name, dict(zip(names, arguments, strict=True)))
    exact = of_joint.exact[name + SUFFIX]
    saved = len(outputs) - len(exact)
    actual = [*outputs[:first], *outputs[first + saved :]]
    check_close(joint, of_joint, actual, exact, SPLIT, "differentiate")
