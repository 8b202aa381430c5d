"""A function whose schedules are tuned for the sizes that it is called with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property

import torch

from coda_ir.api import CompiledFunction
from coda_ir.argument_checks import symbol_places
from coda_ir.diagnostics import CodaError
from coda_ir.lowering import Lowering
from coda_ir.symbol_sizes import format_sizes
from coda_ir.tuning.buckets import bucket

Sizes = Mapping[str, int]


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
        tuned: Callable[[str], Lowering],
    ):
        """`tuned` gives the lowering for sizes such as `B=2,T=8192`."""
        super().__init__(untuned, function, "triton", device)
        self._tuned = tuned
        self._variants: dict[tuple[int, ...], CompiledFunction] = {}
        self._by_size: dict[tuple[int, ...], CompiledFunction] = {}

    def __repr__(self) -> str:
        return f"<TunedFunction {self.signature} on {self.device}>"

    def prepare(self) -> None:
        """Tune now where no size is open."""
        _ = self._arguments
        if not self._positions:
            self.for_sizes({})

    def for_sizes(self, sizes: Sizes) -> CompiledFunction:
        """The program for sizes of all symbols, tuned now where it is not yet.

        Raises CodaError for a symbol that has no size.
        """
        missing = [symbol for symbol in self._positions if symbol not in sizes]
        if missing:
            known = ", ".join(self._positions)
            raise CodaError(f"no size of '{missing[0]}'", f"give sizes of {known}")
        rounded = {symbol: bucket(sizes[symbol], smallest=1) for symbol in self._positions}
        key = tuple(rounded.values())
        if key not in self._variants:
            lowering = self._tuned(format_sizes(rounded))
            variant = CompiledFunction(lowering, self._function, self.target, self.device)
            variant.prepare()
            self._variants[key] = variant
            self._tell_of(lowering)
        return self._variants[key]

    def unchecked(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """A call without any check; see `CompiledFunction.unchecked`."""
        sizes = tuple(tensors[index].shape[axis] for index, axis in self._positions.values())
        variant = self._by_size.get(sizes)
        if variant is None:
            variant = self.for_sizes(dict(zip(self._positions, sizes, strict=True)))
            self._by_size[sizes] = variant
        return variant.unchecked(*tensors)

    @cached_property
    def _positions(self) -> Mapping[str, tuple[int, int]]:
        """The argument and the dimension that say the size of each symbol."""
        return symbol_places(self.signature)

    def _tell_of(self, lowering: Lowering) -> None:
        self._lowering = lowering
        for name in ("_artifact", "operators"):
            self.__dict__.pop(name, None)
