"""Measured tuning of schedules; see docs/tuning.md."""
