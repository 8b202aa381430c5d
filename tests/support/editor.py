"""An editor that talks to the language server over stdio or TCP, for tests: pygls' own client."""

import asyncio
import re
import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from lsprotocol import types
from pygls.lsp.client import LanguageClient

SECONDS = 120
"""The time after which to give up; nothing waits that long unless the server is stuck."""

Result = TypeVar("Result")


def position_of(text: str, needle: str, offset: int = 0) -> types.Position:
    """The place `offset` characters into the first `needle`, as UTF-16 editors count it."""
    index = text.index(needle) + offset
    start = text.rfind("\n", 0, index) + 1
    units = len(text[start:index].encode("utf-16-le")) // 2
    return types.Position(text.count("\n", 0, index), units)


def text_at(text: str, place: types.Range) -> str:
    """The text of a range within one line, as UTF-16 editors count it."""
    assert place.start.line == place.end.line
    line = text.split("\n")[place.start.line].encode("utf-16-le")
    return line[2 * place.start.character : 2 * place.end.character].decode("utf-16-le")


class Editor:
    """Blocking calls of the server's features. Diagnostics are kept by file."""

    def __init__(self) -> None:
        self._runner = asyncio.Runner()
        self.client = LanguageClient("test-editor", "1")
        self.messages: list[str] = []
        self.texts: dict[str, str] = {}
        self.versions: dict[str, int] = {}
        self.published: dict[str, types.PublishDiagnosticsParams] = {}
        self.news: asyncio.Event | None = None

        def show(params: types.ShowMessageParams) -> None:
            self.messages.append(params.message)

        def publish(params: types.PublishDiagnosticsParams) -> None:
            self.published[params.uri] = params
            if self.news is not None:
                self.news.set()

        self.client.feature(types.WINDOW_SHOW_MESSAGE)(show)
        self.client.feature(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)(publish)

    def run(self, work: Awaitable[Result]) -> Result:
        async def bounded() -> Result:
            return await asyncio.wait_for(work, SECONDS)

        return self._runner.run(bounded())

    # The connection.

    def start(self, *arguments: str) -> None:
        # pygls leaves the types of the arguments open.
        start_io: Callable[..., Awaitable[None]] = getattr(self.client, "start_io")  # noqa: B009
        self.run(start_io(sys.executable, "-m", "coda_ir.lsp", *arguments))

    def connect(self, port: int) -> None:
        self.run(self.client.start_tcp("127.0.0.1", port))

    def initialize(
        self, options: Mapping[str, Any] | None = None, folder: Path | None = None
    ) -> types.InitializeResult:
        item = types.ClientCompletionItemOptions(snippet_support=True)
        completion = types.CompletionClientCapabilities(completion_item=item)
        capabilities = types.ClientCapabilities(
            text_document=types.TextDocumentClientCapabilities(completion=completion)
        )
        folders = None if folder is None else [types.WorkspaceFolder(folder.as_uri(), "folder")]
        result = self.run(
            self.client.initialize_async(
                types.InitializeParams(
                    capabilities=capabilities,
                    initialization_options=options,
                    workspace_folders=folders,
                )
            )
        )
        self.client.initialized(types.InitializedParams())
        return result

    def stop(self) -> None:
        """Shut the server down as editors do."""

        async def shut_down() -> None:
            await self.client.shutdown_async(None)
            self.client.exit(None)
            await self.client.stop()

        self.run(shut_down())
        self._runner.close()

    # Documents.

    def open(self, path: Path, text: str | None = None) -> str:
        """Open a file, with unsaved contents where `text` is given; its URI."""
        uri = path.as_uri()
        self.texts[uri] = path.read_text(encoding="utf-8") if text is None else text
        self.versions[uri] = 1
        item = types.TextDocumentItem(uri, "coda", 1, self.texts[uri])
        self.client.text_document_did_open(types.DidOpenTextDocumentParams(item))
        return uri

    def change(self, uri: str, text: str) -> None:
        self.texts[uri] = text
        self.versions[uri] += 1
        document = types.VersionedTextDocumentIdentifier(self.versions[uri], uri)
        changes = [types.TextDocumentContentChangeWholeDocument(text)]
        self.client.text_document_did_change(types.DidChangeTextDocumentParams(document, changes))

    def close(self, uri: str) -> None:
        document = types.TextDocumentIdentifier(uri)
        self.client.text_document_did_close(types.DidCloseTextDocumentParams(document))

    def tell_of_new_file(self, path: Path) -> None:
        event = types.FileEvent(path.as_uri(), types.FileChangeType.Created)
        params = types.DidChangeWatchedFilesParams([event])
        self.client.workspace_did_change_watched_files(params)

    def configure(self, settings: Mapping[str, Any]) -> None:
        params = types.DidChangeConfigurationParams(dict(settings))
        self.client.workspace_did_change_configuration(params)

    # Diagnostics.

    def diagnostics(self, uri: str) -> list[types.Diagnostic]:
        """All diagnostics of the latest text of a file."""
        # The answer comes after the kernels are known, and these after what is published of them.
        self.lenses(uri)
        published = self.published[uri]
        assert published.version == self.versions[uri]
        return list(published.diagnostics)

    def wait_for(
        self, uri: str, wanted: Callable[[types.PublishDiagnosticsParams], bool]
    ) -> list[types.Diagnostic]:
        """The diagnostics of a file, once they are as `wanted`."""

        async def published() -> list[types.Diagnostic]:
            self.news = asyncio.Event()
            while uri not in self.published or not wanted(self.published[uri]):
                await self.news.wait()
                self.news.clear()
            return list(self.published[uri].diagnostics)

        return self.run(published())

    # Requests.

    def at(self, uri: str, needle: str, offset: int = 0) -> types.Position:
        return position_of(self.texts[uri], needle, offset)

    def hover(self, uri: str, needle: str, offset: int = 0) -> str | None:
        """The text of a hover, after the kernels are known."""
        self.lenses(uri)
        found = self.hover_now(uri, self.at(uri, needle, offset))
        if found is None:
            return None
        assert isinstance(found.contents, types.MarkupContent)
        return found.contents.value

    def hover_now(self, uri: str, position: types.Position) -> types.Hover | None:
        document = types.TextDocumentIdentifier(uri)
        return self.run(
            self.client.text_document_hover_async(types.HoverParams(document, position))
        )

    def lenses(self, uri: str) -> list[types.CodeLens]:
        params = types.CodeLensParams(types.TextDocumentIdentifier(uri))
        return list(self.run(self.client.text_document_code_lens_async(params)) or ())

    def complete(self, uri: str, needle: str, offset: int = 0) -> dict[str, types.CompletionItem]:
        """The items by their labels."""
        document, place = types.TextDocumentIdentifier(uri), self.at(uri, needle, offset)
        params = types.CompletionParams(document, place)
        found = self.run(self.client.text_document_completion_async(params))
        items = found.items if isinstance(found, types.CompletionList) else found or ()
        return {item.label: item for item in items}

    def definition(self, uri: str, needle: str, offset: int = 0) -> types.Location | None:
        document, place = types.TextDocumentIdentifier(uri), self.at(uri, needle, offset)
        params = types.DefinitionParams(document, place)
        found = self.run(self.client.text_document_definition_async(params))
        assert found is None or isinstance(found, types.Location)
        return found

    def references(
        self, uri: str, needle: str, offset: int = 0, *, declaration: bool = True
    ) -> list[types.Location]:
        document, place = types.TextDocumentIdentifier(uri), self.at(uri, needle, offset)
        context = types.ReferenceContext(declaration)
        params = types.ReferenceParams(context, document, place)
        return list(self.run(self.client.text_document_references_async(params)) or ())

    def rename(self, uri: str, needle: str, name: str, offset: int = 0) -> dict[str, str]:
        """The texts of the open files after a renaming."""
        document, place = types.TextDocumentIdentifier(uri), self.at(uri, needle, offset)
        params = types.RenameParams(document, place, name)
        edit = self.run(self.client.text_document_rename_async(params))
        assert edit is not None and edit.changes is not None
        return {
            uri: apply_edits(self.texts.get(uri, ""), list(edits))
            for uri, edits in edit.changes.items()
        }

    def format(self, uri: str) -> str | None:
        """The formatted text; None where the server does not format."""
        options = types.FormattingOptions(4, True)
        document = types.TextDocumentIdentifier(uri)
        params = types.DocumentFormattingParams(document, options)
        edits = self.run(self.client.text_document_formatting_async(params))
        return None if edits is None else apply_edits(self.texts[uri], list(edits))


def apply_edits(text: str, edits: list[types.TextEdit]) -> str:
    """The text after edits that do not overlap, as UTF-16 editors count their places."""
    ends = [0, *(match.end() for match in re.finditer(r"\r\n|\n|\r", text))]
    starts = [len(text[:end].encode("utf-16-le", "surrogatepass")) for end in ends]
    data = text.encode("utf-16-le", "surrogatepass")

    def index(position: types.Position) -> int:
        return starts[position.line] + 2 * position.character

    for edit in sorted(edits, key=lambda edit: index(edit.range.start), reverse=True):
        new = edit.new_text.encode("utf-16-le", "surrogatepass")
        data = data[: index(edit.range.start)] + new + data[index(edit.range.end) :]
    return data.decode("utf-16-le", "surrogatepass")
