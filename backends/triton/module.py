"""The text of an emitted module: header, helpers, kernels, host program."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath
from textwrap import wrap

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from coda_ir.backends.triton.definitions import render
from coda_ir.backends.triton.device_text import (
    device_functions,
    import_lines,
    length_with_helpers,
)
from coda_ir.backends.triton.host.functions import host_functions, standard_modules
from coda_ir.backends.triton.host.kernels import UsedKernel, launched_kernel
from coda_ir.backends.triton.host.program import HostProgram
from coda_ir.backends.triton.host.text import unpacked, wrapped
from coda_ir.backends.triton.kernel import EmittedKernel, definition, indented
from coda_ir.backends.triton.names import final_names, renamed
from coda_ir.backends.triton.operators.emit import emit_operators
from coda_ir.backends.triton.prelude import MODULE_HEADER
from coda_ir.diagnostics import LoweringError
from coda_ir.dialects.coda.shapes import element_type_of, is_float
from coda_ir.dialects.gemm import AttentionSumOp, FusedOp
from coda_ir.functions import find_entry, returned_values
from coda_ir.remarks import format_location, source_position
from coda_ir.signatures import check_types
from coda_ir.symbolic_shapes import Dims, declared_dims


@dataclass(frozen=True)
class EmittedProgram:
    """The source of a module, its kernels in order, and the kernel of each operator."""

    source: str
    kernels: tuple[EmittedKernel, ...]
    launches: tuple[tuple[Operation, str], ...]
    stand_ins: tuple[str, ...]
    """Launches to compile kernels by (see `host/kernels.py`), the longest kernels first."""


def emit_module(module: ModuleOp, entry: str | None = None, *, direct_launch: bool = False) -> str:
    """Return the source of a Python module that runs one function of `module` with torch and
    triton.

    The module has `run(...)`, which takes the function's arguments as positional tensors and
    returns a tensor or a tuple, and `KERNELS`, the names of its kernels in the order of their
    first launch. `run` trusts the shapes and types of its arguments, which may be strided.
    `entry` names the function and may be left out where there is only one. With `direct_launch`,
    `run` launches known kernels without Triton's Python where it can (`host/launches.py`).
    `module` is not changed, and the text depends on nothing else.

    Raises CodaError where a GEMM or attention has no schedule, and for what the backend cannot run.
    """
    return emit_program(module, entry, direct_launch=direct_launch).source


def emit_program(
    module: ModuleOp, entry: str | None = None, *, direct_launch: bool = False
) -> EmittedProgram:
    """Return the result of `emit_module`, and the kernels as data."""
    func = find_entry(module, entry)
    check_types(func)
    for op in func.body.block.ops:
        if isinstance(op, FusedOp | AttentionSumOp) and op.schedule is None:
            raise LoweringError(
                f"{format_location(op.location)}: {op.name} has no schedule",
                "run the pass 'schedule' before the target triton",
            )
    host = HostProgram(func, direct_launch=direct_launch)
    emit_operators(host)
    kernels = tuple(used.kernel for used in host.kernels.used)
    source = _render(func, host)
    # The longest first, as they take longest to compile.
    lengths = {kernel.name: length_with_helpers(kernel) for kernel in kernels}
    stand_ins = sorted(
        host.kernels.stand_ins, key=lambda text: -lengths.get(launched_kernel(text), 0)
    )
    return EmittedProgram(source, kernels, tuple(host.kernels.launches), tuple(stand_ins))


@dataclass(frozen=True)
class _Signature:
    """The parameters and results of `run`, as shown to people."""

    parameters: Sequence[str]
    results: Sequence[str]

    @staticmethod
    def of(func: FuncOp, host: HostProgram) -> _Signature:
        parameters = [
            f"{name}: {_describe(argument, host.dims(argument))}"
            for name, argument in zip(host.arguments.parameters, func.args, strict=True)
        ]
        declared = [declared_dims(entry) for entry in func.res_attrs or ()]
        results: list[str] = []
        for index, value in enumerate(returned_values(func)):
            dims = declared[index] if index < len(declared) else None
            results.append(_describe(value, dims or host.extents.shapes.written(value)))
        return _Signature(parameters, results)

    def lines(self) -> list[str]:
        results = ", ".join(self.results)
        if len(self.results) != 1:
            results = f"({results})"
        line = f"run({', '.join(self.parameters)}) -> {results}"
        if len(line) <= 96:
            return [line]
        return ["run(", *(f"    {parameter}," for parameter in self.parameters), f") -> {results}"]


def _describe(value: SSAValue, dims: Dims) -> str:
    type = element_type_of(value)
    short = str(type) if is_float(type) else str(type).replace("i", "int", 1)
    return f"{short}[{', '.join(map(str, dims))}]"


def _render(func: FuncOp, host: HostProgram) -> str:
    kernels = host.kernels.used
    emitted = [used.kernel for used in kernels]
    signature = _Signature.of(func, host)
    run = render_run(host)
    names = final_names(run)
    program = [*host.kernels.functions.sources, renamed(run, names)]
    functions = host_functions("\n".join(program))
    sections = [
        renamed(_docstring(func, signature, kernels), names),
        _header(standard_modules(functions), import_lines(emitted)),
        *device_functions(emitted),
        *(_kernel_text(used) for used in kernels),
        _kernel_names(kernels),
        render(functions).rstrip(),
        *program,
    ]
    return "\n\n\n".join(section for section in sections if section) + "\n"


def _docstring(func: FuncOp, signature: _Signature, kernels: Sequence[UsedKernel]) -> str:
    position = source_position(func.location)
    source = "" if position is None else f" from {PurePath(position[0]).name}"
    lines = [f'"""{func.sym_name.data}{source}, compiled by CODA IR.', "", *signature.lines()]
    if kernels:
        lines += ["", "Kernels, in the order of their first launch:"]
        for used in kernels:
            text = f"{used.kernel.name}: {used.kernel.description}"
            lines += wrap(text, 96, initial_indent="    ", subsequent_indent="        ")
    return "\n".join([*lines, '"""'])


def _header(modules: Sequence[str], imports: Sequence[str]) -> str:
    """Return the imports: the standard library, the header of the kernels, then the rest."""
    standard = [f"import {name}" for name in modules]
    head = MODULE_HEADER.rstrip()
    first, rest = head.split("\n", 1)
    assert first == "import os", "the header of the kernels begins with the standard library"
    lines = sorted([first, *standard])
    return "\n".join([*lines, rest, *(["", *imports] if imports else [])])


def _kernel_text(used: UsedKernel) -> str:
    """Return the kernel after comments with the source locations that its text lacks."""
    source = used.kernel.source.rstrip()
    places = [place for place in used.places if place.removeprefix("# ") not in source]
    return "\n".join([*places, source])


def _kernel_names(kernels: Sequence[UsedKernel]) -> str:
    names = [f'"{used.kernel.name}"' for used in kernels]
    line = f"KERNELS = ({', '.join(names)}{',' if len(names) == 1 else ''})"
    if len(line) <= 96:
        return line
    return "\n".join(["KERNELS = (", *(f"    {name}," for name in names), ")"])


# The host functions run and run_boxed


def render_run(host: HostProgram) -> str:
    """Return `run`, after the function `run_boxed` that it calls if the program is boxed."""
    parameters = host.arguments.parameters
    header = definition("run", parameters)
    if not host.is_boxed:
        device = f"{parameters[0]}.device" if parameters else 'torch.device("cpu")'
        body = _body(host, _device_guard(parameters), [f"device = {device}"])
        return "\n".join([*header, *indented(body)])
    summary = "`run` of a list of its arguments, which is emptied: the caller holds none of them."
    unused = [f"del {', '.join(host.unused)}"] if host.unused else []
    body = [f'"""{summary}"""', *_body(host, _boxed_head(parameters), unused)]
    boxed = ["def run_boxed(arguments):", *indented(body)]
    call = wrapped([f"return run_boxed([{', '.join(parameters)}])"])
    return "\n".join([*boxed, "", "", *header, *indented(call)])


def _device_guard(parameters: Sequence[str]) -> list[str]:
    if not parameters:
        return []
    first = parameters[0]
    return [
        f"if {first}.is_cuda and {first}.device.index != torch.cuda.current_device():",
        f"    with torch.cuda.device({first}.device):",
        f"        return run({', '.join(parameters)})",
    ]


def _boxed_head(parameters: Sequence[str]) -> list[str]:
    """Return statements that read the device while the list holds the first tensor; afterwards only
    names hold tensors.
    """
    return [
        "device = arguments[0].device",
        'if device.type == "cuda" and device.index != torch.cuda.current_device():',
        "    with torch.cuda.device(device):",
        "        return run_boxed(arguments)",
        *unpacked(parameters, "arguments"),
        "arguments.clear()",
    ]


def _body(host: HostProgram, head: Sequence[str], begin: Sequence[str]) -> list[str]:
    """Return the statements, with `begin` after those that read symbols from shapes."""
    arguments = [*head, *host.arguments.shape_lines(), *begin]
    is_launching = bool(host.kernels.functions.sources) or host.uses_stream
    stream = ["stream = direct_stream(device)"] if is_launching else []
    workspace = host.buffers.workspace.lines(host.workspace)
    prepared = [*stream, *host.packs, *host.arguments.dense_lines(), *workspace]
    return wrapped([*arguments, *prepared, *host.lines], limit=96)
