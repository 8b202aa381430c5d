"""Graphs of TorchDynamo that apply `torch.func` transforms to parts of themselves."""

from torch.fx import GraphModule, Node

from coda_ir.frontends.torch.types import called_name, example_tensors, graphs_in

_TRANSFORMS = ("torch._C._functorch", "torch._functorch", "torch.autograd")
"""Modules of the functions that a graph calls for transforms. TorchDynamo replaces `torch.func` by
these private functions, and only their modules distinguish them from operators."""


def transforms_itself(graph: GraphModule) -> bool:
    """Return whether a graph applies `torch.func` transforms or `torch.autograd.grad` to numbers
    that are no integers, which requires PyTorch's own rules for their operators.

    Transformers build masks by `vmap` over the numbers of rows and columns, whose operators need no
    such rules.
    """
    return any(map(_transforms_numbers, graphs_in(graph)))


def _transforms_numbers(graph: GraphModule) -> bool:
    transformed: set[Node] = set()
    for node in graph.graph.nodes:
        is_transform = str(getattr(node.target, "__module__", None) or "").startswith(_TRANSFORMS)
        if is_transform and any(_has_numbers(given) for given in node.all_input_nodes):
            return True
        if is_transform or not transformed.isdisjoint(node.all_input_nodes):
            if _has_numbers(node):
                return True
            if called_name(node) != "_remove_batch_dim":
                transformed.add(node)
    return False


def _has_numbers(node: Node) -> bool:
    """Return whether a node has a tensor of numbers that are no integers."""
    return any(x.is_floating_point() or x.is_complex() for x in example_tensors(node))
