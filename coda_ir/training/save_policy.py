"""What may be saved for a backward program, and what is computed again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from coda_ir.diagnostics import CodaError


@dataclass(frozen=True)
class SavePolicy:
    """What the pass `differentiate` is told about memory."""

    memory_budget: int | None = None
    """Bytes that may be saved for the backward; None where time alone counts."""
    save: tuple[str, ...] = ()
    """Names of values that are saved whatever they cost."""
    recompute: tuple[str, ...] = ()
    """Names of values that are never saved."""
    stream_logits: int | None = None
    """Parts in which logits are computed again for their gradient; None where they are saved."""

    def __post_init__(self) -> None:
        """Raises CodaError for what is no number of bytes or of parts."""
        _check_number("memory_budget", self.memory_budget, 0, "bytes")
        _check_number("stream_logits", self.stream_logits, 1, "parts")

    @staticmethod
    def of(
        memory_budget: int | None,
        save: Sequence[str],
        recompute: Sequence[str],
        stream_logits: int | None,
    ) -> SavePolicy:
        """Raises CodaError for options that do not make sense."""
        saved, recomputed = _names("save", save), _names("recompute", recompute)
        return SavePolicy(memory_budget, saved, recomputed, stream_logits)


def _check_number(name: str, value: object, least: int, of_what: str) -> None:
    is_number = isinstance(value, int) and not isinstance(value, bool) and value >= least
    if value is not None and not is_number:
        raise CodaError(f"{name} is {value!r}", f"use a number of {of_what}, {least} or more")


def _names(option: str, names: Sequence[str]) -> tuple[str, ...]:
    """Raises CodaError for a text, which is a sequence of texts, too."""
    if isinstance(names, str):
        raise CodaError(f"{option} is {names!r}, not a list", f"pass {option}=[{names!r}]")
    return tuple(names)
