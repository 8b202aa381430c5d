"""Programs whose schedules are those for the sizes of their calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from math import prod
from types import MappingProxyType
from typing import TYPE_CHECKING

from coda_ir.cache.origin import Origin
from coda_ir.executables import Executable, ProgramInfo, load
from coda_ir.launching.executable import Sizes
from coda_ir.lowering import Level, Lowering
from coda_ir.options import CompileOptions, Estimates, Target
from coda_ir.symbolic_size import format_sizes
from coda_ir.tuning.buckets import bucket

if TYPE_CHECKING:
    import torch
    from xdsl.dialects.builtin import ModuleOp

FEW_ROWS = (1, 16, 64, 256, 1024, 4096)
"""Up to so many rows share schedules by the cost model. More have those for unknown sizes."""

MAX_KNOWN_SIZES = 4096
"""Sizes of calls whose programs are looked up at once."""


class SizedLowerings:
    """The lowerings of a program, one for each combination of sizes, for which its forward and
    backward programs are scheduled together.
    """

    def __init__(self, origin: Origin, options: CompileOptions):
        self.options = options
        self.is_tuned = options.tuning is not None
        unsized = replace(options, tuning=None, is_for_gpu=False) if self.is_tuned else options
        self.unsized = self._latest = Lowering(origin, unsized)
        self._tuned = Lowering(origin, options)
        self._found: dict[str, Lowering] = {}

    def __call__(self, sizes: Sizes) -> Lowering:
        """Return the lowering with the schedules for the sizes of symbols."""
        text = format_sizes(dict(sorted(sizes.items())))
        if text not in self._found:
            from_ = self._tuned if self.is_tuned else self.unsized
            self._found[text] = from_.for_sizes(text)
        found = self._latest = self._found[text]
        return found

    def end_compiling(self) -> None:
        """End the process that compiles the program for unknown sizes, which may never run."""
        if self.unsized.compiler is not None:
            self.unsized.compiler.end()

    def module(self, level: Level) -> ModuleOp:
        """Return the module at a level of the latest lowering; before the first one, that for
        unknown sizes.
        """
        return self._latest.module(level)

    def comparison(self, function: str | None = None) -> Estimates | None:
        """Return the estimates for unknown sizes; measured programs have none."""
        return None if self.is_tuned else self.unsized.comparison(function)


def lower(origin: Origin, options: CompileOptions) -> Lowering | SizedLowerings:
    """Return the lowerings of a program: one for each order of magnitude of sizes where schedules
    are measured, or chosen for a GPU, unless options state sizes or each would keep own weights.
    """
    is_chosen = options.is_for_gpu and "sizes=" not in (options.schedule or "")
    if options.tuning is not None or (is_chosen and not options.fold_weights):
        return SizedLowerings(origin, options)
    return Lowering(origin, options)


def executable(
    lowering: Lowering | SizedLowerings, function: str | None, target: Target, device: torch.device
) -> Executable:
    """Load a function, with a program for each bucket of sizes where schedules depend on them."""
    if isinstance(lowering, Lowering):
        return load(lowering, function, target, device)
    sized = SizedExecutable(lowering, function, target, device)
    return sized if sized.depends_on_sizes else sized.unsized


class SizedExecutable:
    """An Executable with a program for each bucket of sizes, compiled in the first call in that
    bucket. A program is right for all sizes.

    For tuned schedules, sizes of symbols are rounded up to 1, 2, 3, 4, 6, 8, 12, 16, 24, ... (see
    `buckets`). For others, `FEW_ROWS` has the buckets of rows. `info` is that of the program made
    last, before the first one of that for unknown sizes.
    """

    def __init__(
        self, lowerings: SizedLowerings, function: str | None, target: Target, device: torch.device
    ):
        self._lowerings, self._function = lowerings, function
        self._target: Target = target
        self._device = device
        self.unsized = load(lowerings.unsized, function, target, device)
        self._latest: Executable = self.unsized
        self._variants: dict[tuple[int, ...], Executable] = {}
        self._by_size: dict[tuple[int, ...], Executable] = {}

    @property
    def info(self) -> ProgramInfo:
        return self._latest.info

    @property
    def has_cuda_graphs(self) -> bool:
        return self.unsized.has_cuda_graphs

    @property
    def depends_on_sizes(self) -> bool:
        """True if there may be a program for some sizes."""
        return self._lowerings.is_tuned or bool(self._row_sizes)

    def prepare(self, sizes: Sizes = MappingProxyType({})) -> None:
        """Make the program for `sizes` now, unless they leave a symbol open."""
        if self._positions.keys() <= sizes.keys() and 0 not in sizes.values():
            self._for_sizes(sizes).prepare()
        elif not self._lowerings.is_tuned:
            self.unsized.prepare()

    def run(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return self._variant(tensors).run(*tensors)

    def run_boxed(self, tensors: list[torch.Tensor]) -> tuple[torch.Tensor, ...]:
        """See `Executable.run_boxed`."""
        return self._variant(tensors).run_boxed(tensors)

    def _for_sizes(self, sizes: Sizes) -> Executable:
        """Return the program for sizes of all symbols, making it if necessary."""
        key = self._bucket(sizes)
        if key is None:
            return self.unsized
        if key not in self._variants:
            self._lowerings.end_compiling()
            lowering = self._lowerings(self._sizes_of(key))
            made = self._latest = load(lowering, self._function, self._target, self._device)
            made.prepare()
            self._variants[key] = made
        return self._variants[key]

    def _variant(self, tensors: Sequence[torch.Tensor]) -> Executable:
        """Return the program for the sizes of a call. During the capture of a CUDA graph none is
        made: new sizes run the program for unknown ones.
        """
        sizes = tuple(tensors[index].shape[axis] for index, axis in self._positions.values())
        variant = self._by_size.get(sizes)
        if variant is not None:
            return variant
        known = dict(zip(self._positions, sizes, strict=True))
        if _is_capturing() and self._bucket(known) not in self._variants:
            return self.unsized
        if len(self._by_size) == MAX_KNOWN_SIZES:
            self._by_size.clear()
        variant = self._by_size[sizes] = self._for_sizes(known)
        return variant

    def _bucket(self, sizes: Sizes) -> tuple[int, ...] | None:
        """Return the key of the program for sizes; None for many rows, as if they were unknown."""
        if self._lowerings.is_tuned:
            return tuple(bucket(sizes[symbol], smallest=1) for symbol in self._positions)
        rows = [prod(sizes[symbol] for symbol in row.split("*")) for row in self._row_sizes]
        if max(rows) > FEW_ROWS[-1]:
            return None
        return tuple(next(few for few in FEW_ROWS if count <= few) for count in rows)

    def _sizes_of(self, key: tuple[int, ...]) -> dict[str, int]:
        """Return the sizes that stand for those of a bucket: the same ones in each run, whichever
        call comes first.
        """
        if self._lowerings.is_tuned:
            return dict(zip(self._positions, key, strict=True))
        sizes: dict[str, int] = {}
        rows = [(row.split("*"), count) for row, count in zip(self._row_sizes, key, strict=True)]
        for symbols, count in sorted(rows, key=lambda row: len(row[0])):
            known = prod(sizes.get(symbol, 1) for symbol in symbols)
            new = [symbol for symbol in symbols if symbol not in sizes]
            sizes |= dict.fromkeys(new, 1) | dict.fromkeys(new[-1:], max(1, count // known))
        return sizes

    @cached_property
    def _row_sizes(self) -> Sequence[str]:
        """The products of symbols that schedules depend on, if each symbol is a dimension."""
        found, places = getattr(self.unsized.info, "row_sizes", ()), self._places
        return [row for row in found if places.keys() >= set(row.split("*"))]

    @cached_property
    def _places(self) -> Mapping[str, tuple[int, int]]:
        from coda_ir.calls.checks import symbol_places

        return symbol_places(self.unsized.info.signature)

    @cached_property
    def _positions(self) -> Mapping[str, tuple[int, int]]:
        """The argument and the dimension that determine each symbol that matters."""
        if self._lowerings.is_tuned:
            return self._places
        symbols = dict.fromkeys(symbol for row in self._row_sizes for symbol in row.split("*"))
        return {symbol: self._places[symbol] for symbol in symbols}


def _is_capturing() -> bool:
    import torch

    return torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing()
