"""What `compile` gives: a function of tensors, and what can be seen of how it was made."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from threading import RLock
from types import MappingProxyType, ModuleType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from coda_ir.calls.copies import NotCopied
from coda_ir.calls.results import Results, unpack
from coda_ir.functions import count_operators, find_entry, used_arguments
from coda_ir.lowering import Level, Lowering
from coda_ir.untraced import untraced

if TYPE_CHECKING:
    import torch
    from xdsl.dialects.builtin import ModuleOp

    from coda_ir.backends.reference import Precision
    from coda_ir.backends.triton.aot import KernelResources
    from coda_ir.cache.artifact import Artifact
    from coda_ir.calls.arguments import Signature
    from coda_ir.calls.checks import CallCheck
    from coda_ir.launching.graphed import GraphedFunction
    from coda_ir.remarks import Remark

Target: TypeAlias = Literal["triton", "reference"]

FOLDED_WEIGHT = "gemm.scale_weight"
"""Name of the operator, whose class is not imported here."""


_INTERPRETER = RLock()


def _interpreted(run: Callable[..., Results]) -> Callable[..., Results]:
    """`run` for one thread at a time: there is one interpreter, which knows one program."""

    def run_alone(*arguments: Any) -> Results:
        with _INTERPRETER:
            return run(*arguments)

    return run_alone


class CompiledFunction(NotCopied):
    """A function ready to be called with `torch.Tensor`s, by position or by name.

    Gives a tensor, or a tuple where the function has several results. Each call checks the
    tensors and raises an `ArgumentError` (a CodaError) where one does not fit. Tensors may be
    strided. A call in which a symbol is 0 launches nothing.
    """

    def __init__(
        self, lowering: Lowering, function: str | None, target: Target, device: torch.device
    ):
        """`function` may be None where the program has only one."""
        self.target: Target = target
        self.device = device
        self._lowering = lowering
        self._function = function

    @cached_property
    def signature(self) -> Signature:
        """The arguments and the results."""
        if self.target == "triton":
            return self._artifact.signature
        from coda_ir.signatures import signature_of

        return signature_of(find_entry(self._lowering.module("block"), self._function))

    @property
    def name(self) -> str:
        return self.signature.name

    @cached_property
    def _artifact(self) -> Artifact:
        if self.device.type != "cpu":
            from coda_ir.launching.triton_start import start_triton

            start_triton()
        return self._lowering.artifact(self._function)

    def __repr__(self) -> str:
        return f"<CompiledFunction {self.signature} for {self.target} on {self.device}>"

    def prepare(self, sizes: Mapping[str, int] = MappingProxyType({})) -> None:
        """Do now what the first call would have to do; `sizes` of symbols matter where schedules
        are tuned.
        """
        _ = self._arguments
        if self.target == "triton":
            _ = self._run

    @untraced
    def __call__(self, *args: torch.Tensor, **kwargs: torch.Tensor) -> Any:
        fitting = self._arguments.find(args, kwargs)
        if fitting is not None:
            return unpack(self.unchecked(*fitting))
        tensors, bindings = self.signature.check(self.signature.collect(args, kwargs), self.device)
        return unpack(self.run_checked(tensors, bindings))

    def fitting(
        self, args: Sequence[torch.Tensor], kwargs: Mapping[str, torch.Tensor]
    ) -> Sequence[torch.Tensor] | None:
        """The arguments of a call by position where it is plain that they fit, ready for
        `unchecked`; None where a call would raise an ArgumentError, or a size is 0.
        """
        return self._arguments.find(args, kwargs)

    def graphed(self) -> GraphedFunction:
        """The function with calls that replay a CUDA graph; see `GraphedFunction`."""
        from coda_ir.launching.graphed import GraphedFunction

        return GraphedFunction(self)

    @cached_property
    def _arguments(self) -> CallCheck:
        from coda_ir.calls.checks import CallCheck

        return CallCheck(self.signature, self.device)

    def sizes(self, *tensors: torch.Tensor) -> dict[str, int]:
        """The sizes of the symbols in a call with these tensors.

        Raises an ArgumentError where one does not fit.
        """
        fitting = self._arguments.find(tensors, {})
        if fitting is not None:
            return self._arguments.sizes(fitting)
        return self.signature.check(tensors, self.device)[1]

    def run_checked(
        self, tensors: Sequence[torch.Tensor], sizes: Mapping[str, int]
    ) -> tuple[torch.Tensor, ...]:
        """A call with tensors that have been checked; `sizes` are those of the symbols."""
        return self._run_empty(tensors, sizes) if 0 in sizes.values() else self.unchecked(*tensors)

    def run_boxed(
        self, tensors: list[torch.Tensor], sizes: Mapping[str, int]
    ) -> tuple[torch.Tensor, ...]:
        """`run_checked` with a list that the program of a boxed function empties: what nobody else
        holds is freed after its last use.
        """
        if 0 in sizes.values():
            return self._run_empty(tensors, sizes)
        if self._is_autocast():
            import torch

            with torch.autocast(self.device.type, enabled=False):
                return self.run_boxed(tensors, sizes)
        results = self._run_boxed(tensors)
        return results if isinstance(results, tuple) else (results,)

    def reference(
        self,
        inputs: Mapping[str, torch.Tensor] | Sequence[torch.Tensor],
        *,
        level: Level = "block",
        precision: Precision = "float64",
    ) -> Any:
        """Run the function at `level` with the reference backend: in float64, or rounding where
        the IR states it (`stated`). `inputs` are the tensors by name or in order.
        """
        by_name = isinstance(inputs, Mapping)
        values = self.signature.collect(() if by_name else inputs, inputs if by_name else {})
        tensors, _ = self.signature.check(values, None)
        return unpack(self._interpret(tensors, level, precision))

    def module(self, level: Level) -> ModuleOp:
        """A copy of the module at a level: `block`, `gemm` or `scheduled`."""
        return self._lowering.module(level).clone()

    def ir(self, level: Level) -> str:
        """The printed IR at a level: `block`, `gemm` or `scheduled`."""
        return str(self._lowering.module(level))

    @property
    def source(self) -> str:
        """The text of the emitted Triton module."""
        return self._artifact.source

    @property
    def remarks(self) -> tuple[Remark, ...]:
        """What the passes fused, what they refused, and why."""
        if self.target == "triton":
            return self._artifact.remarks
        self._lowering.module("scheduled")
        return tuple(self._lowering.remarks)

    @property
    def origin_remarks(self) -> tuple[Remark, ...]:
        """Of a derived program, what was decided while it was derived."""
        if self.target == "triton":
            return self._artifact.origin_remarks
        self._lowering.module("block")
        return tuple(self._lowering.origin_remarks)

    @property
    def kernels(self) -> tuple[str, ...]:
        """Names of the generated kernels in the order of their first launch; () for `reference`."""
        return self._artifact.kernels if self.target == "triton" else ()

    @cached_property
    def used_arguments(self) -> tuple[bool, ...]:
        """For each argument whether the function needs it."""
        if self.target == "triton":
            return self._artifact.used_arguments
        return used_arguments(find_entry(self._lowering.module("block"), self._function))

    @cached_property
    def operators(self) -> Mapping[str, int]:
        """How many operators of each name the scheduled function has, epilogues included."""
        if self.target == "triton":
            return self._artifact.operators
        return count_operators(self._lowering.module("scheduled"), self._function)

    @property
    def comparison(self) -> tuple[float, float] | None:
        """Estimates in microseconds: of the program, and of the GEMMs of the library with the
        kernels of a compiler between them. None where the library of the device is not known.
        """
        return self._artifact.comparison if self.target == "triton" else None

    @property
    def folds_weights(self) -> bool:
        """Whether calls read copies of weights into which others were folded."""
        return self._lowering.options.fold_weights and FOLDED_WEIGHT in self.operators

    def resources(self, arch: str) -> tuple[KernelResources, ...]:
        """What each kernel uses of an architecture, such as `sm_90` or `gfx942`, scheduled and
        compiled for it: registers, spills, shared memory, occupancy. Needs no GPU.

        Raises CodaError for an unknown architecture, and where a kernel does not compile.
        """
        from coda_ir.backends.triton import emit_program
        from coda_ir.backends.triton.aot import compile_kernels, find_architecture

        schedule, given = find_architecture(arch).schedule, self._lowering.options
        options = replace(given, schedule=schedule, architecture="cpu", tuning=None)
        lowering = Lowering(self._lowering.module("block"), options)
        names = self._artifact.programs or (self.name,)
        programs = [emit_program(lowering.module("scheduled"), name) for name in names]
        compiled = [compile_kernels(program.kernels, arch) for program in programs]
        return tuple(kernel.resources for kernels in compiled for kernel in kernels)

    @cached_property
    def _generated(self) -> ModuleType:
        from coda_ir.cache import load_source
        from coda_ir.devices import require_triton_for

        require_triton_for(self.device)
        if self.device.type != "cpu":
            from coda_ir.launching.triton_start import wait_for_triton

            wait_for_triton()
        return load_source(self.source, self.name)

    @cached_property
    def _programs(self) -> Mapping[str, CompiledFunction]:
        """The programs that the graph of the function calls; none where it is a program."""
        return {
            name: CompiledFunction(self._lowering, name, self.target, self.device)
            for name in self._artifact.programs
        }

    @cached_property
    def _graph(self) -> Callable[..., Results]:
        """The graph of the function, which calls its programs."""
        from coda_ir.inductor import load_graph

        for program in self._programs.values():
            program.prepare()
        return load_graph(self._artifact.graph, self.name, self._programs, self.device)

    @cached_property
    def _run(self) -> Callable[..., Results]:
        if self.target == "triton":
            is_graph = bool(self._artifact.graph)
            return self._with_kernels("_run", self._graph if is_graph else self._generated.run)
        return lambda *tensors: self._interpret(tensors, "block", "stated")

    @cached_property
    def _run_boxed(self) -> Callable[[list[torch.Tensor]], Results]:
        if self.target == "reference":
            return self._interpret_boxed
        has_module = not self._artifact.graph
        boxed = getattr(self._generated, "run_boxed", None) if has_module else None
        if boxed is None:
            return lambda tensors: self._run(*tensors)
        return self._with_kernels("_run_boxed", boxed)

    def _with_kernels(self, name: str, run: Callable[..., Results]) -> Callable[..., Results]:
        """`run` for the property `name`: its first call compiles the kernels, several at a time."""
        programs = [*self._programs.values()] or [self]
        if self.device.type == "cpu" or programs[0]._generated.INTERPRET.value:
            return _interpreted(run)

        def first_run(*arguments: Any) -> Results:
            import torch

            from coda_ir.launching.kernels_ahead import compile_ahead

            if not torch.cuda.is_current_stream_capturing():
                launches = [(each._generated, each._artifact.launches) for each in programs]
                compile_ahead(launches, self.device, self._lowering.options.jobs)
            self.__dict__[name] = run
            return run(*arguments)

        return first_run

    @cached_property
    def _is_autocast(self) -> Callable[[], bool]:
        import torch

        return partial(torch.is_autocast_enabled, self.device.type)

    def unchecked(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """A call without any check, for callers that know their tensors: always gives a tuple.

        Wrong shapes or types lead to wrong memory accesses. Autocast has no effect on a program,
        whose types are stated.
        """
        if self._is_autocast():
            import torch

            with torch.autocast(self.device.type, enabled=False):
                return self.unchecked(*tensors)
        results = self._run(*tensors)
        return results if isinstance(results, tuple) else (results,)

    def _interpret(
        self, tensors: Sequence[torch.Tensor], level: Level, precision: Precision
    ) -> tuple[torch.Tensor, ...]:
        from coda_ir.backends.reference import run_function

        func = find_entry(self._lowering.module(level), self.name)
        results = run_function(func, tensors, precision)
        device = tensors[0].device if tensors else self.device
        return tuple(result.to(device) for result in results)

    def _interpret_boxed(self, tensors: list[torch.Tensor]) -> tuple[torch.Tensor, ...]:
        from coda_ir.backends.reference import run_boxed

        device = tensors[0].device if tensors else self.device
        func = find_entry(self._lowering.module("block"), self.name)
        return tuple(result.to(device) for result in run_boxed(func, tensors, "stated"))

    def _run_empty(
        self, tensors: Sequence[torch.Tensor], bindings: Mapping[str, int]
    ) -> tuple[torch.Tensor, ...]:
        """The results for a size of 0; those with elements (a mean of nothing) by the reference."""
        empty = self.signature.empty_results(bindings, self.device)
        return self._interpret(tensors, "block", "stated") if empty is None else tuple(empty)
