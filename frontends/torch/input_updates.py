"""Inputs that a graph changes in place, such as the cache of a decoding step.

AOTAutograd ends a functional graph with a `copy_` into each of them. Here the new value is a result
like any other, and whoever runs the graph stores it: nobody else has to know about side effects.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import torch
from torch.fx import GraphModule, Node

Runner: TypeAlias = Callable[[list[Any]], Sequence[Any]]
"""A graph that runs on a list of inputs, which it may clear."""


def make_updates_results(graph: GraphModule) -> list[int]:
    """Make the new values of inputs the last results of `graph`; gives the inputs' positions."""
    placeholders = [node for node in graph.graph.nodes if node.op == "placeholder"]
    positions = {node: position for position, node in enumerate(placeholders)}
    copies = [node for node in graph.graph.nodes if _is_update(node, positions)]
    output = graph.graph.output_node()
    leaves: Any = output.args[0]
    updates = [copy.args[:2] for copy in copies]
    output.args = ((*leaves, *(value for _, value in updates)),)
    for copy in copies:
        graph.graph.erase_node(copy)
    if copies:
        graph.recompile()
    return [positions[updated] for updated, _ in updates]


def _is_update(node: Node, positions: dict[Node, int]) -> bool:
    return str(node.target) == "aten.copy_.default" and node.args[0] in positions and not node.users


def store_updates(inputs: Sequence[torch.Tensor], values: Sequence[torch.Tensor]) -> None:
    """Store each value in the memory of its input, unless it is there already."""
    for old, new in zip(inputs, values, strict=True):
        if _is_same_memory(old, new):
            continue
        old.copy_(own_memory(new, [old]))


def own_memory(result: torch.Tensor, updated: Sequence[torch.Tensor]) -> torch.Tensor:
    """`result`, or a copy where it is in the memory of an input that the graph updates."""
    memory = result.untyped_storage().data_ptr()
    is_shared = any(x.untyped_storage().data_ptr() == memory for x in updated)
    return result.clone() if is_shared else result


def _is_same_memory(old: torch.Tensor, new: torch.Tensor) -> bool:
    return (
        old.data_ptr() == new.data_ptr()
        and old.dtype == new.dtype
        and old.shape == new.shape
        and old.stride() == new.stride()
    )


def storing_updates(runner: Runner, positions: Sequence[int]) -> Runner:
    """`runner`, whose last results are the new values of the inputs at `positions`."""
    if not positions:
        return runner

    def run(inputs: list[Any]) -> Sequence[Any]:
        updated = [inputs[position] for position in positions]
        results = runner(inputs)
        kept = len(results) - len(positions)
        store_updates(updated, results[kept:])
        return results[:kept]

    return run
