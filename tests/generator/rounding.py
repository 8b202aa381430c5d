"""How far a program may be from float64 when it rounds where its types say so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from coda_ir.backends.reference import run_function, trace_function
from coda_ir.backends.reference.numerics import stated_dtype
from coda_ir.dialects.coda import LayerNormOp
from coda_ir.float64 import relative_error
from generator.arguments import arguments_of
from generator.case import Case, perturbed
from generator.operators import DOMAIN
from generator.violations import Violation, expected_to_work

SAMPLES = 2
"""Runs with other data, from which the error of the block level is estimated."""

FACTOR = 4.0
"""How many times the error of the block level another level may have."""

SUMS = 2e-6
"""The relative error of a sum in float32."""

PERTURBED_SAMPLES = 8
"""Runs with arguments that differ by a rounding, from which the condition is estimated."""

Tensors = Sequence[torch.Tensor]


class Rounding:
    """The errors of the block level in stated precision, the measure for everything else."""

    def __init__(self, case: Case):
        self.case = case
        self.stated: Mapping[str, Tensors] = {}
        with expected_to_work("reference", "block level in stated precision"):
            self.stated = case.results(case.program.module, "stated")
            self.allowed = {name: self._allowed(name) for name in self.stated}

    def _allowed(self, name: str) -> list[float]:
        """The largest error of each result of function `name` that counts as rounding."""
        worst = self._errors(self.stated[name], self.case.exact[name])
        func = next(f for f in self.case.program.functions if f.sym_name.data == name)
        for sample in range(1, SAMPLES):
            arguments = arguments_of(
                func, self.case.program.extents, self.case.seed + 7919 * sample
            )
            exact = run_function(func, arguments, "float64")
            errors = self._errors(run_function(func, arguments, "stated"), exact)
            worst = list(map(max, worst, errors))
        unit = rounding_unit(self.case.program.module) * (1 + self._cancellation(func))
        return [FACTOR * (error + unit) for error in worst]

    def _cancellation(self, func: FuncOp) -> float:
        """The largest abs(mean) · rstd of a LayerNorm: by so much it magnifies rounding errors.

        Fused, its statistics are those of the unrounded value.
        """
        norms = [op for op in func.body.block.ops if isinstance(op, LayerNormOp)]
        if not norms:
            return 0.0
        values = trace_function(func, self.case.arguments[func.sym_name.data]).values
        if any(values[norm.x].shape[-1] == 1 for norm in norms):
            # One column less its mean is 0: nothing is left but rounding errors.
            return float("inf")
        largest = 0.0
        for norm in norms:
            x = values[norm.x].double()
            mean, variance = x.mean(-1), x.var(-1, correction=0)
            ratio = mean.abs() * torch.rsqrt(variance + norm.eps.value.data)
            finite = ratio[ratio.isfinite()]
            # There is none where every row has the square root of a negative number.
            largest = max(largest, finite.amax().item() if finite.numel() else 0.0)
        return largest

    def _allowed_by_condition(self, name: str) -> list[float]:
        """The same where one rounding of the arguments moves the results by more than that.

        Everything may hang on one small value, such as the only gate that is not 0. The error of
        the block level is a matter of luck then.
        """
        func = next(f for f in self.case.program.functions if f.sym_name.data == name)
        worst = [0.0 for _ in self.allowed[name]]
        for sample in range(PERTURBED_SAMPLES):
            random = torch.Generator().manual_seed(sample)
            arguments = [perturbed(each, random) for each in self.case.arguments[name]]
            errors = self._errors(run_function(func, arguments, "stated"), self.case.exact[name])
            worst = list(map(max, worst, errors))
        # What cancels, as in the gradient of a norm of two columns, magnifies every rounding.
        worst = list(map(max, worst, self.case.sensitivity(name, unit_of)))
        return [max(a, FACTOR * error) for a, error in zip(self.allowed[name], worst, strict=True)]

    @staticmethod
    def _errors(stated: Tensors, exact: Tensors) -> list[float]:
        return [_finite_error(s, e, s) for s, e in zip(stated, exact, strict=True)]

    def check(self, actual: Mapping[str, Tensors], property: str, where: str) -> None:
        """The results are as close to float64 as those of the block level, up to `FACTOR`.

        Elements that are not finite in float64, or at the block level, are not compared: where a
        value overflows depends on where it is rounded. So does on which side of 0 the argument of a
        square root is, in a few elements.
        """
        for name, expected in self.case.exact.items():
            for index, (got, exact) in enumerate(zip(actual[name], expected, strict=True)):
                stated = self.stated[name][index]
                what = f"result {index} of {name}"
                if got.dtype != stated.dtype or got.shape != stated.shape:
                    message = f"{what} is {got.dtype} {tuple(got.shape)}, "
                    message += f"expected {stated.dtype} {tuple(stated.shape)}"
                    raise Violation(property, where, message)
                if DOMAIN in self.case.program.hazards:
                    got = _without_few_nans(got, stated)
                error, allowed = _finite_error(got, exact, stated), self.allowed[name][index]
                if error > allowed:
                    allowed = self._allowed_by_condition(name)[index]
                if not error <= allowed:
                    message = f"{what} has a relative error of {error:.1e}, more than {allowed:.1e}"
                    raise Violation(property, where, message)


def _without_few_nans(got: torch.Tensor, stated: torch.Tensor) -> torch.Tensor:
    """`got` with the elements of `stated` where few are NaN in `got` alone."""
    lost = got.isnan() & ~stated.isnan()
    return torch.where(lost, stated, got) if lost.sum() <= max(2, got.numel() // 50) else got


def _finite_error(actual: torch.Tensor, exact: torch.Tensor, stated: torch.Tensor) -> float:
    """The relative error over the elements that are finite in `exact` and in `stated`."""
    finite = exact.isfinite() & stated.isfinite()
    return relative_error(actual[finite], exact[finite])


def rounding_unit(module: ModuleOp) -> float:
    """The largest relative rounding error of a value."""
    return max((unit_of(result) for op in module.walk() for result in op.results), default=SUMS)


def unit_of(value: SSAValue) -> float:
    """The relative rounding error of a value, which is that of float32 for sums as well.

    Fused, a statistic is that of an unrounded value: it differs by the rounding of what it is of.
    """
    operands = value.owner.operands if isinstance(value.owner, Operation) else ()
    dtypes = (stated_dtype(each.type) for each in (value, *operands))
    return max([SUMS, *(torch.finfo(d).eps / 2 for d in dtypes if d.is_floating_point)])


def check_stated(rounding: Rounding, module: ModuleOp, level: str) -> None:
    with expected_to_work("block = GEMM level = scheduled", f"{level} in stated precision"):
        results = rounding.case.results(module, "stated")
    rounding.check(results, "block = GEMM level = scheduled", f"{level} in stated precision")
