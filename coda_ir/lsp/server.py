"""The language server: its documents, and the features of the protocol."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cached_property

from lsprotocol import types
from pygls.lsp.server import LanguageServer
from pygls.uris import from_fs_path, to_fs_path

import coda_ir
from coda_ir.lsp.analysis import Analyses, Document, Outcome
from coda_ir.lsp.check import Check
from coda_ir.lsp.diagnostics import diagnostics
from coda_ir.lsp.navigation import Location
from coda_ir.lsp.positions import SourceText
from coda_ir.lsp.settings import Settings

NAME = "coda-lsp"


class CodaLanguageServer(LanguageServer):
    """The server: keeps the open files and publishes their diagnostics.

    Whole texts are exchanged: the ends of lines of pygls differ from those of the protocol.
    """

    settings: Settings = Settings()

    @staticmethod
    def make() -> CodaLanguageServer:
        return CodaLanguageServer(
            NAME, coda_ir.__version__, text_document_sync_kind=types.TextDocumentSyncKind.Full
        )

    @cached_property
    def analyses(self) -> Analyses:
        """The analyses of the open files."""
        return Analyses(self.publish)

    @cached_property
    def _with_errors(self) -> set[str]:
        """The files whose errors are shown."""
        return set()

    # Documents.

    def changed(self, uri: str) -> None:
        """Handle an opened file or a new text."""
        document = self.workspace.get_text_document(uri)
        source = SourceText(document.source.removeprefix("\ufeff"), self.encoding)
        self.analyses.update(uri, path_of(uri), source, document.version)

    def closed(self, uri: str) -> None:
        self.analyses.close(uri)
        self._with_errors.discard(uri)
        self.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri, []))

    def configure(self, value: object) -> None:
        """Apply settings, and analyse all files again."""
        self.settings = Settings.read(value, self._warn)
        self.analyses.schedule = self.settings.schedule
        self.analyses.restart()

    def _warn(self, text: str) -> None:
        self.window_show_message(types.ShowMessageParams(types.MessageType.Warning, text))

    @property
    def encoding(self) -> str:
        """The units in which client and server count characters."""
        return self.workspace.position_encoding or types.PositionEncodingKind.Utf16

    def publish(self, document: Document, outcome: Outcome, is_all: bool) -> None:
        """Publish the diagnostics of a file. Errors appear and disappear at once; remarks stay
        until those of the new text are known.
        """
        has_errors = bool(outcome.check.diagnostics)
        if not (is_all or has_errors or document.uri in self._with_errors):
            return
        (self._with_errors.add if has_errors else self._with_errors.discard)(document.uri)
        found = diagnostics(document, outcome, self.settings.remarks, self.uri_of)
        self.text_document_publish_diagnostics(
            types.PublishDiagnosticsParams(document.uri, found, document.version)
        )

    # Places.

    def uri_of(self, path: str) -> str:
        """Return the URI of a file, as the editor writes it if the file is open."""
        return self.analyses.uri_of(path) or from_fs_path(path) or path

    def location(self, place: Location, check: Check) -> types.Location:
        """Return a place in any file, whose text `check` may know."""
        text = check.text if place.file == check.path else check.sources.get(place.file)
        if text is None:
            text = self.analyses.read(place.file)
        source = SourceText(text, self.encoding)
        return types.Location(self.uri_of(place.file), source.range(place.span))

    def folders(self, check: Check) -> Iterator[str]:
        """Yield the folders of the workspace; that of the file if there are none."""
        found = [to_fs_path(uri) for uri in self.workspace.folders]
        yield from (folder for folder in found if folder is not None)
        if not found:
            yield os.path.dirname(check.path)

    @property
    def has_snippets(self) -> bool:
        """True if the editor understands placeholders in completions."""
        text_document = self.client_capabilities.text_document
        completion = text_document.completion if text_document else None
        item = completion.completion_item if completion else None
        return bool(item and item.snippet_support)


def path_of(uri: str) -> str:
    """Return the path of a file; for a text without one, the URI's path."""
    path = to_fs_path(uri)
    return uri.partition(":")[2] or uri if path is None else os.path.normpath(path)
