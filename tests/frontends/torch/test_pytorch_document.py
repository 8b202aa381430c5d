"""Runs the Python and every command in docs/pytorch.md, and compares what is shown there.

Runs the Python in docs/training.md, too.
"""

import re
from dataclasses import fields
from pathlib import Path

import pytest
from support.pages import BLOCK, DOCUMENTS, run_page

from coda_ir.frontends.torch.compile_options import MODES, REMARKS_VARIABLE, Options
from coda_ir.tools import coda_export, coda_opt

TEXT = (DOCUMENTS / "pytorch.md").read_text()
TRAINING = (DOCUMENTS / "training.md").read_text()
KINDS = {"python", "console", "coda"}

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")


@pytest.mark.slow
def test_the_page_from_top_to_bottom(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    run_page("pytorch.md", tmp_path, capsys)


@pytest.mark.slow
def test_the_page_about_training():
    namespace: dict[str, object] = {}
    blocks = [text for *_, kind, text in BLOCK.findall(TRAINING) if kind == "python"]
    assert len(blocks) == 4
    for text in blocks:
        exec(compile(text, "docs/training.md", "exec"), namespace)


def test_every_block_is_run():
    assert {kind for *_, kind, _ in BLOCK.findall(TEXT)} == KINDS
    assert len(BLOCK.findall(TEXT)) >= 10
    assert TEXT.count("\n$ ") >= 5


def test_every_option_of_the_backend_is_described():
    table = TEXT[TEXT.index("### Modes and options") : TEXT.index("## Remarks")]
    described = re.findall(r"^\| `\"(\w+)\"` \|", table, re.MULTILINE)
    assert described == [field.name for field in fields(Options)]
    assert set(re.findall(r'"([\w-]+)"', table[: table.index("| `options=`")])) == set(MODES)
    assert REMARKS_VARIABLE in TEXT


def test_every_option_that_is_mentioned_exists(capsys: pytest.CaptureFixture[str]):
    for main in (coda_export.main, coda_opt.main):
        with pytest.raises(SystemExit):
            main(["--help"])
    known = capsys.readouterr().out
    for option in set(re.findall(r"--[a-z][a-z-]+", TEXT)):
        assert re.search(rf"{option}\b", known), option
