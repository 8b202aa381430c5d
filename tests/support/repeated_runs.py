"""Finds the statements of emitted programs that give other bits in a second run."""

import linecache
import sys
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

import torch

PROGRAMS = ("run", "run_boxed")
"""The host programs of emitted modules."""

INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def differences(
    names: Sequence[str], first: Sequence[torch.Tensor], second: Sequence[torch.Tensor]
) -> list[str]:
    """The tensors whose bits are not the same: how many elements, and the first of them."""
    found: list[str] = []
    for name, x, y in zip(names, first, second, strict=True):
        places: Any = (_integers(x) != _integers(y)).nonzero()
        if len(places):
            place = tuple(places[0].tolist())
            values = f"{x[place].item()!r} and {y[place].item()!r}"
            found.append(f"{name}: {len(places)} of {x.numel()}, first at {place}: {values}")
    return found


def statements_that_differ(function: Callable[[], object], runs: int = 3) -> list[str]:
    """The statements that last wrote tensors which differ between calls of `function`, in order.

    Scratch memory with places that no kernel writes may be among them. Backwards run in this thread
    meanwhile, since Python traces one thread.
    """
    first = _traced(function)
    found: dict[int, str] = {}
    for _ in range(runs - 1):
        again = _traced(function)
        for name, history in first.items():
            other = again[name]
            if history.bits != other.bits:
                step, place = max((history.step, history.place), (other.step, other.place))
                found[step] = f"{name[1]}: {place}"
    return [found[step] for step in sorted(found)]


@dataclass
class _History:
    """The value of a variable, and the statement that wrote it."""

    bits: int | None = None
    step: int = -1
    place: str = ""


def _traced(function: Callable[[], object]) -> dict[tuple[int, str], _History]:
    """The variables of all programs that run, by number of the program and name."""
    trace = _Trace()
    # It has no complete types.
    autograd: Any = torch.autograd
    with autograd.set_multithreading_enabled(False):
        sys.settrace(trace.call)
        try:
            function()
        finally:
            sys.settrace(None)
    return trace.variables


@dataclass
class _Trace:
    variables: defaultdict[tuple[int, str], _History] = field(
        default_factory=lambda: defaultdict[tuple[int, str], _History](_History)
    )
    program: int = 0
    step: int = 0
    lines: dict[FrameType, int] = field(default_factory=dict[FrameType, int])

    def call(self, frame: FrameType, event: str, _: object) -> Any:
        if frame.f_code.co_name not in PROGRAMS or "KERNELS" not in frame.f_globals:
            return None
        self.program += 1
        self.lines[frame] = frame.f_lineno
        return self.line

    def line(self, frame: FrameType, event: str, _: object) -> Any:
        """Called before a line and before a return: looks at what the line before it left."""
        self.step += 1
        place = linecache.getline(frame.f_code.co_filename, self.lines[frame]).strip()
        self.lines[frame] = frame.f_lineno
        for name, value in frame.f_locals.items():
            if isinstance(value, torch.Tensor):
                known, bits = self.variables[self.program, name], bits_of(value)
                if known.bits != bits:
                    known.bits, known.step, known.place = bits, self.step, place
        return self.line


def bits_of(x: torch.Tensor) -> int:
    """A number that tells tensors of one shape apart by their bits."""
    bits = _integers(x).reshape(-1).long()
    places = torch.arange(bits.numel(), device=bits.device) % 1021 + 1
    return int((bits * places).sum().item())


def _integers(x: torch.Tensor) -> torch.Tensor:
    """The bits of each element."""
    return x.detach().contiguous().view(INTEGERS[x.element_size()])
