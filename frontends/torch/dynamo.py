"""`torch.compile(model, backend="coda")`: graphs of TorchDynamo as programs of the IR.

AOTAutograd makes the graphs functional and, where gradients are needed, cuts them into a forward
and a backward graph; each is imported, raised and compiled like an exported model. A graph without
a GEMM, or one that cannot be expressed, runs as before, and a remark says why.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from importlib import import_module
from typing import Any, Literal, TypeAlias, get_args

import torch
from torch.fx import GraphModule, Node
from xdsl.dialects.builtin import ModuleOp

from coda_ir.api import CompiledFunction, compile
from coda_ir.context import make_context
from coda_ir.diagnostics import CodaError
from coda_ir.dialects.gemm import FusedOp
from coda_ir.dialects.torch import ArgumentTemplate
from coda_ir.frontends.torch.importer import (
    GraphImporter,
    GraphInput,
    GraphSource,
    ImportedGraph,
    ResultNumber,
)
from coda_ir.frontends.torch.operators import HANDLERS
from coda_ir.frontends.torch.types import dims_of, symbolic_text
from coda_ir.passes.torch_to_coda import TorchToCodaPass
from coda_ir.remarks import REMARK_KINDS

Compiled: TypeAlias = Callable[[list[Any]], Sequence[Any]]
"""A compiled graph: takes the list of its inputs, which it may clear."""

Fallback: TypeAlias = Literal["eager", "inductor"]

LOGS_VARIABLE = "CODA_LOGS"
"""Environment variable with the kinds of remarks to log: `CODA_LOGS=missed,passed`."""

MODES = (None, "default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")

logger = logging.getLogger("coda_ir")


@dataclass(frozen=True)
class Options:
    """The `options=` of `torch.compile` for this backend."""

    fallback: Fallback = "eager"
    """What runs a graph that is not compiled here."""
    target: Literal["auto", "triton", "reference"] = "auto"
    """`auto` is triton on a GPU, and on the CPU where TRITON_INTERPRET is set."""
    numerics: str | None = None
    """The numerics mode of the programs (see docs/numerics.md)."""
    schedule: str | None = None
    """Options of the pass `schedule`."""

    @staticmethod
    def of(mode: str | None, given: Mapping[str, Any] | None) -> Options:
        """Raises CodaError for an unknown mode, option or value."""
        if mode not in MODES:
            known = ", ".join(str(m) for m in MODES[1:])
            raise CodaError(f"unknown mode '{mode}'", f"use one of {known}")
        names = [field.name for field in fields(Options)]
        for name in given or {}:
            if name not in names:
                raise CodaError(
                    f"unknown option '{name}' of the backend coda", f"use {', '.join(names)}"
                )
        options = Options(**(given or {}))
        if options.fallback not in get_args(Fallback):
            raise CodaError(f"unknown fallback '{options.fallback}'", "use eager or inductor")
        if options.target not in ("auto", "triton", "reference"):
            raise CodaError(f"unknown target '{options.target}'", "use auto, triton or reference")
        return options


def coda(
    graph: GraphModule,
    example_inputs: list[Any],
    *,
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> Callable[..., Any]:
    """The backend `coda` of `torch.compile`.

    `options` are those of `Options`; `mode` is accepted for compatibility and changes nothing yet.
    """
    compiler = GraphCompiler(Options.of(mode, options))
    common: Any = import_module("torch._dynamo.backends.common")
    make = common.aot_autograd(fw_compiler=compiler, bw_compiler=compiler)
    return make(graph, example_inputs)


class GraphCompiler:
    """Compiles functional ATen graphs, one after the other."""

    def __init__(self, options: Options):
        self.options = options

    def __call__(self, graph: GraphModule, example_inputs: Sequence[Any]) -> Any:
        """The compiled graph, or what the fallback makes of it."""
        try:
            compiled = self._compile(graph)
        except CodaError as error:
            logger.warning("a graph runs through %s: %s", self.options.fallback, error)
            return self._fall_back(graph, example_inputs)
        functorch: Any = import_module("functorch.compile")

        def run(*inputs: Any) -> Sequence[Any]:
            return compiled(list(inputs))

        return functorch.make_boxed_func(run)

    def _fall_back(self, graph: GraphModule, example_inputs: Sequence[Any]) -> Any:
        if self.options.fallback == "inductor":
            inductor: Any = import_module("torch._inductor.compile_fx")
            return inductor.compile_fx_inner(graph, list(example_inputs))
        functorch: Any = import_module("functorch.compile")
        return functorch.make_boxed_func(graph.forward)

    def _compile(self, graph: GraphModule) -> Compiled:
        source = source_of(graph)
        device = _device_of(source)
        target = self._target(device)
        imported = GraphImporter(source, HANDLERS, "graph").run()
        TorchToCodaPass().apply(make_context(), imported.module)
        imported.module.verify()
        compiled = compile(
            imported.module,
            target=target,
            device=device,
            schedule=self.options.schedule,
            numerics=self.options.numerics,
        )
        _log_remarks(compiled)
        if not _has_gemm(compiled.module("scheduled")):
            raise CodaError("the graph has no GEMM", "nothing to do: it is not for this backend")
        return _Runner(imported, source, compiled)

    def _target(self, device: torch.device) -> Literal["triton", "reference"]:
        if self.options.target != "auto":
            return self.options.target
        if device.type == "cpu" and os.environ.get("TRITON_INTERPRET", "0") in ("", "0"):
            raise CodaError(
                "Triton has no kernels for the CPU", "use a GPU, or set TRITON_INTERPRET=1 to test"
            )
        return "triton"


class _Runner:
    """Calls a compiled function with the inputs of its graph, sizes among them."""

    def __init__(self, imported: ImportedGraph, source: GraphSource, compiled: CompiledFunction):
        self._positions = [index for index, name in enumerate(imported.inputs) if name]
        self._outputs = [_output(leaf, source) for leaf in imported.outputs]
        self._function = compiled.unchecked
        self.compiled = compiled

    def __call__(self, inputs: list[Any]) -> list[Any]:
        tensors = [inputs[position].detach() for position in self._positions]
        results = self._function(*tensors)
        return [output(results, inputs) for output in self._outputs]


def _output(leaf: Any, source: GraphSource) -> Callable[[Sequence[Any], list[Any]], Any]:
    """How a leaf of the output is found: a result, a size that the inputs tell, or a constant."""
    if isinstance(leaf, ResultNumber):
        return lambda results, inputs: results[leaf.index]
    if not isinstance(leaf, Node):
        return lambda results, inputs: leaf
    template = ArgumentTemplate.parse(symbolic_text(leaf.meta["val"]))
    places = {symbol: _place_of(symbol, source) for symbol in template.symbols}

    def size(results: Sequence[Any], inputs: list[Any]) -> int:
        symbols = {symbol: place(inputs) for symbol, place in places.items()}
        return template.evaluate((), symbols, {})[0][0]

    return size


def _place_of(symbol: str, source: GraphSource) -> Callable[[list[Any]], int]:
    """Where the inputs of a graph tell the value of a symbol."""
    for position, graph_input in enumerate(source.inputs):
        value = graph_input.node.meta.get("val")
        if isinstance(value, torch.SymInt) and symbolic_text(value) == symbol:
            return lambda inputs: inputs[position]
        if isinstance(value, torch.Tensor) and symbol in dims_of(value):
            axis = dims_of(value).index(symbol)
            return lambda inputs: inputs[position].shape[axis]
    raise CodaError(f"the graph returns the size {symbol}", "no input of the graph tells it")


def source_of(graph: GraphModule) -> GraphSource:
    """A functional graph of AOTAutograd; parameters are inputs like any other."""
    inputs: list[GraphInput] = []
    for node in graph.graph.nodes:
        if node.op == "placeholder":
            is_weight = isinstance(node.meta.get("val"), torch.nn.Parameter)
            inputs.append(GraphInput(node, node.name, is_weight=is_weight))
    leaves: Any = graph.graph.output_node().args[0]
    return GraphSource(graph.graph, inputs, list(leaves))


def _device_of(source: GraphSource) -> torch.device:
    """The device of the inputs. Raises CodaError where they are on several."""
    values = [graph_input.node.meta.get("val") for graph_input in source.inputs]
    # A number on the CPU goes with tensors anywhere, as in PyTorch.
    devices = {v.device for v in values if isinstance(v, torch.Tensor) and v.dim()}
    if len(devices) != 1:
        raise CodaError(
            f"the graph has inputs on {len(devices)} devices",
            "move the model and its inputs to one device",
        )
    return devices.pop()


def _has_gemm(module: ModuleOp) -> bool:
    return any(isinstance(op, FusedOp) for op in module.walk())


def _log_remarks(compiled: CompiledFunction) -> None:
    kinds = os.environ.get(LOGS_VARIABLE, "").replace(" ", "").split(",")
    wanted = set(REMARK_KINDS if kinds == ["all"] else kinds)
    for remark in compiled.remarks:
        if remark.kind in wanted:
            logger.warning("%s", remark)
