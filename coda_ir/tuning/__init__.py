"""Measured tuning of schedules; see docs/tuning.md."""

from coda_ir.tuning.buckets import bucket
from coda_ir.tuning.choose import DRIFT, NOISE, choose
from coda_ir.tuning.decision import Configured, Decision, Tried
from coda_ir.tuning.measurer import (
    Candidate,
    Deadline,
    MeasurementError,
    Measurer,
    current_device,
    use_measurer,
)
from coda_ir.tuning.problem import Problem
from coda_ir.tuning.tuner import BUDGET_S, MODES, Answer, Request, candidates_of, tune

__all__ = [
    "BUDGET_S",
    "DRIFT",
    "MODES",
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
    "current_device",
    "tune",
    "use_measurer",
]
