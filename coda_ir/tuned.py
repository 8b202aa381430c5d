"""Programs whose schedules are tuned for the sizes of their calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING

from coda_ir.cache.origin import Origin
from coda_ir.executables import Executable, ProgramInfo, load
from coda_ir.launching.executable import Sizes
from coda_ir.lowering import Level, Lowering
from coda_ir.options import CompileOptions, Target, TuningOptions
from coda_ir.symbolic_size import format_sizes
from coda_ir.tuning.buckets import bucket

if TYPE_CHECKING:
    import torch
    from xdsl.dialects.builtin import ModuleOp

    from coda_ir.calls.arguments import Place


class TunedLowerings:
    """The lowerings of a program, one for each combination of sizes, for which its forward and
    backward programs are tuned together.
    """

    def __init__(self, origin: Origin, options: CompileOptions, tuning: TuningOptions):
        self.options, self._origin, self._tuning = options, origin, tuning
        self.untuned = self._latest = Lowering(
            origin, replace(options, tuning=None, is_for_gpu=False)
        )
        self._found: dict[str, Lowering] = {}

    def __call__(self, sizes: Sizes) -> Lowering:
        """Return the lowering with the schedules for the sizes of symbols."""
        text = format_sizes(dict(sorted(sizes.items())))
        if text not in self._found:
            tuning = replace(self._tuning, sizes=text)
            self._found[text] = Lowering(self._origin, replace(self.options, tuning=tuning))
        found = self._latest = self._found[text]
        return found

    def module(self, level: Level) -> ModuleOp:
        """Return the module at a level of the latest lowering, or of one without tuning."""
        return self._latest.module(level)

    def comparison(self, function: str | None = None) -> None:
        """Measured programs have no estimates."""


def lower(origin: Origin, options: CompileOptions) -> Lowering | TunedLowerings:
    """Return the lowerings of a program, one for each order of magnitude of the tuned sizes."""
    if options.tuning is None:
        return Lowering(origin, options)
    return TunedLowerings(origin, options, options.tuning)


class TunedExecutable:
    """An Executable with a program for each bucket of sizes, compiled in the first call in that
    bucket.

    Sizes of symbols are rounded up to 1, 2, 3, 4, 6, 8, 12, 16, 24, ... (see `buckets`); a program
    is right for all sizes, and its schedules are those for the rounded ones. `info` is that of the
    program made last, before the first one of that without tuning.
    """

    def __init__(
        self, lowerings: TunedLowerings, function: str | None, target: Target, device: torch.device
    ):
        self._lowerings, self._function = lowerings, function
        self._target: Target = target
        self._device = device
        self._untuned = load(lowerings.untuned, function, target, device)
        self._latest: Executable = self._untuned
        self._variants: dict[tuple[int, ...], Executable] = {}
        self._by_size: dict[tuple[int, ...], Executable] = {}

    @property
    def info(self) -> ProgramInfo:
        return self._latest.info

    @property
    def has_cuda_graphs(self) -> bool:
        return self._untuned.has_cuda_graphs

    def prepare(self, sizes: Sizes = MappingProxyType({})) -> None:
        """Tune now if `sizes` leaves no symbol open."""
        if self._positions.keys() <= sizes.keys() and 0 not in sizes.values():
            self._for_sizes(sizes)

    def run(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return self._variant(tensors).run(*tensors)

    def run_boxed(self, tensors: list[torch.Tensor]) -> tuple[torch.Tensor, ...]:
        """See `Executable.run_boxed`."""
        return self._variant(tensors).run_boxed(tensors)

    def _for_sizes(self, sizes: Sizes) -> Executable:
        """Return the program for sizes of all symbols, tuning it if necessary."""
        rounded = _rounded({symbol: sizes[symbol] for symbol in self._positions})
        key = tuple(rounded.values())
        if key not in self._variants:
            lowering = self._lowerings(rounded)
            made = self._latest = load(lowering, self._function, self._target, self._device)
            made.prepare()
            self._variants[key] = made
        return self._variants[key]

    def _variant(self, tensors: Sequence[torch.Tensor]) -> Executable:
        """Return the program for the sizes of a call. During the capture of a CUDA graph nothing is
        measured: new sizes run the program without tuning.
        """
        sizes = tuple(place.size(tensors) for place in self._positions.values())
        variant = self._by_size.get(sizes)
        if variant is not None:
            return variant
        known = dict(zip(self._positions, sizes, strict=True))
        if _is_capturing() and tuple(_rounded(known).values()) not in self._variants:
            return self._untuned
        variant = self._by_size[sizes] = self._for_sizes(known)
        return variant

    @cached_property
    def _positions(self) -> Mapping[str, Place]:
        """The argument and the dimension that determine the size of each symbol."""
        from coda_ir.calls.arguments import symbol_places

        return symbol_places(self._untuned.info.signature)


def _rounded(sizes: Sizes) -> dict[str, int]:
    return {symbol: bucket(size, smallest=1) for symbol, size in sizes.items()}


def _is_capturing() -> bool:
    import torch

    return torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing()
