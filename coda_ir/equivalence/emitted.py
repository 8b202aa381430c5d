"""Translation validation of emitted Triton, at small sizes in guarded memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import ModuleType

import torch
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from coda_ir.backends.reference import Trace
from coda_ir.backends.triton import emit_program
from coda_ir.cache.modules import load_source
from coda_ir.context import make_context
from coda_ir.devices import default_device, require_triton_for
from coda_ir.diagnostics import CheckError, CodaError, DefectError
from coda_ir.dialects.coda import LinearOp, MatmulOp
from coda_ir.dialects.gemm import AttentionSumOp, FusedOp
from coda_ir.dialects.torch import CallOp
from coda_ir.equivalence.checker import functions_of
from coda_ir.equivalence.draws import DRAWS, Draw, affordable, choose_sizes, elements
from coda_ir.equivalence.emitted_run import EmittedFaultError, EmittedResults, run_emitted
from coda_ir.equivalence.rounding import Rounding, describe_excess
from coda_ir.equivalence.samples import ATTEMPTS, RUN_ERRORS, meaning
from coda_ir.functions import is_private, returned_values
from coda_ir.passes.fusion.convert_linear_to_gemm import ConvertLinearToGemmPass
from coda_ir.passes.layout.plan_buffers import BUFFERS_ATTRIBUTE, PlanBuffersPass
from coda_ir.passes.layout.schedule import SchedulePass
from coda_ir.passes.layout.state_reduction_order import StateReductionOrderPass
from coda_ir.pipeline.instrumentation import PassInstrumentation
from coda_ir.random_inputs import random_arguments
from coda_ir.remarks import collect_remarks, format_location, source_position
from coda_ir.signatures import signature_of

LARGEST_REPEATED_RUN = 2**20
"""Elements of the arguments above which one draw has to do: the interpreter is slow."""

LARGEST_RUN = 2**24
"""Elements of the arguments above which an emitted module is not run."""

OTHER_SEED = 7919
"""The distance of the seed of other data from that of a draw."""


class EmittedDifferenceError(DefectError):
    """Emitted Triton whose results differ from those of its module: a defect of the backend."""


class NotComparedError(CheckError):
    """A function whose emitted Triton cannot run here."""


@dataclass
class EmittedCheck(PassInstrumentation):
    """The check of emitted Triton: runs the Triton of the module after the pipeline, and compares
    it with the function before the pipeline in float64, within the bound of `Rounding`.

    A read outside of a tensor gives NaN, a write outside of one is seen (see `GuardedMemory`).
    Operators without a schedule get one. `note` is called with the reason where a function cannot
    be compared. Raises EmittedDifferenceError.
    """

    sizes: Mapping[str, int] = field(default_factory=dict[str, int])
    draws: Sequence[Draw] = DRAWS
    note: Callable[[str], None] = print
    compared: int = 0
    """The number of compared runs of emitted modules."""

    def before_pipeline(self, module: ModuleOp) -> None:
        self._before = functions_of(module.clone())

    def after_pipeline(self, module: ModuleOp) -> None:
        for name, func in functions_of(module).items():
            if name not in self._before or is_private(func):
                continue
            with collect_remarks() as remarks:
                try:
                    self._check_function(module, name)
                except NotComparedError as error:
                    self.note(f"the emitted Triton of @{name} was not compared: {error.message}")
                # They are not of the user's pipeline.
                remarks.clear()

    def _check_function(self, module: ModuleOp, name: str) -> None:
        before, earlier = self._before[name], self.compared
        if any(isinstance(op, CallOp) and op.random is not None for op in before.walk()):
            raise NotComparedError("it draws random numbers")
        draws = _draws(before, self.draws, self.sizes)
        emitted = _Emitted.of(_scheduled(module), name)
        for draw in draws:
            found = _reference(before, draw, self.sizes)
            if found is not None:
                self.compared += 1
                emitted.compare(*found, has_strides=draw.sizes == "odd")
        if self.compared == earlier:
            raise NotComparedError(
                "it takes none of the sizes that were tried (--dim gives others)"
            )


@dataclass(frozen=True)
class _Emitted:
    """A function as a module of Triton."""

    func: FuncOp
    module: ModuleType

    @staticmethod
    def of(scheduled: ModuleOp, name: str) -> _Emitted:
        """Emit a function. Raises NotComparedError if it cannot be emitted or run here."""
        device = default_device()
        try:
            program = emit_program(scheduled, name)
            require_triton_for(device)
        except CodaError as error:
            raise NotComparedError(error.message) from error
        in_gluon = [kernel.name for kernel in program.kernels if kernel.language == "gluon"]
        if in_gluon and device.type == "cpu":
            raise NotComparedError(f"kernel {in_gluon[0]} is in Gluon, which needs a GPU")
        module = load_source(program.source, f"{name}_checked")
        return _Emitted(functions_of(scheduled)[name], module)

    def compare(self, sizes: Mapping[str, int], rounding: Rounding, has_strides: bool) -> None:
        """Raise EmittedDifferenceError if a result is wrong for the arguments of `rounding`."""
        device = default_device()
        arguments = [
            (_strided(argument) if has_strides else argument).to(device)
            for argument in rounding.arguments
        ]
        try:
            results = run_emitted(self.module, self.func, arguments)
        except EmittedFaultError as error:
            raise self._error(f": {error}", sizes) from error
        combined = meaning(self.func, Trace(tuple(results.tensors), {}))
        for index, (got, whole) in enumerate(zip(results.tensors, combined, strict=True)):
            # How many partials a row has is a matter of the schedule.
            problem = _problem(rounding, index, got) if whole is got else None
            if problem is not None:
                raise self._error(f": {self._name(results, index)} {problem}", sizes)

    def _name(self, results: EmittedResults, index: int) -> str:
        """Return the name of a result, and of the kernel that stored it."""
        kernel = results.kernels[index]
        text = f"result {index} ({signature_of(self.func).results[index].name})"
        op = returned_values(self.func)[index].owner
        if isinstance(op, Operation) and source_position(op.location):
            text += f" at {format_location(op.location)}"
        return text if kernel is None else f"{text}, stored by kernel {kernel},"

    def _error(self, text: str, sizes: Mapping[str, int]) -> EmittedDifferenceError:
        with_sizes = ", ".join(f"{symbol} = {size}" for symbol, size in sizes.items())
        where = f"\n  sizes: {with_sizes}" if with_sizes else ""
        return EmittedDifferenceError(
            f"the emitted Triton of @{self.func.sym_name.data}{text}{where}",
            "a defect of the backend triton; -t triton prints the kernels",
        )


def _draws(func: FuncOp, draws: Sequence[Draw], given: Mapping[str, int]) -> list[Draw]:
    """Return the draws that the interpreter can run. Raises NotComparedError if there is none."""
    sizes = choose_sizes(func, draws[0], given)
    count = elements(func, sizes)
    if count > LARGEST_RUN:
        raise NotComparedError(
            f"its arguments have {count} elements, expected at most {LARGEST_RUN} (--const makes "
            "constants of a .coda file smaller)"
        )
    found = list(affordable(func, draws, given))
    return found if count <= LARGEST_REPEATED_RUN else found[:1]


def _scheduled(module: ModuleOp) -> ModuleOp:
    """Return a copy of the module whose linear layers are GEMMs, all with a schedule."""
    module = module.clone()
    try:
        _schedule(module)
    except CodaError as error:
        raise NotComparedError(error.message) from error
    return module


def _schedule(module: ModuleOp) -> None:
    if any(isinstance(op, LinearOp | MatmulOp) for op in module.walk()):
        for step in (ConvertLinearToGemmPass(), StateReductionOrderPass()):
            step.apply(make_context(), module)
    scheduled = [op for op in module.walk() if isinstance(op, FusedOp | AttentionSumOp)]
    if any(op.schedule is None for op in scheduled):
        SchedulePass(target="interpreter").apply(make_context(), module)
    if not any(BUFFERS_ATTRIBUTE in op.attributes for op in module.walk()):
        PlanBuffersPass().apply(make_context(), module)


def _reference(
    func: FuncOp, draw: Draw, given: Mapping[str, int]
) -> tuple[Mapping[str, int], Rounding] | None:
    """Return sizes and the results at these; None if no sizes that were tried are accepted."""
    for attempt in range(ATTEMPTS):
        sizes = choose_sizes(func, draw, given, attempt)
        try:
            drawn, other = (
                random_arguments(func, sizes, seed=seed, values=draw.values)
                for seed in (draw.seed, draw.seed + OTHER_SEED)
            )
            return sizes, Rounding(func, drawn, [other])
        except RUN_ERRORS:
            continue
    return None


def _problem(rounding: Rounding, index: int, got: torch.Tensor) -> str | None:
    """Return the fault of a result; None if it is right."""
    stated = rounding.stated[index]
    if got.dtype != stated.dtype or got.shape != stated.shape:
        types = f"{got.dtype} {tuple(got.shape)}, expected {stated.dtype} {tuple(stated.shape)}"
        return f"is {types}"
    excess = rounding.excess(index, got)
    return None if excess is None else describe_excess(excess)


def _strided(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor's elements in another order in memory, or with gaps if it is a vector."""
    if tensor.dim() < 1:
        return tensor
    if tensor.dim() == 1:
        others = (tensor.double() + 1).to(tensor.dtype)
        return torch.stack([tensor, others], -1)[:, 0]
    return tensor.transpose(-1, -2).contiguous().transpose(-1, -2)
