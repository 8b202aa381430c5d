"""Tuning the GEMMs of a program: stored results first, then measurements within a budget."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from coda_ir.cache import tuned as store
from coda_ir.cache.decision import Decision
from coda_ir.dialects.gemm import TunedAttr
from coda_ir.progress import Progress
from coda_ir.tuning.candidates import Request, candidates_of
from coda_ir.tuning.choice import NOISE, UNFINISHED, Choice
from coda_ir.tuning.context import BUDGET_S, current_device, current_measurer
from coda_ir.tuning.measurer import Candidate, Deadline, Measurer

COMPILE_SHARE = 0.75
"""Share of the budget after which nothing more is compiled: measuring is short."""

COMPILING, MEASURING = "compiling candidates", "measuring GEMMs"

NO_TUNE = "CODA_NO_TUNE"
"""Environment variable: where it is set and not 0, stored results are used and nothing measured."""


@dataclass
class Answer:
    """The answer to a request."""

    device: str
    """Empty where there is none."""
    decision: Decision | None = None
    notes: list[str] = field(default_factory=list[str])
    """The reasons why the result could not be stored, or nothing was measured."""

    def texts(self) -> list[str]:
        """Return the texts of the remarks."""
        if self.decision is None:
            return self.notes or [f"not tuned: nothing is stored for {self.device}"]
        found, choice = self.decision, f"the model's choice, {self.decision.tried[0].configured}"
        times = f"{found.measured_us:.1f} us measured, {found.predicted_us:.1f} predicted"
        if found.keeps_model:
            verdict = f"keeps {choice}; nothing is faster by more than {NOISE:.0%}"
        else:
            form = "" if found.chosen.form == "fused" else f"{found.chosen} is "
            verdict = f"{form}{found.gain:.2f} x as fast as {choice}"
        head = f"tuned on {self.device} at {found.rows} rows: {times}, {verdict}"
        others = [
            f"{tried.configured}: {tried.ratio:.2f} x the time of the model's choice"
            for tried in found.tried
            if tried.ratio is not None and tried.configured.form != "fused"
        ]
        skipped = [
            f"candidate {tried.configured} is skipped: {tried.skipped}"
            for tried in found.tried
            if tried.skipped is not None
        ]
        return [head, *others, *skipped, *self.notes]

    def attribute(self, kernels: int = 1) -> TunedAttr:
        """Return the attribute of a GEMM that became `kernels` kernels, with the decision."""
        assert self.decision is not None, "there is a decision"
        found = self.decision
        predicted, measured, model = (
            max(1, round(1000 * us))
            for us in (found.predicted_us, found.measured_us, found.model_us)
        )
        times, is_partial = (predicted, measured, model), not found.is_complete
        return TunedAttr.get(self.device, found.rows, times, kernels=kernels, is_partial=is_partial)


def tune(
    requests: Sequence[Request], mode: str = "measure", budget: float = BUDGET_S
) -> list[Answer]:
    """Return for each request the stored decision or, in mode `measure`, a new one.

    At most `budget` seconds are spent; requests that are equal but for names are tuned once. Raises
    CodaError where there is nothing to measure on.
    """
    if mode == "measure" and os.environ.get(NO_TUNE, "0") not in ("", "0"):
        mode = "stored"
    device = current_device() if mode == "stored" else current_measurer().device
    if device is None:
        note = "not tuned: there is no GPU to tune for"
        return [Answer("", None, [note]) for _ in requests]
    keys = [_key(request, device) for request in requests]
    answers: dict[str, Answer] = {}
    pending: dict[str, Request] = {}
    for key, request in zip(keys, requests, strict=True):
        found = store.load(key)
        answers[key] = Answer(device, None if found is None else found.decision)
        if found is None or (mode == "measure" and not found.decision.is_complete):
            pending[key] = request
    if mode == "measure" and pending:
        answers.update(_measure(pending, current_measurer(), budget))
    return [answers[key] for key in keys]


def _key(request: Request, device: str) -> str:
    problem = request.problem
    space = f"{request.device.name} {request.space} {request.forms}"
    return store.tuning_key(problem.text, problem.bucket, device, space)


def _measure(
    pending: Mapping[str, Request], measurer: Measurer, budget: float
) -> Mapping[str, Answer]:
    """Compile the candidates of all GEMMs, the likely ones first, then measure GEMM by GEMM."""
    start, clock = measurer.clock(), measurer.clock
    deadline = Deadline(start + budget, clock)
    candidates = {key: candidates_of(request) for key, request in pending.items()}
    failures: dict[Candidate, str] = {
        candidate: UNFINISHED for each in candidates.values() for candidate in each
    }
    answers: dict[str, Answer] = {}
    with Progress({COMPILING: len(failures), MEASURING: len(pending)}) as progress:

        def done(candidate: Candidate, failure: str | None) -> None:
            progress.advance(COMPILING)
            if failure is None:
                del failures[candidate]
            else:
                failures[candidate] = failure

        until = Deadline(start + COMPILE_SHARE * budget, clock)
        measurer.prepare(_in_turn(list(candidates.values())), until, done)
        for key, request in pending.items():
            decision = Choice(candidates[key], {**failures}, measurer, deadline).decide()
            time = "not measured" if decision is None else f"{decision.measured_us:.1f} us"
            progress.advance(MEASURING, f"{request.name}: {time}")
            answers[key] = _answer(key, request, measurer.device, decision)
    return answers


def _answer(key: str, request: Request, device: str, decision: Decision | None) -> Answer:
    if decision is None:
        return Answer(device, None, [f"not tuned: {UNFINISHED}"])
    reason = store.store(key, request.name, request.problem.bucket, device, decision)
    return Answer(device, decision, [] if reason is None else [f"not stored: {reason}"])


def _in_turn(candidates: Sequence[Sequence[Candidate]]) -> list[Candidate]:
    """Return the first candidate of each GEMM, then the second: a short budget serves all."""
    longest = max(map(len, candidates), default=0)
    return [each[i] for i in range(longest) for each in candidates if i < len(each)]
