"""Graphs in Graphviz's DOT language: nodes, nested boxes, edges, and their text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import TypeAlias


class Html(str):
    """A label in Graphviz's HTML-like markup; its text parts are escaped already."""


Value: TypeAlias = "str | int | float | Html"
Attributes: TypeAlias = Mapping[str, Value]

SMALL_FONT, SMALL_COLOR = 10, "#5b6570"


def label(title: str, *details: str) -> Html:
    """Return a label: a bold title above lines of small grey text, without empty lines."""
    lines = [f"<B>{escape(title)}</B>"] if title else []
    lines += [small(detail) for detail in details if detail]
    return Html("<BR/>".join(lines))


def title(text: str, *details: str) -> Html:
    """Return the label of a box, aligned to the left, as edges tend to enter in the middle."""
    lines = label(text, *details).split("<BR/>")
    return Html("".join(f'{line}<BR ALIGN="LEFT"/>' for line in lines))


def small(text: str) -> Html:
    return Html(f'<FONT POINT-SIZE="{SMALL_FONT}" COLOR="{SMALL_COLOR}">{escape(text)}</FONT>')


@dataclass
class Box:
    """A cluster: a box around nodes and other boxes. The root of a graph is a box, too."""

    graph: Graph
    name: str
    attributes: dict[str, Value]
    items: list[str | Box] = field(default_factory=list["str | Box"])
    """The lines of nodes, and boxes."""

    def node(self, **attributes: Value) -> str:
        """Add a node and return its name, which edges use."""
        name = self.graph.fresh("n")
        self.items.append(f"{name} {_list(attributes)};")
        return name

    def box(self, **attributes: Value) -> Box:
        """Add a box inside this one."""
        box = Box(self.graph, self.graph.fresh("cluster_"), attributes)
        self.items.append(box)
        return box

    def lines(self) -> Iterator[str]:
        for name, value in self.attributes.items():
            yield f"{name}={_text(value)};"
        for item in self.items:
            if isinstance(item, str):
                yield item
            elif item.items:
                yield f"subgraph {item.name} {{"
                yield from (f"  {line}" for line in item.lines())
                yield "}"


class Graph:
    """A directed graph; `defaults` are the attributes of all nodes and edges."""

    def __init__(self, name: str, attributes: dict[str, Value], defaults: Mapping[str, Attributes]):
        self.name = name
        self.defaults = defaults
        self.edges: dict[str, None] = {}
        self._count = 0
        self.root = Box(self, "", attributes)

    def fresh(self, prefix: str) -> str:
        name = f"{prefix}{self._count}"
        self._count += 1
        return name

    def edge(self, source: str, target: str, **attributes: Value) -> None:
        """Add an edge, unless an equal one exists."""
        styled = f" {_list(attributes)}" if attributes else ""
        self.edges[f"  {source} -> {target}{styled};"] = None

    def __str__(self) -> str:
        lines = [f"digraph {_quoted(self.name)} {{"]
        lines += [f"  {kind} {_list(values)};" for kind, values in self.defaults.items()]
        lines += [f"  {line}" for line in self.root.lines()]
        return "\n".join([*lines, *self.edges, "}"]) + "\n"


def _list(attributes: Attributes) -> str:
    return "[" + ", ".join(f"{name}={_text(value)}" for name, value in attributes.items()) + "]"


def _text(value: Value) -> str:
    if isinstance(value, Html):
        return f"<{value}>"
    return _quoted(value) if isinstance(value, str) else str(value)


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def joined(texts: Sequence[str]) -> str:
    """Join the texts that are not empty, one per line."""
    return "\n".join(text for text in texts if text)
