"""Regions: cuts a graph at operators that the IR cannot express, so that the rest is compiled."""

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

import torch
from torch.fx import GraphModule, Node

from coda_ir.frontends.torch.types import (
    can_represent,
    graphs_in,
    is_higher_order,
    is_operator,
    tensors_in,
)

SIZES = -2
"""The region of what is computed from sizes alone, which comes first."""

READS_DATA = frozenset({"aten._local_scalar_dense.default", "aten.item.default"})
"""Operators that make a number of a tensor."""


PRODUCTS = ("linear", "mm", "matmul", "conv", "einsum")
"""Parts of the names of operators that may be linear maps."""


def has_products(graph: GraphModule) -> bool:
    """Return whether a graph may have a linear map, without which there is nothing to fuse."""
    nodes = [node for part in graphs_in(graph) for node in part.graph.nodes]
    calls = [str(node.target) for node in nodes if node.op.startswith("call_")]
    return any(part in name for name in calls for part in PRODUCTS)


def split_graph(graph: GraphModule) -> GraphModule | None:
    """Split a graph into regions that the IR can express and others; None if that is of no help."""
    regions = _regions_of(graph)
    if not any(region % 2 for region in regions.values()) or max(regions.values()) < 0:
        return None
    split_module: Any = import_module("torch.fx.passes.split_module").split_module

    def number(node: Node) -> int:
        return regions[node] - SIZES

    split: GraphModule = split_module(graph, None, number)
    for _, region in regions_in(split):
        _return_tuple(region)
    return split


def regions_in(split: GraphModule) -> list[tuple[Node, GraphModule]]:
    """Return the calls of a split graph, in order, with their callees."""
    calls = [node for node in split.graph.nodes if node.op == "call_module"]
    return [(node, getattr(split, str(node.target))) for node in calls]


class RegionCall(torch.nn.Module):
    """A compiled region, called like the original one."""

    def __init__(self, call: Callable[[list[Any]], Sequence[Any]], *, is_single: bool):
        super().__init__()
        self._call, self._is_single = call, is_single

    def forward(self, *inputs: Any) -> Any:
        results = self._call(list(inputs))
        return results[0] if self._is_single else tuple(results)


def gives_one_value(region: GraphModule) -> bool:
    """Return whether a region had a single value before its result was made a tuple."""
    return bool(region.meta.get("is_single"))


def _return_tuple(region: GraphModule) -> None:
    output = region.graph.output_node()
    if isinstance(output.args[0], Node):
        region.meta["is_single"] = True
        output.args = ((output.args[0],),)
        region.recompile()


def _regions_of(graph: GraphModule) -> dict[Node, int]:
    """Return the region of each node: an even number if expressible; the others are small."""
    regions: dict[Node, int] = {}
    last_random: Node | None = None
    for node in graph.graph.nodes:
        if node.op not in ("call_function", "get_attr"):
            continue
        before = [n for n in node.all_input_nodes if n in regions]
        if last_random is not None and _is_random(node):
            before.append(last_random)
        regions[node] = _region(node, before, regions)
        last_random = node if _is_random(node) else last_random
    return regions


def _region(node: Node, before: list[Node], regions: dict[Node, int]) -> int:
    latest = max((regions[n] for n in before), default=SIZES)
    if getattr(node.target, "__name__", "") == "getitem" or _is_size(node):
        return latest
    parity = 0 if can_express(node) else 1
    first = max(latest, -1 if parity else 0)
    return first if first % 2 == parity else first + 1


def _is_size(node: Node) -> bool:
    has_tensors = any(True for _ in tensors_in(node.meta.get("val")))
    return not has_tensors and str(node.target) not in READS_DATA and not is_higher_order(node)


def _is_random(node: Node) -> bool:
    """Return whether a node draws random numbers, or calls operators that may."""
    tags: Sequence[torch.Tag] = getattr(node.target, "tags", ())
    return torch.Tag.nondeterministic_seeded in tags or is_higher_order(node)


def can_express(node: Node) -> bool:
    """Return whether the IR can express the operator of a node, if only as a call of PyTorch."""
    if node.op == "get_attr":
        return True
    values = [node.meta.get("val"), *(n.meta.get("val") for n in node.all_input_nodes)]
    tensors = [tensor for value in values for tensor in tensors_in(value)]
    return (
        is_operator(node)
        and str(node.target) not in READS_DATA
        and all(map(can_represent, tensors))
    )
