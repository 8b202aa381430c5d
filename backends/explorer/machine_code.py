"""The text emitted for a function and its machine code, with the operators of each line."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from xdsl.ir import Operation

from coda_ir.backends.explorer.options import PageOptions
from coda_ir.backends.graphviz.fusion import MARK, Fusion
from coda_ir.backends.triton import EmittedProgram, emit_program
from coda_ir.backends.triton.aot import compile_kernels
from coda_ir.backends.triton.aot.compiler import device_source
from coda_ir.diagnostics import CodaError
from coda_ir.remarks import source_position

HOW = (
    "The page has no machine code. Write it with --arch sm_90 (in Python: arch='sm_90';\n"
    "for torch.compile: options={'explore_arch': 'sm_90'})."
)
"""The text where none was asked for."""

_PLACE = re.compile(rf"{MARK}:(\d+):0")
_BEGINS = re.compile(rf"\s*(?:# |Source: ){MARK}:(\d+):0")
_ENDS = re.compile(r"@|def |\S*$")
_ASSEMBLY_PLACE = re.compile(r"\.loc\s.*?(\d+):\d+(?: \])?$")
"""The line of a kernel's text, in the comment of a line of assembly; the caller's comes last."""

Span = tuple[int, int, int]
"""The first line of a text, the one after the last, and the number of an operator."""


@dataclass(frozen=True)
class Emitted:
    """An emitted Triton module (or a comment on why there is none) and its machine code."""

    triton: dict[str, Any]
    """A `text`, and its `spans`."""
    names: Mapping[Operation, str]
    """The name of the emitted kernel that an operator runs as."""
    machine: dict[str, Any]
    """The `level` (such as `PTX`), the `kernels`, and a `reason` where there are none."""

    @staticmethod
    def of(fusion: Fusion, options: PageOptions) -> Emitted:
        """Emit a scheduled function, and compile it if the options name a GPU."""
        level = "AMDGCN" if options.machine_level == "amdgcn" else "PTX"
        try:
            program = emit_program(fusion.fused_module, fusion.func.sym_name.data)
        except CodaError as error:
            text = f"# {error}".replace("\n", "\n# ")
            none: dict[str, Any] = {"kernels": [], "reason": "There is no module of Triton."}
            without: dict[str, Any] = {"text": _placed(text, fusion), "spans": []}
            return Emitted(without, {}, {"level": level, **none})
        triton = {"text": _placed(program.source, fusion), "spans": list(spans(program.source))}
        machine = {"level": level, **_compiled(program, options)}
        return Emitted(triton, dict(program.launches), machine)


def spans(text: str) -> Iterator[Span]:
    """The emitted lines of an operator: from its comment to the next such comment, or the end."""
    first, operator = 0, None
    number = 0
    for number, line in enumerate(text.split("\n")):
        begins = _BEGINS.match(line)
        if begins is None and not _ENDS.match(line):
            continue
        if operator is not None:
            yield first, number, operator
        first, operator = number, None if begins is None else int(begins[1])
    if operator is not None:
        yield first, number + 1, operator


def _placed(text: str, fusion: Fusion) -> str:
    """Return the text with source locations of operators in place of their numbers."""

    def place(match: re.Match[str]) -> str:
        found = source_position(fusion.operators[int(match[1])].location)
        if found is None:
            return "<unknown>"
        file, line, column = found
        return f"{PurePath(file).name}:{line}:{column}"

    return _PLACE.sub(place, text)


def _compiled(program: EmittedProgram, options: PageOptions) -> dict[str, Any]:
    if options.arch is None or not options.compiles:
        return {"kernels": [], "reason": HOW}
    try:
        kernels = compile_kernels(program.kernels, options.arch, options.machine_level)
    except CodaError as error:
        return {"kernels": [], "reason": str(error)}
    operators = {
        line: operator
        for first, end, operator in spans(device_source(program.kernels))
        for line in range(first + 1, end + 1)
    }
    found = [
        {"name": k.name, "text": k.text, "spans": list(_assembly_spans(k.text, operators))}
        for k in kernels
    ]
    return {"kernels": found, "reason": ""}


def _assembly_spans(text: str, operators: Mapping[int, int]) -> Iterator[Span]:
    """Yield the lines of assembly of each operator: those after a source location."""
    first, operator = 0, None
    lines = text.split("\n")
    for number, line in enumerate(lines):
        match = _ASSEMBLY_PLACE.search(line)
        found = operator if match is None else operators.get(int(match[1]))
        if line.lstrip().startswith(".section"):
            found = None
        if found != operator:
            if operator is not None:
                yield first, number, operator
            first, operator = number, found
    if operator is not None:
        yield first, len(lines), operator
