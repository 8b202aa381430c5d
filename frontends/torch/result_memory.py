"""Which results of a graph may share memory, by the views that its operators are."""

from __future__ import annotations

from collections.abc import Sequence
from operator import getitem

from torch.fx import Graph, Node
from xdsl.dialects.builtin import DictionaryAttr, IntegerAttr, UnitAttr

from coda_ir.storage import OWN


def memory_of(leaves: Sequence[Node], graph: Graph) -> list[DictionaryAttr]:
    """The attributes of the results `leaves` of a graph: `OWN`, but for views of its inputs.

    Views of one tensor have the same number, and so has what AOTAutograd saves for the backward,
    which nobody changes.
    """
    owners, saved = [_owner(leaf) for leaf in leaves], _saved(graph)
    read = {owner for leaf, owner in zip(leaves, owners, strict=True) if leaf not in saved}
    return [_entry(owner, owners, is_saved=owner not in read) for owner in owners]


def _entry(owner: Node, owners: Sequence[Node], *, is_saved: bool) -> DictionaryAttr:
    if owner.op == "placeholder":
        return DictionaryAttr({})
    if is_saved:
        return DictionaryAttr({OWN: IntegerAttr(len(owners), 64)})
    is_alone = owners.count(owner) == 1
    return DictionaryAttr({OWN: UnitAttr() if is_alone else IntegerAttr(owners.index(owner), 64)})


def _owner(node: Node) -> Node:
    """The node whose result a node is a view of, or one of the views of; itself if it is none."""
    while True:
        source = node.all_input_nodes[0] if node.target is getitem else node
        if not getattr(source.target, "is_view", False) or not source.all_input_nodes:
            return node
        node = source.all_input_nodes[0]


def _saved(graph: Graph) -> set[Node]:
    """The results that AOTAutograd describes as saved for the backward."""
    output = graph.output_node()
    described: Sequence[object] = output.meta.get("desc") or ()
    (results,) = output.args
    pairs = zip(results, described, strict=False) if isinstance(results, Sequence) else ()
    return {
        leaf
        for leaf, each in pairs
        if isinstance(leaf, Node) and type(each).__name__.startswith("SavedForBackwards")
    }
