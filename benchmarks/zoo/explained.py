"""Failures that are known, and why they are no faults of a program."""

from __future__ import annotations

from collections.abc import Mapping

EXPLAINED: Mapping[str, str] = {}
"""By architecture, a part of what is noted."""


def is_explained(name: str, text: str) -> bool:
    """Whether `text`, which is noted for an architecture, is what is known of it."""
    return name in EXPLAINED and EXPLAINED[name] in text
