"""Compiles the functional graphs of AOTAutograd: alone, or together with their backward."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from importlib import import_module
from typing import Any

import torch
from torch.fx import GraphModule, Node

from coda_ir.api import CompiledFunction, compile
from coda_ir.calls.arguments import may_have_tangents
from coda_ir.context import make_context
from coda_ir.cost_model.comparison import Estimates
from coda_ir.cost_model.devices import DEVICES, device_named
from coda_ir.defects import Described, WithFallback
from coda_ir.devices import interpreter_is_asked_for
from coda_ir.diagnostics import CodaError, MachineError
from coda_ir.dialects.gemm import FusedOp, LibraryOp
from coda_ir.dialects.torch import CallOp
from coda_ir.frontends.torch.attention import copied_us, masked_attention
from coda_ir.frontends.torch.compile_options import RUNNERS, Options
from coda_ir.frontends.torch.graph_inputs import (
    DynamoGraph,
    ModelInput,
    NothingToDo,
    described_graph,
)
from coda_ir.frontends.torch.graph_runner import (
    GraphRunner,
    Run,
    detaching,
    make_updates_results,
    storing_updates,
)
from coda_ir.frontends.torch.importer import GraphImporter, ImportedGraph
from coda_ir.frontends.torch.operators import HANDLERS
from coda_ir.frontends.torch.regions import (
    RegionCall,
    gives_one_value,
    has_products,
    regions_in,
    split_graph,
)
from coda_ir.frontends.torch.remark_log import log_remarks, log_verdict
from coda_ir.frontends.torch.result_views import split_off_views
from coda_ir.frontends.torch.training_graphs import NotDerivedError, stop_updates
from coda_ir.frontends.torch.types import Runner, has_effects, tensors_in
from coda_ir.functions import find_entry
from coda_ir.inductor import compiled_by_inductor
from coda_ir.launching.cuda_graphs import CudaGraphs, CudaRecorder
from coda_ir.options import Accept, ProgramOptions, Target, Tune
from coda_ir.pages import add_page, graph_options
from coda_ir.passes.block.set_numerics import SetNumericsPass
from coda_ir.passes.block.store_operands import values_to_store
from coda_ir.passes.pipelines.torch_to_coda import TorchToCodaPass
from coda_ir.remarks import Remark, collect_remarks
from coda_ir.training.functions import TrainableFunction
from coda_ir.tuning.context import current_device, gpu_name

logger = logging.getLogger(__name__)

MAX_KERNELS = 1.2
"""Inductor compiles a graph if the estimated time of a program's kernels is more than this multiple
of that of Inductor's kernels, even if the program saves time on the host: estimates for the host
are less reliable, and a replayed CUDA graph takes no time there. On an H200, four blocks with
estimates of 1.16 to 1.20 took 0.56 to 0.93 of the time of Inductor's kernels.
"""

MEASURED = 0.95
"""The ratio of the times that programs' and Inductor's kernels take, beside that of estimates: 0.92
in the geometric mean of 48 blocks on an H200, with a deviation of 19 %.
"""

MASK_SHARE = 0.06
"""The time that cuDNN adds for a mask that hides the same keys as causal attention, which a program
calls instead, as a share of storing the scores: 2.0 - 0.75 of the time without a mask.
"""


class LeftToInductor(Exception):
    """Raised to leave a whole graph to Inductor, which is faster or derives the gradients."""

    def __init__(self, reason: str, rounds: bool = False, *, is_refused: bool = False):
        super().__init__(reason)
        self.rounds, self.is_refused = rounds, is_refused


class GraphCompiler:
    """Compiles functional ATen graphs."""

    updates_inputs = True
    """True where the compiled graph stores new values of inputs, False where its caller does."""

    is_differentiated = False
    """True where the backward is derived from what is compiled."""

    rounds = False
    """True if all kernels must round as eager PyTorch does, before a discontinuous function."""

    def __init__(
        self,
        options: Options,
        inputs: Sequence[ModelInput] = (),
        *,
        is_backward: bool = False,
        is_trained: bool = False,
    ):
        """Set up the compiler; `inputs` are those of TorchDynamo's graph."""
        self.options = options
        self._is_trained = is_trained
        self._inputs = inputs
        self._is_backward = is_backward
        self._refusals = logging.WARNING
        self._splits = True

    def __call__(self, graph: GraphModule, example_inputs: Sequence[Any]) -> Any:
        """Return the compiled graph, or the result of the fallback."""
        _give_zeros_memory(graph)
        return _boxed(self._compile_or_fall_back(graph))

    def _compile_or_fall_back(self, graph: GraphModule) -> Runner:
        if self._is_backward:
            return self._run_of(graph)
        if not self._is_trained:
            with_views = split_off_views(graph)
            return with_views(self._run_of(graph))
        leaves: Any = graph.graph.output_node().args[0]
        are_computed = [isinstance(leaf, Node) and leaf.op != "placeholder" for leaf in leaves]
        return detaching(self._run_of(graph), are_computed)

    def _run_of(self, graph: GraphModule) -> Runner:
        updated = make_updates_results(graph)
        compiled = self._try_to_compile(graph, updated)
        if compiled is None:
            return storing_updates(self._fall_back(graph), updated)
        eager = storing_updates(_eager(graph), updated)
        return self._guarded(compiled, eager, graph, changes_inputs=bool(updated))

    def _guarded(
        self, compiled: Runner, eager: Runner, graph: GraphModule, *, changes_inputs: bool = False
    ) -> Runner:
        """Return `compiled`, replaced by `eager` for inputs that may have tangents, and once a call
        failed by a defect of this compiler.
        """

        def run(inputs: list[Any]) -> Sequence[Any]:
            return eager(inputs) if may_have_tangents() else compiled(inputs)

        if self.options.errors == "raise":
            return run

        def describe() -> Described:
            return Described(described_graph(graph), "eager PyTorch", 'options={"errors": "raise"}')

        return WithFallback(run, eager, describe, changes_inputs=changes_inputs)

    def _try_to_compile(self, graph: GraphModule, updated: Sequence[int]) -> Runner | None:
        """Compile the graph, or the regions that can be compiled; None if nothing can."""
        fallback = "inductor" if self._is_for_inductor(graph) else "eager"
        try:
            return self._compile(graph, updated)
        except LeftToInductor:
            raise
        except CodaError as error:
            is_refused = not isinstance(error, NothingToDo) and has_products(graph)
            split = split_graph(graph) if self._splits and is_refused else None
            if split is not None:
                through = "eager" if has_effects(graph) else fallback
                logger.warning("a region of a graph runs in %s: %s", RUNNERS[through], error)
                return storing_updates(self._compile_regions(split), updated)
            if fallback == "inductor" and not self._is_part:
                raise LeftToInductor(str(error), self.rounds, is_refused=is_refused) from error
            level = self._refusals if is_refused else logging.INFO
            logger.log(level, "a graph runs in %s: %s", RUNNERS[fallback], error)
        except Exception:
            # The model has to run, whatever is wrong with this compiler.
            if self.options.errors == "raise":
                raise
            logger.exception("a graph runs in %s because of a defect of coda_ir", RUNNERS[fallback])
        return None

    @property
    def _is_part(self) -> bool:
        """True for a region, and for a forward or backward graph that AOTAutograd has cut."""
        return self._is_backward or (self._is_trained and self.updates_inputs)

    def _compile_regions(self, split: GraphModule) -> Runner:
        options = replace(self.options, cuda_graphs=False)
        trained = self._is_trained
        compiler = GraphCompiler(options, self._inputs, is_backward=True, is_trained=trained)
        compiler._refusals = logging.INFO
        # What cannot be imported of a region runs with the rest of it.
        compiler._splits = False
        for node, region in regions_in(split):
            call = compiler._compile_or_fall_back(region)
            setattr(split, str(node.target), RegionCall(call, is_single=gives_one_value(region)))
        return lambda inputs: split.forward(*inputs)

    def _fall_back(self, graph: GraphModule) -> Runner:
        return _inductor(graph) if self._is_for_inductor(graph) else _eager(graph)

    def _is_for_inductor(self, graph: GraphModule) -> bool:
        # Inductor keeps the order of effects only in whole graphs.
        if self._is_part and has_effects(graph):
            return False
        nodes = [node.meta.get("val") for node in graph.graph.nodes]
        devices = {tensor.device for value in nodes for tensor in tensors_in(value)}
        return self.options.runs_through_inductor(*devices)

    def _compile(self, graph: GraphModule, updated: Sequence[int] = ()) -> GraphRunner:
        captured = DynamoGraph(graph, self._inputs, updated, is_backward=self._is_backward)
        imported, remarks = self._import(captured)
        choices = self._choices(captured)
        choices["fold_weights"] = self.options.fold_weights
        with _tensors_with_data():
            accept = self._accept(graph, captured.device, is_trained=False)
            compiled: CompiledFunction = compile(imported.module, accept=accept, **choices)
            compiled.prepare(captured.size_hints)
            self._report(graph, captured, imported, compiled, [*remarks, *compiled.remarks])
            _expect_gemm(compiled)
            return GraphRunner(captured, imported, compiled, self._cuda_graphs(compiled))

    def _import(self, captured: DynamoGraph) -> tuple[ImportedGraph, list[Remark]]:
        """Import a graph and raise its operators; return the module, and the remarks of raising."""
        with collect_remarks() as remarks, _tensors_with_data():
            imported = GraphImporter(captured.source, HANDLERS, "graph").run()
            if self.options.numerics is not None:
                SetNumericsPass(self.options.numerics).apply(make_context(), imported.module)
            TorchToCodaPass().apply(make_context(), imported.module)
        imported.module.verify()
        self.rounds = bool(values_to_store(list(find_entry(imported.module).body.block.ops)))
        return imported, remarks

    def _choices(self, captured: DynamoGraph) -> ProgramOptions:
        """Return the arguments of `coda_ir.compile`."""
        device = captured.device
        target = self._target(device)
        tune = self._tune(target)
        return {
            "target": target,
            "device": device,
            "schedule": self.options.schedule or (None if tune else captured.schedule),
            "numerics": self.options.numerics,
            "pack_weights": self.options.pack_weights,
            "tune": tune,
            "leftovers": "inductor" if self._makes_graphs(device, target) else "kernels",
        }

    def _makes_graphs(self, device: torch.device, target: Target) -> bool:
        """Return whether Inductor may run the leftovers of a program."""
        options = self.options
        # Parts of logits are stored one after the other, an order that Inductor does not know.
        has_order = options.stream_logits is not None
        # Tuning measures kernels, and not what Inductor makes.
        is_wanted = options.fallback == "inductor" or not options.tune
        is_possible = target == "triton" and not has_order
        return is_possible and is_wanted and options.runs_through_inductor(device)

    def _tune(self, target: Target) -> Tune:
        """Return the option `tune`, if there is a device to measure on."""
        if self.options.tune is False or target != "triton":
            return False
        if current_device() is None:
            logger.info("a graph is not tuned: there is no GPU to measure on")
            return False
        return self.options.tune

    def _accept(
        self, graph: GraphModule, device: torch.device, *, is_trained: bool
    ) -> Accept | None:
        """Return a check that raises LeftToInductor if Inductor is estimated to run the whole graph
        faster; None if the two are not compared.
        """
        options = self.options
        is_compared = options.compare and options.runs_through_inductor(device)
        if self._is_part or options.has_wishes or not is_compared:
            return None

        def accept(estimates: Estimates | None) -> None:
            if estimates is None:
                return
            chip = device_named(gpu_name(), DEVICES["sm_90"])
            masked = masked_attention(graph, chip, is_trained=is_trained)
            copied = copied_us(graph, chip, is_trained=is_trained)
            # What both compute with a mask takes as long in both, where PyTorch reads the mask.
            both = max(0.0, estimates.masked + estimates.read - masked.unread)
            stored = max(0.0, masked.us - max(masked.by_cudnn, both))
            hidden = MASK_SHARE * max(0.0, masked.by_cudnn - both)
            apart = estimates.apart_gpu + stored + hidden + copied
            found = estimates._replace(apart_gpu=apart)
            if not _is_worth(found):
                raise LeftToInductor(
                    f"{found.fused / 1000:.2f} ms are estimated as GEMMs with epilogues, "
                    f"{found.apart / 1000:.2f} by Inductor, of kernels "
                    f"{found.fused_gpu / 1000:.2f} and {found.apart_gpu / 1000:.2f} "
                    '(options={"compare": False} compiles it here)',
                    self.rounds,
                )

        return accept

    def _report(
        self,
        graph: GraphModule,
        captured: DynamoGraph,
        imported: ImportedGraph,
        program: CompiledFunction | TrainableFunction,
        remarks: Sequence[Remark],
    ) -> None:
        shown = self.options.shown_remarks
        log_verdict(described_graph(graph), program.operators, shown=shown)
        log_remarks(remarks, shown)
        if self.options.pages is not None:
            arch = self.options.explore_arch
            chosen = graph_options(arch, captured.size_hints, captured.device)
            add_page(self.options.pages, imported.module, chosen)

    def _cuda_graphs(self, compiled: CompiledFunction) -> Callable[[Run, GraphRunner], Run] | None:
        """Return a function that wraps a program in CUDA graphs; None if there are none."""
        if not self.options.cuda_graphs:
            return None
        reason = _why_not_captured(compiled)
        if reason is not None:
            logger.info("a graph runs without CUDA graphs: %s", reason)
            return None
        recorder = CudaRecorder(compiled.device)
        return lambda run, runner: CudaGraphs(run, recorder, runner.fixed, runner.updated)

    def _target(self, device: torch.device) -> Target:
        if self.options.target != "auto":
            return self.options.target
        if device.type == "cpu" and not interpreter_is_asked_for():
            raise MachineError(
                "Triton kernels do not run on the CPU",
                "use a GPU, or set TRITON_INTERPRET=1 to test",
            )
        return "triton"


class TrainingCompiler(GraphCompiler):
    """Compiles graphs that AOTAutograd traced without gradients, together with their backward."""

    updates_inputs = False
    is_differentiated = True

    def __init__(self, options: Options, inputs: Sequence[ModelInput], forward: GraphModule):
        """Set up the compiler; `forward` is TorchDynamo's graph."""
        super().__init__(options, inputs, is_trained=True)
        self._forward = forward

    def _compile_or_fall_back(self, graph: GraphModule) -> Runner:
        """Compile, or fall back. Raises NotDerivedError if PyTorch must derive the gradients."""
        try:
            changed = stop_updates(self._forward, graph, self._inputs)
            with_views = split_off_views(graph)
            run = self._guarded(self._compile(graph), _eager(graph), graph)
            return _copying(_enabling_gradients(with_views(run)), changed)
        except (LeftToInductor, NotDerivedError):
            raise
        except CodaError as error:
            raise NotDerivedError(error.message, error.remedy) from error
        except Exception as error:
            # The model has to run, whatever is wrong with this compiler.
            if self.options.errors == "raise":
                raise
            logger.exception("the gradients of a graph cannot be derived: a defect of coda_ir")
            raise NotDerivedError("a defect of coda_ir", "report it") from error

    def _compile(self, graph: GraphModule, updated: Sequence[int] = ()) -> GraphRunner:
        captured = DynamoGraph(graph, self._inputs, updated)
        imported, remarks = self._import(captured)
        wrt = _with_gradients(captured, imported)
        with _tensors_with_data():
            trained = compile(
                imported.module,
                training=True,
                memory_budget=self.options.memory_budget,
                stream_logits=self.options.stream_logits,
                **self._choices(captured),
            )
            accept = self._accept(graph, captured.device, is_trained=True)
            trained.prepare(wrt, captured.size_hints, accept)
            self._report(graph, captured, imported, trained, [*remarks, *trained.remarks])
            _expect_gemm(trained)
            return GraphRunner(captured, imported, trained)


def _is_worth(found: Estimates) -> bool:
    """Return whether a program is no slower than Inductor's in a call, nor in the geometric mean of
    a call and of its kernels, which are all that a call replayed from a CUDA graph takes, nor much
    slower in kernels alone.
    """
    kernels, host = MEASURED * found.fused_gpu, found.fused_host
    is_close = kernels <= MAX_KERNELS * found.apart_gpu
    call, both = max(kernels, host), max(kernels, host) * kernels
    return is_close and call <= found.apart and both <= found.apart * found.apart_gpu


def _give_zeros_memory(graph: GraphModule) -> None:
    """Give memory to zero tangents, which PyTorch makes without any."""
    for node in graph.graph.nodes:
        if str(node.target) == "aten._efficientzerotensor.default":
            node.target = torch.ops.aten.zeros.default
    graph.recompile()


def _eager(graph: GraphModule) -> Runner:
    return lambda inputs: graph.forward(*inputs)


def _inductor(graph: GraphModule) -> Runner:
    """Return a functional ATen graph that Inductor compiles in its first call."""

    def forward(*inputs: Any) -> Any:
        return graph.forward(*inputs)

    compiled = compiled_by_inductor(forward, is_dynamic=None if _may_vary(graph) else False)
    return lambda inputs: compiled(*inputs)


def _may_vary(graph: GraphModule) -> bool:
    """Return whether a graph has symbolic sizes, or inputs other than tensors."""
    values = [node.meta.get("val") for node in graph.graph.nodes]
    sizes = [size for value in values for x in tensors_in(value) for size in x.shape]
    inputs = [node.meta.get("val") for node in graph.graph.find_nodes(op="placeholder")]
    are_tensors = all(isinstance(value, torch.Tensor) for value in inputs)
    return not are_tensors or any(isinstance(size, torch.SymInt) for size in (*values, *sizes))


def _enabling_gradients(runner: Runner) -> Runner:
    """Return `runner` for AOTAutograd, which calls it like one without gradients."""

    def run(inputs: list[Any]) -> Sequence[Any]:
        with torch.enable_grad():
            return runner(inputs)

    return run


def _copying(runner: Runner, changed: Sequence[int]) -> Runner:
    """Return `runner` on copies of the inputs that change later: the backward may read them."""
    if not changed:
        return runner

    def run(inputs: list[Any]) -> Sequence[Any]:
        given = list(inputs)
        for position in changed:
            given[position] = given[position].clone()
        return runner(given)

    return run


def _with_gradients(captured: DynamoGraph, imported: ImportedGraph) -> list[str]:
    """Return the names of the arguments that require gradients."""
    named = zip(imported.inputs, captured.inputs, strict=True)
    return [name for name, given in named if name and captured.requires_grad(given.node)]


def _tensors_with_data() -> AbstractContextManager[None]:
    """Within the context, leave AOTAutograd's tracing mode, whose tensors have no data."""
    # PyTorch documents no other way. Without it the graph runs through the fallback.
    fake_tensor = import_module("torch._subclasses.fake_tensor")
    return getattr(fake_tensor, "unset_fake_temporarily", nullcontext)()


def _boxed(runner: Runner) -> Any:
    """Return a compiled graph that AOTAutograd calls with a list."""
    functorch: Any = import_module("functorch.compile")

    def run(*inputs: Any) -> Sequence[Any]:
        return runner(list(inputs))

    return functorch.make_boxed_func(run)


def _why_not_captured(compiled: CompiledFunction) -> str | None:
    if not compiled.executable.has_cuda_graphs:
        return "only programs that run on a GPU have them"
    calls = [op for op in compiled.module("block").walk() if isinstance(op, CallOp)]
    if any(op.random for op in calls):
        return "it draws random numbers"
    if any("size(" in op.arguments.data for op in calls):
        return "its sizes depend on data"
    return None


def _expect_gemm(program: CompiledFunction | TrainableFunction) -> None:
    """Raise NothingToDo for a program without a GEMM."""
    if not any(op.name in program.operators for op in (FusedOp, LibraryOp)):
        raise NothingToDo(
            "the graph has no linear map to fuse operators with; PyTorch computes products of two "
            "activations (bmm)",
            "no action is needed: there is nothing to fuse",
        )
