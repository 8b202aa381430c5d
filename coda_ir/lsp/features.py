"""The requests and notifications that the server answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from lsprotocol import types
from pygls.exceptions import JsonRpcInvalidParams

from coda_ir.diagnostics import CodaError
from coda_ir.frontends.coda_text import format_text
from coda_ir.lsp import navigation, outline
from coda_ir.lsp.check import Check
from coda_ir.lsp.completion import complete, signature_help
from coda_ir.lsp.cursor import Cursor, cursor_at
from coda_ir.lsp.hover import hover
from coda_ir.lsp.positions import SourceText
from coda_ir.lsp.server import CodaLanguageServer, path_of
from coda_ir.lsp.symbols import Occurrence, Symbol

KERNELS_SECONDS = 0.7
"""How long a hover waits for the kernels before it shows the types alone."""


def make_server() -> CodaLanguageServer:
    """The server with all its features."""
    server = CodaLanguageServer.make()
    for method, (handler, options) in FEATURES.items():
        server.feature(method, options)(partial(handler, server))
    return server


def initialize(server: CodaLanguageServer, params: types.InitializeParams) -> None:
    server.configure(params.initialization_options)


def opened(server: CodaLanguageServer, params: types.DidOpenTextDocumentParams) -> None:
    server.changed(params.text_document.uri)


def changed(server: CodaLanguageServer, params: types.DidChangeTextDocumentParams) -> None:
    server.changed(params.text_document.uri)


def closed(server: CodaLanguageServer, params: types.DidCloseTextDocumentParams) -> None:
    server.closed(params.text_document.uri)


def files_changed(server: CodaLanguageServer, params: types.DidChangeWatchedFilesParams) -> None:
    server.analyses.invalidate(path_of(change.uri) for change in params.changes)


def configured(server: CodaLanguageServer, params: types.DidChangeConfigurationParams) -> None:
    server.configure(params.settings)


def shut_down(server: CodaLanguageServer, _params: None) -> None:
    server.analyses.stop()


async def hovered(server: CodaLanguageServer, params: types.HoverParams) -> types.Hover | None:
    uri = params.text_document.uri
    try:
        found = await asyncio.wait_for(server.analyses.compiled(uri), KERNELS_SECONDS)
    except TimeoutError:
        found = await server.analyses.checked(uri)
    if found is None:
        return None
    document, outcome = found
    place = document.source.place(params.position)
    shown = hover(outcome.check, outcome.compilation, *place)
    if shown is None:
        return None
    content = types.MarkupContent(types.MarkupKind.Markdown, shown.markdown)
    return types.Hover(content, document.source.range(shown.span))


async def symbols(
    server: CodaLanguageServer, params: types.DocumentSymbolParams
) -> Sequence[types.DocumentSymbol] | None:
    found = await server.analyses.checked(params.text_document.uri)
    return found and outline.document_symbols(found[1].check, found[0].source)


async def hints(
    server: CodaLanguageServer, params: types.InlayHintParams
) -> Sequence[types.InlayHint] | None:
    found = await server.analyses.checked(params.text_document.uri)
    if found is None or not server.settings.inlay_hints:
        return None
    return outline.inlay_hints(found[1].check, found[0].source, params.range)


async def lenses(
    server: CodaLanguageServer, params: types.CodeLensParams
) -> Sequence[types.CodeLens] | None:
    found = await server.analyses.compiled(params.text_document.uri)
    if found is None or found[1].compilation is None:
        return None
    return outline.code_lenses(found[1].check, found[1].compilation, found[0].source)


async def completed(
    server: CodaLanguageServer, params: types.CompletionParams
) -> types.CompletionList | None:
    found = await _at_cursor(server, params)
    if found is None:
        return None
    return types.CompletionList(False, complete(*found, snippets=server.has_snippets))


async def signatures(
    server: CodaLanguageServer, params: types.SignatureHelpParams
) -> types.SignatureHelp | None:
    found = await _at_cursor(server, params)
    if found is None:
        return None
    check, cursor = found
    return cursor.call and signature_help(check.scope, cursor.call)


async def _at_cursor(
    server: CodaLanguageServer, params: types.CompletionParams | types.SignatureHelpParams
) -> tuple[Check, Cursor] | None:
    """The check of the file of a request, and what the cursor is in."""
    found = await server.analyses.checked(params.text_document.uri)
    if found is None:
        return None
    document, outcome = found
    cursor = cursor_at(document.source.text, document.source.offset(params.position))
    return outcome.check, cursor


def formatted(
    server: CodaLanguageServer, params: types.DocumentFormattingParams
) -> Sequence[types.TextEdit] | None:
    document = server.analyses.document(params.text_document.uri)
    if document is None:
        return None
    try:
        text = format_text(document.source.text, document.path)
    except CodaError:
        # The errors are shown already.
        return None
    if text == document.source.text:
        return []
    return [types.TextEdit(document.source.whole, text)]


async def defined(
    server: CodaLanguageServer, params: types.DefinitionParams
) -> types.Location | None:
    found = await server.analyses.checked(params.text_document.uri)
    if found is None:
        return None
    check = found[1].check
    place = navigation.definition(check, *found[0].source.place(params.position))
    return place and server.location(place, check)


async def referenced(
    server: CodaLanguageServer, params: types.ReferenceParams
) -> Sequence[types.Location] | None:
    found = await _symbol(server, params)
    if found is None:
        return None
    locations = _references(server, *found)
    if params.context.include_declaration:
        return locations
    check, symbol = found
    own = server.location(navigation.Location(symbol.file, symbol.span), check)
    return [location for location in locations if location != own]


async def highlighted(
    server: CodaLanguageServer,
    params: types.DocumentHighlightParams,
) -> Sequence[types.DocumentHighlight] | None:
    found = await _occurrence(server, params)
    if found is None:
        return None
    source, check, occurrence = found
    spans = [] if occurrence is None else check.symbols.spans_of(occurrence.symbol)
    return [types.DocumentHighlight(source.range(span)) for span in spans]


async def renameable(
    server: CodaLanguageServer, params: types.PrepareRenameParams
) -> types.Range | None:
    found = await _occurrence(server, params)
    return found and found[2] and found[0].range(found[2].span)


async def renamed(
    server: CodaLanguageServer, params: types.RenameParams
) -> types.WorkspaceEdit | None:
    found = await _symbol(server, params)
    if found is None:
        return None
    try:
        navigation.check_new_name(*found, params.new_name)
    except CodaError as error:
        raise JsonRpcInvalidParams(str(error)) from error
    edits: dict[str, list[types.TextEdit]] = {}
    for location in _references(server, *found):
        edits.setdefault(location.uri, []).append(types.TextEdit(location.range, params.new_name))
    return types.WorkspaceEdit(dict(edits))


_At = (
    types.ReferenceParams
    | types.RenameParams
    | types.PrepareRenameParams
    | types.DocumentHighlightParams
)


async def _symbol(server: CodaLanguageServer, params: _At) -> tuple[Check, Symbol] | None:
    """The name at the place of a request."""
    found = await _occurrence(server, params)
    return (found[1], found[2].symbol) if found and found[2] else None


async def _occurrence(
    server: CodaLanguageServer, params: _At
) -> tuple[SourceText, Check, Occurrence | None] | None:
    """The text and the check of the file of a request, and the name at its place."""
    found = await server.analyses.checked(params.text_document.uri)
    if found is None:
        return None
    source, check = found[0].source, found[1].check
    return source, check, check.symbols.occurrence_at(*source.place(params.position))


def _references(server: CodaLanguageServer, check: Check, symbol: Symbol) -> list[types.Location]:
    """Every place of a name, in the order of the files."""
    analyses = server.analyses
    files = navigation.files_with(
        symbol.name, server.folders(check), analyses.open_paths(), analyses.read
    )
    places = navigation.references(check, symbol, files, analyses.check_of)
    return [server.location(place, check) for place in places]


FEATURES: Mapping[str, tuple[Callable[..., Any], Any]] = {
    types.INITIALIZE: (initialize, None),
    types.TEXT_DOCUMENT_DID_OPEN: (opened, None),
    types.TEXT_DOCUMENT_DID_CHANGE: (changed, None),
    types.TEXT_DOCUMENT_DID_CLOSE: (closed, None),
    types.WORKSPACE_DID_CHANGE_WATCHED_FILES: (files_changed, None),
    types.WORKSPACE_DID_CHANGE_CONFIGURATION: (configured, None),
    types.SHUTDOWN: (shut_down, None),
    types.TEXT_DOCUMENT_HOVER: (hovered, None),
    types.TEXT_DOCUMENT_DOCUMENT_SYMBOL: (symbols, None),
    types.TEXT_DOCUMENT_INLAY_HINT: (hints, None),
    types.TEXT_DOCUMENT_CODE_LENS: (lenses, None),
    types.TEXT_DOCUMENT_COMPLETION: (
        completed,
        types.CompletionOptions(trigger_characters=["(", "[", "<", ":", '"', "=", "/"]),
    ),
    types.TEXT_DOCUMENT_SIGNATURE_HELP: (
        signatures,
        types.SignatureHelpOptions(trigger_characters=["(", ","]),
    ),
    types.TEXT_DOCUMENT_FORMATTING: (formatted, None),
    types.TEXT_DOCUMENT_DEFINITION: (defined, None),
    types.TEXT_DOCUMENT_REFERENCES: (referenced, None),
    types.TEXT_DOCUMENT_DOCUMENT_HIGHLIGHT: (highlighted, None),
    types.TEXT_DOCUMENT_PREPARE_RENAME: (renameable, None),
    types.TEXT_DOCUMENT_RENAME: (renamed, types.RenameOptions(prepare_provider=True)),
}
"""The handlers of the protocol's methods, with the options that the server announces."""
