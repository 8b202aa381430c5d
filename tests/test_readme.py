"""The README and the tour show what the tools print now: marked blocks are compared or run."""

import re
import shlex
import subprocess
import sys
from contextlib import chdir
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

import pytest

from coda_ir.tools import coda_opt

ROOT = Path(__file__).parent.parent
MARKED_BLOCK = re.compile(
    r"<!-- (file|output|errors|run):? ?([^\n]*?) -->\n```\w+\n(.*?)\n```", re.S
)


class MarkedBlock(NamedTuple):
    kind: str
    source: str
    """A path, or a command."""
    text: str


PAGES = {page: (ROOT / page).read_text() for page in ("README.md", "docs/tour.md")}
BLOCKS = [MarkedBlock(*match) for text in PAGES.values() for match in MARKED_BLOCK.findall(text)]
PICTURES = re.findall(r"<!-- picture: (.*?) -->\n!\[.*?\]\((.*?)\)", PAGES["README.md"])


def run_coda_opt(command: str, capsys: pytest.CaptureFixture[str]) -> tuple[str, str]:
    """Return what the tool prints to stdout and stderr."""
    program, *arguments = shlex.split(command)
    assert program == "coda-opt"
    capsys.readouterr()
    with chdir(ROOT):
        assert coda_opt.main(arguments) == 0
    captured = capsys.readouterr()
    return captured.out, captured.err


def actual_text(block: MarkedBlock, capsys: pytest.CaptureFixture[str]) -> str:
    if block.kind == "file":
        return (ROOT / block.source).read_text()
    output, errors = run_coda_opt(block.source, capsys)
    return output if block.kind == "output" else errors


def test_pages_have_marked_blocks() -> None:
    assert {block.kind for block in BLOCKS} == {"file", "output", "errors", "run"}
    assert len(PAGES["README.md"].splitlines()) <= 150


@pytest.mark.parametrize(("command", "file"), PICTURES)
def test_picture_has_what_the_tool_draws(
    command: str, file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The texts of boxes and edges; Graphviz, which places them, need not be installed."""
    dot, _ = run_coda_opt(f"{command} --emit=dot", capsys)
    drawn = {text.strip() for text in re.findall(r">([^<>;]+)<", dot)} - {""}
    shown = ElementTree.fromstring((ROOT / file).read_text()).iter()
    assert drawn == {element.text for element in shown if element.tag.endswith("}text")}


def test_there_is_a_picture() -> None:
    assert PICTURES


@pytest.mark.parametrize("block", [b for b in BLOCKS if b.kind != "run"], ids=lambda b: b.source)
def test_block_is_what_the_tool_prints(
    block: MarkedBlock, capsys: pytest.CaptureFixture[str]
) -> None:
    actual = actual_text(block, capsys)
    position = 0
    for part in re.split(r"^\.\.\.$", block.text, flags=re.M):
        shown = part.strip("\n")
        found = actual.find(shown, position)
        assert found >= 0, f"not in the output of {block.source} any more:\n{shown}"
        position = found + len(shown)


@pytest.mark.parametrize("block", [b for b in BLOCKS if b.kind == "run"])
def test_python_block_runs(block: MarkedBlock) -> None:
    result = subprocess.run(
        [sys.executable, "-c", block.text], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    assert "gemm_silu_glu" in result.stdout
