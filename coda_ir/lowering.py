"""A program at its levels, and what is emitted for one of its functions.

What lowers is imported where it is used: a program of the cache needs none of it, nor xDSL.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from coda_ir.cache.origin import Origin
from coda_ir.diagnostics import (
    CodaError,
    Diagnostic,
    collect_diagnostics,
    emit_diagnostic,
    expect_kind,
)
from coda_ir.launching.compile_jobs import use_jobs
from coda_ir.launching.direct_launch import direct_launch_is_on, missed_direct_launch

if TYPE_CHECKING:
    from xdsl.context import Context
    from xdsl.dialects.builtin import ModuleOp
    from xdsl.dialects.func import FuncOp

    from coda_ir.cache.artifact import Artifact
    from coda_ir.pipeline import Pipeline
    from coda_ir.remarks import Remark

Level: TypeAlias = Literal["block", "gemm", "scheduled"]

PASSES: dict[Level, str] = {
    "gemm": "coda-to-gemm{{fold-weights={fold_weights} pack-weights={pack_weights}}}",
    "scheduled": "schedule{{{schedule}}},plan-buffers",
}
"""The passes that lead to each level from the one before."""


def find_entry(module: ModuleOp, entry: str | None = None) -> FuncOp:
    """The public function named `entry`, or the only one. Raises CodaError where there is none."""
    from xdsl.dialects.func import FuncOp

    functions = {
        op.sym_name.data: op
        for op in module.ops
        if isinstance(op, FuncOp) and not op.is_declaration and not _is_private(op)
    }
    if entry is None and len(functions) == 1:
        return next(iter(functions.values()))
    if not functions:
        raise CodaError("the program has no function", "define one with fn")
    if entry is None:
        raise CodaError(
            f"the program has {len(functions)} functions",
            f"pass entry (--entry of coda-opt), one of {', '.join(functions)}",
        )
    if entry not in functions:
        raise CodaError(f"no function '{entry}'", f"use one of {', '.join(functions)}")
    return functions[entry]


def count_operators(module: ModuleOp, function: str | None = None) -> Mapping[str, int]:
    """How many operators of each name a function has, those in regions included."""
    return Counter(op.name for op in find_entry(module, function).walk())


def used_arguments(func: FuncOp) -> tuple[bool, ...]:
    """For each argument whether the function needs it."""
    return tuple(bool(argument.uses) for argument in func.args)


def _is_private(func: FuncOp) -> bool:
    return func.sym_visibility is not None and func.sym_visibility.data == "private"


def check_schedule(schedule: str) -> None:
    """Raises CodaError for a text that has other options than those of the pass `schedule`."""
    _parse_passes(PASSES["scheduled"].format(schedule=schedule), schedule)


def _parse_passes(passes: str, schedule: str) -> Pipeline:
    from coda_ir.pipeline import PipelineError, parse_pipeline
    from coda_ir.registry import get_all_passes

    try:
        return parse_pipeline(passes, get_all_passes())
    except PipelineError as error:
        raise CodaError(
            f"schedule = '{schedule}': {error}",
            "write options of the pass schedule, such as 'target=sm_90 warps=8'",
        ) from error


@dataclass(frozen=True)
class TuningOptions:
    """How the schedules of a lowering are tuned; see docs/tuning.md."""

    mode: Literal["measure", "stored"]
    budget: float
    """Seconds."""
    sizes: str = ""
    """What symbols stand for: `B=2,T=8192`."""

    @staticmethod
    def of(tune: bool | float | str) -> TuningOptions | None:
        """What the argument `tune` of `coda_ir.compile` means. Raises CodaError for other texts."""
        from coda_ir.tuning.context import BUDGET_S

        if tune is False:
            return None
        if isinstance(tune, str):
            if tune != "stored":
                raise CodaError(f"unknown tune='{tune}'", "pass True, seconds, or 'stored'")
            return TuningOptions("stored", BUDGET_S)
        expect_kind("tune", tune, (int, float), "pass True, False, seconds, or 'stored'")
        if tune <= 0:
            raise CodaError(f"tune is {tune}, expected seconds", "pass False to tune nothing")
        return TuningOptions("measure", BUDGET_S if tune is True else float(tune))

    def schedule_options(self) -> str:
        return f' tune={self.mode} budget={float(self.budget)!r} sizes="{self.sizes}"'


class Lowering:
    """A module at the levels `block`, `gemm` and `scheduled`, each made when it is asked for.

    What is emitted for the program of an Origin is kept in the cache; that of a module is not.
    """

    def __init__(
        self,
        program: ModuleOp | Origin,
        schedule: str | None = "target=interpreter",
        *,
        pack_weights: bool = True,
        fold_weights: bool = False,
        architecture: str = "cpu",
        tuning: TuningOptions | None = None,
        jobs: int | None = None,
    ):
        """`schedule` has options of the pass `schedule` beside those that fit `architecture`.
        `jobs` is how many kernels are compiled at a time; see `compile_jobs`.
        """
        self.jobs = jobs
        self._tuning = tuning
        self._origin = program if isinstance(program, Origin) else None
        self._chosen_schedule = schedule
        self.pack_weights = pack_weights
        self.fold_weights = fold_weights
        self._architecture = architecture
        self._modules: dict[Level, ModuleOp] = {}
        if not isinstance(program, Origin):
            self._modules["block"] = program
        self._artifacts: dict[str | None, Artifact] = {}
        self.origin_remarks: list[Remark] = []
        """Remarks of making the program of the block level."""
        self._warnings: list[Diagnostic] = []
        self.remarks: list[Remark] = []

    @cached_property
    def context(self) -> Context:
        from coda_ir.context import make_context

        return make_context()

    @cached_property
    def _schedule(self) -> str:
        from coda_ir.devices import complete_schedule

        options = complete_schedule(self._chosen_schedule or "", self._architecture)
        return options if self._tuning is None else options + self._tuning.schedule_options()

    def module(self, level: Level) -> ModuleOp:
        """The module at `level`; it must not be changed."""
        levels = get_args(Level)
        if level not in levels:
            raise CodaError(f"unknown level '{level}'", f"use one of {', '.join(levels)}")
        if level not in self._modules:
            self._modules[level] = self._make(level, levels)
        return self._modules[level]

    def _make(self, level: Level, levels: tuple[Level, ...]) -> ModuleOp:
        if level == "block":
            return self._original()
        before = self.module(levels[levels.index(level) - 1])
        return self._lower(before, self._passes(level))

    def _original(self) -> ModuleOp:
        from coda_ir.remarks import collect_remarks

        assert self._origin is not None, "a module is given, or where it comes from"
        with collect_diagnostics() as warnings, collect_remarks() as remarks:
            module = self._origin.module()
        for warning in warnings:
            emit_diagnostic(warning)
        self._warnings += warnings
        self.origin_remarks += remarks
        return module

    def _passes(self, level: Level) -> str:
        return PASSES[level].format(
            schedule=self._schedule,
            fold_weights=str(self.fold_weights).lower(),
            pack_weights=str(self.pack_weights).lower(),
        )

    def _lower(self, before: ModuleOp, passes: str) -> ModuleOp:
        from coda_ir.pipeline import PassManager
        from coda_ir.remarks import collect_remarks

        module = before.clone()
        pipeline = _parse_passes(passes, self._schedule)
        with collect_remarks() as remarks, use_jobs(self.jobs):
            PassManager(pipeline, verify_each=False).run(self.context, module)
        self.remarks += remarks
        module.verify()
        return module

    def artifact(self, function: str | None = None) -> Artifact:
        """What is emitted for a function, or for the only one: from the cache, or lowered now.

        Raises CodaError where there is no such function, and for what cannot be emitted.
        """
        if function not in self._artifacts:
            self._artifacts[function] = self._find(function)
        return self._artifacts[function]

    def _find(self, function: str | None) -> Artifact:
        if self._origin is None:
            return self._emit(function)
        from coda_ir.cache.programs import Request, fetch

        options: dict[str, Any] = {
            "schedule": self._chosen_schedule,
            "pack_weights": self.pack_weights,
            "fold_weights": self.fold_weights,
            "direct_launch": direct_launch_is_on(self._architecture),
        }
        if self._tuning is not None:
            from coda_ir.tuning.context import current_device

            options["tuned"] = {"sizes": self._tuning.sizes, "device": current_device()}
        request = Request(self._origin, function, self._architecture, options)
        artifact = fetch(request, lambda: self._emit(function), self._is_final)
        if "scheduled" not in self._modules:
            if self._tuning is not None:
                # Whoever looks at a level of a program that was found measures nothing.
                self._tuning = replace(self._tuning, mode="stored")
                self.__dict__.pop("_schedule", None)
            _tell(artifact)
        return artifact

    def _is_final(self) -> bool:
        """Whether there is nothing more to measure for the schedules."""
        if self._tuning is None:
            return True
        from coda_ir.dialects.gemm import TUNED_ATTRIBUTE, FusedOp, LibraryOp, TunedAttr

        for op in self.module("scheduled").walk():
            found = op.attributes.get(TUNED_ATTRIBUTE)
            is_tuned = isinstance(found, TunedAttr) and not found.is_partial
            # What options leave to the library is not tuned.
            is_given = isinstance(op, LibraryOp) and found is None
            if isinstance(op, FusedOp | LibraryOp) and not (is_tuned or is_given):
                return False
        return True

    def _emit(self, function: str | None) -> Artifact:
        from coda_ir.backends.triton import emit_program
        from coda_ir.cache.artifact import Artifact, encoded
        from coda_ir.calls.arguments import Signature

        func = find_entry(self.module("block"), function)
        name = func.sym_name.data
        scheduled = self.module("scheduled")
        is_direct = direct_launch_is_on(self._architecture)
        program = emit_program(scheduled, name, direct_launch=is_direct)
        missed = missed_direct_launch(func, self._architecture)
        return Artifact(
            signature=Signature.of(func),
            used_arguments=used_arguments(func),
            source=program.source,
            kernels=tuple(kernel.name for kernel in program.kernels),
            operators=count_operators(scheduled, name),
            launches=program.stand_ins,
            remark_data=encoded([*self.remarks, *missed]),
            origin_remark_data=encoded(self.origin_remarks),
            warnings=tuple(self._warnings),
        )


def _tell(artifact: Artifact) -> None:
    """Say what would have been said, had the program been lowered now."""
    for warning in artifact.warnings:
        emit_diagnostic(warning)
    if "coda_ir.remarks" not in sys.modules:
        return  # nobody can be collecting them
    from coda_ir.remarks import emit_remark, is_collecting_remarks

    if is_collecting_remarks():
        for remark in (*artifact.origin_remarks, *artifact.remarks):
            emit_remark(remark)
