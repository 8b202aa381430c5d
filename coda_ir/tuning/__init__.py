"""Measured tuning of schedules; see docs/tuning.md."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from coda_ir.cache.decision import Configured
    from coda_ir.tuning.context import use_measurer
    from coda_ir.tuning.measurer import Candidate, Deadline, MeasurementError, Measurer
    from coda_ir.tuning.problem import Problem

_MODULES = {
    "Candidate": "tuning.measurer",
    "Configured": "cache.decision",
    "Deadline": "tuning.measurer",
    "MeasurementError": "tuning.measurer",
    "Measurer": "tuning.measurer",
    "Problem": "tuning.problem",
    "use_measurer": "tuning.context",
}

__all__ = [
    "Candidate",
    "Configured",
    "Deadline",
    "MeasurementError",
    "Measurer",
    "Problem",
    "use_measurer",
]


def __getattr__(name: str) -> object:
    """Import on first use: a tuned program of the cache needs little of this."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"coda_ir.{_MODULES[name]}"), name)
