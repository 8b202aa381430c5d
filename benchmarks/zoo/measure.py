"""Measures one architecture: export, accuracy at two levels, fusion."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from coda_ir.api import Level, Lowering, find_entry
from coda_ir.backends.reference import Precision, run_function
from coda_ir.diagnostics import CodaError
from coda_ir.frontends.torch import ExportedModel, export
from zoo.accuracy import eager, exact, is_as_exact, relative_errors, tensors_of, worst_ratio
from zoo.architecture import Architecture, Example
from zoo.fusion import FusionReport, fusion_report

DTYPES: Mapping[str, torch.dtype] = {"f32": torch.float32, "bf16": torch.bfloat16}


@dataclass
class Accuracy:
    """The errors of one element type against float64: relative, the largest of all results."""

    eager: float
    block_ratio: float
    """The error on the block level over eager's."""
    gemm_ratio: float
    """The error on the GEMM level over eager's."""
    imported: float
    """The difference of the exported program in float64 and of the model in float64."""
    ok: bool
    """Whether both are at most 1.25 x eager's, or within what is allowed (`is_as_exact`)."""

    @property
    def needs_allowance(self) -> bool:
        """Whether one is above 1.25 x eager's."""
        return max(self.block_ratio, self.gemm_ratio) > 1.25


@dataclass
class Measurement:
    """One line of the table."""

    name: str
    family: str
    layers: int = 0
    shapes: str = ""
    """The dynamic dimensions: `dynamic` (batch and length), `batch`, or `static` where the model
    permits none; "" without export.
    """
    note: str = ""
    """Why not all shapes are dynamic, or what failed."""
    accuracy: dict[str, Accuracy] = field(default_factory=dict[str, Accuracy])
    fusion: FusionReport | None = None
    triton: float | None = None
    """The error of the Triton kernels in the interpreter over eager's, in f32."""
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

    The first element type is exported with dynamic shapes if `dynamic`, the others with none.
    """
    start = time.monotonic()
    result = Measurement(architecture.name, architecture.family, layers)
    try:
        for name in dtypes:
            example = architecture.build(layers).to(DTYPES[name])
            exported = _export(example, result, dynamic=dynamic and name == dtypes[0])
            result.accuracy[name] = _accuracy(example, exported)
            # Of the last type: float32 permits fewer rewrites of norms than narrow types.
            result.fusion = fusion_report(exported.module)
            if triton and name == "f32":
                result.triton = _triton_ratio(example, exported)
    except CodaError as error:
        result.note = f"{error}".splitlines()[0]
    result.seconds = time.monotonic() - start
    return result


def _export(example: Example, result: Measurement, *, dynamic: bool) -> ExportedModel:
    """With the dynamic shapes that work: all, else those of the batch, else none."""
    inputs: dict[str, Any] = dict(example.inputs)
    if dynamic:
        for shapes in ("dynamic", "batch"):
            choice = example if shapes == "dynamic" else example.with_dynamic_batch()
            try:
                exported = export(
                    example.model, (), inputs, dynamic_shapes=choice.dynamic_shapes(), name="model"
                )
            except CodaError as error:
                result.note = f"not {shapes}: {error}".splitlines()[0]
            else:
                result.shapes = shapes
                return exported
    exported = export(example.model, (), inputs, name="model")
    result.shapes = result.shapes or "static"
    return exported


def _accuracy(example: Example, exported: ExportedModel) -> Accuracy:
    wanted, plain = exact(example), eager(example)
    eager_errors = relative_errors(plain, wanted)
    lowering = Lowering(exported.module)

    def errors(level: Level, precision: Precision) -> list[float]:
        return relative_errors(_run(example, exported, lowering, level, precision), wanted)

    block, gemm = errors("block", "stated"), errors("gemm", "stated")

    ok = all(is_as_exact(found, eager_errors, plain) for found in (block, gemm))
    return Accuracy(
        max(eager_errors, default=0.0),
        worst_ratio(block, eager_errors),
        worst_ratio(gemm, eager_errors),
        max([*errors("block", "float64"), *errors("gemm", "float64")], default=0.0),
        ok,
    )


def _run(
    example: Example,
    exported: ExportedModel,
    lowering: Lowering,
    level: Level,
    precision: Precision,
) -> list[torch.Tensor]:
    arguments = exported.arguments(**example.inputs)
    with torch.no_grad():
        results = run_function(find_entry(lowering.module(level)), arguments, precision)
    return tensors_of(exported.result(results))


def _triton_ratio(example: Example, exported: ExportedModel) -> float:
    import coda_ir

    compiled = coda_ir.compile(exported.module, device="cpu")
    with torch.no_grad():
        result: Any = compiled(*exported.arguments(**example.inputs))
    wanted = exact(example)
    got = tensors_of(exported.result(tensors_of(result)))
    return worst_ratio(relative_errors(got, wanted), relative_errors(eager(example), wanted))
