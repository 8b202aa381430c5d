"""Losses of ATen as operators of the dialect `coda`."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch.fx import Node

from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import (
    computes_in_float32,
    element_type_of,
    is_integer_tensor,
    shape_of,
)
from coda_ir.frontends.torch.importer import GraphImporter, Value
from coda_ir.frontends.torch.types import dims_of, element_type
from coda_ir.symbolic_shapes import dims_attribute

_REDUCTIONS = ("none", "mean", "sum")
"""The reductions, in the order of PyTorch's numbers."""

_DEFAULTS: tuple[object, ...] = (None, 1, -100, 0.0)
"""Weight of the classes, reduction, ignored class, label smoothing."""

_NEVER = -(2**31)
"""A number that is no class."""


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
    return graph.converted(loss, element_type(value.dtype))


def loss_rules(table: Mapping[Any, Callable[..., Any]]) -> Mapping[Any, Callable[..., Any]]:
    """Return decompositions of losses, and of logsumexp. `table` has those of PyTorch."""
    known: Any = torch.ops.aten
    logsumexp = known.logsumexp.default
    return {
        known.cross_entropy_loss.default: cross_entropy_of_rows,
        known.huber_loss.default: _huber_loss,
        known.smooth_l1_loss.default: _smooth_l1_loss,
        logsumexp: partial(_logsumexp_of_others, table[logsumexp]),
    }


def cross_entropy_of_rows(
    logits: torch.Tensor,
    target: torch.Tensor,
    weight: torch.Tensor | None = None,
    reduction: int = 1,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
) -> Any:
    """Decompose a cross entropy with smoothed labels, or of classes that are not the last
    dimension, into that of rows. Others stay whole.

    The smoothed part of a loss is that of equally probable classes, logsumexp(row) - mean(row).
    """
    is_whole = logits.dim() == 2 and label_smoothing == 0.0
    has_classes = logits.dim() > 1 and target.dim() == logits.dim() - 1
    if is_whole or not has_classes or weight is not None:
        return NotImplemented
    rows, target = logits.movedim(1, -1).flatten(0, -2), target.flatten()
    kind = _REDUCTIONS[reduction]
    if label_smoothing == 0.0:
        loss = F.cross_entropy(rows, target, ignore_index=ignore_index, reduction=kind)
    else:
        wide = rows.to(torch.promote_types(rows.dtype, torch.float32))
        counts = target != ignore_index
        sharp = F.cross_entropy(wide, target, ignore_index=ignore_index, reduction="none")
        even = torch.where(counts, wide.logsumexp(1) - wide.mean(1), 0.0)
        loss = torch.lerp(sharp, even, label_smoothing)
        if kind != "none":
            loss = loss.sum() / counts.sum() if kind == "mean" else loss.sum()
        loss = loss.to(logits.dtype)
    return loss.view(logits.movedim(1, -1).shape[:-1]) if kind == "none" else loss


def _logsumexp_of_others(
    decompose: Callable[..., Any], x: torch.Tensor, dim: Sequence[int], keepdim: bool = False
) -> Any:
    """Decompose a logsumexp over other dimensions than the last, which is an operator of the IR."""
    is_of_rows = x.is_floating_point() and list(dim) in ([-1], [x.dim() - 1])
    return NotImplemented if is_of_rows else decompose(x, dim, keepdim)


def _huber_loss(
    x: torch.Tensor, target: torch.Tensor, reduction: int = 1, delta: float = 1.0
) -> torch.Tensor:
    """Decompose a Huber loss, whose derivative is the limited difference, also where infinite."""
    return _limited_loss(x, target, reduction, delta, 1.0)


def _smooth_l1_loss(
    x: torch.Tensor, target: torch.Tensor, reduction: int = 1, beta: float = 1.0
) -> torch.Tensor:
    """Decompose a smooth L1 loss, which is a Huber loss over `beta`, like `_huber_loss`."""
    if beta == 0.0:
        return F.l1_loss(x, target, reduction=_REDUCTIONS[reduction])
    return _limited_loss(x, target, reduction, beta, beta)


def _limited_loss(
    x: torch.Tensor, target: torch.Tensor, reduction: int, limit: float, divisor: float
) -> torch.Tensor:
    dtype = torch.result_type(x, target)
    wide = torch.promote_types(dtype, torch.float32)
    difference = x.to(wide) - target.to(wide)
    limited = difference.clamp(-limit, limit)
    loss = limited / divisor * (difference - limited / 2)
    kind = _REDUCTIONS[reduction]
    if kind != "none":
        loss = loss.sum() if kind == "sum" else loss.mean()
    return loss.to(dtype)


def gather(graph: GraphImporter, node: Node) -> Value | None:
    """Import log probabilities of one class of each row: a negated cross entropy."""
    rows, dim, index = node.args[:3]
    if not isinstance(rows, Node) or not isinstance(index, Node) or not _is_of_rows(rows, dim):
        return None
    logits, number = graph.tensor(rows.args[0]), graph.tensor(index)
    (*extents, columns), after = dims_of(index.meta["val"]), dims_of(rows.meta["val"])
    is_narrow = computes_in_float32(element_type_of(logits))
    if columns != 1 or (*extents,) != after[:-1] or not is_narrow:
        return None
    ids = coda.ReshapeOp(number, shape_of(number)[:-1])
    ids.attributes["coda.dims"] = dims_attribute(tuple(extents))
    target = graph.insert(ids).result
    loss = coda.CrossEntropyOp(logits, target, ignore_index=_NEVER, reduction="none")
    negated = graph.insert(coda.NegOp(graph.insert(loss).result)).result
    column = graph.insert(coda.ReshapeOp(negated, shape_of(number))).result
    return graph.converted(column, element_type(node.meta["val"].dtype))


def _is_of_rows(rows: Node, dim: object) -> bool:
    """Return whether `rows` are log probabilities along their last dimension, which is `dim`."""
    if str(rows.target) not in ("aten._log_softmax.default", "aten.log_softmax.int"):
        return False
    last = (-1, rows.meta["val"].dim() - 1)
    return dim in last and rows.args[1] in last
