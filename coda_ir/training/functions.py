"""Trainable functions: a program, and the backward program derived from it.

layer = coda_ir.compile("examples/llama_layer.coda", training=True)
layer(**tensors)[0].square().mean().backward()
print(layer.ir("block"), layer.saved_bytes, sep="\\n")

The pass `differentiate` makes @f_forward and @f_backward of a function @f; a program may also
define the two itself (see `gradient_pair`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import cached_property
from itertools import compress
from typing import TYPE_CHECKING, Any, TypeAlias

import torch
from xdsl.dialects.builtin import ModuleOp, UnitAttr
from xdsl.dialects.func import FuncOp

from coda_ir.cache.origin import Origin
from coda_ir.calls.arguments import Signature, TensorSpec
from coda_ir.calls.checks import CallCheck, check_sizes
from coda_ir.calls.results import NotCopied, unpack
from coda_ir.compiled import CompiledFunction
from coda_ir.context import make_context
from coda_ir.diagnostics import GradientError
from coda_ir.functions import find_entry, functions_of, only_functions
from coda_ir.lowering import Level, Lowering
from coda_ir.options import Accept, CompileOptions, SavePolicy, Target
from coda_ir.remarks import Remark
from coda_ir.signatures import signature_of
from coda_ir.storage import BOXED
from coda_ir.symbolic_size import SymbolicSize, format_sizes
from coda_ir.training.gradient_pair import GradientPair, Tensors
from coda_ir.tuned import TunedLowerings, lower
from coda_ir.untraced import untraced

if TYPE_CHECKING:
    from coda_ir.backends.reference import Precision
    from coda_ir.cost_model.comparison import Estimates

Wrt: TypeAlias = tuple[str, ...]
"""Names of the arguments that a gradient is wanted of, in the order of the arguments."""


class TrainableFunction(NotCopied):
    """A function that PyTorch's autograd can differentiate.

    It is called like a `CompiledFunction`, with the same checks. A call computes the gradients of
    the arguments that require one. Each combination of such arguments has a pair of programs, which
    is built when it first occurs. If no argument requires a gradient, or inside `torch.no_grad`,
    the plain forward program runs and saves nothing. The same inputs give the same bits.
    """

    def __init__(
        self,
        origin: Origin,
        entry: str | None,
        target: Target,
        device: torch.device,
        options: CompileOptions,
        policy: SavePolicy,
    ):
        """Set up the function `entry` of a program, or the only one; a pair of programs is derived
        when it is first needed. Raises CodaError if there is no such function.
        """
        self._origin, self._module = origin, origin.module()
        func = _find_trained(self._module, entry)
        self.name = func.sym_name.data
        self.signature: Signature = signature_of(func)
        self.target: Target = target
        self.device = device
        self.policy = policy
        self._options = options
        self._pairs: dict[Wrt, GradientPair] = {}
        self._by_required: dict[tuple[bool, ...], Wrt] = {}
        """The arguments with gradients, by whether each argument requires one."""
        self._latest: GradientPair | None = None

    def __repr__(self) -> str:
        return f"<TrainableFunction {self.signature} for {self.target} on {self.device}>"

    @untraced
    def __call__(self, *args: torch.Tensor, **kwargs: torch.Tensor) -> Any:
        fitting = self._arguments.find(args, kwargs)
        if fitting is not None:
            return unpack(self._run(fitting, self._arguments.sizes(fitting)))
        values = self.signature.collect(args, kwargs)
        tensors, sizes = self.signature.check(values, self.device, trainable=True)
        return unpack(self._run(tensors, sizes))

    @cached_property
    def _arguments(self) -> CallCheck:
        return CallCheck(self.signature, self.device, trainable=True)

    def unchecked(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Call the function without checks, like `CompiledFunction.unchecked`, with gradients."""
        return self._run(tensors, {})

    def _run(self, tensors: Tensors, sizes: Mapping[str, int]) -> tuple[torch.Tensor, ...]:
        wrt = self._wanted(tensors) if torch.is_grad_enabled() else ()
        if not wrt:
            return self.plain.run_checked(tensors, sizes)
        self._latest = self._pairs.get(wrt) or self.pair(wrt, sizes)
        return self._latest(tensors, sizes)

    def _wanted(self, tensors: Tensors) -> Wrt:
        required = tuple([tensor.requires_grad for tensor in tensors])
        if required not in self._by_required:
            names = [spec.name for spec in compress(self.signature.arguments, required)]
            wrt = tuple(name for name in names if name in self._contributing)
            self._by_required[required] = wrt
        return self._by_required[required]

    @cached_property
    def _contributing(self) -> frozenset[str]:
        """The arguments that the results depend on. The others have no gradient, as in PyTorch."""
        from coda_ir.passes.gradient.derivatives.activity import contributing_arguments

        if self._is_given:
            return frozenset(self._floating)
        found = contributing_arguments(functions_of(self._module)[self.name])
        return frozenset(self.signature.arguments[argument.index].name for argument in found)

    def pair(
        self,
        wrt: Sequence[str] | None = None,
        sizes: Mapping[str, int] | None = None,
        accept: Accept | None = None,
    ) -> GradientPair:
        """Return the forward and the backward program for the gradients of the arguments `wrt`. By
        default, these are the arguments of the last call, or before the first call all that can
        have a gradient.

        A new pair is optimized for `sizes` of symbols. It serves all sizes, but the best choice of
        saved values depends on them. `accept` is called with the estimates of a new pair before it
        is emitted; its exceptions propagate. Raises CodaError if a name is not an argument with a
        gradient, and for sizes that no call can have.
        """
        check_sizes(sizes or {}, self.signature)
        if wrt is None:
            if self._latest is not None:
                return self._latest
            wrt = ()
        for name in wrt:
            if name not in self._floating:
                raise GradientError(
                    f"{self.name} has no gradient of '{name}'",
                    f"its floating-point arguments are {', '.join(self._floating) or 'none'}",
                )
        key = tuple(name for name in self._floating if name in wrt)
        key = tuple(name for name in key if name in self._contributing) or key
        if key not in self._pairs:
            self._pairs[key] = self._make_pair(key, sizes or {}, accept)
        self._latest = self._pairs[key]
        return self._latest

    @property
    def _floating(self) -> Wrt:
        specs = self.signature.arguments
        return tuple(spec.name for spec in specs if spec.dtype.is_floating_point)

    def _make_pair(self, wrt: Wrt, sizes: Mapping[str, int], accept: Accept | None) -> GradientPair:
        names = self._parts
        origin = self._given(*names) if self._is_given else self._derived(wrt, sizes)
        lowering = lower(origin, self._options)
        if accept is not None:
            accept(self._comparison(lowering))
        # The forward first: it runs while the kernels of the backward are compiled.
        forward, backward = (self._compiled(lowering, name) for name in names)

        def specialize(missing: Sequence[str]) -> CompiledFunction:
            special = _specialized(origin, lowering, backward.name, missing)
            return self._compiled(lower(special, self._options), backward.name)

        pair = GradientPair(forward, backward, len(self.signature.results), specialize)
        pair.require(wrt)
        forward.prepare_checked(sizes)
        backward.prepare_checked(sizes)
        return pair

    def _comparison(self, lowering: Lowering | TunedLowerings) -> Estimates | None:
        """Return estimates of both programs; see `Lowering.comparison`."""
        if self.target != "triton":
            return None
        forward, backward = map(lowering.comparison, self._parts)
        if forward is None or backward is None:
            return None
        return forward._make(a + b for a, b in zip(forward, backward, strict=True))

    @property
    def _parts(self) -> tuple[str, str]:
        return f"{self.name}_forward", f"{self.name}_backward"

    @cached_property
    def _is_given(self) -> bool:
        """True if the user wrote the forward and the backward program."""
        return set(self._parts) <= functions_of(self._module).keys()

    def _compiled(self, lowering: Lowering | TunedLowerings, name: str) -> CompiledFunction:
        return CompiledFunction(lowering, name, self.target, self.device)

    def _part(self, *names: str) -> Origin:
        """Return a module of some of the functions."""
        return self._made(lambda: only_functions(self._module, names), functions=names)

    def _made(self, make: Callable[[], ModuleOp], **how: Any) -> Origin:
        """Return a program that is made from this one, in a way that `how` describes."""
        return Origin({**self._origin.identity, **how}, lambda _: make(), self._origin.files)

    def _given(self, forward: str, backward: str) -> Origin:
        """The user's forward and backward programs."""
        names = (forward, backward)
        return self._made(
            lambda: _boxed(only_functions(self._module, names), backward),
            functions=names,
            boxed=backward,
        )

    def _derived(self, wrt: Wrt, sizes: Mapping[str, int]) -> Origin:
        """Return the forward and the backward program, derived on demand."""
        options = {
            "function": self.name,
            "wrt": wrt,
            "extents": format_sizes({name: size for name, size in sizes.items() if size}),
            "pack_weights": self._options.pack_weights,
            **asdict(self.policy),
        }
        return self._made(lambda: self._differentiate(options), differentiate=options)

    def _differentiate(self, options: Mapping[str, Any]) -> ModuleOp:
        from coda_ir.passes.pipelines.differentiate import DifferentiatePass

        module = only_functions(self._module, [self.name])
        DifferentiatePass(**options).apply(make_context(), module)
        return _boxed(only_functions(module, self._parts), self._parts[1])

    @cached_property
    def plain(self) -> CompiledFunction:
        """The function alone, which runs if no gradient is requested."""
        return self._compiled(lower(self._part(self.name), self._options), self.name)

    def prepare(
        self,
        wrt: Sequence[str] | None = None,
        sizes: Mapping[str, int] | None = None,
        accept: Accept | None = None,
    ) -> None:
        """Do the work of the first call with gradients of `wrt` ahead of time; see `pair`."""
        pair = self.pair(wrt, sizes, accept)
        for function in (pair.forward, pair.backward):
            function.prepare_checked(sizes or {})

    def reference(
        self,
        inputs: Mapping[str, torch.Tensor] | Sequence[torch.Tensor],
        *,
        level: Level = "block",
        precision: Precision = "float64",
    ) -> Any:
        """Return the results by the reference backend; see `CompiledFunction.reference`."""
        return self.plain.reference(inputs, level=level, precision=precision)

    def module(self, level: Level) -> ModuleOp:
        """Return a copy of the module with the forward and the backward program at a level."""
        return self.pair().forward.module(level)

    def ir(self, level: Level) -> str:
        """Return the printed IR of both programs at a level: `block`, `gemm` or `scheduled`."""
        return self.pair().forward.ir(level)

    @property
    def source(self) -> str:
        """The text of both emitted Triton modules, the forward program first."""
        pair = self.pair()
        return f"{pair.forward.source}\n\n{pair.backward.source}"

    @property
    def remarks(self) -> tuple[Remark, ...]:
        """The remarks: saved and recomputed values, fusions, refusals, and reasons."""
        return self.pair().remarks

    @property
    def kernels(self) -> tuple[str, ...]:
        """The names of the generated kernels of both programs; () for `reference`."""
        return self.pair().kernels

    @property
    def operators(self) -> Mapping[str, int]:
        """Count the operators of both scheduled programs by name, including those in epilogues."""
        pair = self.pair()
        return Counter(pair.forward.operators) + Counter(pair.backward.operators)

    @property
    def saved(self) -> tuple[TensorSpec, ...]:
        """The tensors that a call keeps for its backward, besides arguments and results."""
        return self.pair().saved

    @property
    def saved_bytes(self) -> SymbolicSize:
        """The size of `saved` in terms of the symbols of the function."""
        return self.pair().saved_bytes


def _find_trained(module: ModuleOp, entry: str | None = None) -> FuncOp:
    """Return the requested function, which may have a forward and a backward program beside it.

    Raises CodaError if there is none.
    """
    functions = functions_of(module)
    pairs = {f"{name}_{part}" for name in functions for part in ("forward", "backward")}
    alone = [name for name in functions if name not in pairs]
    return find_entry(module, alone[0] if entry is None and len(alone) == 1 else entry)


def _specialized(
    origin: Origin,
    lowering: Lowering | TunedLowerings,
    name: str,
    missing: Sequence[str],
) -> Origin:
    """Return the backward program `name` in which the gradients `missing` of results are zero."""

    def make(_: Origin) -> ModuleOp:
        from coda_ir.passes.gradient.drop_zero_gradients import DropZeroGradientsPass

        special = only_functions(lowering.module("block"), [name])
        DropZeroGradientsPass(name, tuple(missing)).apply(make_context(), special)
        return special

    return Origin({**origin.identity, "backward": name, "without": tuple(missing)}, make)


def _boxed(module: ModuleOp, backward: str) -> ModuleOp:
    """Return `module`, with a backward program that drops saved tensors after their last use."""
    functions_of(module)[backward].attributes[BOXED] = UnitAttr()
    return module
