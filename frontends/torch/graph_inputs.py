"""Graphs from TorchDynamo and AOTAutograd, prepared for the importer."""

import math
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from pathlib import PurePath
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node
from torch.fx.experimental.symbolic_shapes import statically_known_true
from torch.fx.node import map_arg
from torch.nn.functional import scaled_dot_product_attention

from coda_ir.diagnostics import ModelError
from coda_ir.frontends.torch.decompositions import losses_of_rows, normalized_channels
from coda_ir.frontends.torch.importer import GraphInput, GraphSource
from coda_ir.frontends.torch.losses import cross_entropy_of_rows
from coda_ir.frontends.torch.types import (
    called_name,
    dims_of,
    dotted_name,
    example_tensors,
    location_of,
    shared_memory,
    symbolic_text,
    tensors_in,
)
from coda_ir.remarks import source_position
from coda_ir.symbolic_size import format_sizes

SET_GRAD_ENABLED = "_set_grad_enabled"
"""The name of what a graph of TorchDynamo calls to switch gradients on and off."""


class NothingToDo(ModelError):
    """A graph that this backend cannot improve."""


WEIGHTS = ("_parameters", "_buffers")
"""The attributes by which TorchDynamo reaches the parameters and the buffers of a module."""


@dataclass(frozen=True)
class ModelInput:
    """An input of a graph of TorchDynamo."""

    name: str = ""
    """The path of a parameter or a buffer, or the name of an argument; empty without a name."""
    is_weight: bool = False
    """True if the input is a parameter or a buffer."""
    requires_grad: bool = False


MIN_ROWS = 512
"""The least product of the sizes of a captured call for which schedules are chosen."""


def rounded_sizes(sizes: Mapping[str, int]) -> dict[str, int]:
    """Round sizes of symbols to an eighth of a power of two, so that similar calls find the same
    program in the cache; none if their product is small, which says little about later calls.
    """
    if math.prod(sizes.values()) < MIN_ROWS:
        return {}
    steps = {symbol: max(1, (1 << size.bit_length()) // 16) for symbol, size in sizes.items()}
    return {symbol: round(sizes[symbol] / step) * step for symbol, step in steps.items()}


class DynamoGraph:
    """A functional graph of AOTAutograd: parameters are inputs like any other, and so are sizes.

    Raises CodaError for a graph on several devices.
    """

    def __init__(
        self,
        module: GraphModule,
        model_inputs: Sequence[ModelInput] = (),
        updated: Sequence[int] = (),
        *,
        is_backward: bool = False,
    ):
        """Set up the graph. `model_inputs` is the result of `model_inputs`, and `updated` are the
        positions of the inputs whose new values are the last results. A backward graph has no
        weights.
        """
        graph = module.graph
        self._model_inputs = model_inputs
        self._is_backward = is_backward
        self.updated = tuple(updated)
        placeholders: list[Node] = [node for node in graph.nodes if node.op == "placeholder"]
        self._positions = {node: position for position, node in enumerate(placeholders)}
        self.places = _places_of_symbols(placeholders)
        """The input that determines each symbol, with its axis if the symbol is not the input."""
        self.sizes: dict[Node, Node] = {}
        """Stand-ins for the inputs that are sizes of no tensor, by the stand-in."""
        self.inputs: list[GraphInput] = [self._input(node) for node in placeholders]
        leaves: Any = graph.output_node().args[0]
        self.source = GraphSource(graph, [*self.inputs, *_constants_of(module)], list(leaves))
        self.device = _device_of(self.source)
        self._check_updated(placeholders)

    def _check_updated(self, placeholders: Sequence[Node]) -> None:
        for position in self.updated:
            node = placeholders[position]
            if node.meta["val"].device != self.device:
                raise ModelError(
                    f"the graph changes {node.name}, which is on another device",
                    f"move it to {self.device}",
                )

    def position(self, node: Node) -> int:
        """Return the number of an input among those of the graph."""
        return self._positions[self.sizes.get(node, node)]

    def requires_grad(self, node: Node) -> bool:
        """Return whether an input requires a gradient in the model."""
        return self._in_model(node).requires_grad

    def _in_model(self, node: Node) -> ModelInput:
        """Return an input as the model has it, if AOTAutograd identifies it."""
        index: Any = getattr(node.meta.get("desc"), "idx", None)
        known = isinstance(index, int) and index < len(self._model_inputs)
        return self._model_inputs[index] if known else ModelInput()

    @property
    def size_hints(self) -> dict[str, int]:
        """The sizes of the symbols in the captured call; none for those that depend on data."""
        hints: dict[str, int] = {}
        for node in self._positions:
            value: Any = node.meta.get("val")
            sizes: Any = getattr(value, "shape", (value,))
            for size in sizes:
                text = symbolic_text(size) if isinstance(size, torch.SymInt) else ""
                known: Any = getattr(size, "node", None)
                if text.isidentifier() and known.has_hint():
                    hints.setdefault(text, int(known.hint))
        return hints

    @property
    def schedule(self) -> str | None:
        """The options of the pass `schedule` for the sizes of the captured call."""
        sizes = rounded_sizes(self.size_hints)
        return f'sizes="{format_sizes(sizes)}"' if sizes else None

    def _input(self, node: Node) -> GraphInput:
        value: Any = node.meta.get("val")
        symbol = _symbol_of(value)
        if symbol is None or self.places[symbol][1] is not None:
            position = self._positions[node]
            found, is_updated = self._in_model(node), position in self.updated
            is_weight = found.is_weight and not is_updated and not self._is_backward
            name = found.name or node.name
            return GraphInput(node, name, is_weight=is_weight, is_updated=is_updated)
        if not value.node.has_hint() and not statically_known_true(value >= 0):
            raise ModelError(
                f"the graph reads {node.name}, a number from a tensor, which may be negative",
                "move code with item() or tolist() out of the compiled function",
            )
        # PyTorch compiles the graph again for a number on the other side of this condition.
        if value < 0:
            raise ModelError(
                "the graph reads a number that differs between calls and is negative in this one",
                "pass it as a tensor",
            )
        stand_in = Node(node.graph, f"{node.name}_size", "placeholder", node.name, (), {})
        zero = _tensor_of(node.graph).new_zeros(1, dtype=torch.float32)
        stand_in.meta["val"] = zero.expand(value)
        self.sizes[stand_in] = node
        return GraphInput(stand_in, stand_in.name)


def model_inputs(graph: GraphModule) -> list[ModelInput]:
    """Return the inputs of TorchDynamo's graph by position. Inputs that share a name have none."""
    inputs = [_model_input(node) for node in graph.graph.nodes if node.op == "placeholder"]
    names = [each.name for each in inputs]
    return [each if names.count(each.name) == 1 else replace(each, name="") for each in inputs]


def _model_input(node: Node) -> ModelInput:
    value: object = node.meta.get("example_value")
    path: object = getattr(_source_of(node), "name", "")
    if not isinstance(value, torch.Tensor) or not isinstance(path, str):
        return ModelInput()
    is_weight = isinstance(value, torch.nn.Parameter) or any(name in path for name in WEIGHTS)
    return ModelInput(
        dotted_name(path, of_module=_is_of_module(node)), is_weight, value.requires_grad
    )


def described_graph(graph: GraphModule) -> str:
    """Describe a graph for messages by the place of its first operator in the model."""
    nodes = [node for node in graph.graph.nodes if node.op == "call_function"]
    for position in map(source_position, map(location_of, nodes)):
        if position is not None:
            return f"the graph of {PurePath(position[0]).name}:{position[1]}"
    return "a graph"


def _symbol_of(value: object) -> str | None:
    text = symbolic_text(value) if isinstance(value, torch.SymInt) else ""
    return text if text.isidentifier() else None


def _places_of_symbols(placeholders: Sequence[Node]) -> dict[str, tuple[int, int | None]]:
    numbers: dict[str, tuple[int, int | None]] = {}
    extents: dict[str, tuple[int, int | None]] = {}
    for position, node in enumerate(placeholders):
        value: object = node.meta.get("val")
        symbol = _symbol_of(value)
        if symbol is not None:
            numbers.setdefault(symbol, (position, None))
        elif isinstance(value, torch.Tensor):
            for axis, dim in enumerate(dims_of(value)):
                if isinstance(dim, str) and dim.isidentifier():
                    extents.setdefault(dim, (position, axis))
    return numbers | extents


def _tensor_of(graph: Graph) -> torch.Tensor:
    """Return a (fake) tensor of a graph. Raises NothingToDo if there is none."""
    for node in graph.nodes:
        for tensor in tensors_in(node.meta.get("val")):
            return tensor
    raise NothingToDo("the graph has no tensors", "no action is needed: there is nothing to fuse")


def _constants_of(module: GraphModule) -> list[GraphInput]:
    """Return tensors that are part of the graph, such as `torch.tensor([1, 2])` in the model."""
    nodes = [node for node in module.graph.nodes if node.op == "get_attr"]
    values: list[tuple[Node, object]] = [(node, getattr(module, node.target)) for node in nodes]
    return [
        GraphInput(node, node.name, value, is_constant=True)
        for node, value in values
        if isinstance(value, torch.Tensor)
    ]


def _device_of(source: GraphSource) -> torch.device:
    """Return the device of inputs and outputs. Raises CodaError if there are several, or none."""
    # A number on the CPU goes with tensors anywhere, as in PyTorch, but it is returned there.
    inputs = [i.node.meta.get("val") for i in source.inputs if i.weight is None]
    outputs = [leaf.meta.get("val") for leaf in source.outputs if isinstance(leaf, Node)]
    devices = {x.device for x in inputs if isinstance(x, torch.Tensor) and x.dim()}
    devices |= {x.device for x in outputs if isinstance(x, torch.Tensor)}
    if len(devices) == 1:
        return devices.pop()
    if not devices:
        raise NothingToDo(
            "the graph has no tensors", "no action is needed: there is nothing to fuse"
        )
    raise ModelError(
        f"the graph has tensors on {len(devices)} devices: {', '.join(sorted(map(str, devices)))}",
        "move the model and its inputs to one device",
    )


def needs_gradients(graph: GraphModule, example_inputs: Sequence[object]) -> bool:
    """Return whether AOTAutograd must trace a backward graph."""
    required = any(isinstance(x, torch.Tensor) and x.requires_grad for x in example_inputs)
    enables = any(called_name(n) == SET_GRAD_ENABLED and True in n.args for n in graph.graph.nodes)
    return required and (torch.is_grad_enabled() or enables)


def fix_numbers_of_modules(graph: GraphModule) -> None:
    """Make float attributes of modules constants of a graph of TorchDynamo.

    With dynamic shapes they arrive as tensors, so that an epsilon would be data. A guard on the
    value is added: a model whose numbers change is compiled again.
    """
    for node in list(graph.graph.nodes):
        if node.op != "call_method" or node.target != "item" or len(node.args) != 1:
            continue
        (owner,) = node.args
        value = node.meta.get("example_value")
        if isinstance(value, torch.SymFloat) and _is_of_module(owner):
            _replace_by_number(node, float(value))
            graph.graph.erase_node(node)
    graph.recompile()


def _source_of(owner: object) -> object:
    """Return the path by which TorchDynamo reaches a placeholder from the traced code."""
    argument = owner.meta.get("grapharg") if isinstance(owner, Node) else None
    return getattr(argument, "source", None)


def _is_of_module(owner: object) -> bool:
    """Return whether a placeholder is an attribute of a module, not an argument of the function."""
    source = _source_of(owner)
    while source is not None:
        if "NNModule" in type(source).__name__:
            return True
        source = getattr(source, "base", None)
    return False


def _replace_by_number(node: Node, number: float) -> None:
    def replaced(argument: Node) -> Any:
        return number if argument is node else argument

    for user in list(node.users):
        user.args = map_arg(user.args, replaced)
        user.kwargs = map_arg(user.kwargs, replaced)


_WHOLE = """
batch_norm.default conv1d.default conv1d.padding conv2d.default conv2d.padding
cross_entropy_loss.default group_norm.default layer_norm.default linear.default matmul.default
pad.default rms_norm.default scaled_dot_product_attention.default softmax.int
"""
WHOLE_OPERATORS = _WHOLE.split()
"""Those of `KEPT_OPERATORS` that PyTorch decomposes before AOTAutograd sees them."""


@contextmanager
def keep_operators_whole(*, is_differentiated: bool = False) -> Generator[None]:
    """Within the context, norms, linear layers and attention stay whole when AOTAutograd traces
    without gradients, as in `coda_ir.export`.

    In a graph that is differentiated, attention with dropout is its products, a softmax and a
    dropout: the operator has no derivative, as it would draw other numbers in the backward.
    """
    with losses_of_rows(), _kept_whole(is_differentiated=is_differentiated):
        yield


def _kept_whole(*, is_differentiated: bool) -> AbstractContextManager[None]:
    # Only `torch.export` has a documented way to keep these operators, and it cannot take a graph
    # of TorchDynamo with its sizes. Without this function the passes raise the decompositions.
    exported = import_module("torch.export.exported_program")
    keep = getattr(exported, "_override_composite_implicit_decomp", None)
    if keep is None:
        return nullcontext()
    rules: dict[Any, Callable[..., object]] = dict.fromkeys(
        map(_overload, WHOLE_OPERATORS), _not_decomposed
    )
    rules[_overload("batch_norm.default")] = _updating_statistics
    rules[_overload("cross_entropy_loss.default")] = cross_entropy_of_rows
    attention = partial(_attention_of_four_axes, decomposes_dropout=is_differentiated)
    rules[_overload("scaled_dot_product_attention.default")] = attention
    return keep(rules)


def _overload(name: str) -> Any:
    packet, overload = name.split(".")
    return getattr(getattr(torch.ops.aten, packet), overload)


def _not_decomposed(*args: object, **kwargs: object) -> object:
    return NotImplemented


def _updating_statistics(
    x: torch.Tensor,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    mean: torch.Tensor | None,
    variance: torch.Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool,
) -> object:
    """Decompose a batch norm in training into an operator that says that it updates its running
    statistics, as cuDNN's does not; otherwise into pointwise code.

    Where PyTorch's meta kernel says float32 of what has 16 bits, all but `x` is float32: on a CPU
    statistics that are kept for the backward, elsewhere running ones.
    """
    if not training and mean is not None and variance is not None:
        return normalized_channels(x, weight, bias, mean, variance, eps)
    operator: Any = torch.ops.aten.native_batch_norm
    stored = [each for each in (mean, variance) if each is not None]
    is_stated = x.device.type != "cpu" and all(each.dtype != x.dtype for each in stored)
    if is_stated or x.dtype not in (torch.bfloat16, torch.float16):
        return operator(x, weight, bias, mean, variance, training, momentum, eps)[0]
    if weight is None:
        weight = torch.ones(x.shape[1], device=x.device)
    if bias is None:
        bias = torch.zeros(x.shape[1], device=x.device)
    wide = [each.float() for each in stored]
    params = (weight.float(), bias.float(), *(wide or (None, None)))
    result = operator(x, *params, training, momentum, eps)[0]
    for each, updated in zip(stored, wide, strict=True):
        each.copy_(updated)
    return result


def _attention_of_four_axes(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    decomposes_dropout: bool,
    **options: Any,
) -> object:
    """Decompose attention with more than four axes into one with four, for which there are kernels:
    PyTorch computes the products of the others in float32. Attention with four axes stays whole,
    with operands repeated for the batch and the heads of the others.

    With `decomposes_dropout`, attention with dropout becomes what eager PyTorch computes on a CPU.
    """
    if dropout_p != 0.0:
        if not decomposes_dropout:
            return NotImplemented
        decomposed: Any = torch.ops.aten._scaled_dot_product_attention_math
        return decomposed(q, k, v, attn_mask, dropout_p, is_causal, **options)[0]
    outer = q.shape[:-2]
    is_same = outer == k.shape[:-2] == v.shape[:-2]
    if not is_same and not options.get("enable_gqa"):
        outer = torch.broadcast_shapes(outer, k.shape[:-2], v.shape[:-2])
        # Kernels read one head of k and v for all heads of q.
        if q.shape[:-2] != outer or not k.shape[:-2] == v.shape[:-2] == (*outer[:-1], 1):
            q, k, v = (x.expand(*outer, *x.shape[-2:]) for x in (q, k, v))
            return scaled_dot_product_attention(q, k, v, attn_mask, 0.0, is_causal, **options)
    if q.ndim <= 4 or not is_same or options.get("enable_gqa"):
        return NotImplemented
    if attn_mask is not None and attn_mask.ndim > 3:
        attn_mask = attn_mask.expand(*outer, *attn_mask.shape[-2:]).flatten(0, -4)
    q, k, v = (x.flatten(0, -4) for x in (q, k, v))
    found = scaled_dot_product_attention(q, k, v, attn_mask, 0.0, is_causal, **options)
    return found.unflatten(0, outer[:-1])


def reason_for_eager(graph: GraphModule) -> str | None:
    """Return why AOTAutograd cannot make a graph of TorchDynamo functional, because of how it uses
    the memory of its inputs, or None.

    A view by strides, or a copy of it, has an absolute place in memory, and no guard holds where
    the input begins.
    """
    given = [*example_tensors(*graph.graph.find_nodes(op="placeholder"))]
    memories = set(map(shared_memory, given))
    names = ("as_strided", "as_strided_copy")
    strided = [node for node in graph.graph.nodes if called_name(node) in names]
    read = [x for node in strided for x in example_tensors(*node.all_input_nodes)]
    if any(shared_memory(x) in memories for x in read):
        return (
            "as_strided reads an input, whose place in its memory differs between calls\n"
            "  help: use views that keep to dimensions, such as unfold, or index the tensor"
        )
    if any(x._version and _repeats_elements(x) for x in given):
        return (
            "an expanded input, whose elements share memory, is changed in place\n"
            "  help: change a copy, such as x.clone()"
        )
    return None


def _repeats_elements(x: torch.Tensor) -> bool:
    """Return whether `x` was expanded, so that some of its elements share memory."""
    pairs = zip(x.shape, x.stride(), strict=True) if x.layout is torch.strided else ()
    return any(stride == 0 and size != 1 for size, stride in pairs)


def has_distributed_tensors(inputs: Sequence[Any]) -> bool:
    """Return whether an input is a DTensor, which has no rules for `linear`."""
    distributed: Any = import_module("torch.distributed")
    if not (distributed.is_available() and distributed.is_initialized()):
        return False
    kind = import_module("torch.distributed.tensor").DTensor
    return any(isinstance(x, kind) for x in inputs)
