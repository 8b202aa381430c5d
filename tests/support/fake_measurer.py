"""A measurer without a GPU: times that a test makes up, on a clock that it moves."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from coda_ir.cache.decision import Configured
from coda_ir.tuning.measurer import Candidate, Deadline, MeasurementError

Times = Callable[[Configured], float]


@dataclass
class FakeMeasurer:
    """Every candidate takes `times(configured)` microseconds."""

    times: Times
    compile_failures: Callable[[Configured], str | None] = lambda _: None
    launch_failures: Callable[[Configured], str | None] = lambda _: None
    is_wrong: Callable[[Configured], bool] = lambda _: False
    speed: Callable[[int], float] = lambda _: 1.0
    """A factor for the measurement number i: how the clock of the device drifts."""
    compile_s: float = 1.0
    measure_s: float = 0.1
    device: str = "Fake GPU"
    now: float = 0.0
    compiled: list[Configured] = field(default_factory=list[Configured])
    measured: list[Configured] = field(default_factory=list[Configured])

    @property
    def clock(self) -> Callable[[], float]:
        return lambda: self.now

    def prepare(
        self,
        candidates: Sequence[Candidate],
        deadline: Deadline,
        done: Callable[[Candidate, str | None], None],
    ) -> None:
        for candidate in candidates:
            self.now += self.compile_s
            if deadline.is_over:
                return
            configured = candidate.configured
            self.compiled.append(configured)
            done(candidate, self.compile_failures(configured))

    def measure(self, candidate: Candidate) -> float:
        self.now += self.measure_s
        configured = candidate.configured
        failure = self.launch_failures(configured)
        if failure is not None:
            raise MeasurementError(failure)
        self.measured.append(configured)
        return self.times(configured) * self.speed(len(self.measured))

    def check(self, candidate: Candidate, expected: Candidate) -> None:
        if self.is_wrong(candidate.configured):
            raise MeasurementError("its result 0 is not that of the model's choice")
