"""Graphs of TorchDynamo whose backward this compiler derives, as the graphs of their forward.

AOTAutograd traces such a graph as if no gradients were needed, so that norms, linear maps and
attention stay whole. What only PyTorch's autograd knows would be lost on the way: places where
gradients stop, and functions with a backward of their own. A graph with them is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

from torch.fx import GraphModule, Node

from coda_ir.diagnostics import CodaError
from coda_ir.frontends.torch.types import CHECKPOINT, tensors_in

_INTERNALS: Any = import_module("torch._C")
_SET_GRAD_ENABLED: object = getattr(_INTERNALS, "_set_grad_enabled")  # noqa: B009
_CHECKPOINT = "tag_activation_checkpoint"
_DETACHING = frozenset({"detach", "detach_", "requires_grad_", "data"})


class NotDerivedError(CodaError):
    """A graph whose gradients are left to PyTorch's autograd."""


def forward_graph(graph: GraphModule) -> GraphModule:
    """A copy of `graph` that does not switch gradients on and off, to be traced without them.

    Raises NotDerivedError where the gradients would not be those of PyTorch.
    """
    _check_gradients_flow(graph)
    copied = import_module("torch.fx").Graph()
    copied.output(copied.graph_copy(graph.graph, {}))
    for node in [node for node in copied.nodes if node.target is _SET_GRAD_ENABLED]:
        copied.erase_node(node)
    forward = GraphModule(graph, copied)
    forward.meta.update(graph.meta)
    return forward


def _check_gradients_flow(graph: GraphModule) -> None:
    active: set[Node] = set()
    is_enabled = True
    for node in graph.graph.nodes:
        if node.target is _SET_GRAD_ENABLED:
            is_enabled = bool(node.args[0])
        elif _requires_gradient(node) if node.op == "placeholder" else _reads(node, active):
            _check_node(node, is_enabled=is_enabled)
            active.add(node)
        _check_called(graph, node)


def _check_node(node: Node, *, is_enabled: bool) -> None:
    """Check a node that computes from what has a gradient."""
    if not _is_float(node):
        return
    if not is_enabled:
        raise _refusal(node, "computes without gradients from what has one")
    if _name(node) in _DETACHING:
        raise _refusal(node, "stops gradients")


def _check_called(graph: GraphModule, node: Node) -> None:
    """Check a node that calls another graph, and mark the nodes of a checkpointed one."""
    called = [
        getattr(graph, str(argument.target))
        for argument in node.all_input_nodes
        if argument.op == "get_attr"
        and isinstance(getattr(graph, str(argument.target), None), GraphModule)
    ]
    if called and _name(node) != _CHECKPOINT:
        raise _refusal(node, "calls a part with gradients of its own")
    for module in called:
        for inner in module.graph.nodes:
            inner.meta["custom"] = {**(inner.meta.get("custom") or {}), CHECKPOINT: node.name}
            if inner.target is _SET_GRAD_ENABLED or _name(inner) in _DETACHING:
                raise _refusal(inner, "stops gradients in a part that is computed again")
            _check_called(module, inner)


def _refusal(node: Node, reason: str) -> NotDerivedError:
    return NotDerivedError(f"{node.name} {reason}", "nothing to do: PyTorch derives the gradients")


def _name(node: Node) -> str:
    """The name of what a node calls: `detach` for `x.detach()` and `torch.detach(x)`."""
    if node.op == "call_function" and node.target is getattr:
        return str(node.args[1])
    target: Any = node.target
    return str(getattr(target, "__name__", target))


def _requires_gradient(node: Node) -> bool:
    return any(tensor.requires_grad for tensor in tensors_in(node.meta.get("example_value")))


def _reads(node: Node, active: set[Node]) -> bool:
    return any(argument in active for argument in node.all_input_nodes)


def _is_float(node: Node) -> bool:
    """Whether a node gives numbers that could have a gradient."""
    tensors = list(tensors_in(node.meta.get("example_value")))
    return any(tensor.dtype.is_floating_point or tensor.dtype.is_complex for tensor in tensors)


def check_traced() -> None:
    """Check what AOTAutograd found out about the graph that it traced without gradients.

    Raises NotDerivedError for inputs that change, and for outputs that share memory with an input
    that has a gradient: their place in PyTorch's graph is lost.
    """
    metadata = _traced()
    if any(i.mutates_data or i.mutates_metadata for i in metadata.input_info):
        raise NotDerivedError(
            "the graph changes an input in place", "nothing to do: PyTorch derives the gradients"
        )
    for output in metadata.output_info:
        base = output.base_idx
        if "input" in output.output_type.name and metadata.input_info[base].requires_grad:
            raise NotDerivedError(
                "the graph returns a view of an input",
                "nothing to do: PyTorch derives the gradients",
            )


def inputs_with_gradients() -> Sequence[bool]:
    """For each input of the graph that AOTAutograd traced, whether it requires a gradient."""
    return [bool(i.requires_grad) for i in _traced().input_info]


def _traced() -> Any:
    context: Any = import_module("torch._guards").TracingContext.try_get()
    assert context is not None and context.fw_metadata is not None, "AOTAutograd is at work"
    return context.fw_metadata
