"""Schedules of the IR as the plain data that the cache keeps, and back."""

from __future__ import annotations

from coda_ir.cache.decision import Configured, Form
from coda_ir.dialects.gemm import ScheduleAttr


def configured(schedule: ScheduleAttr, form: Form = "fused") -> Configured:
    """Return a form and a schedule as plain data."""
    return Configured(
        schedule.mainloop,
        schedule.tile,
        schedule.warps.data,
        schedule.stages.data,
        schedule.group_m.data,
        schedule.split_k.data,
        form,
    )


def schedule_of(found: Configured) -> ScheduleAttr:
    """Return the schedule of a kernel; the library's GEMM has none.

    Raises ValueError for an unknown main loop, and VerifyException for a wrong tile.
    """
    return ScheduleAttr.get(
        found.mainloop,
        found.tile,
        warps=found.warps,
        stages=found.stages,
        group_m=found.group_m,
        split_k=found.split_k,
    )
