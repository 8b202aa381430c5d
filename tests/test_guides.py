"""Runs the how-to guides, and the guide for language models."""

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


@pytest.mark.slow
@pytest.mark.parametrize("guide", GUIDES)
def test_guide(guide: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    reset()
    run_page(guide, tmp_path, capsys)
