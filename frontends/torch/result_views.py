"""Results that are views of one tensor, made of it after each call, as in eager PyTorch."""

from collections.abc import Callable
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node
from torch.fx.node import map_arg

from coda_ir.frontends.torch.types import Runner, can_represent, tensors_in, viewed_by


def split_off_views(graph: GraphModule) -> Callable[[Runner], Runner]:
    """Let `graph` return a tensor that it computes instead of several results that are views of it,
    directly or indirectly; return a function that makes a runner of the new graph one of the
    former.

    The results share memory then, however a program stores the tensor: a caller may change one in
    place.
    """
    output = graph.graph.output_node()
    leaves: Any = output.args[0]
    owners = [_owner(leaf) for leaf in leaves if isinstance(leaf, Node)]
    viewed = {owner for owner in owners if owner.op != "placeholder" and owners.count(owner) > 1}
    if not viewed:
        return lambda run: run
    views, copies, given = Graph(), dict[Node, Node](), list[Node]()

    def copied(node: Node) -> Node:
        if node not in copies:
            source = viewed_by(node)
            if source is None or node in viewed or _owner(node) not in viewed:
                given.append(node)
                copies[node] = views.placeholder(node.name)
            elif node.target is torch.ops.aten.detach.default:  # of the trace: see `STOP`
                copies[node] = copied(source)
            else:
                copies[node] = views.node_copy(node, copied)
        return copies[node]

    views.output(map_arg(tuple(leaves), copied))
    output.args = (tuple(given),)
    output.meta.pop("desc", None)
    graph.recompile()
    make = GraphModule(graph, views)
    return lambda run: lambda inputs: make(*run(inputs))


def _owner(node: Node) -> Node:
    """Return the node that a node is a view of, as far as the IR can represent it, or itself."""
    source = viewed_by(node)
    while source is not None and all(map(can_represent, tensors_in(source.meta["val"]))):
        node, source = source, viewed_by(source)
    return node
