"""The measurer of the current context, and its device. Importing this module is fast."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from coda_ir.tuning.measurer import Measurer

BUDGET_S = 50.0
"""Seconds that tuning a program may take where nothing else is asked for: a first call then takes
at most a minute, with what else it does.
"""

_measurer: ContextVar[Measurer | None] = ContextVar("coda_measurer", default=None)


@contextmanager
def use_measurer(measurer: Measurer) -> Generator[None]:
    """Within the context, tune with `measurer`."""
    token = _measurer.set(measurer)
    try:
        yield
    finally:
        _measurer.reset(token)


def current_measurer() -> Measurer:
    """Return the measurer of `use_measurer`, or of the GPU. Raises CodaError without one."""
    found = _measurer.get()
    if found is not None:
        return found
    from coda_ir.tuning.gpu import GpuMeasurer

    return GpuMeasurer.current()


def current_device() -> str | None:
    """Return the name of the device of `current_measurer`; None if nothing can be measured."""
    found = _measurer.get()
    return found.device if found is not None else gpu_name()


def gpu_name() -> str | None:
    """Return the name of the current GPU; None if there is none."""
    import torch

    return torch.cuda.get_device_name() if torch.cuda.is_available() else None
