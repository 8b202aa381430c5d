"""The hover text of the name or operator under the pointer, in Markdown."""

import os
from collections.abc import Iterator
from typing import NamedTuple

from coda_ir.frontends.coda_text import program
from coda_ir.frontends.coda_text.syntax import Import, Port, Span
from coda_ir.frontends.coda_text.values import (
    PartialValue,
    ScalarValue,
    TensorValue,
    TupleValue,
    Value,
    describe,
)
from coda_ir.lsp.check import Check
from coda_ir.lsp.compilation import Compilation, FunctionKernels, Kernel, Place
from coda_ir.lsp.documentation import (
    INFIX,
    PORT_KINDS,
    RESULT_KINDS,
    SIGNATURES,
    description,
    usage,
)
from coda_ir.lsp.symbols import Occurrence, OperatorUse, Symbol
from coda_ir.remarks import Remark


class Hover(NamedTuple):
    markdown: str
    span: Span


def hover(check: Check, compilation: Compilation | None, line: int, column: int) -> Hover | None:
    """Return the hover text for a place of the file; None if nothing there has a meaning."""
    node = check.symbols.import_at(line, column)
    if node is not None:
        return Hover(_import(check, node), node.path.span)
    names = (check.symbols.occurrence_at(line, column), check.symbols.operator_at(line, column))
    known = [name for name in names if name is not None]
    # The one that begins last: the other ends where it begins.
    match max(known, key=lambda name: name.span.column, default=None):
        case Occurrence() as found:
            return Hover(_name(check, compilation, found), found.span)
        case OperatorUse() as found:
            return Hover(_operator(check, compilation, found), found.span)
        case _:
            return None


def display_type(value: Value) -> str | None:
    """Return `bf16[B, T, 4096]`, `(f32[M], f32[M])`, or None for a value without a type to show."""
    match value:
        case TensorValue():
            return str(value.type)
        case PartialValue():
            return f"partial_{value.axis}<{value.combiner.value}>"
        case ScalarValue():
            return "f32"
        case TupleValue():
            types = [display_type(item) for item in value.items]
            return f"({', '.join(type or '?' for type in types)})"
        case _:
            return None


# Names.


def _name(check: Check, compilation: Compilation | None, occurrence: Occurrence) -> str:
    symbol = occurrence.symbol
    place = (occurrence.span.line, occurrence.span.column)
    match symbol.kind:
        case "function" | "epilogue":
            return "\n\n".join(_definition(check, compilation, symbol))
        case "const":
            value = check.scope.meanings.get(symbol.name)
            known = isinstance(value, int | float)
            return _code(f"const {symbol.name} = {value}" if known else f"const {symbol.name}")
        case "dimension":
            return f"{_code(symbol.name)}\n\nA symbol: an extent that is known at run time only."
        case "port":
            return _port(check, symbol)
        case _:
            value = check.values.get(place) or check.values.get((symbol.line, symbol.column))
            if value is None and _epilogue_of(check, symbol) is not None:
                return f"{_code(f'{symbol.name}: f32')}\n\nOne element of the tile."
            prefix = "weight " if symbol.kind == "weight" else ""
            return _code(f"{prefix}{symbol.name}{_typed(value)}")


def _typed(value: Value | None) -> str:
    if value is None:
        return ""
    type = display_type(value)
    return f": {type}" if type is not None else f" = {describe(value).split()[-1]}"


def _definition(check: Check, compilation: Compilation | None, symbol: Symbol) -> Iterator[str]:
    """Yield the header of a function or epilogue, and how it runs."""
    meaning = check.scope.meanings.get(symbol.name)
    if isinstance(meaning, program.FunctionDefinition | program.EpilogueDefinition):
        yield _code(header(check, meaning))
    if compilation is not None and symbol.name in compilation.functions:
        yield from _runs(check, compilation.functions[symbol.name])


def header(check: Check, meaning: program.FunctionDefinition | program.EpilogueDefinition) -> str:
    """Return the source of a definition up to its body."""
    name = meaning.tree.name.span
    kept: list[str] = []
    for line in check.sources.get(meaning.scope.file, "").split("\n")[name.line - 1 :]:
        code, comment, _ = line.partition("#")
        before, brace, _ = code.partition("{")
        kept.append(before if brace else line)
        if brace or (not comment and not code.strip()):
            break
    word = "fn" if isinstance(meaning, program.FunctionDefinition) else "epilogue"
    text = "\n".join(kept)[name.column - 1 :].strip()
    return f"{word} {text}"


def _runs(check: Check, function: FunctionKernels) -> Iterator[str]:
    if function.obstacle is not None:
        yield f"The Triton backend cannot run it: {function.obstacle.message}"
        return
    lines = [f"- `{kernel.name}`: {_computes(check, kernel)}" for kernel in function.kernels]
    yield "\n".join([f"{len(lines)} launches of generated kernels:\n", *lines])
    saved = function.unfused_bytes - function.fused_bytes
    yield (
        f"Moves {function.fused_bytes} bytes; with a kernel per operator it would be "
        f"{function.unfused_bytes}, which is {saved} more."
    )


def _epilogue_of(check: Check, symbol: Symbol) -> program.EpilogueDefinition | None:
    """Return the epilogue that a name is local to."""
    for definition in check.scope.meanings.values():
        if (
            isinstance(definition, program.EpilogueDefinition)
            and definition.scope.file == symbol.file
        ):
            tree = definition.tree
            if tree.name.span.line <= symbol.line <= tree.body.span.end_line:
                return definition
    return None


def _port(check: Check, symbol: Symbol) -> str:
    """Describe an accumulator, operand or result of an epilogue."""
    definition = _epilogue_of(check, symbol)
    if definition is not None:
        tree = definition.tree
        for kinds, ports in ((PORT_KINDS, tree.ports), (RESULT_KINDS, tree.results)):
            for port in ports:
                if port.name.text == symbol.name:
                    return _described_port(port, kinds)
    return _code(symbol.name)


def _described_port(port: Port, kinds: dict[str, str]) -> str:
    if port.kind is None:
        return f"{_code(port.name.text)}\n\nAn accumulator: one float32 element of the GEMM."
    kind, argument = port.kind.name.text, port.kind.argument
    suffix = f"<{argument.text}>" if argument is not None else ""
    return f"{_code(f'{port.name.text}: {kind}{suffix}')}\n\n{kinds.get(kind, '')}"


def _import(check: Check, node: Import) -> str:
    path = program.import_path(check.path, str(node.path.value))
    names = [
        name for name, origin in check.scope.origins.items() if origin.rsplit(":", 2)[0] == path
    ]
    listed = ", ".join(f"`{name}`" for name in names) or "nothing"
    return f"`{path}` defines {listed}."


# Operators.


def _operator(check: Check, compilation: Compilation | None, use: OperatorUse) -> str:
    value = check.values.get((use.span.line, use.span.column))
    type = None if value is None else display_type(value)
    title = usage(use.name) if known(use.name) else use.name
    parts = [_code(title if type is None else f"{title} -> {type}")]
    if compilation is not None:
        place = (check.path, use.span.line, use.span.column)
        parts += _fate(check, compilation, place)
    if known(use.name):
        parts.append(description(use.name))
    return "\n\n".join(parts)


def known(name: str) -> bool:
    """Return whether a name is an operator of the language, and not a mistake."""
    return name in INFIX or name in SIGNATURES


def _fate(check: Check, compilation: Compilation, place: Place) -> Iterator[str]:
    """Describe where an operator is computed, and why not elsewhere."""
    kernels = compilation.kernels_at(place)
    for kernel in kernels:
        yield f"Runs in kernel `{kernel.name}`: {_computes(check, kernel)}."
    if place in compilation.views:
        yield "A view: nothing is computed or moved."
    alone = compilation.operator_bytes.get(place)
    if alone is not None and any(len(kernel.places) > 1 for kernel in kernels):
        yield f"A separate kernel would move {alone} bytes."
    for remark in compilation.missed_at(place):
        yield not_fused(remark)


def not_fused(remark: Remark) -> str:
    """Return a missed fusion in Markdown: the reason, the condition, its cost and the remedy."""
    text = f"Not fused (`{remark.pass_name}`): {remark.message}."
    if remark.condition is not None:
        text += f" Failed condition: {remark.condition}."
    if remark.bytes is not None:
        text += f" Costs {remark.bytes} bytes."
    return text if remark.suggestion is None else f"{text} Help: {remark.suggestion}."


def _computes(check: Check, kernel: Kernel) -> str:
    """Return `gemm.fused at 29:14 with silu, *`."""
    (file, line, column), *rest = kernel.places or (("", 0, 0),)
    names = dict.fromkeys(check.word_at(*place) for place in rest)
    where = f"{line}:{column}"
    if file != check.path:
        where = f"{os.path.basename(file)}:{where}"
    text = f"{kernel.operator} at {where}"
    listed = ", ".join(f"`{name}`" for name in names if name)
    return f"{text}, with {listed}" if listed else text


def _code(text: str) -> str:
    return f"```coda\n{text}\n```"
