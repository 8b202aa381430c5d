"""Minimum vertex cut: the cheapest vertices that separate available from needed values."""

from collections.abc import Hashable
from importlib import import_module
from typing import Any, Generic, TypeVar

NodeT = TypeVar("NodeT", bound=Hashable)

UNLIMITED = 1 << 80


class VertexCut(Generic[NodeT]):
    """A directed graph with a cost for each vertex, as a flow network, and its cheapest cut."""

    def __init__(self) -> None:
        self._networkx: Any = import_module("networkx")  # It has no types.
        self._graph: Any = self._networkx.DiGraph()
        self._graph.add_nodes_from((_SOURCE, _SINK))
        self._vertices: list[NodeT] = []

    def add(self, vertex: NodeT, cost: int | None) -> None:
        """Add a vertex; one with the cost None is never cut."""
        self._vertices.append(vertex)
        self._connect((vertex, "in"), (vertex, "out"), UNLIMITED if cost is None else cost)

    def from_source(self, vertex: NodeT) -> None:
        """Connect `vertex` to the source."""
        self._connect(_SOURCE, (vertex, "in"))

    def to_sink(self, vertex: NodeT) -> None:
        """Connect `vertex` to the sink."""
        self._connect((vertex, "out"), _SINK)

    def connect(self, before: NodeT, after: NodeT) -> None:
        """Connect `before` to `after`."""
        self._connect((before, "out"), (after, "in"))

    def cut(self) -> set[NodeT]:
        """Return the vertices of the cheapest cut; among equal ones, that closest to the sink."""
        flow = self._networkx.algorithms.flow
        # The second set has the nodes from which the sink can be reached.
        _, (_, needed) = flow.minimum_cut(
            self._graph, _SOURCE, _SINK, flow_func=flow.boykov_kolmogorov
        )
        return {v for v in self._vertices if (v, "in") not in needed and (v, "out") in needed}

    def _connect(self, before: Hashable, after: Hashable, capacity: int = UNLIMITED) -> None:
        self._graph.add_edge(before, after, capacity=capacity)


_SOURCE, _SINK = "source", "sink"
