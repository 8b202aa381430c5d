"""Checks programs by their number in a run, and repeats and shrinks the ones that fail."""

from __future__ import annotations

import math
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from support.processor_time import processor_time_limit

from generator.case import Case
from generator.choices import ReplayedChoices, SeededChoices
from generator.features import motifs_of
from generator.properties import PROPERTIES, SHARES, make_case
from generator.shrink import shrink
from generator.violations import Violation

TIME_LIMIT = 120
"""Seconds on the processor for one property of one program; a rewrite loop runs into it."""


@dataclass(frozen=True)
class Failure:
    """A program without a property, by what makes it again."""

    number: int
    seed: int
    kind: str
    name: str
    """The name of the property, as in `PROPERTIES`."""
    signature: str
    message: str
    record: tuple[int, ...]
    """The decisions of the generator and of the property."""
    module: str
    hazards: tuple[str, ...]


@dataclass
class Tally:
    """Counts of checks and findings for any number of programs."""

    programs: Counter[str] = field(default_factory=Counter[str])
    """Programs by kind."""
    checks: Counter[str] = field(default_factory=Counter[str])
    """Checks by property."""
    seconds: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    """Seconds by property."""
    notes: Counter[str] = field(default_factory=Counter[str])
    """Notes on what could not be checked, or is worth a look."""
    motifs: Counter[str] = field(default_factory=Counter[str])
    """Programs with each motif; see `features`."""
    remarks: Counter[tuple[str, str, str]] = field(default_factory=Counter[tuple[str, str, str]])
    """Programs by kind of remark, pass and condition."""
    failures: list[Failure] = field(default_factory=list[Failure])

    def add(self, other: Tally) -> None:
        self.programs += other.programs
        self.checks += other.checks
        for name, seconds in other.seconds.items():
            self.seconds[name] += seconds
        self.notes += other.notes
        self.motifs += other.motifs
        self.remarks += other.remarks
        self.failures += other.failures


def _endless() -> Violation:
    took = f"still running after {TIME_LIMIT} s on the processor"
    return Violation("termination", "time limit", took)


def seed_of(run_seed: int, number: int) -> int:
    return run_seed * 1_000_003 + number


def properties_of(number: int, only: str | None = None) -> list[str]:
    """The properties that program `number` of a run is checked for; `only` that one if given."""
    if only is not None:
        return [only]
    # Rounds through the kinds, so that every kind meets every property.
    turn = number // len(SHARES) + number % len(SHARES) * 7
    return [name for name, property in PROPERTIES.items() if turn % property.every == 0]


def check_program(run_seed: int, number: int, tally: Tally, only: str | None = None) -> None:
    """Make program `number` and check its properties, each for itself."""
    seed, kind = seed_of(run_seed, number), SHARES[number % len(SHARES)]
    tally.programs[kind] += 1
    case: Case | None = None
    start = SeededChoices(seed)
    for name in properties_of(number, only):
        choices = start.copy()
        started = time.process_time()
        try:
            with processor_time_limit(TIME_LIMIT, _endless()):
                if case is None:
                    case = make_case(choices, kind, seed)
                    # The decisions of a property follow those of the program, in one record.
                    start = choices.copy()
                PROPERTIES[name].check(case, choices)
        except Violation as violation:
            tally.failures.append(_failure(violation, number, seed, kind, name, choices.record))
        tally.checks[name] += 1
        tally.seconds[name] += time.process_time() - started
    if case is not None:
        said = {(r.kind, r.pass_name, r.condition or "") for r in case.remarks}
        tally.remarks.update(said)
        tally.notes.update(set(case.notes))
        tally.motifs.update(motifs_of(case))


def _failure(
    violation: Violation, number: int, seed: int, kind: str, name: str, record: Sequence[int]
) -> Failure:
    program = make_case(ReplayedChoices(record), kind, seed).program
    return Failure(
        number=number,
        seed=seed,
        kind=kind,
        name=name,
        signature=violation.signature,
        message=str(violation),
        record=tuple(record),
        module=program.text or str(program.module),
        hazards=tuple(sorted(program.hazards)),
    )


def check_range(run_seed: int, start: int, stop: int, only: str | None = None) -> Tally:
    tally = Tally()
    for number in range(start, stop):
        check_program(run_seed, number, tally, only)
    return tally


def shrink_failure(failure: Failure, seconds: float = 90.0, attempts: float = math.inf) -> Failure:
    """The same failure of a program that is as small as could be found; see `shrink`."""
    found: dict[tuple[int, ...], Violation] = {}

    def fails(record: Sequence[int]) -> list[int] | None:
        choices = ReplayedChoices(record)
        try:
            with processor_time_limit(TIME_LIMIT, _endless()):
                case = make_case(choices, failure.kind, failure.seed)
                PROPERTIES[failure.name].check(case, choices)
        except Violation as violation:
            if violation.signature == failure.signature:
                found[tuple(choices.record)] = violation
                return choices.record
        return None

    record = shrink(failure.record, fails, seconds, attempts)
    violation = found.get(tuple(record))
    if violation is None:
        return failure
    return _failure(
        violation, failure.number, failure.seed, failure.kind, failure.name, tuple(record)
    )


def replay(text: str) -> None:
    """Check the program of a failure file again; raises its Violation."""
    name = _header(text, "property").partition(";")[0]
    kind, seed, *record = _header(text, "record").split()
    choices = ReplayedChoices(list(map(int, record)))
    PROPERTIES[name].check(make_case(choices, kind, int(seed)), choices)


def _header(text: str, field: str) -> str:
    """The value of a field in the comments of a failure file."""
    lines = (line.lstrip("/# ") for line in text.splitlines())
    return next(line for line in lines if line.startswith(f"{field}: ")).partition(": ")[2]
