"""Import of ATen operators with a counterpart; handlers return None for what PyTorch runs."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch.fx import Node
from xdsl.dialects.builtin import DYNAMIC_INDEX
from xdsl.ir import SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import (
    element_type_of,
    is_float,
    shape_of,
    static_shape,
    stores_floats,
)
from coda_ir.frontends.torch.arguments import argument, arguments, result_dtype
from coda_ir.frontends.torch.attention import KERNELS, attention
from coda_ir.frontends.torch.gradient_stops import STOP
from coda_ir.frontends.torch.importer import GraphImporter, Handler, Value
from coda_ir.frontends.torch.losses import cross_entropy, gather
from coda_ir.frontends.torch.scaled_products import SCALED_PRODUCTS
from coda_ir.frontends.torch.state_spaces import imported_state_space
from coda_ir.frontends.torch.types import UNNAMED, dims_of, element_type, tensor_type
from coda_ir.passes.support.permuted import inverse
from coda_ir.storage import EXPAND
from coda_ir.symbolic_shapes import dims_attribute

END = 2**63 - 1
"""The end of a slice that names none."""


# Conversions


def cast(graph: GraphImporter, node: Node) -> Value | None:
    """Import a cast between float types, or nothing if only layout or device are named."""
    return _in_type_of_result(graph, node, arguments(node)[0])


def copied(graph: GraphImporter, node: Node) -> Value | None:
    """Import a copy into another tensor: return the source in the destination's type."""
    return _in_type_of_result(graph, node, arguments(node)[1])


def _in_type_of_result(graph: GraphImporter, node: Node, given: object) -> Value | None:
    x, dtype = graph.tensor(given), result_dtype(node)
    if element_type_of(x) == element_type(dtype):
        return x
    both_float = stores_floats(element_type_of(x)) and dtype.is_floating_point
    return graph.insert(coda.CastOp(x, element_type(dtype))).result if both_float else None


def same(graph: GraphImporter, node: Node) -> Value | None:
    """Import an operator that changes only the layout in memory: return its operand."""
    return graph.tensor(arguments(node)[0])


def detach(graph: GraphImporter, node: Node) -> Value | None:
    """Import a detach, as a constant of the backward if a gradient would flow through it."""
    (given,) = node.all_input_nodes
    if not graph.is_active(given):
        return graph.tensor(given)
    return graph.insert(coda.DetachOp(graph.tensor(given))).result


def stop_gradient(graph: GraphImporter, node: Node) -> Value | None:
    return graph.insert(coda.DetachOp(graph.tensor(arguments(node)[0]))).result


# Linear maps


def linear(graph: GraphImporter, node: Node) -> Value | None:
    x, weight = graph.tensor(arguments(node)[0]), graph.tensor(arguments(node)[1])
    given = argument(node, 2, "bias")
    bias = None if given is None else graph.tensor(given)
    operands = [x, weight] if bias is None else [x, weight, bias]
    if not _is_linear_map(x, weight) or not _same_float(operands):
        return None
    if bias is None or shape_of(bias) == shape_of(weight)[:1]:
        return graph.insert(coda.LinearOp(*operands)).result
    # A bias of one number, which PyTorch broadcasts.
    return graph.insert(coda.AddOp(graph.insert(coda.LinearOp(x, weight)).result, bias)).result


def matmul(graph: GraphImporter, node: Node) -> Value | None:
    x, weight = graph.tensor(arguments(node)[0]), graph.tensor(arguments(node)[1])
    if not _same_float([x, weight]):
        return None
    if _is_linear_map(x, weight):
        return graph.insert(coda.MatmulOp(x, weight)).result
    return _of_vector(graph, x, weight, node)


def _of_vector(graph: GraphImporter, x: SSAValue, vector: SSAValue, node: Node) -> Value | None:
    """Import the product of rows and a vector as a linear layer of one column."""
    columns = shape_of(vector)
    if len(columns) != 1 or len(shape_of(x)) < 2:
        return None
    weight = graph.insert(coda.ReshapeOp(vector, (1, *columns))).result
    if not _is_linear_map(x, weight):
        return None
    return _reshaped(graph, graph.insert(coda.LinearOp(x, weight)).result, node)


def addmm(graph: GraphImporter, node: Node) -> Value | None:
    bias, x, weight = (graph.tensor(operand) for operand in arguments(node)[:3])
    plain = node.kwargs.get("alpha", 1) == 1 and node.kwargs.get("beta", 1) == 1
    known = plain and _is_linear_map(x, weight) and len(shape_of(bias)) <= 1
    if not known or not _same_float([bias, x, weight]):
        return None
    product = graph.insert(coda.MatmulOp(x, weight)).result
    return graph.insert(coda.AddOp(product, bias)).result


def _is_linear_map(x: SSAValue, weight: SSAValue) -> bool:
    """Return whether N and K of a GEMM with `weight` are known, and nothing is empty."""
    rows, matrix = shape_of(x), shape_of(weight)
    is_known = len(matrix) == 2 and DYNAMIC_INDEX not in matrix
    return is_known and len(rows) >= 1 and 0 not in (*rows, *matrix)


def _same_float(values: list[SSAValue]) -> bool:
    types = {element_type_of(value) for value in values}
    return len(types) == 1 and is_float(types.pop())


# Rows


def softmax(graph: GraphImporter, node: Node) -> Value | None:
    """Import a softmax over a dimension, which becomes the last one if its extent is known."""
    x, dim = graph.operand(arguments(node)[0], result_dtype(node)), arguments(node)[1]
    if x is None or not shape_of(x):
        return None
    rank = len(shape_of(x))
    end = dim % rank + 1
    shape, after = shape_of(x)[:end], shape_of(x)[end:]
    if not after:
        return graph.insert(coda.SoftmaxOp(x)).result
    if set(after) == {1} and shape.count(DYNAMIC_INDEX) <= 1:
        rows = graph.insert(coda.ReshapeOp(x, shape)).result
        return _reshaped(graph, graph.insert(coda.SoftmaxOp(rows)).result, node)
    if shape[-1] == DYNAMIC_INDEX:
        return None
    order = (*range(end - 1), *range(end, rank), end - 1)
    rows = graph.insert(coda.TransposeOp(x, order)).result
    weights = graph.insert(coda.SoftmaxOp(rows)).result
    return graph.insert(coda.TransposeOp(weights, inverse(order))).result


def reduce(kind: str, *, negated: bool = False) -> Handler:
    """Import a reduction of the last dimension; where `negated`, of -x, and negate the result."""

    def handle(graph: GraphImporter, node: Node) -> Value | None:
        x, dims = graph.tensor(arguments(node)[0]), argument(node, 1, "dim")
        keepdim = argument(node, 2, "keepdim", False)
        last = len(shape_of(x)) - 1
        is_of_rows = last >= 0 and list(dims or ()) in ([-1], [last])
        if not is_of_rows or not is_float(element_type_of(x)):
            return None
        if negated:
            x = graph.insert(coda.NegOp(x)).result
        column = graph.insert(coda.ReduceOp(x, kind, element_type(result_dtype(node)))).result
        if negated:
            column = graph.insert(coda.NegOp(column)).result
        return column if keepdim else _reshaped(graph, column, node)

    return handle


def layer_norm(graph: GraphImporter, node: Node) -> Value | None:
    x, weight, bias = graph.tensor(arguments(node)[0]), argument(node, 2, "weight"), None
    bias = argument(node, 3, "bias")
    params = [graph.tensor(p) for p in (weight, bias) if p is not None]
    if len(argument(node, 1, "normalized_shape")) != 1 or not _same_float([x, *params]):
        return None
    eps, bias_only = argument(node, 4, "eps", 1e-5), weight is None and bias is not None
    return graph.insert(coda.LayerNormOp(x, params, eps=eps, bias_only=bias_only)).result


def rms_norm(graph: GraphImporter, node: Node) -> Value | None:
    x, weight = graph.tensor(arguments(node)[0]), argument(node, 2, "weight")
    params = [] if weight is None else [graph.tensor(weight)]
    if len(argument(node, 1, "normalized_shape")) != 1 or not _same_float([x, *params]):
        return None
    eps = argument(node, 3, "eps")
    if eps is None:
        eps = torch.finfo(_type_of_default_eps(result_dtype(node))).eps
    return graph.insert(coda.RMSNormOp(x, *params, eps=eps)).result


def _type_of_default_eps(dtype: torch.dtype) -> torch.dtype:
    """Return the type whose eps is the default: PyTorch computes in at least float32, and uses the
    eps of that type since 2.7.
    """
    major, minor = map(int, torch.__version__.split(".")[:2])
    return torch.promote_types(dtype, torch.float32) if (major, minor) >= (2, 7) else dtype


def embedding(graph: GraphImporter, node: Node) -> Value | None:
    """Import an embedding with its padding row, unless gradients are scaled or sparse."""
    table, ids = graph.tensor(arguments(node)[0]), graph.tensor(arguments(node)[1])
    padding = argument(node, 2, "padding_idx", -1)
    has_rule = argument(node, 3, "scale_grad_by_freq", False) or argument(node, 4, "sparse", False)
    if not isinstance(padding, int) or has_rule:
        return None
    padding_idx = padding if padding >= 0 else None
    return graph.insert(coda.EmbeddingOp(ids, table, padding_idx=padding_idx)).result


# Shape


def reshape(graph: GraphImporter, node: Node) -> Value | None:
    return _reshaped(graph, graph.tensor(arguments(node)[0]), node)


def view(graph: GraphImporter, node: Node) -> Value | None:
    """Import a reshape with the stated numbers, where PyTorch has quotients of symbols."""
    sizes = argument(node, 1, "size")
    dims = dims_of(node.meta["val"])
    if UNNAMED not in dims or len(sizes) != len(dims):
        return reshape(graph, node)
    pairs = zip(sizes, dims, strict=True)
    known = [s if d == UNNAMED and isinstance(s, int) and s > 0 else d for s, d in pairs]
    if known.count(UNNAMED) > 1:
        # A call of PyTorch computes them.
        return None
    reshaped = graph.insert(coda.ReshapeOp(graph.tensor(arguments(node)[0]), static_shape(known)))
    reshaped.attributes["coda.dims"] = dims_attribute(tuple(known))
    return reshaped.result


def _reshaped(graph: GraphImporter, x: SSAValue, node: Node) -> Value | None:
    shape = tensor_type(node.meta["val"]).get_shape()
    if shape == shape_of(x) and shape.count(DYNAMIC_INDEX) <= 1:
        return x
    reshaped = graph.insert(coda.ReshapeOp(x, shape))
    return reshaped.result


def permute(graph: GraphImporter, node: Node) -> Value | None:
    x, order = graph.tensor(arguments(node)[0]), argument(node, 1, "dims")
    rank = len(shape_of(x))
    return graph.insert(coda.TransposeOp(x, [axis % rank for axis in order])).result


def transpose(graph: GraphImporter, node: Node) -> Value | None:
    x = graph.tensor(arguments(node)[0])
    order = list(range(len(shape_of(x))))
    if len(order) < 2:
        return x
    a, b = (
        (axis % len(order) for axis in arguments(node)[1:3]) if len(arguments(node)) > 1 else (0, 1)
    )
    order[a], order[b] = order[b], order[a]
    return graph.insert(coda.TransposeOp(x, order)).result


def slice_(graph: GraphImporter, node: Node) -> Value | None:
    dim: int = argument(node, 1, "dim", 0) % max(1, node.meta["val"].dim())
    x = graph.tensor(_before_expansion(arguments(node)[0], dim, of=node.meta["val"]))
    start, stop = argument(node, 2, "start") or 0, argument(node, 3, "end")
    stop = END if stop is None else stop
    if argument(node, 4, "step", 1) != 1 or not isinstance(start, int):
        return None
    extent = shape_of(x)[dim]
    if start == 0 and stop == END:
        return x
    if extent == DYNAMIC_INDEX or not isinstance(stop, int):
        return None
    taken = range(extent)[start:stop]
    stop = max(taken.start, taken.stop)
    return graph.insert(coda.SliceOp(x, dim, taken.start, stop)).result


def _before_expansion(given: Any, dim: int, of: torch.Tensor) -> Any:
    """Return the operand of an `expand` of dimension `dim` alone, if `of` has one index of it."""
    if not isinstance(given, Node) or str(given.target) != EXPAND:
        return given
    source: Any = given.args[0]
    before, after = list(source.meta["val"].shape), list(given.meta["val"].shape)
    after[dim] = 1
    return source if before == after and of.numel() == source.meta["val"].numel() else given


def select(graph: GraphImporter, node: Node) -> Value | None:
    """Import the selection of one index of a dimension of known extent."""
    given, index = arguments(node)[0], arguments(node)[2]
    dim: int = arguments(node)[1] % given.meta["val"].dim()
    source = _before_expansion(given, dim, of=node.meta["val"])
    x = graph.tensor(source)
    if source is not given:
        return _reshaped(graph, x, node)
    extent = shape_of(x)[dim]
    if extent == DYNAMIC_INDEX or not isinstance(index, int):
        return None
    start = index % extent
    return _reshaped(graph, graph.insert(coda.SliceOp(x, dim, start, start + 1)).result, node)


def split(graph: GraphImporter, node: Node) -> Value | None:
    """Import `split` and `chunk` into parts of known size."""
    x, dim = graph.tensor(arguments(node)[0]), argument(node, 2, "dim", 0)
    dim %= len(shape_of(x))
    parts: list[SSAValue] = []
    start = 0
    for part in node.meta["val"]:
        size: Any = part.shape[dim]
        if not isinstance(size, int):
            return None
        parts.append(graph.insert(coda.SliceOp(x, dim, start, start + size)).result)
        start += size
    return parts


def unfold(graph: GraphImporter, node: Node) -> Value | None:
    """Import windows of whole steps as these steps side by side, each from a slice of x."""
    x, (dim, size, step) = graph.tensor(arguments(node)[0]), arguments(node)[1:4]
    shape, windows = shape_of(x), tensor_type(node.meta["val"]).get_shape()
    dim %= max(1, len(shape))
    is_whole = bool(shape) and size > 0 == size % step and size // step <= MAX_STEPS
    if not is_whole or shape.count(DYNAMIC_INDEX) > (shape[dim] != DYNAMIC_INDEX):
        return None
    count, parts = windows[dim], list[SSAValue]()
    for start in range(0, size, step):
        part, stop = x, start + count * step
        if (start, stop) != (0, shape[dim]):
            part = graph.insert(coda.SliceOp(x, dim, start, stop)).result
        steps = (*shape[:dim], count, step, *shape[dim + 1 :])
        parts.append(graph.insert(coda.ReshapeOp(part, steps)).result)
    joined = graph.insert(coda.ConcatOp(parts, dim + 1)).result if len(parts) > 1 else parts[0]
    order = (*range(dim + 1), *range(dim + 2, len(shape) + 1), dim + 1)
    return graph.insert(coda.TransposeOp(joined, order)).result


MAX_STEPS = 8
"""Steps of a window that are slices: one kernel concatenates as many."""


def concat(graph: GraphImporter, node: Node) -> Value | None:
    dtype = result_dtype(node)
    parts = [graph.operand(part, dtype) for part in arguments(node)[0]]  # pyright: ignore
    if any(part is None or not shape_of(part) for part in parts):
        return None
    rank = len(shape_of(parts[0]))  # pyright: ignore
    if any(len(shape_of(part)) != rank for part in parts):  # pyright: ignore
        return None
    joined = graph.insert(coda.ConcatOp(parts, argument(node, 1, "dim", 0) % rank)).result  # pyright: ignore
    shape = tensor_type(node.meta["val"]).get_shape()
    # PyTorch may know the sum of symbolic extents, from a weight that multiplies the result.
    if shape_of(joined) == shape:
        return joined
    return graph.insert(coda.ReshapeOp(joined, shape)).result


def pad(graph: GraphImporter, node: Node) -> Value | None:
    """Import padding by a number; negative counts drop elements."""
    given, counts = arguments(node)[:2]
    is_constant = str(node.target).startswith("aten.constant_pad_nd")
    mode = "constant" if is_constant else argument(node, 2, "mode", "constant")
    x, padded = graph.tensor(given), dims_of(node.meta["val"])
    number: Any = argument(node, 2 if is_constant else 3, "value") or 0
    value = float(number) if is_float(element_type_of(x)) else int(number)
    around = {dim: pair for dim, pair in _around(counts, len(padded)) if pair != (0, 0)}
    is_known = mode == "constant" and all(_can_pad(x, value, *pair) for pair in around.items())
    # What pads nothing goes when patterns have seen the reshapes around it.
    if not is_known or not around:
        return None
    dims = list(dims_of(given.meta["val"]))
    for dim, (before, after) in around.items():
        if _is_shift(x, value, dim, (before, after)):
            x = graph.insert(coda.ShiftOp(x, before)).result
            continue
        if min(before, after) < 0:
            stop = shape_of(x)[dim] + min(0, after)
            x = graph.insert(coda.SliceOp(x, dim, max(0, -before), stop)).result
        op = coda.PadOp.around(x, dim, max(0, before), max(0, after), value)
        dims[dim] = padded[dim]
        if op.after is not None:
            op.attributes["coda.dims"] = dims_attribute(tuple(dims))
        x = graph.insert(op).result
    return x


def _around(counts: Sequence[Any], rank: int) -> Iterable[tuple[int, tuple[Any, Any]]]:
    """Return the dimensions that PyTorch pads, the last one first, and the numbers of elements."""
    return zip(reversed(range(rank)), zip(counts[::2], counts[1::2], strict=True), strict=False)


def _can_pad(x: SSAValue, value: float, dim: int, around: tuple[Any, Any]) -> bool:
    """Return whether the counts are numbers, and valid for a slice where they drop elements."""
    if not all(isinstance(count, int) for count in around):
        return False
    dropped = sum(-count for count in around if count < 0)
    return not dropped or dropped <= shape_of(x)[dim] or _is_shift(x, value, dim, around)


def _is_shift(x: SSAValue, value: float, dim: int, around: tuple[int, int]) -> bool:
    """Return whether as many rows are dropped at one end as zeros are added at the other."""
    return not value and sum(around) == 0 and dim == len(shape_of(x)) - 2


def getitem(graph: GraphImporter, node: Node) -> Value | None:
    values, index = graph.value(arguments(node)[0]), arguments(node)[1]
    assert isinstance(values, Sequence) and isinstance(index, int)
    return values[index]


HANDLERS: dict[str, Callable[[GraphImporter, Node], Value | None]] = {
    "aten._to_copy.default": cast,
    "prims.convert_element_type.default": cast,
    "aten.clone.default": same,
    "aten.lift_fresh_copy.default": same,
    "aten.copy.default": copied,
    "aten.alias.default": same,
    "aten.detach.default": detach,
    str(STOP): stop_gradient,
    "aten.contiguous.default": same,
    "prims.copy_strided.default": same,
    "aten.linear.default": linear,
    "aten.mm.default": matmul,
    "aten.matmul.default": matmul,
    "aten.addmm.default": addmm,
    **SCALED_PRODUCTS,
    "aten.softmax.int": softmax,
    "aten._softmax.default": softmax,
    "aten.mean.dim": reduce("mean"),
    "aten.sum.dim_IntList": reduce("sum"),
    "aten.logsumexp.default": reduce("lse"),
    "aten.amax.default": reduce("max"),
    "aten.amin.default": reduce("max", negated=True),
    "aten.layer_norm.default": layer_norm,
    "aten.rms_norm.default": rms_norm,
    "aten.embedding.default": embedding,
    "aten.cross_entropy_loss.default": cross_entropy,
    "aten.gather.default": gather,
    "aten.view.default": view,
    "aten._unsafe_view.default": view,
    "aten.reshape.default": view,
    "aten.unsqueeze.default": reshape,
    "aten.squeeze.dim": reshape,
    "aten.squeeze.dims": reshape,
    "aten.permute.default": permute,
    "aten.transpose.int": transpose,
    "aten.t.default": transpose,
    "aten.slice.Tensor": slice_,
    "aten.select.int": select,
    "aten.pad.default": pad,
    "aten.constant_pad_nd.default": pad,
    "aten.split.Tensor": split,
    "aten.split_with_sizes.default": split,
    "aten.unfold.default": unfold,
    "aten.cat.default": concat,
    **dict.fromkeys(KERNELS, attention),
    "<built-in function getitem>": getitem,
    "coda_ir.state_space.default": imported_state_space,
}
"""Importers by name of the overload."""
