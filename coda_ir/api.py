"""The Python interface: `parse` a program, `compile` it, call it, and look inside.

layer = coda_ir.compile("examples/llama_layer.coda", device="cuda")
y = layer(x=x, w_o=w_o, ...)
print(layer.ir("gemm"), layer.source, *layer.remarks, sep="\\n")
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args, overload

from coda_ir.cache.origin import Origin
from coda_ir.diagnostics import CodaError
from coda_ir.lowering import (
    Level,
    Lowering,
    TuningOptions,
    count_operators,
    find_entry,
    used_arguments,
)
from coda_ir.sources import read_source

if TYPE_CHECKING:
    import torch
    from xdsl.dialects.builtin import ModuleOp

    from coda_ir.argument_checks import Check
    from coda_ir.arguments import Signature
    from coda_ir.backends.reference import Precision
    from coda_ir.backends.triton.aot import KernelResources
    from coda_ir.cache.artifact import Artifact
    from coda_ir.remarks import Remark
    from coda_ir.training import TrainableFunction

Syntax: TypeAlias = Literal["coda", "mlir"]
Target: TypeAlias = Literal["triton", "reference"]
Tune: TypeAlias = "bool | float | Literal['stored']"
Program: TypeAlias = "ModuleOp | str | os.PathLike[str]"
Results: TypeAlias = "torch.Tensor | tuple[torch.Tensor, ...]"

__all__ = [
    "CompiledFunction",
    "Level",
    "Lowering",
    "Program",
    "Syntax",
    "Target",
    "compile",
    "find_entry",
    "parse",
    "unpack",
]


def parse(
    program: str | os.PathLike[str],
    *,
    constants: Mapping[str, int | float] | None = None,
    syntax: Syntax | None = None,
) -> ModuleOp:
    """Read a program from a file or from its text.

    A `str` is a path where it is one line that ends in `.coda` or `.mlir`. The `syntax` of a text
    defaults to `mlir` where it has a `func.func` and to `coda` otherwise. `constants` override
    constants of a `.coda` program. Raises CodaError for a file that cannot be read and for a
    program that is wrong.
    """
    return _parse_text(*_read(program, syntax), constants)


def _read(program: str | os.PathLike[str], syntax: Syntax | None = None) -> tuple[str, str, str]:
    """The text of a program, the name of its file, and its syntax."""
    if isinstance(program, str) and not _is_path(program):
        return program, "<text>", syntax or ("mlir" if "func.func" in program else "coda")
    path = Path(program)
    found = syntax or path.suffix.removeprefix(".")
    if found not in get_args(Syntax):
        raise CodaError(f"{path}: unknown kind of file", "name it .coda or .mlir, or pass syntax")
    return read_source(str(path)), str(path), found


def _is_path(text: str) -> bool:
    return "\n" not in text and text.endswith((".coda", ".mlir"))


def _parse_text(
    text: str,
    name: str,
    syntax: str,
    constants: Mapping[str, int | float] | None,
    read: Callable[[str], str] = read_source,
) -> ModuleOp:
    if syntax == "coda":
        from coda_ir.frontends.coda_text import parse_text

        return parse_text(text, name, constants=constants, read=read)
    if constants:
        raise CodaError(f"{name}: an .mlir program has no constants to override")
    from coda_ir.ir_reader import read_module

    return read_module(text, name)


@overload
def compile(
    program: Program,
    *,
    training: Literal[False] = False,
    target: Target = "triton",
    device: str | torch.device | None = None,
    entry: str | None = None,
    constants: Mapping[str, int | float] | None = None,
    schedule: str | None = None,
    numerics: str | None = None,
    pack_weights: bool = True,
    tune: Tune = False,
) -> CompiledFunction: ...


@overload
def compile(
    program: Program,
    *,
    training: Literal[True],
    target: Target = "triton",
    device: str | torch.device | None = None,
    entry: str | None = None,
    constants: Mapping[str, int | float] | None = None,
    schedule: str | None = None,
    numerics: str | None = None,
    pack_weights: bool = True,
    memory_budget: int | None = None,
    save: Sequence[str] = (),
    recompute: Sequence[str] = (),
    stream_logits: int | None = None,
    fuse_gradient_accumulation: bool = False,
) -> TrainableFunction: ...


def compile(
    program: Program,
    *,
    training: bool = False,
    target: Target = "triton",
    device: str | torch.device | None = None,
    entry: str | None = None,
    constants: Mapping[str, int | float] | None = None,
    schedule: str | None = None,
    numerics: str | None = None,
    pack_weights: bool = True,
    tune: Tune = False,
    memory_budget: int | None = None,
    save: Sequence[str] = (),
    recompute: Sequence[str] = (),
    stream_logits: int | None = None,
    fuse_gradient_accumulation: bool = False,
) -> CompiledFunction | TrainableFunction:
    """Compile one function of a program, which is a module, a path or a text (see `parse`).

    `entry` names the function and may be left out where there is only one. `device` is where the
    tensors will be: by default the first GPU, or the CPU where there is none. On the CPU, Triton
    runs in its interpreter. `schedule` has options of the pass `schedule`, such as
    `"target=sm_90 mainloop=tma"`, by default those that fit the device. `numerics` is what the
    bits of the results keep to: `fp32-epilogue`, `eager-exact` or `deterministic`
    (docs/numerics.md), by default what the program states, else fp32-epilogue. `pack_weights`
    allows vectors computed from weights to be kept between calls; they follow updates that PyTorch
    counts, not writes through `.data`.

    With `tune`, the first call with sizes of an order that is new measures several schedules on the
    GPU and keeps the fastest (docs/tuning.md): True for a budget of a minute, or a number of
    seconds. `"stored"` uses results that are there and measures nothing.

    With `training`, the result is part of PyTorch's autograd (docs/training.md): `memory_budget`
    limits the bytes that a call saves for its backward, `save` and `recompute` name values that are
    saved, or computed again, in any case, and `stream_logits` is the number of parts in which the
    logits of a language model are computed again, so that they are never stored. With
    `fuse_gradient_accumulation`, the GEMMs of gradients add to the `.grad` that weights have.

    Raises CodaError for whatever is wrong with the input.
    """
    from coda_ir.devices import (
        architecture_name,
        default_device,
        resolve_device,
    )

    if target not in get_args(Target):
        raise CodaError(f"unknown target '{target}'", f"use one of {', '.join(get_args(Target))}")
    origin = _origin(program, constants, numerics)
    place = default_device() if device is None else resolve_device(device)
    lower = partial(
        Lowering,
        schedule=schedule,
        pack_weights=pack_weights,
        architecture=architecture_name(place),
    )
    if tune is not False and (training or target != "triton"):
        raise CodaError(
            f"tuning is for the target triton without training, not for {target}"
            + (" with training" if training else ""),
            "leave tune out",
        )
    if training:
        from coda_ir.training import SavePolicy, TrainableFunction, find_trained

        policy = SavePolicy(memory_budget, tuple(save), tuple(recompute), stream_logits)
        module = origin.module()
        func = find_trained(module, entry)
        return TrainableFunction(
            module,
            func,
            target,
            place,
            lower,
            policy,
            pack_weights=pack_weights,
            fuse_gradient_accumulation=fuse_gradient_accumulation,
        )
    if fuse_gradient_accumulation:
        raise CodaError("only programs that are trained have gradients", "pass training=True")
    if memory_budget is not None or save or recompute or stream_logits is not None:
        raise CodaError("what is saved matters to programs that are trained", "pass training=True")
    if tune is not False:
        return _tuned(lower, origin, entry, place, tune)
    compiled = CompiledFunction(lower(origin), entry, target, place)
    compiled.prepare()
    return compiled


def _tuned(
    lower: Callable[..., Lowering],
    origin: Origin,
    entry: str | None,
    device: torch.device,
    tune: Tune,
) -> CompiledFunction:
    from coda_ir.tuning.context import BUDGET_S
    from coda_ir.tuning.function import TunedFunction

    if isinstance(tune, str) and tune != "stored":
        raise CodaError(f"unknown tune='{tune}'", "pass True, seconds, or 'stored'")
    budget = BUDGET_S if isinstance(tune, bool | str) else float(tune)
    mode: Literal["measure", "stored"] = "stored" if tune == "stored" else "measure"

    def lower_tuned(sizes: str) -> Lowering:
        return lower(origin, tuning=TuningOptions(mode, budget, sizes))

    compiled = TunedFunction(lower(origin), entry, device, lower_tuned)
    compiled.prepare()
    return compiled


def _origin(
    program: Program, constants: Mapping[str, int | float] | None, numerics: str | None
) -> Origin:
    """Where the module of a program comes from; a module may be changed afterwards."""
    if not isinstance(program, str | os.PathLike):
        return _module_origin(program, constants, numerics)
    text, name, syntax = _read(program)
    identity = {
        "text": text,
        "file": name,
        "syntax": syntax,
        "constants": dict(constants or {}),
        "numerics": numerics,
    }

    def make(origin: Origin) -> ModuleOp:
        return _with_numerics(_parse_text(text, name, syntax, constants, origin.read), numerics)

    return Origin(identity, make)


def _module_origin(
    module: ModuleOp, constants: Mapping[str, int | float] | None, numerics: str | None
) -> Origin:
    from coda_ir.ir_writer import located_text

    if constants:
        raise CodaError(
            "constants are folded when a program is parsed", "pass them to coda_ir.parse"
        )
    copy = module.clone()
    identity = {"module": located_text(module), "numerics": numerics}
    return Origin(identity, lambda _: _with_numerics(copy.clone(), numerics))


def _with_numerics(module: ModuleOp, numerics: str | None) -> ModuleOp:
    """The module itself, changed where `numerics` says something else than it does."""
    if numerics is not None:
        from coda_ir.context import make_context
        from coda_ir.passes.set_numerics import SetNumericsPass

        SetNumericsPass(numerics).apply(make_context(), module)
    return module


class CompiledFunction:
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
        from coda_ir.arguments import Signature

        return Signature.of(find_entry(self._lowering.module("block"), self._function))

    @property
    def name(self) -> str:
        return self.signature.name

    @cached_property
    def _artifact(self) -> Artifact:
        return self._lowering.artifact(self._function)

    def __repr__(self) -> str:
        return f"<CompiledFunction {self.signature} for {self.target} on {self.device}>"

    def prepare(self) -> None:
        """Do now what the first call would have to do."""
        _ = self._fits
        if self.target == "triton":
            _ = self._run

    def __call__(self, *args: torch.Tensor, **kwargs: torch.Tensor) -> Any:
        values = self._in_order(args, kwargs)
        if values is not None and len(values) == self._argument_count and self._fits(*values):
            return unpack(self.unchecked(*values))
        tensors, bindings = self.signature.check(self.signature.collect(args, kwargs), self.device)
        return unpack(self.run_checked(tensors, bindings))

    def _in_order(
        self, args: tuple[torch.Tensor, ...], kwargs: Mapping[str, torch.Tensor]
    ) -> Sequence[torch.Tensor] | None:
        """The arguments of a call by position; None where their names are not the right ones."""
        if not kwargs:
            return args
        names = self._argument_names[len(args) :]
        if len(names) != len(kwargs):
            return None
        try:
            return (*args, *map(kwargs.__getitem__, names))
        except KeyError:
            return None

    @cached_property
    def _argument_names(self) -> tuple[str, ...]:
        return tuple(spec.name for spec in self.signature.arguments)

    @cached_property
    def _argument_count(self) -> int:
        return len(self.signature.arguments)

    @cached_property
    def _fits(self) -> Check:
        from coda_ir.argument_checks import RepeatedCheck, make_check

        return RepeatedCheck(make_check(self.signature, self.device))

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
        import torch

        if 0 in sizes.values():
            return self._run_empty(tensors, sizes)
        if torch.is_autocast_enabled(self.device.type):
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

    def resources(self, arch: str) -> tuple[KernelResources, ...]:
        """What each kernel uses of an architecture, such as `sm_90` or `gfx942`, scheduled and
        compiled for it: registers, spills, shared memory, occupancy. Needs no GPU.

        Raises CodaError for an unknown architecture, and where a kernel does not compile.
        """
        from coda_ir.backends.triton import emit_program
        from coda_ir.backends.triton.aot import compile_kernels, find_architecture

        block, options = self._lowering.module("block"), find_architecture(arch).schedule
        lowering = Lowering(block, options, pack_weights=self._lowering.pack_weights)
        program = emit_program(lowering.module("scheduled"), self.name)
        return tuple(kernel.resources for kernel in compile_kernels(program.kernels, arch))

    @cached_property
    def _generated(self) -> ModuleType:
        from coda_ir.cache import load_source
        from coda_ir.devices import require_triton_for

        require_triton_for(self.device)
        return load_source(self.source, self.name)

    @cached_property
    def _run(self) -> Callable[..., Results]:
        if self.target == "triton":
            return self._generated.run
        return lambda *tensors: self._interpret(tensors, "block", "stated")

    @cached_property
    def _run_boxed(self) -> Callable[[list[torch.Tensor]], Results]:
        if self.target == "reference":
            return self._interpret_boxed
        boxed: Callable[..., Results] | None = getattr(self._generated, "run_boxed", None)
        return (lambda tensors: self._run(*tensors)) if boxed is None else boxed

    def unchecked(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """A call without any check, for callers that know their tensors: always gives a tuple.

        Wrong shapes or types lead to wrong memory accesses. Autocast has no effect on a program,
        whose types are stated.
        """
        import torch

        if torch.is_autocast_enabled(self.device.type):
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


def unpack(results: Results | list[torch.Tensor]) -> Results:
    """A single result by itself, several as a tuple."""
    if not isinstance(results, tuple | list):
        return results
    return results[0] if len(results) == 1 else tuple(results)
