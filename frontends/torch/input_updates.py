"""Inputs that a graph changes in place, such as the cache of a decoding step.

AOTAutograd ends a functional graph with a `copy_` into each of them. Here the new value is a result
like any other, and whoever runs the graph stores it: nobody else has to know about side effects.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import GraphModule, Node

from coda_ir.frontends.torch.types import Runner


def make_updates_results(graph: GraphModule) -> list[int]:
    """Make the new values of inputs the last results of `graph`; gives the inputs' positions."""
    placeholders = [node for node in graph.graph.nodes if node.op == "placeholder"]
    positions = {node: position for position, node in enumerate(placeholders)}
    copies = [node for node in graph.graph.nodes if _is_update(node, positions)]
    if not copies:
        return []
    output = graph.graph.output_node()
    leaves: Any = output.args[0]
    updates = [copy.args[:2] for copy in copies]
    output.args = ((*leaves, *(value for _, value in updates)),)
    for copy in copies:
        graph.graph.erase_node(copy)
    graph.recompile()
    return [positions[updated] for updated, _ in updates]


def _is_update(node: Node, positions: dict[Node, int]) -> bool:
    return str(node.target) == "aten.copy_.default" and node.args[0] in positions and not node.users


def store_updates(
    inputs: Sequence[torch.Tensor],
    values: Sequence[torch.Tensor],
    returned: Sequence[Any],
) -> list[Any]:
    """Store each value in the memory of its input, unless it is there already.

    Gives what is `returned`. Values, and what is returned, may be in the memory of any of the
    inputs, which is about to change: then they are copied before.
    """
    memories = {_memory(x) for x in inputs}

    def apart(value: torch.Tensor) -> torch.Tensor:
        return value.clone() if _memory(value) in memories else value

    pairs = zip(inputs, values, strict=True)
    new = [(old, apart(value)) for old, value in pairs if not _is_same_memory(old, value)]
    kept = [apart(value) if isinstance(value, torch.Tensor) else value for value in returned]
    for old, value in new:
        old.copy_(value)
    return kept


def _memory(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


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
        return store_updates(updated, results[kept:], results[:kept])

    return run
