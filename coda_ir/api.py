"""The Python interface: `parse` a program, `compile` it, call it, and look inside.

layer = coda_ir.compile("examples/llama_layer.coda", device="cuda")
y = layer(x=x, w_o=w_o, ...)
print(layer.ir("gemm"), layer.source, *layer.remarks, sep="\\n")
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias, Unpack, get_args, overload

from coda_ir.cache.origin import Origin
from coda_ir.calls.results import Results as Results, unpack as unpack
from coda_ir.compiled import CompiledFunction as CompiledFunction
from coda_ir.diagnostics import FileError, OptionError, expect_kind, expect_names
from coda_ir.executables import start
from coda_ir.functions import find_entry as find_entry, only_called
from coda_ir.launching.compile_jobs import compile_jobs
from coda_ir.lowering import Level as Level, Lowering as Lowering
from coda_ir.options import (
    Accept,
    CompileOptions,
    Leftovers,
    ProgramOptions,
    SavePolicy,
    Target,
    TrainingOptions,
    Tune,
    TuningOptions,
)
from coda_ir.sources import read_source
from coda_ir.tuned import lower

if TYPE_CHECKING:
    import torch
    from xdsl.dialects.builtin import ModuleOp

    from coda_ir.training.functions import TrainableFunction

Syntax: TypeAlias = Literal["coda", "mlir"]
Program: TypeAlias = "ModuleOp | str | os.PathLike[str]"


def parse(
    program: str | os.PathLike[str],
    *,
    constants: Mapping[str, int | float] | None = None,
    syntax: Syntax | None = None,
) -> ModuleOp:
    """Read a program from a file or from its text.

    A `str` is a path if it is one line that ends in `.coda` or `.mlir`. The `syntax` of a text
    defaults to `mlir` if it contains a `func.func` and to `coda` otherwise. `constants` overrides
    constants of a `.coda` program. Raises CodaError if the file cannot be read or the program is
    invalid.
    """
    _check_program(program)
    expect_kind("the program", program, (str, os.PathLike), "coda_ir.parse reads files and texts")
    return _parse_text(*_read(program, syntax), constants)


def _check_program(program: object) -> None:
    """Raise CodaError for anything but a program, and name the function that takes it."""
    if isinstance(program, str | os.PathLike):
        return
    import torch
    from xdsl.dialects.builtin import ModuleOp

    if isinstance(program, ModuleOp):
        return

    kind = "None" if program is None else f"of type {type(program).__name__}"
    message = f"the program is {kind}, expected the path or the text of a .coda program"
    is_class = isinstance(program, type) and issubclass(program, torch.nn.Module)
    if isinstance(program, torch.nn.Module) or is_class:
        remedy = (
            "write coda_ir.export(model, args).compile() with a tuple of example arguments, or "
            "torch.compile(model, backend='coda')"
        )
        raise OptionError(message, remedy)
    if isinstance(program, torch.export.ExportedProgram):
        raise OptionError(message, "write coda_ir.export(program).compile()")
    raise OptionError(message, "pass a file such as 'layer.coda'; coda_ir.export takes models")


def _read(program: str | os.PathLike[str], syntax: Syntax | None = None) -> tuple[str, str, str]:
    """Return the text of a program, the name of its file, and its syntax."""
    if syntax is not None and syntax not in get_args(Syntax):
        raise OptionError(f"unknown syntax '{syntax}'", f"use one of {', '.join(get_args(Syntax))}")
    if isinstance(program, str) and not _is_path(program):
        _check_text(program)
        return program, "<text>", syntax or ("mlir" if "func.func" in program else "coda")
    path = Path(program)
    found = syntax or path.suffix.removeprefix(".")
    if found not in get_args(Syntax):
        raise FileError(f"{path}: unknown file type", "name it *.coda or *.mlir, or pass syntax")
    return read_source(str(path)), str(path), found


def _check_text(text: str) -> None:
    """Raise CodaError for a single word, which is probably the name of a file."""
    if not re.fullmatch(r"[^\s{}]+", text):
        return
    files = [name for name in (f"{text}.coda", f"{text}.mlir") if Path(name).is_file()]
    if files:
        raise FileError(f"no program is named '{text}'", f"did you mean '{files[0]}'?")
    if Path(text).is_file():
        remedy = f"rename it, or pass Path('{text}') and the syntax to coda_ir.parse"
        raise FileError(f"{text}: not a .coda or .mlir file", remedy)
    raise FileError(
        f"'{text}' is neither program text nor a .coda or .mlir file",
        "pass a path such as 'layer.coda', or program text such as 'fn f(x: bf16[M, 64]) { ... }'",
    )


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
        raise OptionError(f"{name}: an .mlir program has no constants to override")
    from coda_ir.mlir.reader import read_module
    from coda_ir.mlir.verification import verify_calls

    module = read_module(text, name)
    verify_calls(module, {name: text})
    return module


@overload
def compile(
    program: Program,
    *,
    training: Literal[False] = False,
    entry: str | None = None,
    constants: Mapping[str, int | float] | None = None,
    accept: Accept | None = None,
    **options: Unpack[ProgramOptions],
) -> CompiledFunction: ...


@overload
def compile(
    program: Program,
    *,
    training: Literal[True],
    entry: str | None = None,
    constants: Mapping[str, int | float] | None = None,
    **options: Unpack[TrainingOptions],
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
    fold_weights: bool = False,
    tune: Tune = False,
    leftovers: Leftovers = "kernels",
    jobs: int | None = None,
    memory_budget: int | None = None,
    save: Sequence[str] = (),
    recompute: Sequence[str] = (),
    stream_logits: int | None = None,
    accept: Accept | None = None,
    **unknown: object,
) -> CompiledFunction | TrainableFunction:
    """Compile one function of a program, which is a module, a path or a text (see `parse`).

    `entry` names the function and may be omitted if there is only one. `target` is `triton`, or
    `reference`, which runs the program in PyTorch. `device` is the device of the tensors: by
    default the first GPU, or the CPU if there is none. On the CPU, Triton runs in its interpreter.
    `constants` overrides consts of a `.coda` program. `schedule` contains options of the pass
    `schedule`, such as `"mainloop=tma absorb=true"`; options that suit the device are added.
    `numerics` is the guarantee about the bits of the results: `fp32-epilogue`, `fast`,
    `eager-exact` or `deterministic` (docs/numerics.md), by default the mode that the program
    states, or else fp32-epilogue.
    `pack_weights` allows the program to keep vectors computed from weights between calls; they
    follow updates that PyTorch counts, but not writes through `.data`. `fold_weights` also keeps
    whole weights: those after a norm, multiplied by the weight of the norm, so that a scaled copy
    of the activations is never stored. It cannot be combined with training or with CUDA graphs.

    With `tune`, the first call in a new bucket of sizes measures several schedules on the GPU and
    keeps the fastest (docs/tuning.md): True is a budget of a minute; a number is a budget in
    seconds. `"stored"` uses stored results and measures nothing. The forward and the backward of a
    trained program share one budget.

    `leftovers` selects how to run operators that no GEMM takes: `"kernels"` as kernels of the
    emitted module and calls of PyTorch, `"inductor"` in a graph that `torch.compile` compiles and
    that calls programs.

    At most `jobs` kernels are compiled at a time, at the first call and while schedules are tuned.
    The default is CODA_COMPILE_JOBS, or else the number of cores.

    With `training`, the result is part of PyTorch's autograd (docs/training.md). `memory_budget`
    limits the bytes that a call saves for its backward. `save` and `recompute` name values that are
    always saved or always recomputed. `stream_logits` is the number of parts in which the logits of
    a language model are recomputed, so that they are never stored.

    `accept` is called with the estimates of a program before anything is emitted for it (see
    `Accept`); exceptions that it raises propagate. For a trained program, pass it to `prepare`.

    Raises CodaError for invalid input.
    """
    expect_names(unknown, ["entry", "constants", "training", *TrainingOptions.__annotations__])
    for name, flag in {
        "training": training,
        "pack_weights": pack_weights,
        "fold_weights": fold_weights,
    }.items():
        expect_kind(name, flag, bool, "pass True or False")
    tuning = _tuning(tune, target)
    origin = _origin(program, constants, numerics)
    _check_folding(fold_weights, training=training)
    place, architecture = _place(device)
    options = CompileOptions(
        schedule=_checked_schedule(schedule),
        architecture=architecture,
        pack_weights=pack_weights,
        fold_weights=fold_weights,
        tuning=tuning,
        leftovers=leftovers,
        jobs=compile_jobs(jobs),
        is_for_gpu=target == "triton" and place.type != "cpu",
    )
    policy = SavePolicy.of(memory_budget, save, recompute, stream_logits)
    if not training:
        _check_untrained(policy)
        start(target, place)
        lowering = lower(origin if entry is None else _only_called(origin, entry), options)
        if accept is not None:
            accept(lowering.comparison(entry) if target == "triton" else None)
        compiled = CompiledFunction(lowering, entry, target, place)
        compiled.prepare()
        return compiled
    from coda_ir.training.functions import TrainableFunction

    start(target, place)
    return TrainableFunction(origin, entry, target, place, options, policy)


def _tuning(tune: Tune, target: Target) -> TuningOptions | None:
    """Return how to tune, or None. Raises CodaError for a target that is unknown or not tunable."""
    if target not in get_args(Target):
        raise OptionError(f"unknown target '{target}'", f"use one of {', '.join(get_args(Target))}")
    tuning = TuningOptions.of(tune)
    if tuning is not None and target != "triton":
        raise OptionError(f"tuning is for the target triton, not for {target}", "leave tune out")
    return tuning


def _check_untrained(policy: SavePolicy) -> None:
    """Raise CodaError for options that apply only to training."""
    if policy != SavePolicy():
        raise OptionError(
            "only programs compiled for training save values for a backward", "pass training=True"
        )


def _check_folding(fold_weights: bool, *, training: bool) -> None:
    """Raise CodaError if weights that change are to be folded."""
    if fold_weights and training:
        raise OptionError(
            "fold_weights is for inference: each step of training changes the weights, and their "
            "gradients are those of unfolded weights",
            "leave fold_weights out; for inference, compile again without training",
        )


def _place(device: str | torch.device | None) -> tuple[torch.device, str]:
    """Return the device and its architecture."""
    from coda_ir.devices import architecture_name, default_device, resolve_device

    place = default_device() if device is None else resolve_device(device)
    return place, architecture_name(place)


def _checked_schedule(schedule: str | None) -> str | None:
    expect_kind("schedule", schedule or "", str, "pass a string, such as 'mainloop=tma warps=8'")
    return schedule


def _origin(
    program: Program, constants: Mapping[str, int | float] | None, numerics: str | None
) -> Origin:
    """Return the origin of a program's module; the caller may change the module afterwards."""
    _check_program(program)
    expect_kind("constants", constants or {}, Mapping, "pass a dictionary, such as {'D': 64}")
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


def _only_called(origin: Origin, entry: str) -> Origin:
    """Return the program of one function and those that it calls: others may not even compile."""
    identity = {**origin.identity, "entry": entry}
    return Origin(identity, lambda _: only_called(origin.module(), entry), origin.files)


def _module_origin(
    module: ModuleOp, constants: Mapping[str, int | float] | None, numerics: str | None
) -> Origin:
    from coda_ir.mlir.writer import located_text

    if constants:
        raise OptionError(
            "constants are folded when a program is parsed", "pass them to coda_ir.parse"
        )
    copy = module.clone()
    identity = {"module": located_text(module), "numerics": numerics}
    return Origin(identity, lambda _: _with_numerics(copy.clone(), numerics))


def _with_numerics(module: ModuleOp, numerics: str | None) -> ModuleOp:
    """Return the module, in the mode `numerics` if that differs from its own."""
    if numerics is not None:
        from coda_ir.context import make_context
        from coda_ir.passes.block.set_numerics import SetNumericsPass

        SetNumericsPass(numerics).apply(make_context(), module)
    return module
