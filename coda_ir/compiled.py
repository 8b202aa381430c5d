"""The result of `compile`: a function of tensors, with properties that show how it was compiled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from coda_ir.calls.results import NotCopied, unpack
from coda_ir.executables import Executable, interpret, load
from coda_ir.lowering import Level, Lowering
from coda_ir.options import Target
from coda_ir.tuned import TunedExecutable, TunedLowerings
from coda_ir.untraced import untraced

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch
    from xdsl.dialects.builtin import ModuleOp

    from coda_ir.backends.reference import Precision
    from coda_ir.backends.triton.aot import KernelResources
    from coda_ir.calls.arguments import Signature
    from coda_ir.calls.checks import CallCheck
    from coda_ir.launching.cuda_graphs import GraphedFunction
    from coda_ir.remarks import Remark

FOLDED_WEIGHT = "gemm.scale_weight"
"""Name of the operator, whose class is not imported here."""


class CompiledFunction(NotCopied):
    """A compiled function, called with tensors by position or by name.

    It returns a tensor, or a tuple if the function has several results. Each call checks the
    tensors and raises an `ArgumentError` (a CodaError) if one does not fit. Tensors may be
    strided. A call in which a symbol is 0 launches nothing.
    """

    def __init__(
        self,
        lowering: Lowering | TunedLowerings,
        function: str | None,
        target: Target,
        device: torch.device,
    ):
        """Set up the function; `function` may be None if the program has only one."""
        self.target: Target = target
        self.device = device
        self._lowering = lowering
        self.executable = _executable(lowering, function, target, device)

    @property
    def signature(self) -> Signature:
        """The arguments and results of the function."""
        return self.executable.info.signature

    @property
    def name(self) -> str:
        """The name of the function."""
        return self.signature.name

    def __repr__(self) -> str:
        return f"<CompiledFunction {self.signature} for {self.target} on {self.device}>"

    def prepare(self, sizes: Mapping[str, int] = MappingProxyType({})) -> None:
        """Do the work of the first call ahead of time. If `sizes` has all symbols, a tuned function
        is also tuned for these sizes.

        Raises CodaError for sizes that no call can have.
        """
        from coda_ir.calls.checks import check_sizes

        check_sizes(sizes, self.signature)
        self.prepare_checked(sizes)

    def prepare_checked(self, sizes: Mapping[str, int]) -> None:
        """Prepare for checked sizes, which may include those of other functions."""
        _ = self._arguments
        self.executable.prepare(sizes)

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
        """Return the arguments of a call by position, ready for `unchecked`, if a fast check
        accepts them; None if the call would raise an ArgumentError, or a size is 0.
        """
        return self._arguments.find(args, kwargs)

    def graphed(self) -> GraphedFunction:
        """Return a version of the function that replays CUDA graphs; see `GraphedFunction`."""
        from coda_ir.launching.cuda_graphs import GraphedFunction

        return GraphedFunction(self)

    @cached_property
    def _arguments(self) -> CallCheck:
        from coda_ir.calls.checks import CallCheck

        return CallCheck(self.signature, self.device)

    def sizes(self, *tensors: torch.Tensor) -> dict[str, int]:
        """Return the sizes of the symbols in a call with these tensors.

        Raises an ArgumentError if a tensor does not fit.
        """
        fitting = self._arguments.find(tensors, {})
        if fitting is not None:
            return self._arguments.sizes(fitting)
        return self.signature.check(tensors, self.device)[1]

    def run_checked(
        self, tensors: Sequence[torch.Tensor], sizes: Mapping[str, int]
    ) -> tuple[torch.Tensor, ...]:
        """Call the function with checked tensors; `sizes` are those of the symbols."""
        return self._run_empty(tensors, sizes) if 0 in sizes.values() else self.unchecked(*tensors)

    def run_boxed(
        self, tensors: list[torch.Tensor], sizes: Mapping[str, int]
    ) -> tuple[torch.Tensor, ...]:
        """Like `run_checked`, with a list that the program of a boxed function empties: tensors
        without other references are freed after their last use.
        """
        if 0 in sizes.values():
            return self._run_empty(tensors, sizes)
        if self._is_autocast():
            import torch

            with torch.autocast(self.device.type, enabled=False):
                return self.run_boxed(tensors, sizes)
        return self.executable.run_boxed(tensors)

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
        module = self._lowering.module(level)
        return unpack(interpret(module, self.name, tensors, self.device, precision))

    def module(self, level: Level) -> ModuleOp:
        """Return a copy of the module at a level: `block`, `gemm` or `scheduled`."""
        return self._lowering.module(level).clone()

    def ir(self, level: Level) -> str:
        """Return the printed IR at a level: `block`, `gemm` or `scheduled`."""
        return str(self._lowering.module(level))

    @property
    def source(self) -> str:
        """The text of the emitted Triton module."""
        return self.executable.info.source

    @property
    def remarks(self) -> tuple[Remark, ...]:
        """The remarks of the passes: fused operators, refusals, and reasons."""
        return self.executable.info.remarks

    @property
    def origin_remarks(self) -> tuple[Remark, ...]:
        """The remarks about the derivation of the program, if it is a derived one."""
        return self.executable.info.origin_remarks

    @property
    def kernels(self) -> tuple[str, ...]:
        """The names of the generated kernels in the order of first launch; () for `reference`."""
        return self.executable.info.kernels

    @property
    def used_arguments(self) -> tuple[bool, ...]:
        """True for each argument that the function needs."""
        return self.executable.info.used_arguments

    @property
    def operators(self) -> Mapping[str, int]:
        """Count the operators of each name in the scheduled function, with those in epilogues."""
        return self.executable.info.operators

    @property
    def folds_weights(self) -> bool:
        """True if calls read copies of weights that were multiplied by other weights."""
        return self._lowering.options.fold_weights and FOLDED_WEIGHT in self.operators

    def resources(self, arch: str) -> tuple[KernelResources, ...]:
        """Return the resources that each kernel uses on an architecture, such as `sm_90` or
        `gfx942`, after scheduling and compiling for it: registers, spills, shared memory,
        occupancy. Needs no GPU.

        Raises CodaError for an unknown architecture, or if a kernel does not compile.
        """
        from coda_ir.backends.triton import emit_program
        from coda_ir.backends.triton.aot import compile_kernels, find_architecture

        schedule, given = find_architecture(arch).schedule, self._lowering.options
        options = replace(given, schedule=schedule, architecture="cpu", tuning=None)
        lowering = Lowering(self._lowering.module("block"), options)
        names = self.executable.info.programs or (self.name,)
        programs = [emit_program(lowering.module("scheduled"), name) for name in names]
        compiled = [compile_kernels(program.kernels, arch) for program in programs]
        return tuple(kernel.resources for kernels in compiled for kernel in kernels)

    @cached_property
    def _is_autocast(self) -> Callable[[], bool]:
        import torch

        return partial(torch.is_autocast_enabled, self.device.type)

    def unchecked(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Call the function without any check, for callers that know their tensors; returns a
        tuple.

        Wrong shapes or types lead to wrong memory accesses. Autocast has no effect on a program,
        because its types are stated.
        """
        if self._is_autocast():
            import torch

            with torch.autocast(self.device.type, enabled=False):
                return self.unchecked(*tensors)
        return self.executable.run(*tensors)

    def _run_empty(
        self, tensors: Sequence[torch.Tensor], bindings: Mapping[str, int]
    ) -> tuple[torch.Tensor, ...]:
        """Return the results if a size is 0; the reference backend computes those with elements."""
        empty = self.signature.empty_results(bindings, self.device)
        if empty is not None:
            return tuple(empty)
        return interpret(self._lowering.module("block"), self.name, tensors, self.device)


def _executable(
    lowering: Lowering | TunedLowerings, function: str | None, target: Target, device: torch.device
) -> Executable:
    if isinstance(lowering, TunedLowerings):
        return TunedExecutable(lowering, function, target, device)
    return load(lowering, function, target, device)
