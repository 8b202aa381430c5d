"""The derivative operators of the block level, each as a small function on tensors.

Derivatives of single operators are PyTorch's own, so that they check the formulas of the compiled
code instead of repeating them.
"""

from collections.abc import Callable, Sequence
from functools import reduce

import torch

from coda_ir.backends.reference.attention import attention_grad
from coda_ir.backends.reference.block_ops import activation, of_operator
from coda_ir.backends.reference.numerics import (
    Handlers,
    Numerics,
    check_index,
    grouped_product_of,
    product_of,
)
from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import shape_of

Tensors = Sequence[torch.Tensor]

aten = torch.ops.aten


_OF_RESULT: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "sigmoid": aten.sigmoid_backward.default,
    "tanh": aten.tanh_backward.default,
}
"""Derivatives of activations that take dy and the result."""


def activation_grad(op: coda.ActivationGradOp, operands: Tensors, _: Numerics) -> Tensors:
    domain = operands[0] + operands[1]
    x, dy = (operand.expand_as(domain) for operand in operands)
    name = op.activation.data
    if name in coda.DERIVED_FROM_RESULT:
        return [_OF_RESULT[name](dy, x)]
    with torch.enable_grad():
        leaf = x.detach().requires_grad_()
        return torch.autograd.grad(activation(name, leaf), leaf, dy)


def maximum_grad(op: coda.MaximumGradOp, operands: Tensors, _: Numerics) -> Tensors:
    a, b, dy = operands
    if op.bound is not None:
        return [torch.where(a >= b, dy, 0.0)]
    return [torch.where(a == b, dy / 2, dy).where(~(a < b), 0.0)]


def weight_gradient(op: coda.WeightGradientOp, operands: Tensors, _: Numerics) -> Tensors:
    # Without columns, the rows do not follow from the number of elements.
    dy, x = (each.reshape(each.shape[:-1].numel(), each.shape[-1]) for each in operands)
    return [product_of(dy.T, x)]


def sum_to(op: coda.SumToOp, operands: Tensors, numerics: Numerics) -> Tensors:
    (x,) = operands
    dims = op.summed_dims
    summed = numerics.rounded_once(lambda x: x.sum(dims, keepdim=True), x) if dims else x
    missing = x.dim() - len(shape_of(op.result))
    return [summed.reshape(summed.shape[missing:])]


def broadcast(op: coda.BroadcastOp, operands: Tensors, _: Numerics) -> Tensors:
    x, *like = operands
    if like:
        return [x.expand(like[0].shape)]
    stated = shape_of(op.result)
    # A dynamic extent is one that x has.
    return [x.expand([extent if extent >= 0 else -1 for extent in stated])]


def pad(op: coda.PadOp, operands: Tensors, _: Numerics) -> Tensors:
    x, *like = operands
    dim, start = op.range[:2]
    shape = list(x.shape)
    if op.after is not None:
        shape[dim] += start + op.after.value.data
    else:
        shape[dim] = like[0].shape[dim] if like else shape_of(op.result)[dim]
    result = x.new_full(shape, op.number)
    result.narrow(dim, start, x.shape[dim]).copy_(x)
    return [result]


def cross_entropy_grad(op: coda.CrossEntropyGradOp, operands: Tensors, _: Numerics) -> Tensors:
    logits, target, dloss, *lse = operands
    if op.start is None:
        check_index(op, op.target, target, logits.shape[-1], op.ignore_index.value.data)
    counts = target != op.ignore_index.value.data
    chosen = target.where(counts, 0).long()[..., None]
    share = torch.exp(reduce(torch.sub, lse, logits)) if lse else torch.softmax(logits, -1)
    here = torch.ones_like(chosen, dtype=torch.bool)
    if op.start is not None:
        chosen = chosen - op.first_column
        here = (chosen >= 0) & (chosen < logits.shape[-1])
    share = share.scatter_add(-1, chosen.where(here, 0), -here.to(share.dtype))
    if op.reduction.data == "mean":
        dloss = dloss / counts.sum()
    row = dloss if dloss.dim() == 0 else dloss[..., None]
    gradient = torch.where(counts[..., None], share * row, 0.0)
    moment = (logits * gradient).sum(-1, keepdim=True)
    return [gradient] if op.moment is None else [gradient, moment]


def embedding_grad(op: coda.EmbeddingGradOp, operands: Tensors, numerics: Numerics) -> Tensors:
    ids, dy, *like = operands
    rows = like[0].shape[0] if like else shape_of(op.result)[0]
    if numerics.device is None:
        check_index(op, op.ids, ids, rows)
    result = dy.new_zeros(rows, dy.shape[-1])
    result.index_add_(0, ids.reshape(-1).long(), dy.reshape(-1, dy.shape[-1]))
    if op.padding is not None and op.padding < rows:
        result[op.padding] = 0
    return [result]


GRADIENT_HANDLERS: Handlers = {
    coda.ActivationGradOp: activation_grad,
    coda.MaximumGradOp: maximum_grad,
    coda.WeightGradientOp: weight_gradient,
    coda.GroupedWeightGradientOp: of_operator(
        lambda _, dy, x, ends: grouped_product_of(dy.T, x, ends)
    ),
    coda.SumToOp: sum_to,
    coda.BroadcastOp: broadcast,
    coda.PadOp: pad,
    coda.AttentionGradOp: attention_grad,
    coda.CrossEntropyGradOp: cross_entropy_grad,
    coda.EmbeddingGradOp: embedding_grad,
}
