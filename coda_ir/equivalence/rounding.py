"""Bounds for the difference between float64 and a function that rounds as its types state.

The measure is the error of the function itself on the reference backend in stated precision.
Another implementation of the function (another level, an emitted module) may be `FACTOR` times as
far from float64, because it rounds in other places. If that is not enough, runs with other data and
with rounded arguments widen the bound.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property

import torch
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from coda_ir.backends.reference import run_function, trace_function
from coda_ir.dialects.coda import LayerNormOp, NormStatsOp, RMSNormOp
from coda_ir.float64 import comparable, relative_error
from coda_ir.signatures import stated_dtype

FACTOR = 4.0
"""Allowed multiple of the error of the reference backend in stated precision."""

SUMS = 2e-6
"""The relative error of a sum in float32."""

PERTURBED_SAMPLES = 8
"""Runs with arguments that differ by a rounding, from which the condition is estimated."""

AVERAGED = 64
"""The number of elements, or of errors, that suffices to estimate their effect."""

NORMS = (RMSNormOp, LayerNormOp, NormStatsOp)

Tensors = Sequence[torch.Tensor]


class Rounding:
    """The errors of a function in stated precision on `arguments`, which bound the errors of other
    implementations on them. `others` are similar arguments with other data.
    """

    def __init__(self, func: FuncOp, arguments: Tensors, others: Sequence[Tensors] = ()):
        self.func, self.arguments, self.others = func, arguments, others
        self.exact = run_function(func, arguments, "float64")
        self.stated = run_function(func, arguments, "stated")

    def excess(self, index: int, actual: torch.Tensor) -> tuple[float, float] | None:
        """Return the error of result `index` and its bound if it exceeds the bound.

        Elements that are not finite in float64, or in stated precision, are not compared: where a
        value overflows depends on where it is rounded. Where the squares in a norm overflow, or a
        result is as large as its type allows, it depends on that for elements of `actual` as well.
        """
        actual, allowed = comparable(actual), 0.0
        exact, stated = self.exact[index], comparable(self.stated[index])
        error = finite_error(actual, exact, stated)
        if error == float("inf"):
            near = exact.abs() * (1 + FACTOR * self._unit) > largest_of(stated)
            near &= actual.isinf() & (actual * exact > 0)
            over = ~actual.isfinite() if self._squares_overflow else near
            error = finite_error(actual, exact, torch.where(over, actual, stated))
        for bounds in self._bounds():
            allowed = bounds[index]
            if error <= allowed:
                return None
        return error, allowed

    def _bounds(self) -> Iterator[Sequence[float]]:
        """Yield bounds for the errors of the results, the cheapest and narrowest first."""
        yield self._by_types
        yield self._by_data
        yield self._by_condition

    @cached_property
    def _unit(self) -> float:
        values = (result for op in self.func.walk() for result in op.results)
        return max(map(unit_of, values), default=SUMS)

    @cached_property
    def _by_types(self) -> list[float]:
        return [FACTOR * (error + self._unit) for error in self._errors(self.stated)]

    @cached_property
    def _by_data(self) -> list[float]:
        """Bounds from other data, which may have larger errors."""
        worst = self._errors(self.stated)
        for arguments in self.others:
            exact = run_function(self.func, arguments, "float64")
            stated = run_function(self.func, arguments, "stated")
            errors = [finite_error(s, e, s) for s, e in zip(stated, exact, strict=True)]
            worst = list(map(max, worst, errors))
        return [FACTOR * (error + self._unit) for error in worst]

    @cached_property
    def _by_condition(self) -> list[float]:
        """Bounds from the condition of the function: how far one rounding of the arguments moves
        the results.

        Everything may hang on one small value, such as the only gate that is not 0. The error in
        stated precision is a matter of luck then.
        """
        if self._is_of_rounding_errors:
            return [float("inf") for _ in self.exact]
        worst = [0.0 for _ in self.exact]
        for sample in range(PERTURBED_SAMPLES):
            random = torch.Generator().manual_seed(sample)
            arguments = [perturbed(each, random) for each in self.arguments]
            moved = self._errors(run_function(self.func, arguments, "stated"))
            worst = list(map(max, worst, moved))
        # What cancels, as in the gradient of a norm of two columns, magnifies every rounding.
        worst = list(map(max, worst, sensitivity(self.func, self.arguments, self.exact, unit_of)))
        bounds = [max(a, FACTOR * error) for a, error in zip(self._by_data, worst, strict=True)]
        # Errors larger than the values multiply where two values with such errors do.
        return [max(bound, bound**2) for bound in bounds]

    @property
    def _is_of_rounding_errors(self) -> bool:
        """True if a LayerNorm has one column, whose difference from its mean is 0.

        Nothing is left but rounding errors, and in gradients their products, which are 0 where one
        value after the other is changed.
        """
        values = trace_function(self.func, self.arguments).values
        norms = [op for op in self.func.walk() if isinstance(op, LayerNormOp)]
        return any(values[norm.x].shape[-1] == 1 for norm in norms)

    @cached_property
    def _squares_overflow(self) -> bool:
        """True if the sum of squares of a norm's rows overflows float32, although the rows do not.

        The norm makes 0 of such rows. One that is applied to the results of GEMMs multiplies these
        by 0, and may find them infinite.
        """
        values = trace_function(self.func, self.arguments).values
        rows = [values[op.operands[0]].float() for op in self.func.walk() if isinstance(op, NORMS)]
        return any((x.isfinite().all(-1) & x.square().sum(-1).isinf()).any() for x in rows)

    def _errors(self, stated: Tensors) -> list[float]:
        return [finite_error(s, e, s) for s, e in zip(stated, self.exact, strict=True)]


def describe_excess(excess: tuple[float, float]) -> str:
    """Describe a result of `Rounding.excess`; the name of the tensor precedes the text."""
    error, allowed = excess
    if error == float("inf"):
        return "is NaN or infinite where float64, and its types, have a number"
    return f"has a relative error of {error:.2g}, more than the {allowed:.2g} that its types allow"


def finite_error(actual: torch.Tensor, exact: torch.Tensor, stated: torch.Tensor) -> float:
    """Return the relative error over the elements that are finite in `exact` and in `stated`."""
    finite = exact.isfinite() & comparable(stated).isfinite()
    return relative_error(actual[finite], exact[finite])


def largest_of(values: torch.Tensor) -> float:
    """Return the largest number of the type of `values`; infinite for integers."""
    return torch.finfo(values.dtype).max if values.is_floating_point() else float("inf")


def unit_of(value: SSAValue) -> float:
    """Return the relative rounding error of a value; for sums, that of float32.

    A fused statistic is computed from unrounded values, so it differs by their rounding.
    """
    operands = value.owner.operands if isinstance(value.owner, Operation) else ()
    dtypes = (stated_dtype(each.type) for each in (value, *operands))
    return max([SUMS, *(torch.finfo(d).eps / 2 for d in dtypes if d.is_floating_point)])


def sensitivity(
    func: FuncOp, arguments: Tensors, exact: Tensors, amount: Callable[[SSAValue], float]
) -> list[float]:
    """Return the errors of the results if every intermediate value has an independent relative
    error of its `amount`: the root of the sum of squares of their effects.

    That is a mean over several errors of a value of few elements, which may happen to cancel.
    """
    random = torch.Generator().manual_seed(0)
    squares = [0.0 for _ in exact]
    values = trace_function(func, arguments).values
    for value, tensor in values.items():
        if not isinstance(value.owner, Operation) or not tensor.is_floating_point():
            continue
        samples = max(1, min(PERTURBED_SAMPLES, AVERAGED // max(1, tensor.numel())))
        for _ in range(samples):
            moved = {value: _rounded(value, values, random, amount(value))}
            results = trace_function(func, arguments, "float64", moved).results
            for index, (got, wanted) in enumerate(zip(results, exact, strict=True)):
                squares[index] += relative_error(got, wanted) ** 2 / samples
    return [square**0.5 for square in squares]


def _rounded(
    value: SSAValue, values: Mapping[SSAValue, torch.Tensor], random: torch.Generator, amount: float
) -> torch.Tensor:
    """Return `value` with a relative error of `amount`. A LayerNorm also has that of its input.

    Its statistics may be those of the unrounded input, x: the error δ of the rounded one is no part
    of them, and becomes δ·rstd in the result. Relative to the result that is as much more as x is
    larger than its deviation. An RMSNorm makes no more of it than it is.
    """
    moved, norm = perturbed(values[value].double(), random, amount), value.owner
    if not isinstance(norm, LayerNormOp):
        return moved
    x = values[norm.x].double()
    variance = x.var(-1, correction=0, keepdim=True)
    error = (perturbed(x, random, amount) - x) * torch.rsqrt(variance + norm.eps.value.data)
    return moved + (error if norm.weight is None else error * values[norm.weight].double())


def perturbed(
    tensor: torch.Tensor, random: torch.Generator, amount: float | None = None
) -> torch.Tensor:
    """Return `tensor`, each element changed by up to `amount` relative to it (default: eps)."""
    if not tensor.is_floating_point():
        return tensor
    amount = torch.finfo(tensor.dtype).eps if amount is None else amount
    factor = 1 + amount * (2 * torch.rand(tensor.shape, generator=random, dtype=torch.float64) - 1)
    # In float64 where the changes are too small for the type.
    changed = tensor.double() * factor
    return changed if amount < torch.finfo(tensor.dtype).eps / 4 else changed.to(tensor.dtype)
