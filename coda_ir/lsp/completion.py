"""Completion and signature help."""

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from lsprotocol.types import (
    CompletionItem,
    CompletionItemKind,
    InsertTextFormat,
    MarkupContent,
    MarkupKind,
    ParameterInformation,
    SignatureHelp,
    SignatureInformation,
)

from coda_ir.frontends.coda_text import program
from coda_ir.frontends.coda_text.arguments import REQUIRED, Formal, Signature
from coda_ir.frontends.coda_text.counterparts import ELEMENTS, FUNCTIONS
from coda_ir.frontends.coda_text.epilogue_body import SIGNATURES as ELEMENT_SIGNATURES
from coda_ir.frontends.coda_text.operators import CONSTANT_FUNCTIONS
from coda_ir.frontends.coda_text.remedies import fill
from coda_ir.frontends.coda_text.values import ELEMENT_TYPES
from coda_ir.lsp.check import Check
from coda_ir.lsp.cursor import Cursor, OpenCall
from coda_ir.lsp.documentation import (
    CHOICES,
    COMBINERS,
    KEYWORDS,
    PORT_KINDS,
    RESULT_KINDS,
    SIGNATURES,
    description,
    summary,
)
from coda_ir.lsp.hover import display_type

_SNIPPETS = {
    "import": 'import "$1"',
    "const": "const ${1:NAME} = $0",
    "fn": "fn ${1:name}(${2:x: bf16[M, N]}) {\n    return $0\n}",
    "epilogue": "epilogue ${1:name}(acc) -> (${2:y}: tile) {\n    $2 = ${0:acc}\n}",
}


def complete(check: Check, cursor: Cursor, *, snippets: bool) -> list[CompletionItem]:
    """Return the completions at the cursor. With `snippets`, they may contain placeholders."""
    return list(_Completion(check, cursor, snippets).items())


@dataclass(frozen=True)
class _Completion:
    check: Check
    cursor: Cursor
    snippets: bool

    def items(self) -> Iterator[CompletionItem]:
        match self.cursor.where:
            case "top":
                for word, text in _SNIPPETS.items():
                    yield self._item(word, CompletionItemKind.Keyword, KEYWORDS[word], text)
            case "const":
                yield from self._consts()
                yield from self._operators(CONSTANT_FUNCTIONS)
            case "parameter":
                word = CompletionItemKind.Keyword
                yield self._item("weight", word, KEYWORDS["weight"], "weight $1: ")
            case "type":
                yield from self._types("[$1]")
            case "dims":
                yield from self._consts()
                yield from self._names()
            case "statement":
                yield self._item("return", CompletionItemKind.Keyword, KEYWORDS["return"])
            case "expression":
                yield from self._expression()
            case "port kind":
                yield from self._kinds(PORT_KINDS)
            case "result kind":
                yield from self._kinds(RESULT_KINDS)
            case "kind argument":
                yield from self._kind_arguments()
            case "string":
                call = self.cursor.call
                choices = CHOICES.get((call.callee, call.keyword or ""), ()) if call else ()
                for choice in choices:
                    yield self._item(choice, CompletionItemKind.EnumMember)
            case "import":
                yield from self._files()
            case _:
                pass

    def _expression(self) -> Iterator[CompletionItem]:
        call = self.cursor.call
        if call is not None:
            yield from self._keyword_arguments(call)
        yield from self._names()
        yield from self._consts()
        if self.cursor.head == "epilogue":
            yield from self._operators(ELEMENT_SIGNATURES)
            yield from self._counterparts(ELEMENTS)
        else:
            yield from self._definitions()
            yield from self._operators(SIGNATURES)
            yield from self._counterparts(FUNCTIONS)
        wanted = None if call is None else _formal(self._signature(call.callee), call)
        if wanted is not None and wanted.kind == "type":
            yield from self._types("")
        if wanted is not None and wanted.kind == "boolean":
            for word in ("true", "false"):
                yield self._item(word, CompletionItemKind.Value)

    def _signature(self, callee: str) -> Signature | None:
        return signature_of(self.check.scope, callee)

    def _keyword_arguments(self, call: OpenCall) -> Iterator[CompletionItem]:
        """Yield the arguments that can still be given by name; they come first in the list."""
        signature = self._signature(call.callee)
        if signature is None or call.keyword is not None:
            return
        by_position = {formal.name for formal in signature.positional[: call.position]}
        for formal in signature.formals:
            if formal.name not in call.given | by_position and not formal.variadic:
                item = self._item(f"{formal.name}=", CompletionItemKind.Property, _describe(formal))
                item.sort_text = f"0{formal.name}"
                item.filter_text = formal.name
                yield item

    def _names(self) -> Iterator[CompletionItem]:
        types = self._types_of_names()
        for name in self.cursor.names:
            if name not in self.check.scope.meanings:
                item = self._item(name, CompletionItemKind.Variable, types.get(name))
                item.sort_text = f"1{name}"
                yield item

    def _types_of_names(self) -> dict[str, str]:
        """Return the types of variables that were understood; the last one of each name."""
        types: dict[str, str] = {}
        for occurrence in self.check.symbols.occurrences.values():
            value = self.check.values.get((occurrence.span.line, occurrence.span.column))
            type = None if value is None else display_type(value)
            if type is not None and occurrence.is_definition:
                types[occurrence.symbol.name] = type
        return types

    def _consts(self) -> Iterator[CompletionItem]:
        for name, meaning in self.check.scope.meanings.items():
            if isinstance(meaning, int | float):
                item = self._item(name, CompletionItemKind.Constant, f"const {name} = {meaning}")
                item.sort_text = f"2{name}"
                yield item

    def _definitions(self) -> Iterator[CompletionItem]:
        for name, meaning in self.check.scope.meanings.items():
            if isinstance(meaning, program.FunctionDefinition | program.EpilogueDefinition):
                item = self._call(meaning.signature, CompletionItemKind.Function)
                item.sort_text = f"3{name}"
                yield item

    def _operators(self, names: Iterable[str]) -> Iterator[CompletionItem]:
        for name in sorted(names):
            if name in self.check.scope.meanings:
                continue
            item = self._call(SIGNATURES[name], CompletionItemKind.Function)
            item.documentation = MarkupContent(MarkupKind.Markdown, summary(name))
            item.sort_text = f"4{name}"
            yield item

    def _counterparts(self, texts: Mapping[str, str]) -> Iterator[CompletionItem]:
        """Yield names of PyTorch, at the end of the list, for their counterparts in .coda."""
        for name in sorted(texts):
            if name.isidentifier() and name not in self.check.scope.meanings:
                text = fill(texts[name], {})
                item = CompletionItem(name, kind=CompletionItemKind.Function, detail=text)
                item.insert_text = text
                item.sort_text = f"5{name}"
                yield item

    def _call(self, signature: Signature, kind: CompletionItemKind) -> CompletionItem:
        required = [f for f in signature.formals if f.default == REQUIRED and not f.variadic]
        parts = [
            f"{f'{formal.name}=' if formal.keyword_only else ''}${{{i}:{formal.name}}}"
            for i, formal in enumerate(required, 1)
        ]
        snippet = f"{signature.name}({', '.join(parts)})"
        return self._item(signature.name, kind, signature.text, snippet)

    def _types(self, suffix: str) -> Iterator[CompletionItem]:
        for name in ELEMENT_TYPES:
            yield self._item(name, CompletionItemKind.TypeParameter, None, f"{name}{suffix}")

    def _kinds(self, kinds: dict[str, str]) -> Iterator[CompletionItem]:
        for name, meaning in kinds.items():
            takes_argument = name.startswith("partial") or name == "select"
            snippet = f"{name}<$1>" if takes_argument else name
            yield self._item(name, CompletionItemKind.EnumMember, meaning, snippet)

    def _kind_arguments(self) -> Iterator[CompletionItem]:
        match self.cursor.kind:
            case "partial_row" | "partial_col":
                yield from self._kinds(COMBINERS)
            case "select":
                yield from self._names()
            case _:
                yield from self._types("")

    def _files(self) -> Iterator[CompletionItem]:
        """Yield the other .coda files and folders in the folder that is written so far."""
        if self.cursor.prefix.startswith(program.PREFIX):
            for name in program.files_of_library():
                yield self._item(name, CompletionItemKind.File)
            return
        if not os.path.dirname(self.cursor.prefix):
            yield self._item(program.PREFIX, CompletionItemKind.Folder)
        folder = Path(self.check.path).parent / os.path.dirname(self.cursor.prefix)
        entries = sorted(folder.iterdir()) if folder.is_dir() else []
        for entry in entries:
            if entry.is_dir() and not entry.name.startswith("."):
                yield self._item(f"{entry.name}/", CompletionItemKind.Folder)
            elif entry.suffix == ".coda" and str(entry) != self.check.path:
                yield self._item(entry.name, CompletionItemKind.File)

    def _item(
        self, label: str, kind: CompletionItemKind, detail: str | None = None, text: str = ""
    ) -> CompletionItem:
        if self.snippets and "$" in text:
            return CompletionItem(
                label,
                kind=kind,
                detail=detail,
                insert_text=text,
                insert_text_format=InsertTextFormat.Snippet,
            )
        return CompletionItem(label, kind=kind, detail=detail)


def signature_of(scope: program.Scope, callee: str) -> Signature | None:
    """Return the signature of a function, an epilogue or an operator."""
    meaning = scope.meanings.get(callee)
    if isinstance(meaning, program.FunctionDefinition | program.EpilogueDefinition):
        return meaning.signature
    return SIGNATURES.get(callee) if meaning is None else None


def _formal(signature: Signature | None, call: OpenCall) -> Formal | None:
    """Return the parameter that is being written."""
    if signature is None:
        return None
    if call.keyword is not None:
        return next((f for f in signature.formals if f.name == call.keyword), None)
    positional = signature.positional
    return positional[call.position] if call.position < len(positional) else None


def _describe(formal: Formal) -> str:
    text = f"{formal.name}: {formal.kind}"
    return text if formal.default in (REQUIRED, None) else f"{text} = {formal.default}"


def signature_help(scope: program.Scope, call: OpenCall) -> SignatureHelp | None:
    """Return the parameters of the call around the cursor, and which one is being written."""
    signature = signature_of(scope, call.callee)
    if signature is None:
        return None
    active = _formal(signature, call)
    index = None if active is None else list(signature.formals).index(active)
    text = description(call.callee) if call.callee not in scope.meanings else None
    information = SignatureInformation(
        signature.text,
        None if text is None else MarkupContent(MarkupKind.Markdown, text),
        [ParameterInformation(formal.name) for formal in signature.formals],
    )
    return SignatureHelp([information], 0, index)
