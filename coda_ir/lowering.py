"""A program at each level, and the code emitted for one of its functions.

Modules that lower programs are imported on demand, so a cached program needs neither them nor xDSL.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar, copy_context
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar, get_args

from coda_ir.cache.origin import Origin
from coda_ir.collector import collector_paused
from coda_ir.diagnostics import (
    Diagnostic,
    OptionError,
    collect_diagnostics,
    emit_diagnostic,
)
from coda_ir.functions import count_operators, find_entry, functions_of, used_arguments
from coda_ir.launching.compile_jobs import compile_jobs, use_jobs
from coda_ir.launching.direct_launch import direct_launch_is_on, missed_direct_launch
from coda_ir.options import CompileOptions
from coda_ir.tuning.context import current_device, gpu_name

if TYPE_CHECKING:
    from xdsl.context import Context
    from xdsl.dialects.builtin import ModuleOp
    from xdsl.dialects.func import CallOp, FuncOp

    from coda_ir.cache.artifact import Artifact
    from coda_ir.cache.programs import Request
    from coda_ir.cost_model import Device
    from coda_ir.cost_model.comparison import Estimates
    from coda_ir.launching.forked import KernelCompiler
    from coda_ir.pipeline import Pipeline
    from coda_ir.remarks import Remark

R = TypeVar("R")

_is_inside: ContextVar[bool] = ContextVar("coda_own_stack", default=False)


def on_own_stack(work: Callable[[], R]) -> R:
    """Run `work` in a separate thread with the context variables of the caller; nested work stays
    in that thread. Raises the exceptions of `work`.

    PyTorch's per-thread state, such as the current device, has its defaults in the thread.

    CPython stores call frames in chunks of memory, and maps and unmaps the next chunk whenever a
    call crosses the end of one. Work whose calls cross it frequently, as those of TorchDynamo's
    compilers may, takes three times as long. A new thread begins with an empty chunk.
    """
    if _is_inside.get():
        return work()
    context = copy_context()
    context.run(_is_inside.set, True)
    with collector_paused(), ThreadPoolExecutor(1, thread_name_prefix="coda-stack") as pool:
        return pool.submit(context.run, work).result()


Level: TypeAlias = Literal["block", "gemm", "scheduled"]

PASSES: dict[Level, str] = {
    "gemm": "coda-to-gemm{{fold-weights={fold_weights} pack-weights={pack_weights} "
    "leftovers={leftovers}}}",
    "scheduled": "{schedule},plan-buffers",
}
"""The passes that lead to each level from the one before."""


def check_schedule(schedule: str) -> None:
    """Raise CodaError for options that the pass `schedule` does not have, and for their values."""
    from coda_ir.passes.layout.schedule import SchedulePass

    for step in _parse_passes(f"schedule{{{schedule}}}", schedule).steps:
        if isinstance(step, SchedulePass):
            step.check_values()


def _parse_passes(passes: str, schedule: str) -> Pipeline:
    from coda_ir.pipeline import PipelineError, parse_pipeline
    from coda_ir.registry import get_all_passes

    try:
        return parse_pipeline(passes, get_all_passes())
    except PipelineError as error:
        raise OptionError(
            f"schedule = '{schedule}': {error}",
            "write options of the pass schedule, such as 'target=sm_90 warps=8'",
        ) from error


class Lowering:
    """A module at the levels `block`, `gemm` and `scheduled`, each made on demand.

    The code emitted for the program of an Origin is cached; that of a module is not.
    """

    def __init__(
        self,
        program: ModuleOp | Origin,
        options: CompileOptions = CompileOptions(),  # noqa: B008  (it is immutable)
    ):
        self.options = options
        self._origin = program if isinstance(program, Origin) else None
        self._modules: dict[Level, ModuleOp] = {}
        if not isinstance(program, Origin):
            self._modules["block"] = program
        self._artifacts: dict[str | None, Artifact] = {}
        self._estimates: dict[str | None, Artifact] = {}
        self.origin_remarks: list[Remark] = []
        """Remarks of making the program of the block level."""
        self._warnings: list[Diagnostic] = []
        self.compiler: KernelCompiler | None = None
        """The process that compiles the kernels, where the program is not in the cache."""
        self.remarks: list[Remark] = []

    @cached_property
    def context(self) -> Context:
        from coda_ir.context import make_context

        return make_context()

    @cached_property
    def _schedule(self) -> str:
        from coda_ir.backends.triton.architectures import complete_schedule

        return complete_schedule(self.options.schedule or "", self.options.architecture)

    def module(self, level: Level) -> ModuleOp:
        """Return the module at `level`; it must not be changed."""
        levels = get_args(Level)
        if level not in levels:
            raise OptionError(f"unknown level '{level}'", f"use one of {', '.join(levels)}")
        if level not in self._modules:
            self._modules[level] = self._apart(lambda: self._make(level, levels))
        return self._modules[level]

    def _apart(self, work: Callable[[], R]) -> R:
        """Run `work` on a separate stack, unless it measures on the current device."""
        return work() if self.options.tuning is not None else on_own_stack(work)

    def _make(self, level: Level, levels: tuple[Level, ...]) -> ModuleOp:
        if level == "block":
            return self._original()
        before = self.module(levels[levels.index(level) - 1])
        module = self._lower(before, self._passes(level))
        if level == "scheduled":
            module.verify()
        return module

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
        schedule, tuning = self._schedule, self.options.tuning
        return PASSES[level].format(
            schedule=f"schedule{{{schedule}}}" if tuning is None else tuning.scheduling(schedule),
            fold_weights=str(self.options.fold_weights).lower(),
            pack_weights=str(self.options.pack_weights).lower(),
            leftovers=self.options.leftovers,
        )

    def _lower(self, before: ModuleOp, passes: str) -> ModuleOp:
        from coda_ir.pipeline import PassManager
        from coda_ir.remarks import collect_remarks

        module = before.clone()
        pipeline = _parse_passes(passes, self._schedule)
        with collect_remarks() as remarks, use_jobs(self.options.jobs):
            PassManager(pipeline, verify_each=False).run(self.context, module)
        self.remarks += remarks
        return module

    def artifact(self, function: str | None = None) -> Artifact:
        """Return the Artifact of a function, or of the only one: from the cache, or lowered now.

        Raises CodaError if there is no such function, or if it cannot be emitted.
        """
        if function not in self._artifacts:
            self._artifacts[function] = self._apart(lambda: self._find(function))
        return self._artifacts[function]

    def comparison(self, function: str | None = None) -> Estimates | None:
        """Return the estimates for a function; nothing is emitted.

        Returns None if the library of the device is unknown, or if schedules are tuned.
        """
        if self._compared_device is None:
            return None
        if function not in self._estimates:
            self._estimates[function] = self._apart(lambda: self._find_estimates(function))
        return self._estimates[function].comparison

    def _find_estimates(self, function: str | None) -> Artifact:
        if self._origin is None:
            return self._estimated(function)
        from coda_ir.cache.programs import fetch

        assert self._compared_device is not None, "a device whose library is known"
        compared = self._compared_device.name
        rounds = self._compared_device.library_rounds
        request = self._request(self._origin, function, compared=compared, library_rounds=rounds)
        return fetch(request, lambda: self._estimated(function))

    def _request(self, origin: Origin, function: str | None, **more: str | bool) -> Request:
        """Return the request that identifies an Artifact in the cache."""
        from coda_ir.cache.programs import Request

        options: dict[str, Any] = {
            **more,
            "schedule": self.options.schedule,
            "pack_weights": self.options.pack_weights,
            "fold_weights": self.options.fold_weights,
            "direct_launch": direct_launch_is_on(self.options.architecture),
            "leftovers": self.options.leftovers,
        }
        if self.options.tuning is not None:
            options["tuned"] = {"sizes": self.options.tuning.sizes, "device": current_device()}
        return Request(origin, function, self.options.architecture, options)

    def _find(self, function: str | None) -> Artifact:
        if self._origin is None:
            return self._emit(function)
        from coda_ir.cache.programs import fetch

        request = self._request(self._origin, function)
        artifact = fetch(request, lambda: self._emit(function), self._is_final)
        if "scheduled" not in self._modules:
            if self.options.tuning is not None:
                # Nothing is measured to print a level of a program that was found.
                stored = replace(self.options.tuning, mode="stored")
                self.options = replace(self.options, tuning=stored)
            _tell(artifact)
        return artifact

    def _is_final(self) -> bool:
        """Return whether no schedule remains to be measured."""
        if self.options.tuning is None:
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
        """Emit a function of the program, or a program that it calls."""
        self._start_compiler()
        if self.options.leftovers == "inductor":
            name = function or find_entry(self.module("block")).sym_name.data
            calls = _calls(find_entry(self.module("gemm"), name))
            if calls:
                programs = dict.fromkeys(call.callee.string_value() for call in calls)
                return self._graph_artifact(name, tuple(programs))
            if name in _program_names(self.module("gemm")):
                return self._program_artifact(find_entry(self.module("gemm"), name))
        return self._program_artifact(find_entry(self.module("block"), function))

    def _start_compiler(self) -> None:
        """Start the process that compiles kernels, unless tuning has compiled them."""
        options = self.options
        if self.compiler is not None or not options.is_for_gpu or options.tuning is not None:
            return
        from coda_ir.backends.triton.architectures import ARCHITECTURES
        from coda_ir.launching.forked import MIN_JOBS, KernelCompiler

        known, jobs = ARCHITECTURES.get(options.architecture), compile_jobs(options.jobs)
        if known is not None and jobs >= MIN_JOBS:
            self.compiler = KernelCompiler(known.triton_target, jobs)

    def _program_artifact(self, func: FuncOp) -> Artifact:
        from coda_ir.backends.triton import emit_program
        from coda_ir.cache.artifact import Artifact, encoded
        from coda_ir.signatures import signature_of

        scheduled, name = self.module("scheduled"), func.sym_name.data
        is_direct = direct_launch_is_on(self.options.architecture)
        program = emit_program(scheduled, name, direct_launch=is_direct)
        missed = missed_direct_launch(func, self.options.architecture)
        return Artifact(
            signature=signature_of(func),
            used_arguments=used_arguments(func),
            source=program.source,
            kernels=tuple(kernel.name for kernel in program.kernels),
            operators=count_operators(scheduled, name),
            launches=program.stand_ins,
            remark_data=encoded([*self.remarks, *missed]),
            origin_remark_data=encoded(self.origin_remarks),
            warnings=tuple(self._warnings),
        )

    def _graph_artifact(self, name: str, programs: tuple[str, ...]) -> Artifact:
        """A function that PyTorch runs, with all that there is to know about its programs."""
        from coda_ir.cache.artifact import Artifact, encoded
        from coda_ir.signatures import signature_of

        func = find_entry(self.module("gemm"), name)
        entry = find_entry(self.module("block"), name)
        parts = [self.artifact(program) for program in programs]
        counts = [count_operators(self.module("scheduled"), each) for each in (name, *programs)]
        return Artifact(
            signature=signature_of(entry),
            used_arguments=used_arguments(func),
            source="\n\n".join([_commented(str(func)), *(part.source for part in parts)]),
            kernels=tuple(kernel for part in parts for kernel in part.kernels),
            operators=sum(map(Counter, counts), Counter[str]()),
            remark_data=encoded(self.remarks),
            origin_remark_data=encoded(self.origin_remarks),
            warnings=tuple(self._warnings),
            graph=_graph_text(func),
            programs=programs,
        )

    def _estimated(self, function: str | None) -> Artifact:
        """Return the estimates for a function before it is emitted."""
        from coda_ir.cache.artifact import Artifact
        from coda_ir.cost_model.comparison import compare
        from coda_ir.signatures import signature_of

        self._start_compiler()
        func, device = find_entry(self.module("block"), function), self._compared_device
        assert device is not None, "a device whose library is known"
        scheduled, name = self.module("scheduled"), func.sym_name.data
        after = functions_of(scheduled)
        return Artifact(
            signature=signature_of(func),
            used_arguments=used_arguments(func),
            source="",
            kernels=(),
            operators=count_operators(scheduled, name),
            comparison=compare(func, after[name], after, device),
        )

    @cached_property
    def _compared_device(self) -> Device | None:
        """The current GPU, or the scheduled one; None if the times of its library are unknown."""
        from coda_ir.cost_model.devices import device_named
        from coda_ir.devices import library_rounds_float32
        from coda_ir.passes.layout.schedule import SchedulePass

        if self.options.tuning is not None:
            return None
        (scheduling,) = _parse_passes(f"schedule{{{self._schedule}}}", self._schedule).steps
        if not isinstance(scheduling, SchedulePass) or not scheduling.device.has_tma:
            return None
        device = device_named(gpu_name(), scheduling.device)
        # A graph that Inductor runs obeys PyTorch's settings, unlike programs.
        return replace(device, library_rounds=library_rounds_float32())


def _calls(func: FuncOp) -> list[CallOp]:
    from xdsl.dialects.func import CallOp

    return [op for op in func.body.block.ops if isinstance(op, CallOp)]


def _graph_text(func: FuncOp) -> str:
    """Return the text of a module with `func` and the declarations of its callees."""
    from xdsl.dialects.builtin import ModuleOp
    from xdsl.dialects.func import FuncOp

    called = {call.callee.string_value(): call for call in _calls(func)}
    declared = [
        FuncOp.external(name, call.operand_types, call.result_types)
        for name, call in called.items()
    ]
    return str(ModuleOp([func.clone(), *declared]))


def _program_names(module: ModuleOp) -> set[str]:
    """Return the names of the GEMM-level functions that are called."""
    from xdsl.dialects.func import CallOp

    return {op.callee.string_value() for op in module.walk() if isinstance(op, CallOp)}


def _commented(text: str) -> str:
    return "\n".join(f"# {line}" for line in text.splitlines())


def _tell(artifact: Artifact) -> None:
    """Emit the diagnostics that lowering the program now would have emitted."""
    for warning in artifact.warnings:
        emit_diagnostic(warning)
    if "coda_ir.remarks" not in sys.modules:
        return  # no context collects them
    from coda_ir.remarks import emit_remark, is_collecting_remarks

    if is_collecting_remarks():
        for remark in (*artifact.origin_remarks, *artifact.remarks):
            emit_remark(remark)
