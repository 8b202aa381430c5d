"""Runs the how-to guides, and the guide for language models."""

import sys
from pathlib import Path

import pytest
from support.pages import DOCUMENTS, run_page
from support.torch_compile import reset

GUIDES = [
    "llms.txt",
    "moe.md",
    *sorted(f"howto/{page.name}" for page in DOCUMENTS.glob("howto/*.md")),
]

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")


@pytest.mark.parametrize("guide", GUIDES)
def test_guide(
    guide: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    reset()
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    run_page(guide, tmp_path, capsys)
