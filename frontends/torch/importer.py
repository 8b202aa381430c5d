"""The importer: builds the IR of a captured graph, one function with weights as named arguments."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isfinite
from typing import Any, TypeAlias

import torch
from torch.fx import Graph, Node
from xdsl.builder import Builder
from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    FileLineColLoc,
    IntAttr,
    IntegerAttr,
    LocationAttr,
    ModuleOp,
    StringAttr,
    UnitAttr,
    UnknownLoc,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint

from coda_ir.calls.tree import as_pairs, order_of
from coda_ir.diagnostics import CodaError, ModelError
from coda_ir.dialects.coda import CastOp, ConstantOp, ReshapeOp
from coda_ir.dialects.coda.shapes import element_type_of, shape_of, shapes_agree
from coda_ir.dialects.coda.weights import WEIGHT
from coda_ir.dialects.torch import COPY, CallOp
from coda_ir.frontends.torch.arguments import ArgumentWriter
from coda_ir.frontends.torch.complex_numbers import without_complex_numbers
from coda_ir.frontends.torch.types import (
    dims_of,
    element_type,
    is_higher_order,
    location_of,
    parameter_names,
    tensor_type,
    tensors_in,
    used_results,
    viewed_by,
)
from coda_ir.remarks import format_location, source_position
from coda_ir.storage import DONATED, OWN
from coda_ir.symbolic_shapes import dims_attribute


def memory_of(leaves: Sequence[Node], graph: Graph) -> list[DictionaryAttr]:
    """Return the memory attributes of the results `leaves` of a graph: `OWN`, except for views of
    its inputs.

    Views of one tensor have the same number, and so has what AOTAutograd saves for the backward,
    which nobody changes.
    """
    owners, saved = [_owner(leaf) for leaf in leaves], _saved(graph)
    read = {owner for leaf, owner in zip(leaves, owners, strict=True) if leaf not in saved}
    return [_entry(owner, owners, is_saved=owner not in read) for owner in owners]


def _entry(owner: Node, owners: Sequence[Node], *, is_saved: bool) -> DictionaryAttr:
    if owner.op == "placeholder":
        return DictionaryAttr({})
    if is_saved:
        return DictionaryAttr({OWN: IntegerAttr(len(owners), 64)})
    is_alone = owners.count(owner) == 1
    return DictionaryAttr({OWN: UnitAttr() if is_alone else IntegerAttr(owners.index(owner), 64)})


def _owner(node: Node) -> Node:
    """Return the node that a node is a view of, directly or indirectly; itself if it is no view."""
    while (source := viewed_by(node)) is not None:
        node = source
    return node


def _saved(graph: Graph) -> set[Node]:
    """Return the results that AOTAutograd marks as saved for the backward."""
    output = graph.output_node()
    described: Sequence[object] = output.meta.get("desc") or ()
    (results,) = output.args
    pairs = zip(results, described, strict=False) if isinstance(results, Sequence) else ()
    return {
        leaf
        for leaf, each in pairs
        if isinstance(leaf, Node) and type(each).__name__.startswith("SavedForBackwards")
    }


Value: TypeAlias = SSAValue | Sequence[SSAValue | None]
"""The value of a node: a tensor, or a list or tuple with None for unused elements."""

Handler: TypeAlias = Callable[["GraphImporter", Node], Value | None]
"""Builds the operators of a node; None where this use of the operator is not known."""


CONTROL_FLOW = ("cond", "while_loop")
"""Operators that choose among graphs by the values of tensors."""

CALLED_AS = {
    "aten.view.default": "aten.reshape.default",
    "aten._embedding_bag_forward_only.default": "aten._embedding_bag.default",
}
"""Replacements of operators that need strides which a value of the program may not have, and of one
without a derivative, which PyTorch calls where a graph is traced without gradients.
"""


@dataclass(frozen=True)
class GraphInput:
    """A placeholder of a graph: an argument that the caller passes, or a weight."""

    node: Node
    name: str
    weight: torch.Tensor | None = None
    """The tensor of a weight; None for what the caller passes."""
    is_weight: bool = False
    is_constant: bool = False
    """True if the tensor is a constant of the model's code, which cannot change."""
    is_updated: bool = False
    """True if the caller stores a result in it, so that its old contents may be overwritten."""
    is_differentiated: bool = False
    """True if a backward that is derived later may give it a gradient."""


@dataclass(frozen=True)
class GraphSource:
    """A graph of ATen operators whose nodes have fake values in `meta["val"]`."""

    graph: Graph
    inputs: Sequence[GraphInput]
    outputs: Sequence[Any]
    """The leaves of the results: nodes, and constants such as None."""


@dataclass
class ImportedGraph:
    """A module with one function, and the meaning of its arguments and results in the model."""

    module: ModuleOp
    inputs: list[str] = field(default_factory=list[str])
    """Names of what the caller passes, in order; empty for what is no tensor."""
    weights: dict[str, torch.Tensor] = field(default_factory=dict[str, torch.Tensor])
    """The other arguments by name: parameters, buffers and constants, shared ones once."""
    outputs: list[Any] = field(default_factory=list[Any])
    """For each leaf of the model's output the number of a result, or what else it is."""


@dataclass(frozen=True)
class ResultNumber:
    """A leaf that is result `index` of the function, with its dimensions in `order` in memory."""

    index: int
    order: tuple[int, ...] | None


READS_STRIDES = ("aten.as_strided", "aten.as_strided_scatter")
"""Operators whose result depends on where elements lie; see `capture._as_strided`."""


READS_DENSE = ("_backward.", "native_group_norm.")
"""Parts of the names of operators that may refuse operands with gaps or in another order, or read
their memory as if it were dense, such as `native_layer_norm_backward`.
"""


class GraphImporter:
    """Walks a graph in order; operators without a counterpart become `torch.call`."""

    def __init__(self, source: GraphSource, handlers: Mapping[str, Handler], name: str):
        self.source = _with_pairs(source)
        self.handlers = handlers
        self.values: dict[Node, Value] = {}
        self._weights: dict[tuple[Any, ...], SSAValue] = {}
        self._block = Block()
        self._builder = Builder(InsertPoint.at_end(self._block))
        self._argument_attributes: list[DictionaryAttr] = []
        self._node: Node | None = None
        self._symbols: set[str] = set()
        self._extents: dict[str, tuple[SSAValue, int]] = {}
        self._active = {each.node for each in self.source.inputs if each.is_differentiated}
        self.imported = ImportedGraph(ModuleOp([]))
        self._name = name

    def run(self) -> ImportedGraph:
        """Import the graph. Raises CodaError for anything that the IR cannot express."""
        for graph_input in self.source.inputs:
            try:
                self._declare(graph_input)
            except CodaError as error:
                raise ModelError(f"{graph_input.name}: {error.message}", error.remedy) from error
        for node in self.source.graph.nodes:
            self._node = node
            # What a graph reads beside tensors are graphs, for operators that call them.
            if node.op == "call_function" and node not in self.values:
                self._import_call_at(node)
        self._return()
        return self.imported

    # Arguments

    def _declare(self, graph_input: GraphInput) -> None:
        node, weight = graph_input.node, graph_input.weight
        value: Any = node.meta.get("val")
        if weight is not None and graph_input.is_constant and _is_number(weight):
            self._node = node
            constant = ConstantOp(weight.item(), element_type(weight.dtype))
            self.values[node] = self.insert(constant).result
        elif weight is not None:
            # Without data, as on the device meta, only object identity distinguishes tensors.
            memory = weight.data_ptr() or id(weight)
            key = (memory, tuple(weight.shape), weight.stride(), weight.dtype)
            if key not in self._weights or not weight.numel():
                self.imported.weights[graph_input.name] = weight
                self._weights[key] = self._argument(value, graph_input.name, WEIGHT)
            self.values[node] = self._weights[key]
        elif isinstance(value, torch.Tensor):
            self.imported.inputs.append(graph_input.name)
            marks = [WEIGHT] if graph_input.is_weight else []
            marks += [DONATED] if graph_input.is_updated else []
            self.values[node] = self._argument(value, graph_input.name, *marks)
        else:
            # A number or None, which the graph has as a constant, or a symbolic size.
            self.imported.inputs.append("")

    def _argument(self, value: torch.Tensor, name: str, *marks: str) -> SSAValue:
        argument = self._block.insert_arg(tensor_type(value), len(self._block.args))
        self._symbols.update(dim for dim in dims_of(value) if isinstance(dim, str))
        argument.name_hint = _identifier(name)
        attributes: dict[str, Attribute] = {
            "coda.name": StringAttr(name),
            "coda.dims": dims_attribute(dims_of(value)),
        }
        attributes |= {mark: UnitAttr() for mark in marks}
        self._argument_attributes.append(DictionaryAttr(attributes))
        return argument

    # Operators

    def _import_call_at(self, node: Node) -> None:
        """Import a node; errors name its place in the model."""
        try:
            self._import_call(node)
        except CodaError as error:
            location = location_of(node)
            place = f"{format_location(location)}: " if source_position(location) else ""
            raise ModelError(f"{place}{error.message}", error.remedy) from error

    def _import_call(self, node: Node) -> None:
        if is_higher_order(node):
            self.values[node] = self._import_scan(node)
            return
        if not any(True for _ in tensors_in(node.meta.get("val"))):
            # Sizes are text where they are used; assertions have been checked by the capture.
            return
        handler = self.handlers.get(str(node.target))
        mark = self._block.last_op
        value = None if handler is None else handler(self, node)
        expected = used_results(node)
        if value is None or not _fits(value, expected):
            self._erase_after(mark)
            value = self._call_torch(node, expected)
        self.values[node] = value
        if self.is_active(*node.all_input_nodes):
            self._active.add(node)
        self._learn_extents(value, expected)

    def _import_scan(self, node: Node) -> Value:
        """Import an operator that calls a function of the model; only scans have handlers."""
        handler = self.handlers.get(str(node.target))
        value = None if handler is None else handler(self, node)
        if value is None:
            raise _not_on_tensors(node)
        if self.is_active(*node.all_input_nodes):
            self._active.add(node)
        return value

    def _learn_extents(self, value: Value, expected: Mapping[int, torch.Tensor]) -> None:
        """Record the origin of sizes that no argument has, such as that of nonzero."""
        for position, tensor in expected.items():
            result = _result(value, position)
            assert result is not None
            for axis, dim in enumerate(dims_of(tensor)):
                if isinstance(dim, str) and dim.isidentifier() and dim not in self._symbols:
                    self._extents.setdefault(dim, (result, axis))

    def _erase_after(self, mark: Operation | None) -> None:
        """Erase what a handler built before it gave up."""
        while (last := self._block.last_op) is not None and last is not mark:
            self._block.erase_op(last)

    def _call_torch(self, node: Node, expected: Mapping[int, torch.Tensor]) -> Value:
        target: Any = node.target
        if str(target.overloadpacket) in READS_STRIDES:
            raise ModelError(
                f"an operator depends on strides, which programs may change: {node.target}",
                "use views that keep to dimensions, such as unfold, or index the tensor",
            )
        is_tensor = isinstance(node.meta["val"], torch.Tensor)
        is_all = is_tensor or len(expected) == len(node.meta["val"])
        results = list(expected.values())
        writer = ArgumentWriter(self._operand, self._extents)
        text = writer.call(node)
        call = self.insert(
            CallOp(
                CALLED_AS.get(str(target), str(target)),
                writer.operands,
                text,
                [tensor_type(result) for result in results],
                view=bool(target.is_view),
                random=_draws_numbers(node),
                positions=None if is_all else list(expected),
            )
        )
        unknown = call.template.symbols - self._symbols
        if unknown:
            raise ModelError(
                f"a size depends on the values of a tensor ({', '.join(sorted(unknown))})",
                "move code with item() or tolist() out of the compiled function",
            )
        if len(results) == 1:
            call.attributes["coda.dims"] = dims_attribute(dims_of(results[0]))
        if is_tensor:
            return call.outputs[0]
        outputs = dict(zip(expected, call.outputs, strict=True))
        return [outputs.get(position) for position in range(len(node.meta["val"]))]

    def _operand(self, given: Any) -> SSAValue:
        """Return an operand of a call; those of `READS_DENSE` get the copies that the graph has."""
        value = self.tensor(given)
        assert self._node is not None
        called = str(self._node.target)
        if str(given.target) != COPY or not any(part in called for part in READS_DENSE):
            return value
        text = f"{{0}}, memory_format={torch.contiguous_format}"
        return self.insert(CallOp(COPY, [value], text, [value.type])).outputs[0]

    # What handlers use

    def insert(self, op: Operation) -> Any:
        """Append `op` at the location of the current node; return `op`."""
        assert self._node is not None
        op.location = location_of(self._node)
        value: Any = self._node.meta["val"]
        if isinstance(op, ReshapeOp) and _is_of_shape(op.result, value):
            # Several dynamic extents do not follow from the operand.
            op.attributes["coda.dims"] = dims_attribute(dims_of(value))
        self._builder.insert(op)
        for result in op.results:
            result.name_hint = _identifier(self._node.name)
        return op

    def is_active(self, *nodes: Node) -> bool:
        """Return whether one of `nodes` has floats that depend on an input with a gradient."""
        return any(node in self._active and _has_floats(node) for node in nodes)

    def value(self, argument: object) -> Value:
        """Return the imported value of an argument of a node. Raises KeyError for a number."""
        assert isinstance(argument, Node)
        return self.values[argument]

    def tensor(self, argument: object) -> SSAValue:
        """Return the imported tensor of an argument of a node."""
        value = self.value(argument)
        assert isinstance(value, SSAValue)
        return value

    def operand(self, argument: object, dtype: torch.dtype) -> SSAValue | None:
        """Return a tensor or number as a value of type `dtype`; None for a symbolic number."""
        if isinstance(argument, bool | int | float):
            return self.insert(ConstantOp(argument, element_type(dtype))).result
        if not isinstance(argument, Node) or argument not in self.values:
            return None
        return self.converted(self.tensor(argument), element_type(dtype))

    def converted(self, value: SSAValue, type: Attribute) -> SSAValue:
        """Return a value in the element type `type`."""
        if element_type_of(value) == type:
            return value
        return self.insert(CastOp(value, type)).result

    # Results

    def _return(self) -> None:
        results: list[SSAValue] = []
        leaves: list[Node] = []
        for leaf in self.source.outputs:
            if isinstance(leaf, Node) and leaf in self.values:
                order = order_of(leaf.meta["val"])
                self.imported.outputs.append(ResultNumber(len(results), order))
                results.append(self.tensor(leaf))
                leaves.append(leaf)
            else:
                self.imported.outputs.append(leaf)
        self._builder.insert(ReturnOp(*results))
        func = FuncOp(
            self._name,
            ([argument.type for argument in self._block.args], [r.type for r in results]),
            Region(self._block),
            arg_attrs=ArrayAttr(self._argument_attributes),
            res_attrs=ArrayAttr(memory_of(leaves, self.source.graph)),
        )
        func.location = self._begin()
        self.imported.module.body.block.add_op(func)

    def _begin(self) -> LocationAttr:
        """Return where the model's code begins, as far as the graph records it."""
        places = (source_position(location_of(node)) for node in self.source.graph.nodes)
        found = next((place for place in places if place is not None), None)
        if found is None:
            return UnknownLoc()
        file, line, column = found
        return FileLineColLoc(StringAttr(file), IntAttr(line), IntAttr(column))


def _with_pairs(source: GraphSource) -> GraphSource:
    """Return the graph with complex inputs as pairs of real numbers."""
    pairs = without_complex_numbers(source.graph, [each.node for each in source.inputs])
    inputs = [
        replace(each, node=pairs[each.node], weight=as_pairs(each.weight))
        if each.node in pairs
        else each
        for each in source.inputs
    ]
    leaves: Any = source.graph.output_node().args[0]
    return GraphSource(source.graph, inputs, list(leaves))


def _not_on_tensors(node: Node) -> CodaError:
    if str(node.target) in CONTROL_FLOW:
        return ModelError(
            f"the model has control flow that depends on data ({node.target})",
            "export the branches separately; torch.compile leaves it to PyTorch",
        )
    return ModelError(
        f"the model uses {node.target}, which calls a function of the model",
        "export the parts around it; torch.compile leaves it to PyTorch",
    )


def _fits(value: Value, expected: Mapping[int, torch.Tensor]) -> bool:
    """Return whether the operators built by a handler have the types that PyTorch states."""
    for position, tensor in expected.items():
        result = _result(value, position)
        if (
            result is None
            or element_type_of(result) != element_type(tensor.dtype)
            or not shapes_agree(shape_of(result), tensor_type(tensor).get_shape())
        ):
            return False
    return True


def _is_of_shape(result: SSAValue, value: object) -> bool:
    """Return whether a result has the shape of a node's value, rather than that of a part of it."""
    is_tensor = isinstance(value, torch.Tensor)
    return is_tensor and shape_of(result) == tensor_type(value).get_shape()


def _result(value: Value, position: int) -> SSAValue | None:
    """Return the tensor at `position` of a node's value."""
    if isinstance(value, SSAValue):
        return None if position else value
    return value[position] if position < len(value) else None


def _draws_numbers(node: Node) -> bool:
    """Return whether a node needs random numbers; attention that drops nothing does not."""
    if torch.Tag.nondeterministic_seeded not in getattr(node.target, "tags", ()):
        return False
    names = parameter_names(node)
    if "dropout_p" not in names:
        return True
    given = node.args[names.index("dropout_p") :] or (node.kwargs.get("dropout_p", 0.0),)
    return not isinstance(given[0], int | float) or given[0] != 0


def _has_floats(node: Node) -> bool:
    tensors = tensors_in(node.meta.get("val"))
    return any(tensor.dtype.is_floating_point for tensor in tensors)


def _is_number(tensor: torch.Tensor) -> bool:
    is_float = not tensor.ndim and tensor.dtype.is_floating_point and not tensor.is_meta
    return is_float and isfinite(tensor.item())


def _identifier(name: str) -> str:
    text = "".join(c if c.isalnum() else "_" for c in name)
    return f"_{text}" if text[:1].isdigit() else text
