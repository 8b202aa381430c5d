"""Graphs of TorchDynamo, prepared for a derived backward.

AOTAutograd traces such a graph as if no gradients were needed, so that norms, linear maps and
attention stay whole. Places where gradients stop are an operator of their own, as the trace adds
and drops `detach`. What only PyTorch's autograd knows would be lost on the way, such as functions
with a backward of their own. A graph with them is refused.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node

from coda_ir.diagnostics import GradientError
from coda_ir.frontends.torch.gradient_stops import STOP
from coda_ir.frontends.torch.graph_inputs import SET_GRAD_ENABLED, ModelInput
from coda_ir.frontends.torch.types import CHECKPOINT, called_name, example_tensors, shared_memory

_CHECKPOINT = "tag_activation_checkpoint"
_DETACHING = frozenset(
    {"detach_", "requires_grad_", "_get_data_attr", "gumbel_softmax", "gaussian_nll_loss"}
)
"""Names of what stops gradients without an operator in the graph of TorchDynamo."""


class NotDerivedError(GradientError):
    """A graph whose gradients must be left to PyTorch's autograd."""


def forward_graph(graph: GraphModule) -> GraphModule:
    """Return a copy of `graph` to be traced without gradients: instead of switching gradients off
    and on, it stops those of the values read where they are off.

    Raises NotDerivedError where the gradients would not be those of PyTorch.
    """
    stops = _find_stops(graph)
    _check_memory(graph, stops)
    _check_views(graph)
    copies: dict[Node, Any] = {}
    copied = Graph()
    copied.output(copied.graph_copy(graph.graph, copies))
    for node, inputs in stops.items():
        _stop(copies[node], [copies[given] for given in inputs])
    for node in [node for node in copied.nodes if called_name(node) == SET_GRAD_ENABLED]:
        copied.erase_node(node)
    forward = GraphModule(graph, copied)
    forward.meta.update(graph.meta)
    return forward


def _find_stops(graph: GraphModule) -> dict[Node, list[Node]]:
    """Return the nodes that compute without gradients, and the differentiable values they read."""
    active: set[Node] = set()
    stops: dict[Node, list[Node]] = {}
    is_enabled = torch.is_grad_enabled()
    for node in graph.graph.nodes:
        _check_called(graph, node)
        read = [given for given in node.all_input_nodes if given in active and _is_float(given)]
        if called_name(node) == SET_GRAD_ENABLED:
            is_enabled = bool(node.args[0])
        elif called_name(node) == "_enter_inference_mode":
            raise _refusal(node, "switches gradients off or on")
        elif node.op == "placeholder":
            if any(tensor.requires_grad for tensor in example_tensors(node)):
                active.add(node)
        elif node.op == "output":
            pass
        elif read and called_name(node) == "detach":
            stops[node] = []
        elif (
            read
            and not is_enabled
            and all(map(_is_tensor, read))
            and not _returns_inputs(node, read)
        ):
            stops[node] = read
        elif read:
            _check_node(node)
            active.add(node)
    return stops


def _stop(node: Node, inputs: Sequence[Node]) -> None:
    """Stop the gradients of `inputs` of a node; without any, make a stop of the node itself."""
    for given in inputs:
        with node.graph.inserting_before(node):
            stopped = node.graph.call_function(STOP, (given,))
        stopped.meta.update(given.meta)
        node.replace_input_with(given, stopped)
    if not inputs:
        node.op, node.target, node.args, node.kwargs = "call_function", STOP, node.args[:1], {}


def _check_node(node: Node) -> None:
    """Check a node that computes from a value with a gradient."""
    if _is_float(node) and called_name(node) in _DETACHING:
        raise _refusal(node, "stops gradients")


def _check_memory(graph: GraphModule, stops: Mapping[Node, Sequence[Node]]) -> None:
    """Raise NotDerivedError if a tensor and its detached view are results or change in place."""
    sources = [source for node, read in stops.items() for source in read or [node]]
    detached = set(map(shared_memory, example_tensors(*sources)))
    for source in sources:
        # Tensors of one memory count its changes together.
        if any(x._version for x in example_tensors(source)):
            raise _refusal(source, "stops gradients of memory that is changed in place")
    results = _results(graph)
    active = {shared_memory(x) for x in results if x.requires_grad}
    if any(shared_memory(x) in active & detached for x in results if not x.requires_grad):
        raise NotDerivedError(
            "the graph returns both a tensor and its detached value",
            "no action is needed: PyTorch derives the gradients",
        )


def _check_called(graph: GraphModule, node: Node) -> None:
    """Check a node that calls another graph, and mark the nodes of a checkpointed one."""
    called = [
        getattr(graph, str(argument.target))
        for argument in node.all_input_nodes
        if argument.op == "get_attr"
        and isinstance(getattr(graph, str(argument.target), None), GraphModule)
    ]
    if called and called_name(node) != _CHECKPOINT:
        raise _refusal(node, "calls a function with its own backward")
    for module in called:
        for inner in module.graph.nodes:
            inner.meta["custom"] = {**(inner.meta.get("custom") or {}), CHECKPOINT: node.name}
            if called_name(inner) in (SET_GRAD_ENABLED, "detach", *_DETACHING):
                raise _refusal(inner, "stops gradients in a part that is recomputed")
            _check_called(module, inner)


def _refusal(node: Node, reason: str) -> NotDerivedError:
    return NotDerivedError(
        f"{node.name} {reason}", "no action is needed: PyTorch derives the gradients"
    )


def _is_tensor(node: Node) -> bool:
    return isinstance(node.meta.get("example_value"), torch.Tensor)


def _returns_inputs(node: Node, inputs: Iterable[Node]) -> bool:
    """Return whether a node returns some of its inputs, which nothing changes in place, such as a
    cast to the same type.

    Raises NotDerivedError if it returns other tensors, too.
    """
    given = set(map(id, example_tensors(*inputs)))
    returned = [id(x) in given for x in example_tensors(node)]
    if any(returned) and not all(returned):
        raise _refusal(node, "stops gradients of some of its results")
    return any(returned) and not any(x._version for x in example_tensors(node))


def _is_float(node: Node) -> bool:
    """Return whether a node returns floats, which could have a gradient."""
    dtypes = [tensor.dtype for tensor in example_tensors(node)]
    return any(dtype.is_floating_point or dtype.is_complex for dtype in dtypes)


def stop_updates(
    graph: GraphModule, traced: GraphModule, inputs: Sequence[ModelInput]
) -> list[int]:
    """Stop the gradients of the new values of inputs, which are the first results of a TorchDynamo
    graph as AOTAutograd `traced` it without gradients. `inputs` are those of `graph`.

    Gives the positions of the inputs that change. Raises NotDerivedError where one of them has a
    gradient.
    """
    output = traced.graph.output_node()
    described: Sequence[Any] = output.meta.get("desc") or ()
    changed = [each.mutated_input for each in described if hasattr(each, "mutated_input")]
    is_known = len(changed) == len(_leaves(traced)) - len(_leaves(graph))
    if not is_known or any(_may_require_gradient(each, inputs) for each in changed):
        raise NotDerivedError(
            "the graph changes an input in place that has a gradient",
            "no action is needed: PyTorch derives the gradients",
        )
    leaves: list[Any] = list(_leaves(traced))
    for number, leaf in enumerate(leaves[: len(changed)]):
        if isinstance(leaf, Node) and leaf.meta["val"].dtype.is_floating_point:
            with traced.graph.inserting_before(output):
                leaves[number] = traced.graph.call_function(STOP, (leaf,))
            leaves[number].meta.update(leaf.meta)
    output.args = (tuple(leaves),)
    traced.recompile()
    numbers = {getattr(each, "idx", None) for each in changed}
    placeholders = [node for node in traced.graph.nodes if node.op == "placeholder"]
    return [
        position
        for position, node in enumerate(placeholders)
        if getattr(node.meta.get("desc"), "idx", None) in numbers
    ]


def _may_require_gradient(changed: object, inputs: Sequence[ModelInput]) -> bool:
    index: object = getattr(changed, "idx", None)
    return not isinstance(index, int) or index >= len(inputs) or inputs[index].requires_grad


def _leaves(graph: GraphModule) -> Sequence[object]:
    leaves: Any = graph.graph.output_node().args[0]
    return leaves


def _results(graph: GraphModule) -> list[torch.Tensor]:
    nodes = [leaf for leaf in _leaves(graph) if isinstance(leaf, Node)]
    return list(example_tensors(*nodes))


def _check_views(graph: GraphModule) -> None:
    """Raise NotDerivedError for an output that shares memory with a differentiated input."""
    inputs = graph.graph.find_nodes(op="placeholder")
    given = {shared_memory(x) for x in example_tensors(*inputs) if x.requires_grad}
    if any(shared_memory(x) in given for x in _results(graph)):
        raise NotDerivedError(
            "the graph returns a view of an input",
            "no action is needed: PyTorch derives the gradients",
        )
