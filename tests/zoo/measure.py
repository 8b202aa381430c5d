"""Measures one architecture: export, accuracy at two levels and as emitted Triton, operators."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import torch

from coda_ir.api import Level, find_entry
from coda_ir.backends.reference import Precision, run_function
from coda_ir.diagnostics import CodaError
from coda_ir.frontends.torch import ExportedModel
from coda_ir.tools.model_report import executed
from zoo.accuracy import eager, exact, is_as_exact, relative_errors, tensors_of, worst_ratio
from zoo.architecture import SHAPES, Architecture, Example, first_that_works
from zoo.choices import clear_example
from zoo.emitted import describe, lowering_for_device, run_emitted

DTYPES: Mapping[str, torch.dtype] = {"f32": torch.float32, "bf16": torch.bfloat16}


@dataclass
class Accuracy:
    """The errors of one element type against float64: relative, the largest of all results."""

    eager: float
    block_ratio: float
    """The error on the block level over eager's."""
    gemm_ratio: float
    """The error on the GEMM level over eager's."""
    triton_ratio: float | None
    """The error of the emitted Triton over eager's; None where it was left out or failed."""
    imported: float
    """The difference of the exported program in float64 and of the model in float64."""
    ok: bool
    """True where all are at most 1.25 x eager's, or within what is allowed (`is_as_exact`)."""

    @property
    def needs_allowance(self) -> bool:
        """True if one is above 1.25 x eager's."""
        return max(self.block_ratio, self.gemm_ratio, self.triton_ratio or 0.0) > 1.25


@dataclass
class Measurement:
    """One line of the table."""

    name: str
    layers: int = 0
    shapes: str = ""
    """The dynamic dimensions: `dynamic` (batch and length), `batch`, or `static` where the model
    permits none; "" without export.
    """
    note: str = ""
    """The reason why not all shapes are dynamic, or the failure."""
    accuracy: dict[str, Accuracy] = field(default_factory=dict[str, Accuracy])
    operators: dict[str, int] = field(default_factory=dict[str, int])
    """The operators of the GEMM level that run, by name, in the last of the element types."""
    failure: str = ""
    """The failure of the emitted Triton: an access outside of a tensor, or a crash."""
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        return bool(self.accuracy) and all(entry.ok for entry in self.accuracy.values())


def measure(
    architecture: Architecture,
    *,
    dtypes: tuple[str, ...] = ("f32", "bf16"),
    layers: int = 2,
    triton: bool = False,
    dynamic: bool = True,
) -> Measurement:
    """Export, run and lower `architecture`. Failures are noted, not raised.

    The first element type is exported with dynamic shapes if `dynamic`, the others with none. With
    `triton`, the emitted program runs as well.
    """
    start = time.monotonic()
    result = Measurement(architecture.name, layers)
    try:
        for name in dtypes:
            example = clear_example(architecture, layers, DTYPES[name])
            shapes = SHAPES if dynamic and name == dtypes[0] else SHAPES[-1:]
            found, program, note = first_that_works(shapes, partial(_Program, example))
            result.shapes, result.note = result.shapes or found, note or result.note
            result.accuracy[name] = program.accuracy
            # Float32 permits fewer rewrites of norms than narrow types.
            result.operators = dict(executed(program.lowering.module("gemm")))
            if triton:
                program.add_triton(result, name)
    except CodaError as error:
        result.note = f"{error}".splitlines()[0]
    result.seconds = time.monotonic() - start
    return result


class _Program:
    """An exported model, the results that are exact, eager's, and how exact the model's are.

    Raises CodaError for what cannot be exported, or be run by the reference backend.
    """

    def __init__(self, example: Example, shapes: str):
        self.example = example
        self.exported: ExportedModel = example.export(shapes)
        self.exact, self.eager = exact(example), eager(example)
        self.eager_errors = relative_errors(self.eager, self.exact)
        self.lowering = lowering_for_device(self.exported.module)
        self.accuracy = self._accuracy()

    def _accuracy(self) -> Accuracy:
        """The accuracy on the reference backend."""
        block, gemm = self._errors("block", "stated"), self._errors("gemm", "stated")
        wide = [*self._errors("block", "float64"), *self._errors("gemm", "float64")]
        return Accuracy(
            max(self.eager_errors, default=0.0),
            worst_ratio(block, self.eager_errors),
            worst_ratio(gemm, self.eager_errors),
            None,
            max(wide, default=0.0),
            self._is_as_exact(block) and self._is_as_exact(gemm),
        )

    def add_triton(self, result: Measurement, dtype: str) -> None:
        """Add the accuracy of the emitted program, or what failed in it."""
        accuracy, arguments = result.accuracy[dtype], self._arguments()
        try:
            errors = self._of_results(run_emitted(self.lowering, None, arguments))
        except Exception as error:  # The boundary of the tool: the table names what went wrong.
            result.failure = f"{dtype}: {describe(error)}"
            accuracy.ok = False
        else:
            accuracy.triton_ratio = worst_ratio(errors, self.eager_errors)
            accuracy.ok = accuracy.ok and self._is_as_exact(errors)

    def _arguments(self) -> list[torch.Tensor]:
        return self.exported.arguments(**self.example.inputs)

    def _errors(self, level: Level, precision: Precision) -> list[float]:
        func = find_entry(self.lowering.module(level))
        with torch.no_grad():
            return self._of_results(run_function(func, self._arguments(), precision))

    def _of_results(self, results: Sequence[torch.Tensor]) -> list[float]:
        return relative_errors(tensors_of(self.exported.result(results)), self.exact)

    def _is_as_exact(self, errors: Sequence[float]) -> bool:
        return is_as_exact(errors, self.eager_errors, self.eager)
