"""Calls of compiled functions in AOTAutograd's convention: a list of inputs, including sizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import torch
from torch.fx import GraphModule, Node

from coda_ir.api import CompiledFunction
from coda_ir.calls.arguments import is_plain
from coda_ir.calls.tree import as_pairs, laid_out
from coda_ir.diagnostics import ModelError
from coda_ir.dialects.torch import ArgumentTemplate
from coda_ir.frontends.torch.graph_inputs import DynamoGraph
from coda_ir.frontends.torch.importer import GraphInput, ImportedGraph, ResultNumber
from coda_ir.frontends.torch.types import Runner, symbolic_text
from coda_ir.training.functions import TrainableFunction


def make_updates_results(graph: GraphModule) -> list[int]:
    """Make the new values of inputs the last results of `graph`; return the inputs' positions."""
    placeholders = [node for node in graph.graph.nodes if node.op == "placeholder"]
    positions = {node: position for position, node in enumerate(placeholders)}
    copies = [node for node in graph.graph.nodes if _is_update(node, positions)]
    if not copies:
        return []
    output = graph.graph.output_node()
    leaves: Any = output.args[0]
    updates = [copy.args[:2] for copy in copies]
    output.args = ((*leaves, *(value for _, value in updates)),)
    for copy in copies:
        graph.graph.erase_node(copy)
    graph.recompile()
    return [positions[updated] for updated, _ in updates]


def _is_update(node: Node, positions: dict[Node, int]) -> bool:
    return str(node.target) == "aten.copy_.default" and node.args[0] in positions and not node.users


def store_updates(
    inputs: Sequence[torch.Tensor], values: Sequence[torch.Tensor], returned: Sequence[Any]
) -> list[Any]:
    """Store each value in the memory of its input, unless it is there already.

    Gives what is `returned`. Values, and what is returned, may be in the memory of any of the
    inputs, which is about to change: then they are copied before.
    """
    memories = {_memory(x) for x in inputs}

    def apart(value: torch.Tensor) -> torch.Tensor:
        return value.clone() if _memory(value) in memories else value

    pairs = zip(inputs, values, strict=True)
    new = [(old, apart(value)) for old, value in pairs if not _is_same_memory(old, value)]
    kept = [apart(value) if isinstance(value, torch.Tensor) else value for value in returned]
    by_type: dict[torch.dtype, list[tuple[torch.Tensor, torch.Tensor]]] = {}
    for old, value in new:
        by_type.setdefault(old.dtype, []).append((old, value))
    for group in by_type.values():
        foreach_copy(*map(list, zip(*group, strict=True)))  # a launch for many of them
    return kept


def without_overlaps(
    run: Callable[..., Any], graph: GraphModule, inputs: Sequence[Any]
) -> Callable[..., Any]:
    """Return `run`, replaced by the original `graph` of TorchDynamo for calls in which a changed
    input overlaps another one: AOTAutograd made `run` functional for `inputs` that do not.

    For `inputs` that overlap, `run` has one input with the memory of both, and serves calls whose
    inputs have the same places in it. Results that are views of it are made by the strides of what
    `run` returns where sizes vary, which are then others.
    """
    nodes = [node for node in graph.graph.nodes if node.op == "placeholder"]
    traced = [node.meta.get("example_value") for node in nodes]
    changed = [at for at, x in enumerate(traced) if isinstance(x, torch.Tensor) and x._version]
    read = [at for at, x in enumerate(inputs) if at not in changed and isinstance(x, torch.Tensor)]
    if not changed or not all(is_plain(inputs[at]) for at in (*changed, *read)):
        return run

    def overlap(inputs: Sequence[Any]) -> bool:
        written = [inputs[at] for at in changed if inputs[at].numel()]
        memories = set(map(_memory, written))
        others = [inputs[at] for at in read if _memory(inputs[at]) in memories]
        if not others and len(memories) == len(written):
            return False
        return _have_common_bytes(written, [x for x in others if x.numel()])

    def run_apart(*inputs: Any) -> Any:
        return graph(*inputs) if overlap(inputs) else run(*inputs)

    def places(inputs: Sequence[Any]) -> list[tuple[int, int, int] | None]:
        tensors = [inputs[at] for at in (*changed, *read)]
        memories = [*map(_memory, tensors)]
        return [
            (memories.index(memory), x.storage_offset(), x.untyped_storage().nbytes())
            if memories.count(memory) > 1
            else None
            for x, memory in zip(tensors, memories, strict=True)
        ]

    has_known_sizes = not any(isinstance(x, torch.SymInt) for x in traced)
    if not has_known_sizes or not overlap(inputs):
        return run_apart
    compiled_for = places(inputs)
    return lambda *inputs: (run if places(inputs) == compiled_for else graph)(*inputs)


def _have_common_bytes(written: Sequence[torch.Tensor], others: Sequence[torch.Tensor]) -> bool:
    """Return whether the addresses of a `written` tensor intersect those of another tensor."""
    last, last_written = 0, 0
    places = [
        (*_place(x), is_written)
        for xs, is_written in ((written, True), (others, False))
        for x in xs
    ]
    for start, end, is_written in sorted(places):
        if start < (last if is_written else last_written):
            return True
        last = max(last, end)
        last_written = max(last_written, end if is_written else 0)
    return False


def _place(tensor: torch.Tensor) -> tuple[int, int]:
    """Return the address of a tensor's first byte, and that after its last one."""
    pairs = zip(tensor.shape, tensor.stride(), strict=True)
    elements = 1 + sum((extent - 1) * stride for extent, stride in pairs)
    return tensor.data_ptr(), tensor.data_ptr() + elements * tensor.element_size()


def _memory(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def _is_same_memory(old: torch.Tensor, new: torch.Tensor) -> bool:
    return (
        old.data_ptr() == new.data_ptr()
        and old.dtype == new.dtype
        and old.shape == new.shape
        and old.stride() == new.stride()
    )


def storing_updates(runner: Runner, positions: Sequence[int]) -> Runner:
    """Return `runner` with its last results stored in the inputs at `positions`."""
    if not positions:
        return runner

    def run(inputs: list[Any]) -> Sequence[Any]:
        updated = [inputs[position] for position in positions]
        results = runner(inputs)
        kept = len(results) - len(positions)
        return store_updates(updated, results[kept:], results[:kept])

    return run


def detaching(runner: Runner, are_computed: Sequence[bool]) -> Runner:
    """Return `runner` with results that are views of nothing, but for inputs: a view of another
    result would require a gradient once PyTorch gives that result one, also if the model detached
    it.
    """

    def run(inputs: list[Any]) -> Sequence[Any]:
        return [
            x.detach() if is_computed and isinstance(x, torch.Tensor) else x
            for x, is_computed in zip(runner(inputs), are_computed, strict=True)
        ]

    return run


foreach_copy: Callable[..., None] = getattr(torch, "_foreach_copy_")  # noqa: B009 (has no type)

Argument: TypeAlias = Callable[[list[Any]], torch.Tensor]
"""Finds an argument of the compiled function among the inputs of its graph."""

Run: TypeAlias = Callable[[list[torch.Tensor]], Sequence[torch.Tensor]]


class GraphRunner:
    """A compiled graph. AOTAutograd calls it without gradients, with inputs that fit."""

    def __init__(
        self,
        graph: DynamoGraph,
        imported: ImportedGraph,
        compiled: CompiledFunction | TrainableFunction,
        around: Callable[[Run, GraphRunner], Run] | None = None,
    ):
        """Set up the runner; `around` may wrap the function, for example in CUDA graphs."""
        self._arguments = [*_inputs(graph, imported), *_constants(imported, graph.device)]
        kept = imported.outputs[: len(imported.outputs) - len(graph.updated)]
        self._outputs = [_output(leaf, graph) for leaf in kept]
        self._returned = sum(isinstance(leaf, ResultNumber) for leaf in kept)
        self.updated = _updated_arguments(graph, imported)
        """Positions of the arguments in which the results after the returned ones are stored."""
        self.compiled = compiled
        self.fixed = _fixed_arguments(graph, imported)
        """Positions of arguments that stay where they are: weights, constants and sizes."""
        self._run: Run = self._call if around is None else around(self._call, self)

    def _call(self, tensors: list[torch.Tensor]) -> Sequence[torch.Tensor]:
        results = self.compiled.unchecked(*tensors)
        if not self.updated:
            return results
        updated = [tensors[at] for at in self.updated]
        return store_updates(updated, results[self._returned :], results[: self._returned])

    def __call__(self, inputs: list[Any]) -> list[Any]:
        results = self._run([argument(inputs) for argument in self._arguments])
        return [output(results, inputs) for output in self._outputs]


def _inputs(graph: DynamoGraph, imported: ImportedGraph) -> list[Argument]:
    """Return the arguments that the caller passes: tensors unchanged, because packed weights are
    found by identity, and sizes as extents of tensors without memory.
    """
    arguments: list[Argument] = []
    token = torch.zeros(1, device=graph.device)
    for graph_input in _passed(graph, imported):
        position = graph.position(graph_input.node)
        value: object = graph_input.node.meta["val"]
        if graph_input.node in graph.sizes:
            arguments.append(lambda inputs, at=position: token.expand(inputs[at]))
        elif isinstance(value, torch.Tensor) and value.device != graph.device:
            arguments.append(lambda inputs, at=position: inputs[at].to(graph.device))
        elif isinstance(value, torch.Tensor) and value.is_complex():
            arguments.append(lambda inputs, at=position: as_pairs(inputs[at]))
        elif isinstance(value, torch.Tensor) and value.is_neg():
            arguments.append(lambda inputs, at=position: inputs[at].resolve_neg())
        else:
            arguments.append(lambda inputs, at=position: inputs[at])
    return arguments


def _passed(graph: DynamoGraph, imported: ImportedGraph) -> list[GraphInput]:
    """Return the inputs that are arguments of the function, in order."""
    pairs = zip(imported.inputs, graph.inputs, strict=True)
    return [graph_input for name, graph_input in pairs if name]


def _updated_arguments(graph: DynamoGraph, imported: ImportedGraph) -> list[int]:
    positions = [graph.position(i.node) for i in _passed(graph, imported)]
    return [positions.index(position) for position in graph.updated]


def _fixed_arguments(graph: DynamoGraph, imported: ImportedGraph) -> frozenset[int]:
    passed = _passed(graph, imported)
    fixed = [at for at, i in enumerate(passed) if i.is_weight or i.node in graph.sizes]
    return frozenset([*fixed, *range(len(passed), len(passed) + len(imported.weights))])


def _constants(imported: ImportedGraph, device: torch.device) -> list[Argument]:
    tensors = [constant.to(device) for constant in imported.weights.values()]
    return [lambda inputs, tensor=tensor: tensor for tensor in tensors]


def _output(leaf: Any, graph: DynamoGraph) -> Callable[[Sequence[Any], list[Any]], Any]:
    """Return a function that finds a leaf of the output: a result, a non-tensor input (a size, or
    an object such as the mesh of a DTensor), a computed size, or a constant.
    """
    if isinstance(leaf, ResultNumber):
        return lambda results, inputs: laid_out(results[leaf.index], leaf.order)
    if not isinstance(leaf, Node):
        return lambda results, inputs: leaf
    if leaf.op == "placeholder":
        position = graph.position(leaf)
        return lambda results, inputs: inputs[position]
    template = ArgumentTemplate.parse(symbolic_text(leaf.meta["val"]))
    places = {symbol: _place_of(symbol, graph) for symbol in template.symbols}

    def size(results: Sequence[Any], inputs: list[Any]) -> int:
        symbols = {symbol: place(inputs) for symbol, place in places.items()}
        return template.value(symbols)

    return size


def _place_of(symbol: str, graph: DynamoGraph) -> Callable[[list[Any]], int]:
    """Return where the inputs of a graph determine the value of a symbol."""
    if symbol not in graph.places:
        raise ModelError(
            f"the graph returns the size {symbol}", "no input of the graph determines it"
        )
    position, axis = graph.places[symbol]
    if axis is None:
        return lambda inputs: inputs[position]
    return lambda inputs: inputs[position].shape[axis]
