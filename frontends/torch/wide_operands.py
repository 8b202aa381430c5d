"""Operands of graphs of TorchDynamo that are read in a wider type than their own."""

import math
import operator

import torch
from torch.fx import GraphModule, Node
from torch.fx.experimental.symbolic_shapes import statically_known_true

from coda_ir.frontends.torch.types import called_name, graphs_in


def widen_losses(graph: GraphModule) -> None:
    """Widen the operands of the losses of a graph of TorchDynamo that are narrower than the loss.

    Under autocast on GPUs, PyTorch widens operands of the operators that `cross_entropy` consists
    of, and not its own: traced whole, it would have their type.
    """
    for module in graphs_in(graph):
        for node in [each for each in module.graph.nodes if called_name(each) == "cross_entropy"]:
            for given in node.all_input_nodes:
                if _bits(given) < _bits(node):
                    _widen(given, node.meta["example_value"].dtype, node)
        module.recompile()


def widen_tables(graph: GraphModule) -> None:
    """Widen the tables of 16-bit elements that a graph of TorchDynamo indexes, if it reads more
    elements than they have, such as biases of relative positions. The results keep their type.

    Inductor adds the gradients of an element that is read several times in the type of the table:
    that of a table in bfloat16 had 6 times the error of eager PyTorch, which adds in float32.
    """
    for module in graphs_in(graph):
        for node in [each for each in module.graph.nodes if each.target is operator.getitem]:
            table = node.all_input_nodes[0]
            if _bits(table) == 16 and _has_more_elements(node, table):
                narrow = node.meta["example_value"].dtype
                _widen(table, torch.float32, node)
                node.meta["example_value"] = node.meta["example_value"].float()
                _narrow(node, narrow)
        module.recompile()


def _bits(node: Node) -> float:
    """Return the bits of the elements of a node; infinity if they are not floats."""
    value: object = node.meta.get("example_value")
    if not isinstance(value, torch.Tensor) or not value.is_floating_point():
        return math.inf
    return 8 * value.element_size()


def _has_more_elements(node: Node, table: Node) -> bool:
    found: torch.Tensor | None = node.meta.get("example_value")
    size = table.meta["example_value"].numel()
    return found is not None and statically_known_true(found.numel() > size)


def _widen(given: Node, dtype: torch.dtype, user: Node) -> None:
    """Have `user` read `given` in another type."""
    with user.graph.inserting_before(user):
        wide = _converted(given, dtype)
    user.replace_input_with(given, wide)


def _narrow(node: Node, dtype: torch.dtype) -> None:
    """Have the users of a node read it in another type."""
    with node.graph.inserting_after(node):
        narrow = _converted(node, dtype)
    node.replace_all_uses_with(narrow, lambda user: user is not narrow)


def _converted(node: Node, dtype: torch.dtype) -> Node:
    """Insert a conversion of a node at the current place of its graph."""
    made = node.graph.call_method("to", (node, dtype))
    made.meta.update(node.meta, example_value=node.meta["example_value"].to(dtype))
    return made
