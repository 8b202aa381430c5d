"""Vector clocks: which accesses are known to be over, whatever the interleaving was."""

from collections.abc import Mapping
from typing import NamedTuple

Clock = dict[str, int]
"""For each agent, a partition or an mbarrier, how far it is known to have come."""


class Epoch(NamedTuple):
    """A point in the time of one agent."""

    agent: str
    time: int

    def is_before(self, clock: Mapping[str, int]) -> bool:
        return self.time <= clock.get(self.agent, 0)


def join(clock: Clock, other: Mapping[str, int]) -> None:
    """Make `clock` know what `other` knows."""
    for agent, time in other.items():
        if time > clock.get(agent, 0):
            clock[agent] = time
