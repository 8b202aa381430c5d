"""`torch.compile(model, backend="coda")`: graphs of TorchDynamo as programs of the IR.

AOTAutograd makes the graphs functional; each is imported, raised and compiled like an exported
model. Where gradients are needed, the backward is derived from the imported graph. Where they are
refused, or a graph is estimated to be faster there, Inductor compiles the whole graph on GPUs; on
CPUs AOTAutograd cuts it into a forward and a backward graph, which are compiled. A graph without a
GEMM, or one that cannot be expressed, runs through the fallback. A message says why.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any

import torch
from torch.fx import GraphModule, Node
from xdsl.dialects.builtin import UnknownLoc

from coda_ir.collector import collector_paused
from coda_ir.diagnostics import CodaError
from coda_ir.frontends.torch.compile_options import RUNNERS, Options
from coda_ir.frontends.torch.decompositions import (
    activation_rules,
    batch_norm_rules,
    decompositions,
)
from coda_ir.frontends.torch.graph_compiler import GraphCompiler, LeftToInductor, TrainingCompiler
from coda_ir.frontends.torch.graph_inputs import (
    NothingToDo,
    described_graph,
    fix_numbers_of_modules,
    has_distributed_tensors,
    keep_operators_whole,
    model_inputs,
    needs_gradients,
    reason_for_eager,
)
from coda_ir.frontends.torch.graph_runner import without_overlaps
from coda_ir.frontends.torch.kept_scans import keep_scans
from coda_ir.frontends.torch.masked_rows import select_masked_rows
from coda_ir.frontends.torch.regions import has_products
from coda_ir.frontends.torch.remark_log import log_remarks
from coda_ir.frontends.torch.training_graphs import NotDerivedError, forward_graph
from coda_ir.frontends.torch.types import called_name, example_tensors, graphs_in, tensors_in
from coda_ir.frontends.torch.wide_operands import widen_losses, widen_tables
from coda_ir.launching.executable import start_triton
from coda_ir.remarks import Remark

logger = logging.getLogger(__name__)

NOT_FOLDED = Remark(
    "missed",
    "place-column-scale",
    "graph",
    UnknownLoc(),
    "no weight is folded: the graph needs gradients, or has a transform of torch.func",
    condition="the weights are frozen",
    suggestion="call the model inside of torch.no_grad() when it is not trained",
)


READS_VALUES = (
    "an operator reads a number or a size from a tensor, which has no values while the graph is "
    "traced\n"
    "  help: pass sizes as Python numbers, such as x.shape[0], and use torch.where for masks"
)
"""The reason why graphs with `arange(end=tensor)` or gradients of `x[mask] = y` do not compile."""

_TRANSFORMS = ("torch._C._functorch", "torch._functorch", "torch.autograd")
"""Modules of the functions that a graph calls for transforms. TorchDynamo replaces `torch.func` by
these private functions, and only their modules distinguish them from operators."""


@dataclass(frozen=True)
class LeftGraph:
    """A graph that Inductor has compiled whole, as by `torch.compile` without this backend."""

    run: Callable[..., Any]

    def __call__(self, *inputs: Any) -> Any:
        return self.run(*inputs)


def _keep_scans_of_transformers() -> None:
    """Prepare the scans of transformers, if it has been imported."""
    if "transformers" in sys.modules:
        with suppress(CodaError):
            keep_scans()


# PyTorch imports this module where a function is compiled, before it traces any.
_keep_scans_of_transformers()
if torch.cuda.is_initialized():
    with suppress(ImportError):
        start_triton()


def coda(
    graph: GraphModule,
    example_inputs: list[Any],
    *,
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> Callable[..., Any]:
    """The backend `coda` of `torch.compile`.

    `mode` is one of `MODES` and `options` are those of `Options`. Raises OptionError for others.
    """
    chosen = Options.of(mode, options)
    if chosen.target != "reference" and _are_on_gpu(example_inputs):
        start_triton()
    try:
        with collector_paused():
            run = _compiled(graph, example_inputs, chosen)
        return without_overlaps(run, graph, example_inputs)
    except LeftToInductor as reason:
        level = logging.WARNING if reason.is_refused or chosen.shown_remarks else logging.INFO
        logger.log(level, "%s runs in Inductor: %s", described_graph(graph), reason)
        patches = {"config_patches": {"emulate_precision_casts": True}} if reason.rounds else {}
        return LeftGraph(_lookup_backend("inductor")(graph, example_inputs, **patches))
    except Exception as error:
        # The model has to run, whatever is wrong with this compiler, or with how it traces.
        if chosen.errors == "raise" or _traces_again(error):
            raise
        name = "inductor" if _has_inductor(chosen, example_inputs) else "eager"
        left = f"{described_graph(graph)} runs in {RUNNERS[name]}"
        if _reads_values(error):
            logger.warning("%s: %s", left, READS_VALUES)
        else:
            logger.exception("%s: a defect of coda_ir", left)
        return _lookup_backend(name)(graph, example_inputs)


def _traces_again(error: Exception) -> bool:
    """Return whether TorchDynamo traces the function again, with a number as a constant."""
    # Where a version of PyTorch lacks the name, such a graph runs in another compiler.
    restart: Any = getattr(import_module("torch._dynamo.exc"), "RestartAnalysis", ())
    return isinstance(error, restart)


def _reads_values(error: Exception) -> bool:
    """Return whether AOTAutograd cannot trace a graph without the values of a tensor."""
    # Where a version of PyTorch lacks a name, the message is that of a defect.
    fake_tensor: Any = import_module("torch._subclasses.fake_tensor")
    names = ("DataDependentOutputException", "DynamicOutputShapeException")
    return isinstance(error, tuple(getattr(fake_tensor, name, ()) for name in names))


def _are_on_gpu(inputs: list[Any]) -> bool:
    return any(tensor.device.type != "cpu" for tensor in tensors_in(inputs))


def _has_inductor(chosen: Options, inputs: list[Any]) -> bool:
    return chosen.runs_through_inductor(*(tensor.device for tensor in tensors_in(inputs)))


def _compiled(graph: GraphModule, example_inputs: list[Any], chosen: Options) -> Callable[..., Any]:
    """Compile a graph. Raises LeftToInductor if another compiler is better for it."""
    if any(tensor.is_nested for tensor in tensors_in(example_inputs)):
        name = "inductor" if _has_inductor(chosen, example_inputs) else "eager"
        logger.warning(
            "%s reads nested tensors and runs in %s", described_graph(graph), RUNNERS[name]
        )
        return _lookup_backend(name)(graph, example_inputs)
    if reason := reason_for_eager(graph):
        logger.warning("%s runs in eager PyTorch: %s", described_graph(graph), reason)
        return _lookup_backend("eager")(graph, example_inputs)
    inputs = model_inputs(graph)
    fix_numbers_of_modules(graph)
    widen_losses(graph)
    is_whole = not (_transforms_itself(graph) or has_distributed_tensors(example_inputs))
    if is_whole:
        select_masked_rows(graph)
    if is_whole and not needs_gradients(graph, example_inputs):
        return _trace_whole(GraphCompiler(chosen, inputs), graph, example_inputs)
    chosen = _without_inference(chosen)
    widen_tables(graph)
    if is_whole and chosen.backward == "derived":
        compiler: TrainingCompiler | None = None
        try:
            forward = forward_graph(graph)
            with torch.no_grad():
                compiler = TrainingCompiler(chosen, inputs, forward)
                return _trace_whole(compiler, forward, example_inputs)
        except NotDerivedError as reason:
            is_refused = not isinstance(reason.__cause__, NothingToDo) and has_products(graph)
            if _has_inductor(chosen, example_inputs):
                rounds = compiler is not None and compiler.rounds
                raise LeftToInductor(
                    f"no gradients are derived: {reason}", rounds, is_refused=is_refused
                ) from reason
            level = logging.WARNING if is_refused else logging.INFO
            logger.log(level, "the gradients of a graph are left to autograd: %s", reason)
    backend = _aot_autograd(
        fw_compiler=GraphCompiler(chosen, inputs, is_trained=True),
        bw_compiler=GraphCompiler(chosen, inputs, is_backward=True, is_trained=True),
        decompositions={**batch_norm_rules(), **activation_rules()},
        # Otherwise PyTorch refuses statistics that change before a checkpointed norm runs again.
        keep_inference_input_mutations=True,
    )
    return backend(graph, example_inputs)


def _lookup_backend(name: str) -> Any:
    # PyTorch documents it under this name, in its page on custom backends.
    return import_module("torch._dynamo").lookup_backend(name)


def _without_inference(chosen: Options) -> Options:
    """Return options without those for inference; a remark names weights that are not folded."""
    if chosen.fold_weights:
        log_remarks([NOT_FOLDED], chosen.shown_remarks)
    return replace(chosen, cuda_graphs=False, fold_weights=False)


def _trace_whole(
    compiler: GraphCompiler, graph: GraphModule, example_inputs: list[Any]
) -> Callable[..., Any]:
    """Make a graph functional by AOTAutograd without decomposing its operators, and compile it."""
    with keep_operators_whole(is_differentiated=compiler.is_differentiated):
        backend = _aot_autograd(
            fw_compiler=compiler,
            decompositions={op: r for op, r in decompositions().items() if op.namespace == "aten"},
            keep_inference_input_mutations=compiler.updates_inputs,
        )
        return backend(graph, example_inputs)


def _aot_autograd(**compilers: Any) -> Any:
    # PyTorch documents it under this name, in its page on custom backends.
    return import_module("torch._dynamo.backends.common").aot_autograd(**compilers)


def _transforms_itself(graph: GraphModule) -> bool:
    """Return whether a graph applies `torch.func` transforms or `torch.autograd.grad` to numbers
    that are no integers, which requires PyTorch's own rules for their operators.

    Transformers build masks by `vmap` over the numbers of rows and columns, whose operators need no
    such rules.
    """
    return any(map(_transforms_numbers, graphs_in(graph)))


def _transforms_numbers(graph: GraphModule) -> bool:
    transformed: set[Node] = set()
    for node in graph.graph.nodes:
        is_transform = str(getattr(node.target, "__module__", None) or "").startswith(_TRANSFORMS)
        if is_transform and any(_has_numbers(given) for given in node.all_input_nodes):
            return True
        if is_transform or not transformed.isdisjoint(node.all_input_nodes):
            if _has_numbers(node):
                return True
            if called_name(node) != "_remove_batch_dim":
                transformed.add(node)
    return False


def _has_numbers(node: Node) -> bool:
    """Return whether a node has a tensor of numbers that are no integers."""
    return any(x.is_floating_point() or x.is_complex() for x in example_tensors(node))
