"""One server for all tests of a process: each test has files of its own."""

from collections.abc import Iterator

import pytest
from support.editor import Editor


@pytest.fixture(scope="session")
def editor() -> Iterator[Editor]:
    editor = Editor()
    editor.start()
    editor.initialize()
    yield editor
    editor.stop()
    assert editor.messages == [], "the server reports no internal error"
