"""Completion of command lines: a real bash completes them with the script that a tool prints."""

import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from coda_ir.tools import coda_cache, coda_fmt
from coda_ir.tools.opt.command_line import make_parser

BIN = Path(sys.executable).parent
NEEDS_BASH = pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")

# What bash does when a user presses the tabulator behind the last word.
PRESS_TAB = """
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
_shtab_${1//-/_}
printf '%s\\n' "${COMPREPLY[@]}"
"""


@cache
def printed_script(tool: str) -> str:
    command = [str(BIN / tool), "--print-completion", "bash"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def complete(tool: str, *words: str, directory: Path | None = None) -> set[str]:
    """Return what bash offers for the last of the words of a command line."""
    script = printed_script(tool) + PRESS_TAB
    done = subprocess.run(
        ["bash", "-c", script, "bash", tool, *words],
        capture_output=True,
        text=True,
        check=False,
        cwd=directory,
    )
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


@pytest.mark.slow
@NEEDS_BASH
@pytest.mark.parametrize(
    "words, expected",
    [
        (["--print-ir-after-ch"], {"--print-ir-after-change"}),
        (["--run-target", ""], {"reference", "triton"}),
        (["-f", "c"], {"coda"}),
        (["-p", "coda-to"], {"coda-to-gemm"}),
        (["-p", "cse,defer-rms"], {"cse,defer-rms-norm"}),
        (["-p", "builtin.module(func.func(defer-l"], {"builtin.module(func.func(defer-layer-norm"}),
        (["--print-ir-before", "plan-b"], {"plan-buffers"}),
    ],
)
def test_options_choices_and_passes(words: list[str], expected: set[str]):
    assert complete("coda-opt", *words) == expected


@pytest.mark.slow
@NEEDS_BASH
@pytest.mark.parametrize("tool", ["coda-opt", "coda-fmt"])
def test_files(tool: str, tmp_path: Path):
    (tmp_path / "layer.coda").touch()
    assert complete(tool, "lay", directory=tmp_path) == {"layer.coda"}


@NEEDS_BASH
def test_coda_fmt_options():
    assert complete("coda-fmt", "--ch") == {"--check"}


@NEEDS_BASH
def test_coda_cache_commands():
    assert complete("coda-cache", "pr") == {"prune"}
    assert complete("coda-cache", "prune", "--max-s") == {"--max-size"}


@pytest.mark.parametrize("shell", ["bash", "zsh", "tcsh"])
def test_every_shell(shell: str, capsys: pytest.CaptureFixture[str]):
    for run in (make_parser().parse_args, coda_fmt.main, coda_cache.main):
        with pytest.raises(SystemExit) as stop:
            run(["--print-completion", shell])
        assert stop.value.code == 0
        assert len(capsys.readouterr().out.splitlines()) > 5


def test_unknown_shell(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as stop:
        make_parser().parse_args(["--print-completion", "fish"])
    assert stop.value.code == 2
    assert "invalid choice: 'fish'" in capsys.readouterr().err
