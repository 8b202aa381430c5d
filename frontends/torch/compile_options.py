"""The `mode=` and `options=` of `torch.compile(model, backend="coda")`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, TypeAlias, get_args, get_origin, get_type_hints

import torch

from coda_ir.defects import Errors
from coda_ir.diagnostics import CodaError, OptionError, closest
from coda_ir.dialects.gemm import NumericsMode
from coda_ir.lowering import check_schedule
from coda_ir.options import CompileOptions, SavePolicy, Tune, TuningOptions
from coda_ir.pages import page_options
from coda_ir.remarks import REMARK_KINDS, RemarkKind

Fallback: TypeAlias = Literal["auto", "eager", "inductor"]
TargetChoice: TypeAlias = Literal["auto", "triton", "reference"]
Backward: TypeAlias = Literal["derived", "autograd"]

REMARKS_VARIABLE = "CODA_REMARKS"
"""Environment variable with the kinds of remarks to show: `CODA_REMARKS=missed,passed`, `all`."""

MODES: Mapping[str, Mapping[str, bool]] = {
    "default": {},
    "reduce-overhead": {"cuda_graphs": True},
    "max-autotune": {"cuda_graphs": True, "tune": True},
    "max-autotune-no-cudagraphs": {"tune": True},
}
"""The modes of `torch.compile`, and the options that each sets."""


EXPLORE_VARIABLE = "CODA_EXPLORE"
"""Environment variable with the folder of the option `explore`."""

RUNNERS = {"eager": "eager PyTorch", "inductor": "Inductor"}
"""Names of the fallbacks in messages."""

_WAYS = ("fallback", "compare", "target", "remarks", "explore", "explore_arch", "errors")
"""Options that choose how a graph runs and what is logged. The others change programs."""


@dataclass(frozen=True)
class Options:
    """The `options=` of `torch.compile` for this backend."""

    fallback: Fallback = "auto"
    """The way to run a graph, or a region, that is not compiled here, and the operators of a
    graph that no GEMM takes: `auto` is inductor on a GPU, and eager on the CPU. `auto` leaves the
    operators of a graph that is tuned to kernels.
    """
    compare: bool = True
    """Leave a graph to Inductor if it is estimated to be faster there, on GPUs whose library the
    estimate knows, unless an option requests what only this compiler provides.
    """
    target: TargetChoice = "auto"
    """`auto` is triton on a GPU, and on the CPU if TRITON_INTERPRET is set."""
    numerics: str | None = None
    """The numerics mode of the programs (see docs/numerics.md)."""
    schedule: str | None = None
    """Options of the pass `schedule`."""
    backward: Backward = "derived"
    """The way to differentiate a graph: the pass `differentiate`, or PyTorch's autograd."""
    memory_budget: int | None = None
    """Bytes that a graph may save for its backward; by default time alone counts."""
    stream_logits: int | None = None
    """Parts in which logits are recomputed for their gradient, instead of being saved."""
    tune: Tune = False
    """Measure schedules on the GPU (docs/tuning.md), for at most a minute per graph or a number of
    seconds; `"stored"` uses stored results. Without a GPU, nothing is measured.
    """
    cuda_graphs: bool = False
    """Replay programs without gradients as CUDA graphs, one for each combination of sizes."""
    pack_weights: bool = False
    """Keep vectors computed from weights between calls. They follow updates that PyTorch counts
    (optimizers, `load_state_dict`), but not writes through `.data`.
    """
    fold_weights: bool = False
    """Keep weights that follow a norm multiplied by the weight of the norm, in graphs without
    gradients. Requires `pack_weights`, because the copies follow the same updates; in CUDA graphs,
    each replay would compute them again.
    """
    remarks: str | None = None
    """Kinds of remarks to show, with commas between them, or `all`; by default $CODA_REMARKS."""
    explore: str | None = None
    """A folder for a page about each graph (`explore_module`); by default $CODA_EXPLORE."""
    explore_arch: str | None = None
    """The GPU of pages with machine code, such as `sm_90`; by default that of the graph."""
    errors: Errors = "fallback"
    """The response to an error inside of the compiler; `raise` is for tests."""

    @staticmethod
    def of(mode: str | None, given: Mapping[str, Any] | None) -> Options:
        """Read options. Raises OptionError for an unknown mode, option or value."""
        if mode is not None and mode not in MODES:
            raise OptionError(f"unknown mode '{mode}'", f"use one of {', '.join(MODES)}")
        names = [field.name for field in fields(Options)]
        for name in given or {}:
            if name not in names:
                raise OptionError(
                    f"unknown option '{name}' of the backend coda",
                    closest(name, names, f"use one of {', '.join(names)}", cutoff=0.7),
                )
        values: dict[str, Any] = {**MODES[mode or "default"], **(given or {})}
        options = Options(**values)
        options._check()
        return options

    def _check(self) -> None:
        for name, kind in get_type_hints(Options).items():
            if get_origin(kind) is Literal:
                _check_choice(name, getattr(self, name), get_args(kind))
            elif kind is bool:
                _check_type(name, getattr(self, name), bool, "True or False")
        self._check_graphs()
        _check_type("schedule", self.schedule or "", str, "a string such as 'target=sm_90 warps=8'")
        self._check_of_programs()
        if self.numerics is not None:
            _check_choice("numerics", self.numerics, [mode.value for mode in NumericsMode])
        _ = self.shown_remarks
        _check_type("explore", self.explore or "", str, "the name of a folder")
        self._check_arch()

    def _check_graphs(self) -> None:
        if self.fold_weights and self.cuda_graphs:
            raise OptionError(
                "option fold_weights is not for cuda_graphs: each replay would fold them again",
                "leave out one of the two",
            )

    def _check_of_programs(self) -> None:
        """Check what compiled programs check: otherwise each graph would fail and fall back."""
        try:
            TuningOptions.of(self.tune)
            CompileOptions(pack_weights=self.pack_weights, fold_weights=self.fold_weights)
            SavePolicy(memory_budget=self.memory_budget, stream_logits=self.stream_logits)
            if self.schedule:
                check_schedule(self.schedule)
        except CodaError as error:
            raise OptionError(f"option {error.message}", error.remedy) from error

    def _check_arch(self) -> None:
        if self.explore_arch is None:
            return
        _check_type("explore_arch", self.explore_arch, str, "the name of a GPU, such as 'sm_90'")
        try:
            page_options(self.explore_arch, None)
        except CodaError as error:
            raise OptionError(f"option explore_arch: {error.message}", error.remedy) from error

    def runs_through_inductor(self, *devices: torch.device) -> bool:
        """Return whether Inductor runs the rest of a graph, for tensors on `devices`."""
        is_gpu = any(device.type != "cpu" for device in devices)
        return self.fallback == "inductor" or (self.fallback == "auto" and is_gpu)

    @property
    def has_wishes(self) -> bool:
        """True if an option requests something that only this compiler provides."""
        ways = {name: getattr(self, name) for name in _WAYS}
        return self != replace(Options(), **ways)

    @property
    def pages(self) -> str | None:
        """The folder for pages about graphs, if there is one."""
        return self.explore or os.environ.get(EXPLORE_VARIABLE) or None

    @property
    def shown_remarks(self) -> frozenset[RemarkKind]:
        """The requested kinds of remarks. Raises OptionError for an unknown one."""
        text = os.environ.get(REMARKS_VARIABLE, "") if self.remarks is None else self.remarks
        _check_type("remarks", text, str, "a string such as 'missed,passed'")
        kinds = [kind.strip() for kind in text.split(",") if kind.strip()]
        for kind in kinds:
            _check_choice("remarks", kind, (*REMARK_KINDS, "all"))
        return frozenset(kind for kind in REMARK_KINDS if kind in kinds or "all" in kinds)


def _check_choice(name: str, value: object, choices: Any) -> None:
    if value not in choices:
        raise OptionError(f"option {name} is {value!r}", f"use one of {', '.join(choices)}")


def _check_type(name: str, value: object, expected: type, example: str) -> None:
    if not isinstance(value, expected):
        raise OptionError(f"option {name} is {value!r}", f"use {example}")
