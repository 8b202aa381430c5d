"""Graphs of TorchDynamo that transform a part of themselves, as `torch.func.grad` does."""

from __future__ import annotations

from torch.fx import GraphModule

_TRANSFORMS = ("torch._C._functorch", "torch._functorch", "torch.autograd")


def transforms_itself(graph: GraphModule) -> bool:
    """Whether a part is batched or differentiated while the graph runs (`torch.func`,
    `torch.autograd.grad`), for which PyTorch's own rules for every operator in it are needed.
    """
    return any(
        _module(node.target).startswith(_TRANSFORMS)
        for module in graph.modules()
        if isinstance(module, GraphModule)
        for node in module.graph.nodes
    )


def _module(target: object) -> str:
    return str(getattr(target, "__module__", None) or "")
