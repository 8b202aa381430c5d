"""The README shows what the tools print now: every marked block is compared or run."""

import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parent.parent
MARKED_BLOCK = re.compile(
    r"<!-- (file|output|errors|run):? ?([^\n]*?) -->\n```\w+\n(.*?)\n```", re.S
)


class MarkedBlock(NamedTuple):
    kind: str
    source: str
    """A path, or a command."""
    text: str


BLOCKS = [MarkedBlock(*match) for match in MARKED_BLOCK.findall((ROOT / "README.md").read_text())]


def actual_text(block: MarkedBlock) -> str:
    if block.kind == "file":
        return (ROOT / block.source).read_text()
    command = shlex.split(block.source)
    assert command[0] == "coda-opt"
    result = subprocess.run(
        [sys.executable, "-m", "coda_ir.tools.coda_opt", *command[1:]],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return result.stdout if block.kind == "output" else result.stderr


def test_readme_has_marked_blocks() -> None:
    assert {block.kind for block in BLOCKS} == {"file", "output", "errors", "run"}


@pytest.mark.parametrize("block", [b for b in BLOCKS if b.kind != "run"], ids=lambda b: b.source)
def test_block_is_what_the_tool_prints(block: MarkedBlock) -> None:
    actual = actual_text(block)
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
