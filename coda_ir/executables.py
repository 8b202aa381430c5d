"""The stage `load`: makes an Executable of a function of a lowered program."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol, TypeAlias

from coda_ir.functions import count_operators, find_entry, used_arguments
from coda_ir.launching.executable import Sizes, TritonExecutable
from coda_ir.lowering import Lowering
from coda_ir.options import Target

if TYPE_CHECKING:
    import torch
    from xdsl.dialects.builtin import ModuleOp

    from coda_ir.backends.reference import Precision
    from coda_ir.cache.artifact import Artifact
    from coda_ir.calls.arguments import Signature
    from coda_ir.remarks import Remark


ProgramInfo: TypeAlias = "Artifact | ReferenceInfo"
"""Properties of a program beside its results."""


class Executable(Protocol):
    """A program on a device. Its caller has checked the tensors, and no size is 0."""

    @property
    def info(self) -> ProgramInfo: ...

    @property
    def has_cuda_graphs(self) -> bool:
        """True if a CUDA graph can replay a call."""
        ...

    def prepare(self, sizes: Sizes = MappingProxyType({})) -> None:
        """Do the work of the first call for these `sizes` of symbols."""
        ...

    def run(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]: ...

    def run_boxed(self, tensors: list[torch.Tensor]) -> tuple[torch.Tensor, ...]:
        """Like `run`, with a list that is emptied: tensors are freed after their last use."""
        ...


def start(target: Target, device: torch.device) -> None:
    """Start the one-time setup of a target in the background, while the program is lowered.

    Raises CodaError where Triton cannot run on the device.
    """
    if target == "reference":
        return
    if device.type == "cpu":
        from coda_ir.devices import require_triton_for

        require_triton_for(device)
    else:
        from coda_ir.launching.executable import start_triton

        start_triton()


def load(
    lowering: Lowering, function: str | None, target: Target, device: torch.device
) -> Executable:
    """Load a function of a program; None selects its only function."""
    if target == "reference":
        return ReferenceExecutable(lowering, function, device)
    artifact, jobs = lowering.artifact(function), lowering.options.jobs
    if not artifact.graph:
        return _begun(TritonExecutable(artifact, device, jobs, lowering.compiler))
    programs = {
        name: _begun(TritonExecutable(lowering.artifact(name), device, jobs, lowering.compiler))
        for name in artifact.programs
    }
    return GraphExecutable(artifact, programs, device)


def _begun(program: TritonExecutable) -> TritonExecutable:
    program.begin_compiling()
    return program


class GraphExecutable:
    """A PyTorch graph that Inductor compiles and that calls programs."""

    def __init__(
        self, artifact: Artifact, programs: Mapping[str, TritonExecutable], device: torch.device
    ):
        self.info, self.device = artifact, device
        self.has_cuda_graphs = device.type == "cuda"
        self._programs = programs
        for program in programs.values():
            program.beside = tuple(programs.values())

    @cached_property
    def _graph(self) -> Callable[..., tuple[torch.Tensor, ...]]:
        from coda_ir.inductor import load_graph

        name = self.info.signature.name
        return load_graph(self.info.graph, name, self._programs, self.device)

    def prepare(self, sizes: Sizes = MappingProxyType({})) -> None:
        """Import the programs and trace the graph."""
        for program in self._programs.values():
            program.prepare()
        _ = self._graph

    def run(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        # Kernels are compiled meanwhile: the first program that runs waits for those of all.
        return self._graph(*tensors)

    def run_boxed(self, tensors: list[torch.Tensor]) -> tuple[torch.Tensor, ...]:
        """Return the results; the graph frees nothing before it ends."""
        return self.run(*tensors)


class ReferenceExecutable:
    """A function that the reference backend runs, with the rounding that the IR states."""

    has_cuda_graphs = False

    def __init__(self, lowering: Lowering, function: str | None, device: torch.device):
        self.info = ReferenceInfo(lowering, function)
        self._lowering, self._device = lowering, device

    def prepare(self, sizes: Sizes = MappingProxyType({})) -> None:
        """Do nothing: the interpreter needs no preparation."""

    @cached_property
    def _module(self) -> ModuleOp:
        from coda_ir.context import make_context
        from coda_ir.passes.layout.own_results import OwnResultsPass

        module = self._lowering.module("block").clone()
        OwnResultsPass().apply(make_context(), module)
        return module

    def run(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return interpret(self._module, self.info.signature.name, tensors, self._device)

    def run_boxed(self, tensors: list[torch.Tensor]) -> tuple[torch.Tensor, ...]:
        """See `Executable.run_boxed`."""
        from coda_ir.backends.reference import run_boxed

        device = tensors[0].device if tensors else self._device
        func = find_entry(self._module, self.info.signature.name)
        return tuple(result.to(device) for result in run_boxed(func, tensors, "stated"))


class ReferenceInfo:
    """Facts about a function by its IR, which is lowered on demand."""

    kernels: tuple[str, ...] = ()

    def __init__(self, lowering: Lowering, function: str | None):
        from coda_ir.signatures import signature_of

        func = find_entry(lowering.module("block"), function)
        self.signature: Signature = signature_of(func)
        self.used_arguments = used_arguments(func)
        self._lowering, self._function = lowering, func.sym_name.data

    @property
    def operators(self) -> Mapping[str, int]:
        return count_operators(self._lowering.module("scheduled"), self._function)

    @property
    def source(self) -> str:
        return self._lowering.artifact(self._function).source

    @property
    def programs(self) -> tuple[str, ...]:
        return self._lowering.artifact(self._function).programs

    @property
    def remarks(self) -> tuple[Remark, ...]:
        self._lowering.module("scheduled")
        return tuple(self._lowering.remarks)

    @property
    def origin_remarks(self) -> tuple[Remark, ...]:
        self._lowering.module("block")
        return tuple(self._lowering.origin_remarks)


def interpret(
    module: ModuleOp,
    name: str,
    tensors: Sequence[torch.Tensor],
    device: torch.device,
    precision: Precision = "stated",
) -> tuple[torch.Tensor, ...]:
    """Return the reference backend's results, on the device of the tensors, or else on `device`."""
    from coda_ir.backends.reference import run_function

    results = run_function(find_entry(module, name), tensors, precision)
    place = tensors[0].device if tensors else device
    return tuple(result.to(place) for result in results)
