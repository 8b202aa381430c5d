"""Attention in graphs of AOTAutograd, where PyTorch's dispatcher has replaced it by a kernel."""

from collections import Counter
from collections.abc import Iterable
from math import prod
from typing import Any, NamedTuple

import torch
from torch.fx import GraphModule, Node

from coda_ir.cost_model.comparison import decomposed_attention_us
from coda_ir.cost_model.devices import Device
from coda_ir.cost_model.memory_times import EXTENT, kernel_us
from coda_ir.cost_model.operator_times import GRADIENT_PRODUCTS
from coda_ir.dialects.torch import ATTENTION, CallOp
from coda_ir.frontends.torch.importer import GraphImporter, Value
from coda_ir.frontends.torch.types import dims_of, parameter_names, tensor_type, used_results
from coda_ir.symbolic_shapes import dims_attribute

KERNELS = tuple(
    f"aten._scaled_dot_product_{name}.default"
    for name in (
        "flash_attention",
        "flash_attention_for_cpu",
        "efficient_attention",
        "cudnn_attention",
        "fused_attention_overrideable",
    )
)
"""The operators of ATen that `scaled_dot_product_attention` chooses from."""


def attention(graph: GraphImporter, node: Node) -> Value | None:
    """Import a chosen kernel as the general attention operator, if only its attention is used.

    A graph whose backward needs the log-sum-exp keeps the kernel.
    """
    results = used_results(node)
    arguments = _arguments_by_name(node)
    if set(results) != {0} or arguments.get("dropout_p"):
        return None
    mask = arguments.get("attn_bias") or arguments.get("attn_mask")
    given = [arguments[name] for name in ("query", "key", "value")] + ([mask] if mask else [])
    operands = [graph.tensor(operand) for operand in given]
    text = [f"{{{number}}}" for number in range(len(operands))]
    text += ["is_causal=True"] if arguments.get("is_causal") else []
    scale = arguments.get("scale")
    text += [] if scale is None else [f"scale={scale!r}"]
    call = CallOp(ATTENTION, operands, ", ".join(text), [tensor_type(results[0])])
    call.attributes["coda.dims"] = dims_attribute(dims_of(results[0]))
    return [graph.insert(call).outputs[0]]


def _arguments_by_name(node: Node) -> dict[str, Any]:
    """Return the arguments of a node by the parameters of its operator, without defaults."""
    return {**dict(zip(parameter_names(node), node.args, strict=False)), **node.kwargs}


class MaskedAttention(NamedTuple):
    """Additional microseconds of masked attention in a graph over attention without masks.

    PyTorch chooses kernels without the score matrix where it sees a mask that these can read, which
    it often does not see while it traces.
    """

    us: float
    by_cudnn: float
    """The share for which cuDNN has kernels, which store no scores. Nor do those that PyTorch
    chooses instead where a mask is trained.
    """
    unread: float
    """The share for masks that no kernel of PyTorch reads, as their keys are not side by side in
    memory. It stores the scores there; a program stores the mask in another order.

    On an H200, a step of attention with a trained bias that is gathered from a table by position,
    in 8 x 1024 tokens with 16 heads of 64, took 3.8 ms as a program and 14.3 by Inductor.
    """


def masked_attention(
    graph: GraphModule, device: Device, *, is_trained: bool = False
) -> MaskedAttention:
    """Return the times of a graph, with the backward if it is trained."""
    us = by_cudnn = unread = 0.0
    for node in _attention_in(graph):
        given = _arguments_by_name(node)
        if given.get("attn_mask") is None:
            continue
        names = ("query", "key", "value", "attn_mask")
        q, k, v, mask = (given[name].meta["val"] for name in names)
        *queries, width = q.shape
        scores = _numel((*queries, k.shape[-2]))
        masked = decomposed_attention_us(scores, int(width), device)
        us += masked
        by_cudnn += masked if _has_cudnn_kernel(q, k, v, mask) else 0.0
        unread += masked if mask.stride(-1) != 1 else 0.0
    factor = 1 + GRADIENT_PRODUCTS if is_trained else 1
    return MaskedAttention(us * factor, by_cudnn * factor, unread * factor)


def _attention_in(graph: GraphModule) -> list[Node]:
    return [node for node in graph.graph.nodes if str(node.target) == ATTENTION]


def _has_cudnn_kernel(q: Any, k: Any, v: Any, mask: Any) -> bool:
    cuda: Any = torch.backends.cuda
    is_grouped = q.shape[1] != k.shape[1]
    return cuda.can_use_cudnn_attention(cuda.SDPAParams(q, k, v, mask, 0.0, False, is_grouped))


def copied_us(graph: GraphModule, device: Device, *, is_trained: bool = False) -> float:
    """Microseconds in which a compiler stores operands of attention once more because the graph
    states their order in memory, and which programs of this compiler do not need.

    What is computed of a product otherwise is stored in any order. The parts of a copy, such as
    those of a packed projection, are stored one by one. With the backward, the gradients of a copy
    are put back in a kernel, and a copy with several parts is also stored whole. On an H100, 8192
    rows of 1024 columns for each of q, k and v took 37 us, and the backward 62 more.
    """
    operands = dict.fromkeys(operand for node in _attention_in(graph) for operand in node.args[:3])
    copies = {x: copy for x in operands if (copy := _copy_of_product(x)) is not None}
    moved = [min(x, copy, key=_bytes) for x, copy in copies.items()]
    if is_trained:
        parts = Counter(copies.values())
        moved += [*parts, *(copy for copy, count in parts.items() if count > 1)]
    return sum(kernel_us(2 * _bytes(x), device) for x in moved)


_VIEWS = frozenset(
    f"aten.{name}"
    for name in (
        *("view.default", "_unsafe_view.default", "transpose.int", "permute.default"),
        *("expand.default", "unsqueeze.default", "slice.Tensor"),
        *("select.int", "squeeze.dim", "squeeze.dims"),
    )
)
_PRODUCTS = frozenset(("aten.linear.default", "aten.addmm.default", "aten.mm.default"))


def _copy_of_product(node: Node) -> Node | None:
    """The copy in another order after `node`, if it is one of a product of matrices; the product
    if a compiler stores it once more to add its bias.
    """
    copy: Node | None = None
    while str(node.target) in _VIEWS or str(node.target) == "aten.clone.default":
        (source, *_) = node.args
        assert isinstance(source, Node), "a view of a tensor"
        if node.meta["val"].stride() != source.meta["val"].stride():
            copy = node if str(node.target) == "aten.clone.default" else copy
        node = source
    if str(node.target) not in _PRODUCTS:
        return None
    return node if copy is None and _adds_bias_apart(node) else copy


def _adds_bias_apart(product: Node) -> bool:
    """Return whether PyTorch splits a linear map into product and sum: its rows are no matrix."""
    x, *_, bias = product.args
    is_linear = str(product.target) == "aten.linear.default" and len(product.args) > 2
    return is_linear and bias is not None and not x.meta["val"].is_contiguous()


def _bytes(node: Node) -> int:
    tensor = node.meta["val"]
    return tensor.element_size() * _numel(tensor.shape)


def _numel(extents: Iterable[Any]) -> int:
    return prod(extent if isinstance(extent, int) else EXTENT for extent in extents)
