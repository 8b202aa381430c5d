"""Graphs of TorchDynamo that transform a part of themselves, as `torch.func.grad` does."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

from torch.fx import GraphModule

_TRANSFORMS = ("torch._C._functorch", "torch._functorch", "torch.autograd")


def transforms_itself(graph: GraphModule) -> bool:
    """Return whether a part is batched or differentiated while the graph runs (`torch.func`,
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


def has_distributed_tensors(inputs: Sequence[Any]) -> bool:
    """Return whether an input is a DTensor, which has rules for the operators that ATen decomposes
    others to, and none for `linear`.
    """
    distributed: Any = import_module("torch.distributed")
    if not (distributed.is_available() and distributed.is_initialized()):
        return False
    kind = import_module("torch.distributed.tensor").DTensor
    return any(isinstance(x, kind) for x in inputs)
