"""Regions of an exported program that compute without gradients."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node

_REGION = "wrap_with_set_grad_enabled"
"""The operator of `torch.export` for a region under `torch.no_grad` or `torch.enable_grad`.
Regions are not nested.
"""


def with_stopped_gradients(program: ExportedProgram) -> ExportedProgram:
    """A program that detaches what its regions without gradients return: decompositions inline
    these regions, and would lose them. A program without such regions is returned as it is.
    """
    if not _results_without_gradients(program.graph_module):
        return program
    graph_module: GraphModule = copy.deepcopy(program.graph_module)
    for result in _results_without_gradients(graph_module):
        _detach(result)
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


def _results_without_gradients(graph_module: GraphModule) -> list[Node]:
    """The nodes that take a result of floats out of a region without gradients."""
    regions = [
        node
        for node in graph_module.graph.nodes
        if getattr(node.target, "__name__", "") == _REGION and node.args[0] is False
    ]
    results = (user for region in regions for user in region.users)
    return [node for node in results if _is_float(node)]


def _is_float(node: Node) -> bool:
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and value.dtype.is_floating_point


def _detach(result: Node) -> None:
    """Let a node detach what it gave before; it keeps its name, which the signature may have."""
    graph = result.graph
    with graph.inserting_before(result):
        given = graph.node_copy(result, lambda node: node)
    result.target = torch.ops.aten.detach.default
    result.args = (given,)
