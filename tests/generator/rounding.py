"""The distance from float64 that a program may have if it rounds where its types say so."""

from collections.abc import Mapping, Sequence
from functools import partial

import torch
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

from coda_ir.equivalence.rounding import Rounding as FunctionRounding
from generator.arguments import arguments_of
from generator.case import Case
from generator.operators import DOMAIN
from generator.violations import Violation, expected_to_work

Tensors = Sequence[torch.Tensor]


class Rounding:
    """The errors of the block level in stated precision, the measure for everything else."""

    def __init__(self, case: Case):
        self.case = case
        with expected_to_work("reference", "block level in stated precision"):
            self.functions = {
                func.sym_name.data: self._of_function(func) for func in case.program.functions
            }

    def _of_function(self, func: FuncOp) -> FunctionRounding:
        case, name = self.case, func.sym_name.data
        other = arguments_of(func, case.program.extents, case.seed + 7919)
        return FunctionRounding(func, case.arguments[name], [other])

    def check(self, actual: Mapping[str, Tensors], property: str, where: str) -> None:
        """The results are as close to float64 as the types allow: see `FunctionRounding`.

        On which side of 0 the argument of a square root is depends on where it is rounded, in a
        few elements.
        """
        for name, rounding in self.functions.items():
            for index, stated in enumerate(rounding.stated):
                what, got = f"result {index} of {name}", actual[name][index]
                violation = partial(Violation, property, where)
                if got.dtype != stated.dtype or got.shape != stated.shape:
                    message = f"{what} is {got.dtype} {tuple(got.shape)}, "
                    raise violation(f"{message}expected {stated.dtype} {tuple(stated.shape)}")
                if DOMAIN in self.case.program.hazards:
                    got = _without_few_nans(got, stated)
                found = rounding.excess(index, got)
                if found is not None:
                    error, allowed = found
                    message = f"{what} has a relative error of {error:.1e}"
                    raise violation(f"{message}, more than {allowed:.1e}")


def _without_few_nans(got: torch.Tensor, stated: torch.Tensor) -> torch.Tensor:
    """`got` with the elements of `stated` where few are NaN in `got` alone."""
    lost = got.isnan() & ~stated.isnan()
    return torch.where(lost, stated, got) if lost.sum() <= max(2, got.numel() // 50) else got


def check_stated(rounding: Rounding, module: ModuleOp, level: str) -> None:
    with expected_to_work("block = GEMM level = scheduled", f"{level} in stated precision"):
        results = rounding.case.results(module, "stated")
    rounding.check(results, "block = GEMM level = scheduled", f"{level} in stated precision")
