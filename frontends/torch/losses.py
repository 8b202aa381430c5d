"""Losses of ATen as operators of the dialect `coda`."""

import torch
from torch.fx import Node

from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import (
    computes_in_float32,
    element_type_of,
    is_integer_tensor,
    shape_of,
)
from coda_ir.frontends.torch.importer import GraphImporter, Value
from coda_ir.frontends.torch.types import element_type

_REDUCTIONS = ("none", "mean", "sum")
"""The reductions, in the order of PyTorch's numbers."""

_DEFAULTS: tuple[object, ...] = (None, 1, -100, 0.0)
"""Weight of the classes, reduction, ignored class, label smoothing."""


def cross_entropy(graph: GraphImporter, node: Node) -> Value | None:
    """`cross_entropy_loss` of rows of logits and the numbers of their classes."""
    given: tuple[object, ...] = node.args
    names = ("weight", "reduction", "ignore_index", "label_smoothing")
    options = [*given[2:], *_DEFAULTS[len(given) - 2 :]]
    weight, reduction, ignored, smoothing = (
        node.kwargs.get(name, option) for name, option in zip(names, options, strict=True)
    )
    if weight is not None or smoothing != 0.0 or not isinstance(ignored, int):
        return None
    logits, target = graph.tensor(given[0]), graph.tensor(given[1])
    has_rows = len(shape_of(logits)) == 2 and len(shape_of(target)) == 1
    is_narrow = computes_in_float32(element_type_of(logits))
    if not has_rows or not is_narrow or not is_integer_tensor(target):
        return None
    assert isinstance(reduction, int)
    kind = _REDUCTIONS[reduction]
    loss = graph.insert(
        coda.CrossEntropyOp(logits, target, ignore_index=ignored, reduction=kind)
    ).result
    value = node.meta["val"]
    assert isinstance(value, torch.Tensor)
    wanted = element_type(value.dtype)
    return (
        loss if element_type_of(loss) == wanted else graph.insert(coda.CastOp(loss, wanted)).result
    )
