"""Builds the IR of a captured graph: one function, its weights as named arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind
from torch.fx import Node
from xdsl.builder import Builder
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp, StringAttr, UnitAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint

from coda_ir.diagnostics import CodaError
from coda_ir.dialects.coda import CastOp, ConstantOp
from coda_ir.dialects.coda.shapes import element_type_of, shape_of, shapes_agree
from coda_ir.dialects.torch import CallOp
from coda_ir.frontends.torch.arguments import ArgumentWriter
from coda_ir.frontends.torch.types import (
    dims_attribute,
    dims_of,
    element_type,
    location_of,
    tensor_type,
    tensors_in,
)
from coda_ir.remarks import format_location

Value: TypeAlias = SSAValue | list[SSAValue]
"""What a node stands for: a tensor, or the tensors of a list or tuple."""

Handler: TypeAlias = Callable[["GraphImporter", Node], Value | None]
"""Builds the operators of a node; None where this use of the operator is not known."""


@dataclass
class ImportedGraph:
    """A module with one function, and what its arguments and results are in the model."""

    module: ModuleOp
    inputs: list[str] = field(default_factory=list[str])
    """Names of the arguments that the caller passes, in the order of the graph's user inputs."""
    weights: dict[str, torch.Tensor] = field(default_factory=dict[str, torch.Tensor])
    """The other arguments by name: parameters, buffers and constants, shared ones once."""
    outputs: list[Any] = field(default_factory=list[Any])
    """For each leaf of the model's output the number of a result, or what else it is."""


@dataclass(frozen=True)
class ResultNumber:
    """A leaf of the model's output that is result `index` of the function."""

    index: int


class GraphImporter:
    """Walks a graph in order; operators without a counterpart become `torch.call`."""

    def __init__(self, program: ExportedProgram, handlers: Mapping[str, Handler], name: str):
        self.program = program
        self.handlers = handlers
        self.values: dict[Node, Value] = {}
        self._weights: dict[tuple[Any, ...], SSAValue] = {}
        self._block = Block()
        self._builder = Builder(InsertPoint.at_end(self._block))
        self._argument_attributes: list[DictionaryAttr] = []
        self._node: Node | None = None
        self._symbols: set[str] = set()
        self.imported = ImportedGraph(ModuleOp([]))
        self._name = name

    def run(self) -> ImportedGraph:
        """The imported graph. Raises CodaError for what the IR cannot express."""
        self._declare_arguments()
        for node in self.program.graph.nodes:
            self._node = node
            if node.op == "call_function":
                self._import_call(node)
            elif node.op == "get_attr":
                raise CodaError(
                    f"the model has control flow that depends on data ({node.target})",
                    "export the branches by themselves",
                )
        self._return()
        return self.imported

    # Arguments

    def _declare_arguments(self) -> None:
        """User inputs first, in order; then the weights that are used."""
        placeholders = {n.name: n for n in self.program.graph.nodes if n.op == "placeholder"}
        specs = self.program.graph_signature.input_specs
        users = [spec for spec in specs if spec.kind == InputKind.USER_INPUT]
        for spec in users:
            self._declare_input(placeholders[spec.arg.name])
        for spec in specs:
            node = placeholders[spec.arg.name]
            if spec.kind == InputKind.USER_INPUT or not node.users:
                continue
            if spec.kind not in (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR):
                raise CodaError(
                    f"the model has an input {spec.arg.name} of kind {spec.kind.name}",
                    "pass tensors, numbers, None and containers of these only",
                )
            assert spec.target is not None, "weights have a name in the model"
            self._declare_weight(node, spec.target)

    def _declare_input(self, node: Node) -> None:
        value = node.meta.get("val")
        if isinstance(value, torch.Tensor):
            self.imported.inputs.append(node.name)
            self.values[node] = self._argument(value, node.name, is_weight=False)
        else:
            # A number or None, which the graph has as a constant.
            self.imported.inputs.append("")

    def _declare_weight(self, node: Node, target: str) -> None:
        tensors: Mapping[str, Any] = {**self.program.constants, **self.program.state_dict}
        tensor = tensors[target]
        key = (tensor.data_ptr(), tuple(tensor.shape), tensor.stride(), tensor.dtype)
        if key not in self._weights or not tensor.numel():
            self.imported.weights[target] = tensor
            self._weights[key] = self._argument(node.meta["val"], target, is_weight=True)
        self.values[node] = self._weights[key]

    def _argument(self, value: torch.Tensor, name: str, *, is_weight: bool) -> SSAValue:
        argument = self._block.insert_arg(tensor_type(value), len(self._block.args))
        self._learn_symbols([value])
        argument.name_hint = _identifier(name)
        attributes: dict[str, Attribute] = {
            "coda.name": StringAttr(name),
            "coda.dims": dims_attribute(dims_of(value)),
        }
        if is_weight:
            attributes["coda.weight"] = UnitAttr()
        self._argument_attributes.append(DictionaryAttr(attributes))
        return argument

    # Operators

    def _import_call(self, node: Node) -> None:
        if not any(True for _ in tensors_in(node.meta.get("val"))):
            # Sizes are text where they are used; assertions have been checked by the capture.
            return
        handler = self.handlers.get(str(node.target))
        mark = self._block.last_op
        value = None if handler is None else handler(self, node)
        if value is None or not _fits(value, node.meta["val"]):
            self._erase_after(mark)
            value = self._call_torch(node)
        self.values[node] = value
        self._learn_symbols(tensors_in(node.meta["val"]))

    def _learn_symbols(self, values: Iterable[torch.Tensor]) -> None:
        """The symbols that a program can tell from the shapes of `values`."""
        self._symbols.update(dim for v in values for dim in dims_of(v) if isinstance(dim, str))

    def _erase_after(self, mark: Operation | None) -> None:
        """Drop what a handler built before it gave up."""
        while (last := self._block.last_op) is not None and last is not mark:
            self._block.erase_op(last)

    def _call_torch(self, node: Node) -> Value:
        target: Any = node.target
        if not hasattr(target, "_schema"):
            raise CodaError(
                f"the model uses {target}, which is not an operator on tensors",
                "export the part without control flow",
            )
        results = list(tensors_in(node.meta["val"]))
        writer = ArgumentWriter(self.tensor)
        text = writer.call(node)
        call = self.insert(
            CallOp(
                str(target),
                writer.operands,
                text,
                [tensor_type(result) for result in results],
                view=any(result.alias_info is not None for result in target._schema.returns),
                random=torch.Tag.nondeterministic_seeded in target.tags,
            )
        )
        unknown = call.template.symbols - self._symbols
        if unknown:
            raise CodaError(
                f"{format_location(call.location)}: a size depends on the values of a tensor "
                f"({', '.join(sorted(unknown))})",
                "keep sizes from item() or tolist() outside of the exported model",
            )
        if len(results) == 1:
            call.attributes["coda.dims"] = dims_attribute(dims_of(results[0]))
        outputs = list(call.outputs)
        return outputs[0] if isinstance(node.meta["val"], torch.Tensor) else outputs

    # What handlers use

    def insert(self, op: Operation) -> Any:
        """Append `op` at the place of the current node; gives `op`."""
        assert self._node is not None
        op.location = location_of(self._node)
        self._builder.insert(op)
        for result in op.results:
            result.name_hint = _identifier(self._node.name)
        return op

    def value(self, argument: object) -> Value:
        """What an argument of a node stands for. Raises KeyError for a number."""
        assert isinstance(argument, Node)
        return self.values[argument]

    def tensor(self, argument: object) -> SSAValue:
        """The tensor that an argument of a node stands for."""
        value = self.value(argument)
        assert isinstance(value, SSAValue)
        return value

    def operand(self, argument: object, dtype: torch.dtype) -> SSAValue | None:
        """A tensor or a number as a value of element type `dtype`; None for a symbolic number."""
        if isinstance(argument, bool | int | float):
            return self.insert(ConstantOp(argument, element_type(dtype))).result
        if not isinstance(argument, Node) or argument not in self.values:
            return None
        value = self.tensor(argument)
        if element_type_of(value) == element_type(dtype):
            return value
        return self.insert(CastOp(value, element_type(dtype))).result

    # Results

    def _return(self) -> None:
        results: list[SSAValue] = []
        output = self.program.graph.output_node()
        specs: list[Any] = list(self.program.graph_signature.output_specs)
        leaves: Any = output.args[0]
        for spec, leaf in zip(specs, leaves, strict=True):
            if spec.kind in (OutputKind.BUFFER_MUTATION, OutputKind.USER_INPUT_MUTATION):
                raise CodaError(
                    f"the model changes {spec.target} in place",
                    "return the new value instead, or pass a model in eval mode",
                )
            if isinstance(leaf, Node) and leaf in self.values:
                self.imported.outputs.append(ResultNumber(len(results)))
                results.append(self.tensor(leaf))
            elif isinstance(leaf, Node):
                raise CodaError("the model returns a size", "return tensors only")
            else:
                self.imported.outputs.append(leaf)
        self._builder.insert(ReturnOp(*results))
        func = FuncOp(
            self._name,
            ([argument.type for argument in self._block.args], [r.type for r in results]),
            Region(self._block),
            arg_attrs=ArrayAttr(self._argument_attributes),
        )
        self.imported.module.body.block.add_op(func)


def _fits(value: Value, expected: object) -> bool:
    """Whether what a handler built has the types that PyTorch says."""
    built = value if isinstance(value, Sequence) else [value]
    tensors = list(tensors_in(expected))
    return len(built) == len(tensors) and all(
        element_type_of(v) == element_type(t.dtype)
        and shapes_agree(shape_of(v), tensor_type(t).get_shape())
        for v, t in zip(built, tensors, strict=True)
    )


def _identifier(name: str) -> str:
    return "".join(c if c.isalnum() else "_" for c in name)
