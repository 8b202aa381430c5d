"""The requests and notifications that the server answers."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

from lsprotocol import types
from pygls.exceptions import JsonRpcInvalidParams

from coda_ir.diagnostics import CodaError
from coda_ir.frontends.coda_text import format_text
from coda_ir.lsp import navigation, outline
from coda_ir.lsp.analysis import Document
from coda_ir.lsp.check import Check
from coda_ir.lsp.completion import complete, signature_help
from coda_ir.lsp.cursor import Cursor, cursor_at
from coda_ir.lsp.hover import hover
from coda_ir.lsp.server import CodaLanguageServer, path_of
from coda_ir.lsp.symbols import Occurrence, Symbol

Handler: TypeAlias = Callable[[CodaLanguageServer, Any], Any]
"""Answers a request or takes a notification, at once or as a coroutine."""

KERNELS_SECONDS = 0.7
"""Seconds that a hover waits for the kernels before it shows the types alone."""


def make_server() -> CodaLanguageServer:
    """Make the server with all its features."""
    server = CodaLanguageServer.make()
    for method, (handler, options) in FEATURES.items():
        server.feature(method, options)(partial(handler, server))
    return server


def initialize(server: CodaLanguageServer, params: types.InitializeParams) -> None:
    server.configure(params.initialization_options)


Changes = types.DidOpenTextDocumentParams | types.DidChangeTextDocumentParams


def changed(server: CodaLanguageServer, params: Changes) -> None:
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


def symbols(
    _: CodaLanguageServer, params: types.DocumentSymbolParams, document: Document, check: Check
) -> Sequence[types.DocumentSymbol]:
    return outline.document_symbols(check, document.source)


def hints(
    server: CodaLanguageServer, params: types.InlayHintParams, document: Document, check: Check
) -> Sequence[types.InlayHint] | None:
    if not server.settings.inlay_hints:
        return None
    return outline.inlay_hints(check, document.source, params.range)


async def lenses(
    server: CodaLanguageServer, params: types.CodeLensParams
) -> Sequence[types.CodeLens] | None:
    found = await server.analyses.compiled(params.text_document.uri)
    if found is None or found[1].compilation is None:
        return None
    return outline.code_lenses(found[1].check, found[1].compilation, found[0].source)


def completed(
    server: CodaLanguageServer, params: types.CompletionParams, document: Document, check: Check
) -> types.CompletionList:
    cursor = _cursor(document, params)
    return types.CompletionList(False, complete(check, cursor, snippets=server.has_snippets))


def signatures(
    _: CodaLanguageServer, params: types.SignatureHelpParams, document: Document, check: Check
) -> types.SignatureHelp | None:
    call = _cursor(document, params).call
    return call and signature_help(check.scope, call)


def _cursor(
    document: Document, params: types.CompletionParams | types.SignatureHelpParams
) -> Cursor:
    """Return the context of the cursor of a request."""
    return cursor_at(document.source.text, document.source.offset(params.position))


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


def defined(
    server: CodaLanguageServer, params: types.DefinitionParams, document: Document, check: Check
) -> types.Location | None:
    place = navigation.definition(check, *document.source.place(params.position))
    return place and server.location(place, check)


def referenced(
    server: CodaLanguageServer, params: types.ReferenceParams, document: Document, check: Check
) -> Sequence[types.Location] | None:
    occurrence = _occurrence(params, document, check)
    if occurrence is None:
        return None
    symbol = occurrence.symbol
    locations = _references(server, check, symbol)
    if params.context.include_declaration:
        return locations
    own = server.location(navigation.Location(symbol.file, symbol.span), check)
    return [location for location in locations if location != own]


def highlighted(
    _: CodaLanguageServer, params: types.DocumentHighlightParams, document: Document, check: Check
) -> Sequence[types.DocumentHighlight]:
    occurrence = _occurrence(params, document, check)
    spans = [] if occurrence is None else check.symbols.spans_of(occurrence.symbol)
    return [types.DocumentHighlight(document.source.range(span)) for span in spans]


def renameable(
    _: CodaLanguageServer, params: types.PrepareRenameParams, document: Document, check: Check
) -> types.Range | None:
    occurrence = _occurrence(params, document, check)
    return occurrence and document.source.range(occurrence.span)


def renamed(
    server: CodaLanguageServer, params: types.RenameParams, document: Document, check: Check
) -> types.WorkspaceEdit | None:
    occurrence = _occurrence(params, document, check)
    if occurrence is None:
        return None
    try:
        navigation.check_new_name(check, occurrence.symbol, params.new_name)
    except CodaError as error:
        raise JsonRpcInvalidParams(str(error)) from error
    edits: dict[str, list[types.TextEdit]] = {}
    for location in _references(server, check, occurrence.symbol):
        edits.setdefault(location.uri, []).append(types.TextEdit(location.range, params.new_name))
    return types.WorkspaceEdit(dict(edits))


_At = (
    types.ReferenceParams
    | types.RenameParams
    | types.PrepareRenameParams
    | types.DocumentHighlightParams
)


def _occurrence(params: _At, document: Document, check: Check) -> Occurrence | None:
    """Return the name at the place of a request."""
    return check.symbols.occurrence_at(*document.source.place(params.position))


def _references(server: CodaLanguageServer, check: Check, symbol: Symbol) -> list[types.Location]:
    """Return every place of a name, in the order of the files."""
    analyses = server.analyses
    files = navigation.files_with(
        symbol.name, server.folders(check), analyses.open_paths(), analyses.read
    )
    places = navigation.references(check, symbol, files, analyses.check_of)
    return [server.location(place, check) for place in places]


def checked(handler: Callable[[CodaLanguageServer, Any, Document, Check], Any]) -> Handler:
    """Return a handler that receives the latest text of a request's file, and its analysis."""

    async def handle(server: CodaLanguageServer, params: Any) -> Any:
        found = await server.analyses.checked(params.text_document.uri)
        return found and handler(server, params, found[0], found[1].check)

    return handle


FEATURES: Mapping[str, tuple[Handler, Any]] = {
    types.INITIALIZE: (initialize, None),
    types.TEXT_DOCUMENT_DID_OPEN: (changed, None),
    types.TEXT_DOCUMENT_DID_CHANGE: (changed, None),
    types.TEXT_DOCUMENT_DID_CLOSE: (closed, None),
    types.WORKSPACE_DID_CHANGE_WATCHED_FILES: (files_changed, None),
    types.WORKSPACE_DID_CHANGE_CONFIGURATION: (configured, None),
    types.SHUTDOWN: (shut_down, None),
    types.TEXT_DOCUMENT_HOVER: (hovered, None),
    types.TEXT_DOCUMENT_DOCUMENT_SYMBOL: (checked(symbols), None),
    types.TEXT_DOCUMENT_INLAY_HINT: (checked(hints), None),
    types.TEXT_DOCUMENT_CODE_LENS: (lenses, None),
    types.TEXT_DOCUMENT_COMPLETION: (
        checked(completed),
        types.CompletionOptions(trigger_characters=["(", "[", "<", ":", '"', "=", "/"]),
    ),
    types.TEXT_DOCUMENT_SIGNATURE_HELP: (
        checked(signatures),
        types.SignatureHelpOptions(trigger_characters=["(", ","]),
    ),
    types.TEXT_DOCUMENT_FORMATTING: (formatted, None),
    types.TEXT_DOCUMENT_DEFINITION: (checked(defined), None),
    types.TEXT_DOCUMENT_REFERENCES: (checked(referenced), None),
    types.TEXT_DOCUMENT_DOCUMENT_HIGHLIGHT: (checked(highlighted), None),
    types.TEXT_DOCUMENT_PREPARE_RENAME: (checked(renameable), None),
    types.TEXT_DOCUMENT_RENAME: (checked(renamed), types.RenameOptions(prepare_provider=True)),
}
"""The handlers of the protocol's methods, with the options that the server announces."""
