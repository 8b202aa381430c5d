"""Regions without gradients of exported programs, and an operator that stops gradients."""

import copy
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node


@torch.library.custom_op("coda_ir::stop_gradient", mutates_args=())
def _stop_gradient(x: torch.Tensor) -> torch.Tensor:
    """Return x as a constant of the backward; unlike detach, the call stays in traced graphs."""
    return x.clone()


_operator: Any = _stop_gradient  # has no complete types
_operator.register_fake(torch.empty_like)


def _no_gradient(ctx: Any, gradient: torch.Tensor) -> None:
    return None


_operator.register_autograd(_no_gradient)

STOP: Any = torch.ops.coda_ir.stop_gradient.default

_REGION = "wrap_with_set_grad_enabled"
"""The operator of `torch.export` for a region under `no_grad` or `enable_grad`; none is nested."""


def with_stopped_gradients(program: ExportedProgram) -> ExportedProgram:
    """Return a program in which regions without gradients are inlined, with their results detached.

    Decompositions would inline them, too, and lose where gradients stop and where the operators
    come from. A program without such regions is returned as it is.
    """
    if not _regions(program.graph_module):
        return program
    graph_module: GraphModule = copy.deepcopy(program.graph_module)
    for region in _regions(graph_module):
        _inline(graph_module, region)
    graph_module.recompile()
    given: Any = program
    return ExportedProgram(
        graph_module,
        graph_module.graph,
        program.graph_signature,
        program.state_dict,
        given.range_constraints,
        program.module_call_graph,
        program.example_inputs,
        program.constants,
        verifiers=given.verifiers,
    )


def _regions(graph_module: GraphModule) -> list[Node]:
    """Return the calls of regions without gradients."""
    nodes = graph_module.graph.nodes
    calls = (node for node in nodes if getattr(node.target, "__name__", "") == _REGION)
    return [node for node in calls if node.args[0] is False]


def _inline(graph_module: GraphModule, region: Node) -> None:
    """Inline a region. Its results keep their names, which the signature may use."""
    body: Any = region.args[1]
    called: Any = graph_module.get_submodule(body.target)
    inputs = [node for node in called.graph.nodes if node.op == "placeholder"]
    values: dict[Node, Any] = dict(zip(inputs, region.args[2:], strict=True))
    with region.graph.inserting_before(region):
        results: Any = region.graph.graph_copy(called.graph, values)
        for node in called.graph.nodes:
            if node.op == "get_attr":
                _adopt(graph_module, called, values[node])
    for result in list(region.users):
        result.target = torch.ops.aten.detach.default
        result.args = (results[result.args[1]],)
    region.graph.erase_node(region)
    if not body.users:
        region.graph.erase_node(body)


def _adopt(graph_module: GraphModule, called: GraphModule, node: Node) -> None:
    """Give `graph_module` the attributes that `node`, copied from `called`, reads."""
    name = f"{node.name}_attribute"
    setattr(graph_module, name, getattr(called, str(node.target)))
    node.target = name
