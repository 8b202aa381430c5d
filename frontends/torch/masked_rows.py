"""Rows that a mask selects, as models of images and text place the features of images."""

import operator
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.fx.experimental.symbolic_shapes import statically_known_true

from coda_ir.frontends.torch.types import graphs_in


def masked_scatter(x: torch.Tensor, mask: torch.Tensor, source: torch.Tensor) -> Any:
    """Decompose storing the rows of `source`, in order, at the rows of `x` that a mask selects.

    PyTorch numbers all elements of the mask, which for `mask.unsqueeze(-1).expand_as(x)` are the
    same along each row; here, its rows are numbered. Other masks are left to PyTorch.
    """
    columns = x.shape[-1] if x.dim() > 1 else None
    is_of_rows = mask.dim() == x.dim() and (mask.shape[-1] == 1 or mask.stride(-1) == 0)
    if columns is None or not is_of_rows or source.dim() < 2 or source.shape[-1] != columns:
        return NotImplemented
    table = source.reshape(-1, columns)
    if table.shape[0] == 0:
        return NotImplemented
    is_row_stored = mask.select(-1, 0).expand(x.shape[:-1])
    is_stored = is_row_stored.reshape(-1)
    # Rows that are not stored read all rows of the table alike, so that none has a sum of many
    # zeros as its gradient.
    positions = torch.arange(is_stored.shape[0], device=x.device) % table.shape[0]
    number = torch.where(is_stored, is_stored.cumsum(0) - 1, positions)
    rows = torch.nn.functional.embedding(number.view(x.shape[:-1]), table)
    return torch.where(is_row_stored.unsqueeze(-1), rows, x)


def select_masked_rows(graph: GraphModule) -> None:
    """Replace `x[mask] = value` in a graph of TorchDynamo by `x.copy_(torch.where(...))`.

    All elements that the mask selects get the same value, or each gets its own element of `value`,
    whose number is not compared with that of the mask. AOTAutograd cannot trace the gradients of a
    number of elements that depends on data.
    """
    for module in graphs_in(graph):
        for node in list(module.graph.nodes):
            if node.target is operator.setitem:
                _select(node)
        module.recompile()


def _select(node: Node) -> None:
    """Replace `x[mask] = value`, if the shape of `value` allows that, and `x` can be copied to."""
    stored, index, value = node.args
    mask, *others = index if isinstance(index, tuple) else (index,)
    x, selected = _tensor(stored), _tensor(mask)
    if x is None or selected is None or any(other not in (slice(None), ...) for other in others):
        return
    inner = x.dim() - selected.dim()
    is_mask = selected.dtype == torch.bool and selected.dim() > 0 and selected.device == x.device
    # PyTorch refuses to copy to expanded tensors.
    is_expanded = any(statically_known_true(stride == 0) for stride in x.stride())
    if not is_mask or is_expanded or not x.is_floating_point():
        return
    if _is_empty(value):
        node.graph.erase_node(node)
        return
    is_same = _is_same_for_all(value, x, inner)
    if not is_same and not _has_one_for_each(value, x, inner):
        return
    graph = node.graph
    with graph.inserting_before(node):
        columns: Any = (..., *(None for _ in range(inner)))
        is_stored = graph.call_function(operator.getitem, (mask, columns))
        if is_same:
            chosen = graph.call_function(torch.where, (is_stored, value, stored))
        else:
            chosen = graph.call_function(masked_scatter, (stored, is_stored, value))
        copy = graph.call_method("copy_", (stored, chosen))
    is_stored.meta.update(node.meta, example_value=selected[columns])
    chosen.meta.update(node.meta, example_value=torch.empty_like(x))
    copy.meta.update(node.meta)
    graph.erase_node(node)


def _tensor(node: object) -> torch.Tensor | None:
    value: object = node.meta.get("example_value") if isinstance(node, Node) else None
    return value if isinstance(value, torch.Tensor) else None


def _is_empty(value: object) -> bool:
    tensor = _tensor(value)
    return tensor is not None and statically_known_true(tensor.numel() == 0)


def _is_same_for_all(value: object, x: torch.Tensor, inner: int) -> bool:
    """Return whether a stored value is a number, or one element of the `inner` last axes of `x`."""
    tensor = _tensor(value)
    if tensor is None:
        return isinstance(value, int | float)
    is_one = tensor.dim() <= inner or (
        tensor.dim() == inner + 1 and statically_known_true(tensor.shape[0] == 1)
    )
    return is_one and _has_type_of(tensor, x)


def _has_one_for_each(value: object, x: torch.Tensor, inner: int) -> bool:
    """Return whether a stored value has at least two elements of the `inner` last axes of `x`."""
    tensor = _tensor(value)
    if tensor is None or inner == 0 or tensor.dim() != inner + 1:
        return False
    sizes = zip(tensor.shape[1:], x.shape[-inner:], strict=True)
    has_sizes = all(statically_known_true(size == of_x) for size, of_x in sizes)
    has_several = statically_known_true(tensor.shape[0] > 1)
    return has_sizes and has_several and _has_type_of(tensor, x)


def _has_type_of(tensor: torch.Tensor, x: torch.Tensor) -> bool:
    return tensor.dtype == x.dtype and tensor.device == x.device
