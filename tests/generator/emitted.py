"""Emitted Triton modules of random programs, run where the tests run: mostly in the interpreter."""

import linecache
import tempfile
from collections.abc import Sequence
from pathlib import Path

import torch
from support.device import DEVICE
from support.emitted import run_guarded
from support.gluon_simulator import load_module
from xdsl.dialects.builtin import ModuleOp

from coda_ir.backends.triton import emit_module
from coda_ir.diagnostics import CodaError
from generator.case import Case
from generator.features import motifs_of_source
from generator.layouts import laid_out
from generator.rounding import Rounding
from generator.violations import expected_to_work

PROPERTY = "block = emitted Triton"


def check_emitted(case: Case, rounding: Rounding, scheduled: ModuleOp) -> None:
    """Every function as emitted is as accurate as the block level.

    What the backend refuses, with an error for the user, is only counted.
    """
    actual: dict[str, Sequence[torch.Tensor]] = {}
    for name, arguments in case.arguments.items():
        with expected_to_work(PROPERTY, "emission"):
            try:
                source = emit_module(scheduled, name)
            except CodaError as error:
                case.notes.append(f"refused by triton: {_reason(error)}")
                return
        given, kinds = laid_out(arguments, case.seed)
        case.motifs |= kinds | motifs_of_source(source)
        actual[name] = run(source, given)
    rounding.check(actual, PROPERTY, "emitted")


def _reason(error: CodaError) -> str:
    first = str(error).splitlines()[0]
    return (first.partition(": ")[2] or first)[:70]


def run(source: str, arguments: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """The results of a module, which must not access anything but its tensors. On a CPU,
    kernels in Gluon run in the simulator.
    """
    if "@gluon.jit" in source and DEVICE == "cpu":
        with expected_to_work(PROPERTY, "run in the simulator"):
            results = load_module(source).run(*(argument.clone() for argument in arguments))
        return [results] if isinstance(results, torch.Tensor) else [*results]
    try:
        with (
            tempfile.TemporaryDirectory(prefix="coda_random_") as folder,
            expected_to_work(PROPERTY, "run of the emitted module"),
        ):
            return run_guarded(source, arguments, Path(folder))
    finally:
        linecache.clearcache()
