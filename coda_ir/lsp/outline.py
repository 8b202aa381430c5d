"""Document symbols, code lenses, and the types after names."""

from collections import Counter
from collections.abc import Iterator

from lsprotocol.types import (
    CodeLens,
    Command,
    DocumentSymbol,
    InlayHint,
    InlayHintKind,
    Range,
    SymbolKind,
)

from coda_ir.frontends.coda_text import syntax
from coda_ir.lsp.check import Check
from coda_ir.lsp.compilation import Compilation, FunctionKernels
from coda_ir.lsp.hover import display_type
from coda_ir.lsp.positions import SourceText


def document_symbols(check: Check, source: SourceText) -> list[DocumentSymbol]:
    return [_definition(check, source, node) for node in check.scope.tree.definitions]


def _definition(check: Check, source: SourceText, node: syntax.Definition) -> DocumentSymbol:
    match node:
        case syntax.Import():
            place = source.range(node.span)
            return DocumentSymbol(str(node.path.value), SymbolKind.Module, place, place)
        case syntax.Const():
            value = check.scope.meanings.get(node.name.text)
            whole = source.range(node.span)
            detail = f"= {value}" if isinstance(value, int | float) else None
            return _symbol(source, node.name, SymbolKind.Constant, whole, detail)
        case syntax.Function():
            names = [parameter.name for parameter in node.parameters]
        case syntax.Epilogue():
            names = [port.name for port in node.ports]
    name, body = node.name.span, node.body
    last = body.span
    whole = source.range(syntax.Span(name.line, 1, last.end_line, last.end_column))
    symbol = _symbol(source, node.name, SymbolKind.Function, whole)
    symbol.children = [
        _symbol(source, inner, SymbolKind.Variable, source.range(inner.span), _type(check, inner))
        for inner in (*names, *_targets(body))
    ]
    return symbol


def _targets(body: syntax.Body) -> Iterator[syntax.Identifier]:
    for statement in body.statements:
        if isinstance(statement, syntax.Assign):
            yield from (target for target in statement.targets if target.text != "_")


def _symbol(
    source: SourceText,
    name: syntax.Identifier,
    kind: SymbolKind,
    whole: Range,
    detail: str | None = None,
) -> DocumentSymbol:
    return DocumentSymbol(name.text, kind, whole, source.range(name.span), detail)


def _type(check: Check, name: syntax.Identifier) -> str | None:
    value = check.values.get((name.span.line, name.span.column))
    return None if value is None else display_type(value)


def inlay_hints(check: Check, source: SourceText, visible: Range) -> list[InlayHint]:
    """Return the types of the names that statements in the visible lines assign."""
    hints: list[InlayHint] = []
    first, last = source.place(visible.start)[0], source.place(visible.end)[0]
    for node in check.scope.tree.definitions:
        if not isinstance(node, syntax.Function) or not first <= node.body.span.end_line:
            continue
        for target in _targets(node.body):
            type = _type(check, target)
            if type is not None and first <= target.span.line <= last:
                end = source.range(target.span).end
                hints.append(InlayHint(end, f": {type}", InlayHintKind.Type))
    return hints


def code_lenses(check: Check, compilation: Compilation, source: SourceText) -> list[CodeLens]:
    """Return a lens above each function: its kernels, and the memory traffic that fusion saves."""
    lenses: list[CodeLens] = []
    for node in check.scope.tree.definitions:
        if isinstance(node, syntax.Function) and node.name.text in compilation.functions:
            title = kernel_summary(compilation.functions[node.name.text])
            place = source.range(node.name.span)
            lenses.append(CodeLens(place, Command(title, "")))
    return lenses


def kernel_summary(function: FunctionKernels) -> str:
    """Return `4 gemm.fused, 2 gemm.finalize; moves N bytes, M without fusion`."""
    if function.obstacle is not None:
        return "the Triton backend cannot run this function"
    counts = Counter(kernel.operator for kernel in function.kernels)
    kernels = ", ".join(f"{count} {name}" for name, count in counts.items()) or "no kernels"
    return f"{kernels}; moves {function.fused_bytes} bytes, {function.unfused_bytes} unfused"
