"""The graphs that TorchDynamo and AOTAutograd hand to a backend, prepared for the importer."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from importlib import import_module
from pathlib import PurePath
from typing import Any

import torch
from torch.fx import GraphModule, Node

from coda_ir.diagnostics import CodaError
from coda_ir.frontends.torch.capture import KEPT_OPERATORS
from coda_ir.frontends.torch.importer import GraphInput, GraphSource
from coda_ir.frontends.torch.types import dims_of, dotted_name, location_of, symbolic_text
from coda_ir.remarks import source_position

_INTERNALS: Any = import_module("torch._C")


class NothingToDo(CodaError):
    """A graph that this backend has nothing to improve in."""


class DynamoGraph:
    """A functional graph of AOTAutograd: parameters are inputs like any other, and so are sizes.

    Raises CodaError for a graph on several devices.
    """

    def __init__(
        self,
        module: GraphModule,
        weights: Collection[int] = (),
        updated: Sequence[int] = (),
        names: Sequence[str] = (),
    ):
        """`weights` are the positions of the inputs that are parameters or buffers, `updated` of
        those whose new values are the last results; `names` is what `input_names` gives.
        """
        graph = module.graph
        self._names = names
        self._weights = frozenset(weights).difference(updated)
        self.updated = tuple(updated)
        placeholders: list[Node] = [node for node in graph.nodes if node.op == "placeholder"]
        self._positions = {node: position for position, node in enumerate(placeholders)}
        self.places = _places_of_symbols(placeholders)
        """Which input and which of its axes tell a symbol; no axis where it is the input."""
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
                raise CodaError(
                    f"the graph changes {node.name}, which is on another device",
                    f"move it to {self.device}",
                )

    def position(self, node: Node) -> int:
        """The number of an input among those of the graph."""
        return self._positions[self.sizes.get(node, node)]

    def _name_of(self, node: Node) -> str:
        """What an input is called in the model, where AOTAutograd says which one it is."""
        index: object = getattr(node.meta.get("desc"), "idx", None)
        known = isinstance(index, int) and index < len(self._names)
        return (self._names[index] if known else "") or node.name

    @property
    def size_hints(self) -> dict[str, int]:
        """The sizes of the symbols in the call that the graph was captured in, where PyTorch may
        know them (a size may depend on data).
        """
        hints: dict[str, int] = {}
        for node in self._positions:
            value: object = node.meta.get("val")
            sizes = value.shape if isinstance(value, torch.Tensor) else (value,)
            for size in sizes:
                text = symbolic_text(size) if isinstance(size, torch.SymInt) else ""
                if text.isidentifier() and size.node.has_hint():
                    hints.setdefault(text, int(size.node.hint))
        return hints

    def _input(self, node: Node) -> GraphInput:
        value: object = node.meta.get("val")
        symbol = _symbol_of(value)
        if symbol is None or self.places[symbol][1] is not None:
            position = self._positions[node]
            is_weight, is_updated = position in self._weights, position in self.updated
            name = self._name_of(node)
            return GraphInput(node, name, is_weight=is_weight, is_updated=is_updated)
        stand_in = Node(node.graph, f"{node.name}_size", "placeholder", node.name, (), {})
        stand_in.meta["val"] = _extent_of_size(value)
        self.sizes[stand_in] = node
        return GraphInput(stand_in, stand_in.name)


def input_names(graph: GraphModule) -> list[str]:
    """What the tensors that a graph of TorchDynamo takes are called in the model, by position: the
    paths of parameters and buffers, and the names of arguments. Empty for what has no name, or
    shares it with another.
    """
    names: list[str] = []
    for node in graph.graph.nodes:
        if node.op != "placeholder":
            continue
        path: object = getattr(_source_of(node), "name", "")
        is_tensor = isinstance(node.meta.get("example_value"), torch.Tensor)
        is_named = is_tensor and isinstance(path, str)
        names.append(dotted_name(path, of_module=_is_of_module(node)) if is_named else "")
    return [name if names.count(name) == 1 else "" for name in names]


def weight_positions() -> Collection[int]:
    """Which inputs of the graph that AOTAutograd compiles are parameters and buffers.

    Not for backward graphs, whose inputs are others.
    """
    context: Any = import_module("torch._guards").TracingContext.try_get()
    metadata: Any = None if context is None else context.fw_metadata
    return () if metadata is None else tuple(metadata.static_input_indices)


def described_graph(graph: GraphModule) -> str:
    """A graph by the place in the model of its first operator, for messages."""
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


def _extent_of_size(size: Any) -> torch.Tensor:
    """A (fake) tensor of which a size is the extent, so that the function is told it."""
    fake_mode: Any = import_module("torch._guards").detect_fake_mode()
    with fake_mode:
        return torch.zeros(1).expand(size)


def _constants_of(module: GraphModule) -> list[GraphInput]:
    """Tensors that are part of the graph, such as `torch.tensor([1, 2])` in the model."""
    nodes = [node for node in module.graph.nodes if node.op == "get_attr"]
    values: list[tuple[Node, object]] = [(node, getattr(module, node.target)) for node in nodes]
    return [
        GraphInput(node, node.name, value)
        for node, value in values
        if isinstance(value, torch.Tensor)
    ]


def _device_of(source: GraphSource) -> torch.device:
    """The device of inputs and outputs. Raises CodaError where there are several, or none."""
    # A number on the CPU goes with tensors anywhere, as in PyTorch, but it is returned there.
    inputs = [i.node.meta.get("val") for i in source.inputs if i.weight is None]
    outputs = [leaf.meta.get("val") for leaf in source.outputs if isinstance(leaf, Node)]
    devices = {x.device for x in inputs if isinstance(x, torch.Tensor) and x.dim()}
    devices |= {x.device for x in outputs if isinstance(x, torch.Tensor)}
    if len(devices) == 1:
        return devices.pop()
    if not devices:
        raise NothingToDo("the graph has no tensors", "nothing to do: it is not for this backend")
    raise CodaError(
        f"the graph has tensors on {len(devices)} devices: {', '.join(sorted(map(str, devices)))}",
        "move the model and its inputs to one device",
    )


def needs_gradients(graph: GraphModule, example_inputs: Sequence[object]) -> bool:
    """Whether AOTAutograd has to look for a backward graph."""
    required = any(isinstance(x, torch.Tensor) and x.requires_grad for x in example_inputs)
    set_grad: object = getattr(_INTERNALS, "_set_grad_enabled")  # noqa: B009
    enables = any(node.target is set_grad and True in node.args for node in graph.graph.nodes)
    return required and (torch.is_grad_enabled() or enables)


def fix_numbers_of_modules(graph: GraphModule) -> None:
    """Make the floats that modules have as attributes constants of a graph of TorchDynamo.

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
    """By which path from the variables of the traced code TorchDynamo reaches a placeholder."""
    argument = owner.meta.get("grapharg") if isinstance(owner, Node) else None
    return getattr(argument, "source", None)


def _is_of_module(owner: object) -> bool:
    """Whether a placeholder is an attribute of a module, not an argument of the function."""
    source = _source_of(owner)
    while source is not None:
        if "NNModule" in type(source).__name__:
            return True
        source = getattr(source, "base", None)
    return False


def _replace_by_number(node: Node, number: float) -> None:
    def replaced(argument: Node) -> Any:
        return number if argument is node else argument

    map_arguments: Any = getattr(import_module("torch.fx.node"), "map_arg")  # noqa: B009
    for user in list(node.users):
        user.args = map_arguments(user.args, replaced)
        user.kwargs = map_arguments(user.kwargs, replaced)


@cache
def whole_operators() -> Mapping[Any, Callable[..., Any]]:
    """The operators that PyTorch decomposes by itself unless it is told to keep them."""
    return {
        overload: _not_decomposed
        for name in sorted(KEPT_OPERATORS)
        for overload in _overloads(name)
        if overload._can_decompose() and not _aliases(overload)
    }


def _overloads(name: str) -> list[Any]:
    packet: Any = getattr(torch.ops.aten, name)
    # TorchScript has overloads, such as split.str, that the dispatcher lacks.
    known = [
        overload
        for overload in packet.overloads()
        if _INTERNALS._dispatch_has_kernel(f"aten::{name}.{overload}".removesuffix(".default"))
    ]
    return [getattr(packet, overload) for overload in known]


def _aliases(overload: Any) -> bool:
    arguments = [*overload._schema.arguments, *overload._schema.returns]
    return any(argument.alias_info is not None for argument in arguments)


def _not_decomposed(*args: object, **kwargs: object) -> object:
    return NotImplemented


@contextmanager
def keep_operators_whole() -> Generator[None]:
    """While AOTAutograd traces a graph without gradients: norms, linear maps and attention stay
    the operators that `coda_ir.export` sees, instead of their decompositions.
    """
    exported: Any = import_module("torch.export.exported_program")
    token = _own_kernels.set(
        {operator: dict(operator.py_kernels) for operator in whole_operators()}
    )
    try:
        with exported._override_composite_implicit_decomp(dict(whole_operators())):
            yield
    finally:
        _own_kernels.reset(token)


@contextmanager
def decompose_as_usual() -> Generator[None]:
    """Inside of `keep_operators_whole`, for what wants the usual decompositions nevertheless."""
    usual = _own_kernels.get() or {}
    kept = {operator: dict(operator.py_kernels) for operator in usual}
    _set_kernels(usual)
    try:
        yield
    finally:
        _set_kernels(kept)


_own_kernels: ContextVar[Mapping[Any, Mapping[Any, Any]] | None] = ContextVar(
    "own_kernels", default=None
)


def _set_kernels(kernels: Mapping[Any, Mapping[Any, Any]]) -> None:
    for operator, table in kernels.items():
        operator.py_kernels.clear()
        operator.py_kernels.update(table)
        operator._dispatch_cache.clear()


@cache
def decompositions() -> Mapping[Any, Callable[..., Any]]:
    """The decompositions of `coda_ir.export`, for operators that do not decompose by themselves."""
    table: dict[Any, Any] = dict(torch.export.default_decompositions())
    return {
        overload: rule
        for overload, rule in table.items()
        if overload.namespace == "aten"
        and overload.overloadpacket.__name__ not in KEPT_OPERATORS
        and not overload._can_decompose()
    }
