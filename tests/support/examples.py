"""The examples at every level, in any element type, beside the models that they have to match."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import torch
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

from coda_ir.api import Level, Lowering, find_entry, parse
from coda_ir.backends.reference import Precision, run_function
from coda_ir.backends.triton import emit_module
from coda_ir.devices import default_device
from coda_ir.float64 import relative_error
from coda_ir.options import CompileOptions
from coda_ir.signatures import signature_of
from support.emitted import load_module
from support.inputs import random_inputs
from support.models import MODELS, Model, Sizes

EXAMPLES = Path(__file__).parents[2] / "examples"

DTYPES = {torch.bfloat16: "bf16", torch.float16: "f16", torch.float32: "f32"}


@lru_cache
def folder_in(dtype: torch.dtype) -> Path:
    """A folder with every example in another element type than bf16."""
    folder = Path(mkdtemp(prefix=f"examples_{DTYPES[dtype]}_"))
    for path in EXAMPLES.glob("*.coda"):
        (folder / path.name).write_text(path.read_text().replace("bf16", DTYPES[dtype]))
    return folder


@dataclass(frozen=True)
class Example:
    """One function of an example in one element type, with sizes for its constants."""

    name: str
    """The name of the example, or `example.function` if the example has several functions."""
    dtype: torch.dtype = torch.bfloat16
    constants: Sizes = field(default_factory=dict[str, int], hash=False)
    target: str = "interpreter"
    """The target of the schedules, an option of the pass `schedule`."""

    @property
    def model(self) -> Model:
        return MODELS[self.name]

    @property
    def entry(self) -> str:
        return self.name.rpartition(".")[2]

    @cached_property
    def lowering(self) -> Lowering:
        file = self.name.partition(".")[0] + ".coda"
        module = parse(folder_in(self.dtype) / file, constants=dict(self.constants))
        return Lowering(module, CompileOptions(f"target={self.target}"))

    def module(self, level: Level) -> ModuleOp:
        return self.lowering.module(level)

    def function(self, level: Level = "block") -> FuncOp:
        return find_entry(self.module(level), self.entry)

    @property
    def is_flat(self) -> bool:
        """True if the rows are M, and not B times T."""
        return any("M" in spec.dims for spec in signature_of(self.function()).arguments)

    @property
    def result_dtypes(self) -> list[torch.dtype]:
        return [spec.dtype for spec in signature_of(self.function()).results]

    def inputs(self, dims: Sizes, seed: int) -> dict[str, torch.Tensor]:
        """Random tensors by name, of the stated types."""
        names = [spec.name for spec in signature_of(self.function()).arguments]
        tensors = random_inputs(self.function(), dims, seed=seed)
        return dict(zip(names, tensors, strict=True))

    def run_model(
        self, inputs: Mapping[str, torch.Tensor], *, exact: bool
    ) -> tuple[torch.Tensor, ...]:
        """The PyTorch model: in float64 on the CPU, or as it is where the program runs."""
        if exact:
            inputs = {
                name: tensor.double() if tensor.is_floating_point() else tensor
                for name, tensor in inputs.items()
            }
        device = "cpu" if exact else default_device()
        inputs = {name: tensor.to(device) for name, tensor in inputs.items()}
        return tuple(result.cpu() for result in self.model(inputs, self.constants))

    def run_reference(
        self, inputs: Mapping[str, torch.Tensor], level: Level, precision: Precision
    ) -> tuple[torch.Tensor, ...]:
        return run_function(self.function(level), list(inputs.values()), precision)

    @cached_property
    def _emitted(self) -> Callable[..., Any]:
        return load_module(emit_module(self.module("scheduled"), self.entry)).run

    def run_triton(self, inputs: Mapping[str, torch.Tensor]) -> tuple[torch.Tensor, ...]:
        """The emitted program, on the CPU interpreter where there is no GPU."""
        device = default_device()
        results = self._emitted(*(tensor.to(device) for tensor in inputs.values()))
        results = (results,) if isinstance(results, torch.Tensor) else results
        return tuple(result.cpu() for result in results)


def mean_errors(
    results: Sequence[Sequence[torch.Tensor]], exact: Sequence[Sequence[torch.Tensor]]
) -> list[float]:
    """The relative error of each result, as the root of the mean square over several runs."""
    runs = [
        [relative_error(got, wanted) ** 2 for got, wanted in zip(actual, right, strict=True)]
        for actual, right in zip(results, exact, strict=True)
    ]
    return [(sum(errors) / len(errors)) ** 0.5 for errors in zip(*runs, strict=True)]
