"""Measured tuning of schedules; see docs/tuning.md."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from coda_ir.cache.decision import Configured, Decision, Tried
    from coda_ir.tuning.buckets import bucket
    from coda_ir.tuning.candidates import Request, candidates_of
    from coda_ir.tuning.choice import NOISE, choose
    from coda_ir.tuning.context import BUDGET_S, use_measurer
    from coda_ir.tuning.measurer import Candidate, Deadline, MeasurementError, Measurer
    from coda_ir.tuning.problem import Problem
    from coda_ir.tuning.tuner import Answer, tune

_MODULES = {
    "BUDGET_S": "tuning.context",
    "NOISE": "tuning.choice",
    "Answer": "tuning.tuner",
    "Candidate": "tuning.measurer",
    "Configured": "cache.decision",
    "Deadline": "tuning.measurer",
    "Decision": "cache.decision",
    "MeasurementError": "tuning.measurer",
    "Measurer": "tuning.measurer",
    "Problem": "tuning.problem",
    "Request": "tuning.candidates",
    "Tried": "cache.decision",
    "bucket": "tuning.buckets",
    "candidates_of": "tuning.candidates",
    "choose": "tuning.choice",
    "tune": "tuning.tuner",
    "use_measurer": "tuning.context",
}

__all__ = [
    "BUDGET_S",
    "NOISE",
    "Answer",
    "Candidate",
    "Configured",
    "Deadline",
    "Decision",
    "MeasurementError",
    "Measurer",
    "Problem",
    "Request",
    "Tried",
    "bucket",
    "candidates_of",
    "choose",
    "tune",
    "use_measurer",
]


def __getattr__(name: str) -> object:
    """Import on first use: a tuned program of the cache needs little of this."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"coda_ir.{_MODULES[name]}"), name)
