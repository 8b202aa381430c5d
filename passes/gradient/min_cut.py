"""Minimum vertex cut: the cheapest set of vertices that separates available values from needed
ones.
"""

from collections import deque
from collections.abc import Hashable
from typing import Generic, TypeVar

NodeT = TypeVar("NodeT", bound=Hashable)

_Arc = int

UNLIMITED = 1 << 80


class VertexCut(Generic[NodeT]):
    """A directed graph with a cost for each vertex, and its cheapest cut.

    Every vertex is two nodes of a flow network with an arc of its cost in between (Ford and
    Fulkerson); the flow is Dinic's, of integer capacities. Node 0 is the source, node 1 the sink.
    """

    def __init__(self) -> None:
        self._arcs_of: list[list[_Arc]] = [[], []]
        self._head: list[int] = []
        self._capacity: list[int] = []
        self._number: dict[NodeT, int] = {}

    def add(self, vertex: NodeT, cost: int | None) -> None:
        """Add a vertex; one with the cost None is never cut."""
        self._number[vertex] = len(self._arcs_of)
        self._arcs_of += [[], []]
        self._connect(*self._nodes(vertex), UNLIMITED if cost is None else cost)

    def from_source(self, vertex: NodeT) -> None:
        """Connect `vertex` to the source."""
        self._connect(0, self._nodes(vertex)[0], UNLIMITED)

    def to_sink(self, vertex: NodeT) -> None:
        """Connect `vertex` to the sink."""
        self._connect(self._nodes(vertex)[1], 1, UNLIMITED)

    def connect(self, before: NodeT, after: NodeT) -> None:
        """Connect `before` to `after`."""
        self._connect(self._nodes(before)[1], self._nodes(after)[0], UNLIMITED)

    def cut(self) -> set[NodeT]:
        """Return the vertices of the cheapest cut; among equal ones, that closest to the sink."""
        while (levels := self._levels())[1] is not None:
            while self._push(levels):
                pass
        needed = self._reaching_sink()
        nodes = {vertex: self._nodes(vertex) for vertex in self._number}
        return {v for v, (enter, leave) in nodes.items() if enter not in needed and leave in needed}

    def _nodes(self, vertex: NodeT) -> tuple[int, int]:
        number = self._number[vertex]
        return number, number + 1

    def _connect(self, tail: int, head: int, capacity: int) -> None:
        """Add an arc; its reverse arc is adjacent, at its number ^ 1."""
        for node, other, amount in ((tail, head, capacity), (head, tail, 0)):
            self._arcs_of[node].append(len(self._head))
            self._head.append(other)
            self._capacity.append(amount)

    def _levels(self) -> list[int | None]:
        """Return the distance of each node from the source along arcs with residual capacity."""
        levels: list[int | None] = [None] * len(self._arcs_of)
        levels[0] = 0
        pending = deque([0])
        while pending:
            node = pending.popleft()
            for arc in self._arcs_of[node]:
                head = self._head[arc]
                if self._capacity[arc] and levels[head] is None:
                    levels[head] = (levels[node] or 0) + 1
                    pending.append(head)
        self._next = [0] * len(self._arcs_of)
        return levels

    def _push(self, levels: list[int | None]) -> int:
        """Send flow along one shortest path; return its amount. Dead ends are not tried again."""
        path: list[_Arc] = []
        node = 0
        while node != 1:
            arc = self._advance(node, levels)
            if arc is not None:
                path.append(arc)
                node = self._head[arc]
            elif not path:
                return 0
            else:
                node = self._head[path.pop() ^ 1]
                self._next[node] += 1
        amount = min(self._capacity[arc] for arc in path)
        for arc in path:
            self._capacity[arc] -= amount
            self._capacity[arc ^ 1] += amount
        return amount

    def _advance(self, node: int, levels: list[int | None]) -> _Arc | None:
        arcs = self._arcs_of[node]
        while self._next[node] < len(arcs):
            arc = arcs[self._next[node]]
            if self._capacity[arc] and levels[self._head[arc]] == (levels[node] or 0) + 1:
                return arc
            self._next[node] += 1
        return None

    def _reaching_sink(self) -> set[int]:
        """Return the nodes from which the sink can be reached along arcs with residual capacity."""
        found = {1}
        pending = [1]
        while pending:
            node = pending.pop()
            for arc in self._arcs_of[node]:
                tail = self._head[arc]
                if tail not in found and self._capacity[arc ^ 1]:
                    found.add(tail)
                    pending.append(tail)
        return found
