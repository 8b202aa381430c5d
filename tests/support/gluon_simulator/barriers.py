"""mbarriers: arrivals and bytes of a phase, and the one bit of parity that a wait can see."""

from dataclasses import dataclass, field

from support.gluon_simulator.clocks import Clock, Epoch, join
from support.gluon_simulator.errors import BarrierError
from support.gluon_simulator.program import here

_LARGEST = 2**20 - 1
"""The largest number of arrivals and of bytes that a phase can expect."""
_NOTHING_KNOWN: list[Clock] = [{}]


@dataclass
class Barrier:
    """An mbarrier object after `init`."""

    name: str
    count: int
    phase: int = 0
    """Phases that are complete."""
    expected_bytes: int = 0
    """May be negative: bytes can come before they are expected."""
    arriving: Clock = field(default_factory=Clock)
    completed: list[Clock] = field(default_factory=_NOTHING_KNOWN.copy)
    """The knowledge that the completion of each phase passes on; none for a new barrier."""

    def __post_init__(self) -> None:
        if not 1 <= self.count <= _LARGEST:
            raise BarrierError(f"{here()}: {self.name} is initialized for {self.count} arrivals")
        self.pending = self.count

    def arrive(self, count: int, clock: Clock) -> None:
        if count > self.pending:
            raise BarrierError(
                f"{here()}: {count} arrivals at {self.name}, but phase {self.phase} expects only"
                f" {self.pending} more of {self.count}"
            )
        self.pending -= count
        join(self.arriving, clock)
        self._complete()

    def expect(self, count: int) -> None:
        self.expected_bytes += count
        if not 0 <= count <= _LARGEST or self.expected_bytes > _LARGEST:
            raise BarrierError(f"{here()}: {self.name} cannot expect {self.expected_bytes} bytes")

    def receive(self, count: int) -> Epoch:
        """Bytes have come; returns when they are known to have come."""
        epoch = Epoch(self.name, self.phase + 1)
        self.expected_bytes -= count
        self._complete()
        return epoch

    def _complete(self) -> None:
        if self.pending == 0 and self.expected_bytes == 0:
            self.phase += 1
            self.pending = self.count
            told = {**self.completed[-1], self.name: self.phase}
            join(told, self.arriving)
            self.completed.append(told)
            self.arriving = {}

    def has_passed(self, parity: int) -> bool:
        """Return whether the phase of this parity, the current or the one before, is complete."""
        return self.phase & 1 != parity

    def waited_for(self, parity: int, known: int) -> int:
        """The phases that are complete when a wait by one passes who knows of `known` of them.

        That is the least that the parity says. Raises BarrierError where more are: then the parity
        cannot tell the lap that is meant from the next.
        """
        phase = known + (known & 1 == parity)
        if self.phase > phase:
            raise BarrierError(
                f"{here()}: {self.name} has completed {self.phase} phases when {phase} of them are"
                " waited for"
            )
        return phase

    @property
    def state(self) -> str:
        received = f", {self.expected_bytes} bytes to come" if self.expected_bytes else ""
        return f"phase {self.phase}: {self.count - self.pending} of {self.count} arrivals{received}"
