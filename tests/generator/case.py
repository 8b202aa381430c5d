"""One program under test: its arguments, and what it computes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

import torch
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

from coda_ir.backends.reference import Precision, run_function
from coda_ir.equivalence.rounding import perturbed, sensitivity
from coda_ir.float64 import relative_error
from coda_ir.remarks import Remark
from generator.arguments import arguments_of
from generator.program import Program
from generator.violations import Violation, expected_to_work

if TYPE_CHECKING:
    from generator.rounding import Rounding

Tensors: TypeAlias = Sequence[torch.Tensor]

TOLERANCE = 1e-6
"""Largest relative error in float64: far above its rounding, far below any wrong constant."""

DIGIT = 1e-13
"""A relative change that stands for rounding errors of float64."""

NOISE = 100.0
"""The factor up to which the error of values that differ by a `DIGIT` counts as rounding."""


@dataclass
class Case:
    program: Program
    seed: int = 0
    remarks: list[Remark] = field(default_factory=list[Remark])
    """The remarks of the passes about the program."""
    lowered: ModuleOp | None = None
    """The program at the GEMM level, once it is known."""
    rounding: Rounding | None = None
    """The distance from float64 that its results may have, once that is known."""
    notes: list[str] = field(default_factory=list[str])
    """Notes on what could not be checked, or is worth a look; not failures."""
    noises: dict[str, list[float]] = field(default_factory=dict[str, list[float]])
    """The errors of the results of functions that are rounding, once they are known."""
    motifs: set[str] = field(default_factory=set[str])
    """Features of its calls that the program does not show: strides, loops of kernels."""

    @cached_property
    def arguments(self) -> dict[str, list[torch.Tensor]]:
        """The arguments of every function, of the stated types."""
        extents = self.program.extents
        return {
            func.sym_name.data: arguments_of(func, extents, self.seed)
            for func in self.program.functions
        }

    @cached_property
    def exact(self) -> dict[str, Tensors]:
        """Return what the functions compute in float64."""
        with expected_to_work("reference", "block level"):
            return self.results(self.program.module, "float64")

    def results(self, module: ModuleOp, precision: Precision) -> dict[str, Tensors]:
        """Return what the functions of `module`, of any level, compute on the arguments."""
        functions = {op.sym_name.data: op for op in module.ops if isinstance(op, FuncOp)}
        return {
            name: run_function(functions[name], arguments, precision)
            for name, arguments in self.arguments.items()
        }

    def noise(self, name: str, index: int) -> float:
        """The error of a result that is explained by changing the arguments, or what is computed
        on the way, in the last digits.

        A result may be 0, as a sum of what cancels: then rounding errors are all there is, and
        they are as large as the terms are.
        """
        if name not in self.noises:
            self.noises[name] = self._noise(name)
        return self.noises[name][index]

    def _noise(self, name: str) -> list[float]:
        random = torch.Generator().manual_seed(0)
        arguments = [perturbed(each, random, DIGIT) for each in self.arguments[name]]
        func, exact = self._function(name), self.exact[name]
        results = run_function(func, arguments, "float64")
        errors = [relative_error(*pair) for pair in zip(results, exact, strict=True)]
        moved = sensitivity(func, self.arguments[name], exact, lambda _: DIGIT)
        return [NOISE * max(pair) for pair in zip(errors, moved, strict=True)]

    def _function(self, name: str) -> FuncOp:
        return next(f for f in self.program.functions if f.sym_name.data == name)

    def check_meaning(self, module: ModuleOp, property: str, where: str) -> None:
        """`module` computes in float64 what the program does."""
        with expected_to_work(property, where):
            actual = self.results(module, "float64")
        for name, expected in self.exact.items():
            for index, (got, wanted) in enumerate(zip(actual[name], expected, strict=True)):
                error = relative_error(got, wanted)
                if not error <= TOLERANCE and not error <= self.noise(name, index):
                    message = f"result {index} of {name} has a relative error of {error:.1e}"
                    raise Violation(property, where, message)
