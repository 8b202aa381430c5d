"""The choice among the candidates of a GEMM, by measurement."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from coda_ir.cache.decision import Decision, Tried
from coda_ir.tuning.measurer import Candidate, Deadline, MeasurementError, Measurer

NOISE = 0.03
"""A candidate has to be faster than the model's choice by more than this share of its time, twice.
Medians of one kernel that alternate with another in one process repeat to about 1 %."""

DRIFT = 0.05
"""Times of the model's choice before and after a candidate that differ by more than this share say
that the clock of the device changed in between: the comparison is repeated."""

REPEATS = 3
"""Tries of a comparison before the candidate is given up."""

UNFINISHED = "the budget was spent before"


@dataclass
class Choice:
    """The choice between compiled candidates, except for those that are `skipped` for a reason."""

    candidates: Sequence[Candidate]
    skipped: dict[Candidate, str]
    measurer: Measurer
    deadline: Deadline
    ratios: dict[Candidate, float] = field(default_factory=dict[Candidate, float])
    times: dict[Candidate, float] = field(default_factory=dict[Candidate, float])

    def decide(self) -> Decision | None:
        """Return the decision; None where nothing can be measured in time.

        The first candidate is the model's choice, which is kept unless another is faster by more
        than `NOISE`; one of another form has to be faster by that than the best of the first's
        form.
        """
        incumbent = self._first_that_runs()
        if incumbent is None:
            return None
        self.ratios[incumbent] = 1.0
        for candidate in self.candidates:
            if candidate not in self.skipped and candidate != incumbent:
                self._try(candidate, incumbent)
        return self._decision(self._confirmed(incumbent), incumbent)

    def _first_that_runs(self) -> Candidate | None:
        """Return the model's choice, or the next best that runs."""
        for candidate in self.candidates:
            if candidate in self.skipped:
                continue
            if self.deadline.is_over:
                return None
            try:
                self.times[candidate] = self.measurer.measure(candidate)
            except MeasurementError as error:
                self.skipped[candidate] = error.message
                continue
            return candidate
        return None

    def _try(self, candidate: Candidate, incumbent: Candidate) -> None:
        if self.deadline.is_over:
            self.skipped[candidate] = UNFINISHED
            return
        try:
            self.measurer.check(candidate, incumbent)
            self.ratios[candidate] = self._compare(candidate, incumbent)
        except MeasurementError as error:
            self.skipped[candidate] = error.message

    def _compare(self, candidate: Candidate, incumbent: Candidate) -> float:
        """Return the time of a candidate divided by that of the incumbent, measured before and
        after it.

        Raises MeasurementError where the candidate does not run or the clock does not keep still.
        """
        before = self.measurer.measure(incumbent)
        for _ in range(REPEATS):
            time = self.measurer.measure(candidate)
            after = self.measurer.measure(incumbent)
            if abs(after - before) <= DRIFT * before:
                self.times[incumbent] = (before + after) / 2
                return time / self.times[incumbent]
            before = after
        raise MeasurementError("the clock rate of the device was not stable")

    def _confirmed(self, incumbent: Candidate) -> Candidate:
        """Return the best candidate of the incumbent's form, unless another form is faster."""
        same = [each for each in self.ratios if each.form == incumbent.form]
        others = [each for each in self.ratios if each.form != incumbent.form]
        return self._fastest(others, self._fastest(same, incumbent))

    def _fastest(self, candidates: Sequence[Candidate], incumbent: Candidate) -> Candidate:
        """Return the fastest candidate that beats the incumbent again in a second comparison."""
        limit = (1 - NOISE) * self.ratios[incumbent]
        for candidate in sorted(candidates, key=lambda each: self.ratios[each]):
            if candidate == incumbent or self.ratios[candidate] >= limit:
                break
            if self.deadline.is_over:
                self.skipped.setdefault(candidate, UNFINISHED)
                break
            try:
                again = self._compare(candidate, incumbent)
            except MeasurementError as error:
                del self.ratios[candidate]
                self.skipped[candidate] = error.message
                continue
            # The worse of two: the best of several noisy figures is too good.
            again *= self.ratios[incumbent]
            self.ratios[candidate] = max(self.ratios[candidate], again)
            if self.ratios[candidate] < limit:
                return candidate
        return incumbent

    def _decision(self, chosen: Candidate, incumbent: Candidate) -> Decision:
        tried = tuple(
            Tried(c.configured, c.predicted_us, self.ratios.get(c), self.skipped.get(c))
            for c in self.candidates
        )
        model_us = self.times[incumbent]
        return Decision(
            chosen=chosen.configured,
            predicted_us=chosen.predicted_us,
            measured_us=model_us * self.ratios[chosen],
            model_us=model_us,
            rows=chosen.problem.rows,
            tried=tried,
            is_complete=UNFINISHED not in self.skipped.values(),
        )
