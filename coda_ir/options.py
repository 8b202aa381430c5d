"""The options of a compilation as typed fields. Text is parsed at the edges only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias, TypedDict, get_args

from coda_ir.diagnostics import OptionError, expect_kind
from coda_ir.tuning.context import BUDGET_S

if TYPE_CHECKING:
    import torch

    from coda_ir.cost_model.comparison import Estimates

Target: TypeAlias = Literal["triton", "reference"]
Tune: TypeAlias = "bool | float | Literal['stored']"
Leftovers: TypeAlias = Literal["kernels", "inductor"]


Accept: TypeAlias = "Callable[[Estimates | None], None]"
"""A function that takes the estimates of a program, or None without any, and raises an error if the
program is not worth compiling.
"""


class ProgramOptions(TypedDict, total=False):
    """Keywords of `coda_ir.compile` for every program, and of the `compile` of exported models."""

    target: Target
    device: str | torch.device | None
    schedule: str | None
    numerics: str | None
    pack_weights: bool
    fold_weights: bool
    tune: Tune
    leftovers: Leftovers
    jobs: int | None


class TrainingOptions(ProgramOptions, total=False):
    """Keywords of `coda_ir.compile` for training."""

    memory_budget: int | None
    save: Sequence[str]
    recompute: Sequence[str]
    stream_logits: int | None


@dataclass(frozen=True)
class TuningOptions:
    """Tuning of the schedules of a lowering; see docs/tuning.md."""

    mode: Literal["measure", "stored"]
    budget: float
    """Seconds."""
    sizes: str = ""
    """The sizes of symbols: `B=2,T=8192`."""

    @staticmethod
    def of(tune: bool | float | str) -> TuningOptions | None:
        """Parse the argument `tune` of `compile`. Raises CodaError for an unknown value."""
        if tune is False:
            return None
        if isinstance(tune, str):
            if tune != "stored":
                raise OptionError(
                    f"tune is '{tune}'", "pass True, a number of seconds, or 'stored'"
                )
            return TuningOptions("stored", BUDGET_S)
        expect_kind("tune", tune, (int, float), "pass a bool, a number of seconds, or 'stored'")
        if tune <= 0:
            raise OptionError(
                f"tune is {tune}, expected seconds above 0", "pass False to disable tuning"
            )
        return TuningOptions("measure", BUDGET_S if tune is True else float(tune))

    def scheduling(self, schedule: str) -> str:
        """Return the pass `tune` with these options and those of the pass `schedule`."""
        budget = float(self.budget)
        return f'tune{{{schedule} mode={self.mode} budget={budget!r} sizes="{self.sizes}"}}'


@dataclass(frozen=True)
class CompileOptions:
    """Options that determine how a program becomes an Artifact."""

    schedule: str | None = None
    """Options of the pass `schedule`, beside those that fit the architecture."""
    architecture: str = "cpu"
    """The name of a GPU's architecture, such as `sm_90`, or `cpu`."""
    pack_weights: bool = True
    """Allow vectors computed from weights to be kept between calls."""
    fold_weights: bool = False
    """Allow weights multiplied by the weight of a norm to be kept as well."""
    tuning: TuningOptions | None = None
    leftovers: Leftovers = "kernels"
    """The way to run operators that no GEMM takes: own kernels and calls of PyTorch, or a graph
    that Inductor compiles, which calls programs.
    """
    jobs: int | None = None
    """The number of kernels that are compiled at a time; see `compile_jobs`."""
    is_for_gpu: bool = False
    """True if kernels will run here, so that a process that compiles them starts early."""

    def __post_init__(self) -> None:
        """Raise CodaError for options that contradict each other."""
        if self.leftovers not in get_args(Leftovers):
            choices = ", ".join(get_args(Leftovers))
            raise OptionError(f"unknown leftovers '{self.leftovers}'", f"use one of {choices}")
        if self.fold_weights and not self.pack_weights:
            raise OptionError(
                "fold_weights keeps copies of weights between calls, which pack_weights=False does "
                "not allow",
                "allow both if no code writes weights through .data, or leave fold_weights out",
            )


@dataclass(frozen=True)
class SavePolicy:
    """Memory options of the pass `differentiate`."""

    memory_budget: int | None = None
    """Bytes that may be saved for the backward; None if only time counts."""
    save: tuple[str, ...] = ()
    """Names of values that are saved whatever they cost."""
    recompute: tuple[str, ...] = ()
    """Names of values that are never saved."""
    stream_logits: int | None = None
    """Parts in which logits are recomputed for their gradient; None to save them."""

    def __post_init__(self) -> None:
        """Raise CodaError for anything but a number of bytes or of parts."""
        _check_number("memory_budget", self.memory_budget, 0, "bytes")
        _check_number("stream_logits", self.stream_logits, 1, "parts")

    @staticmethod
    def of(
        memory_budget: int | None,
        save: Sequence[str],
        recompute: Sequence[str],
        stream_logits: int | None,
    ) -> SavePolicy:
        """Make options. Raises CodaError for invalid ones."""
        saved, recomputed = _names("save", save), _names("recompute", recompute)
        return SavePolicy(memory_budget, saved, recomputed, stream_logits)


def _check_number(name: str, value: object, least: int, of_what: str) -> None:
    is_number = isinstance(value, int) and not isinstance(value, bool) and value >= least
    if value is not None and not is_number:
        raise OptionError(f"{name} is {value!r}", f"use a number of {of_what}, {least} or more")


def _names(option: str, names: Sequence[str]) -> tuple[str, ...]:
    """Return names as a tuple. Raises CodaError for a string, which is a sequence of strings."""
    expect_kind(option, names, Sequence, f"pass a list of names, such as {option}=['h']")
    if isinstance(names, str):
        raise OptionError(f"{option} is {names!r}, not a list", f"pass {option}=[{names!r}]")
    return tuple(names)
