"""A function whose schedules are tuned for the sizes that it is called with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from types import MappingProxyType

import torch

from coda_ir.cache.origin import Origin
from coda_ir.calls.checks import symbol_places
from coda_ir.compiled import CompiledFunction
from coda_ir.diagnostics import CodaError
from coda_ir.lowering import Lowering
from coda_ir.options import CompileOptions, TuningOptions
from coda_ir.symbol_sizes import format_sizes
from coda_ir.tuning.buckets import bucket

Sizes = Mapping[str, int]


class TunedLowerings:
    """The lowerings of a program, one for each combination of sizes: a forward and a backward
    program are tuned together.
    """

    def __init__(self, origin: Origin, options: CompileOptions, tuning: TuningOptions):
        self._origin, self._options, self._tuning = origin, options, tuning
        self._found: dict[str, Lowering] = {}

    def __call__(self, sizes: Sizes) -> Lowering:
        """The lowering whose schedules are those for the sizes of symbols."""
        text = format_sizes(dict(sorted(sizes.items())))
        if text not in self._found:
            tuning = replace(self._tuning, sizes=text)
            self._found[text] = Lowering(self._origin, replace(self._options, tuning=tuning))
        return self._found[text]


class TunedFunction(CompiledFunction):
    """A compiled function with a program for each bucket of sizes, made at the first call in it.

    Sizes of symbols are rounded up to 1, 2, 3, 4, 6, 8, 12, 16, 24, ... (see `buckets`); a program
    is right for all sizes, and its schedules are those for the rounded ones. `source`, `ir`,
    `remarks` and the like tell of the program made last, before the first one of that without
    tuning.
    """

    def __init__(
        self,
        untuned: Lowering,
        function: str | None,
        device: torch.device,
        tuned: Callable[[Sizes], Lowering],
    ):
        """`tuned` gives the lowering for sizes of symbols."""
        super().__init__(untuned, function, "triton", device)
        self._untuned = CompiledFunction(untuned, function, "triton", device)
        self._tuned = tuned
        self._variants: dict[tuple[int, ...], CompiledFunction] = {}
        self._by_size: dict[tuple[int, ...], CompiledFunction] = {}

    def __repr__(self) -> str:
        return f"<TunedFunction {self.signature} on {self.device}>"

    def prepare(self, sizes: Sizes = MappingProxyType({})) -> None:
        """Tune now where `sizes` leaves none open."""
        _ = self._arguments
        if self._positions.keys() <= sizes.keys() and 0 not in sizes.values():
            self.for_sizes(sizes)

    def for_sizes(self, sizes: Sizes) -> CompiledFunction:
        """The program for sizes of all symbols, tuned now where it is not yet.

        Raises CodaError for a symbol that has no size.
        """
        missing = [symbol for symbol in self._positions if symbol not in sizes]
        if missing:
            known = ", ".join(self._positions)
            raise CodaError(f"no size of '{missing[0]}'", f"give sizes of {known}")
        rounded = _rounded({symbol: sizes[symbol] for symbol in self._positions})
        key = tuple(rounded.values())
        if key not in self._variants:
            lowering = self._tuned(rounded)
            variant = CompiledFunction(lowering, self._function, self.target, self.device)
            variant.prepare()
            self._variants[key] = variant
            self._tell_of(lowering)
        return self._variants[key]

    def unchecked(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """A call without any check; see `CompiledFunction.unchecked`."""
        return self._variant(tensors).unchecked(*tensors)

    def run_boxed(self, tensors: list[torch.Tensor], sizes: Sizes) -> tuple[torch.Tensor, ...]:
        """See `CompiledFunction.run_boxed`."""
        if 0 in sizes.values():
            return super().run_boxed(tensors, sizes)
        return self._variant(tensors).run_boxed(tensors, sizes)

    def _variant(self, tensors: Sequence[torch.Tensor]) -> CompiledFunction:
        """The program for the sizes of a call. While a CUDA graph is captured nothing is measured:
        sizes of an order that is new then have the program without tuning.
        """
        sizes = tuple(tensors[index].shape[axis] for index, axis in self._positions.values())
        variant = self._by_size.get(sizes)
        if variant is not None:
            return variant
        known = dict(zip(self._positions, sizes, strict=True))
        if _is_capturing() and tuple(_rounded(known).values()) not in self._variants:
            return self._untuned
        variant = self._by_size[sizes] = self.for_sizes(known)
        return variant

    @cached_property
    def _positions(self) -> Mapping[str, tuple[int, int]]:
        """The argument and the dimension that say the size of each symbol."""
        return symbol_places(self.signature)

    def _tell_of(self, lowering: Lowering) -> None:
        self._lowering = lowering
        for name in ("_artifact", "operators"):
            self.__dict__.pop(name, None)


def _rounded(sizes: Sizes) -> dict[str, int]:
    return {symbol: bucket(size, smallest=1) for symbol, size in sizes.items()}


def _is_capturing() -> bool:
    return torch.cuda.is_available() and torch.cuda.is_current_stream_capturing()
