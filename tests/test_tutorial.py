"""Runs every file, block of Python and command of the tutorial."""

from itertools import pairwise
from pathlib import Path

import pytest
from support.pages import DOCUMENTS, run_page
from support.torch_compile import reset

CHAPTERS = sorted(page.name for page in (DOCUMENTS / "tutorial").glob("*.md"))

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")


@pytest.mark.slow
@pytest.mark.parametrize("chapter", CHAPTERS)
def test_chapter(chapter: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    reset()
    run_page(f"tutorial/{chapter}", tmp_path, capsys)


def test_there_are_five_chapters_each_of_which_names_the_next():
    assert len(CHAPTERS) == 5
    for chapter, following in pairwise(CHAPTERS):
        assert f"]({following})" in (DOCUMENTS / "tutorial" / chapter).read_text()
