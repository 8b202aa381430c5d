"""Runs every command in docs/coda-opt.md, and compares what it prints with what is shown there."""

import re
import shlex
from pathlib import Path
from typing import NamedTuple

import pytest
from support.pages import shown_pattern

from coda_ir.tools.coda_opt import main
from coda_ir.tools.opt.command_line import make_parser

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "coda-opt.md").read_text()
CONSOLE = re.compile(r"^```console\n\$ (?P<command>.*)\n(?P<output>(?:.*\n)*?)```$", re.MULTILINE)


class Example(NamedTuple):
    line: int
    command: str
    output: str


EXAMPLES = [
    Example(TEXT.count("\n", 0, match.start()) + 1, match["command"], match["output"])
    for match in CONSOLE.finditer(TEXT)
]


def pattern(output: str) -> str:
    return shown_pattern(literal_dots(output)).replace("DOTS", re.escape("..."))


def literal_dots(output: str) -> str:
    """The titles of reports have dots of their own."""
    return re.sub(r"^( +)\.\.\. (.*) \.\.\.$", r"\1DOTS \2 DOTS", output, flags=re.MULTILINE)


@pytest.mark.slow
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: f"line{example.line}")
def test_example(
    example: Example, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(ROOT)
    tool, *arguments = shlex.split(example.command)
    assert tool == "coda-opt"
    try:
        code = main(arguments)
    except SystemExit as stop:
        code = stop.code
    captured = capsys.readouterr()
    assert code == (2 if re.search(r": error\[E|\"error\"", example.output) else 0), captured.err
    printed = captured.out + captured.err
    assert re.fullmatch(pattern(example.output), printed), printed


def test_there_are_examples():
    assert len(EXAMPLES) >= 9


def test_every_option_that_is_mentioned_exists():
    known = make_parser().format_help()
    for option in set(re.findall(r"--[a-z][a-z-]+", TEXT)):
        assert re.search(rf"{option}\b", known), option


@pytest.mark.parametrize(
    "command", re.findall(r"^  (coda-opt .*?)(?:  .*)?$", make_parser().format_help(), re.M)
)
def test_examples_of_the_help_are_well_formed(command: str):
    make_parser().parse_args(shlex.split(command)[1:])
