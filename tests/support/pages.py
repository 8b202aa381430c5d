"""Runs pages of the documents from top to bottom: their files, their Python and their commands.

A comment marks the block after it: `<!-- file: NAME -->` is a file that the page uses, and
`<!-- output: NAME -->` one that a command wrote. The blocks of Python share a namespace. Each
command in a block of console prints what follows it (`shown_pattern`).
"""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import chdir, contextmanager
from pathlib import Path
from typing import Any

import pytest
from filecheck.main import main as filecheck

from coda_ir.tools import coda_cache, coda_export, coda_opt

ROOT = Path(__file__).parents[2]
DOCUMENTS = ROOT / "docs"
BIN = Path(sys.prefix) / "bin"
BLOCK = re.compile(r"(?:^<!-- (\w+): (\S+) -->\n)?^```(\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)
TOOLS: dict[str, Callable[[list[str]], int]] = {
    "coda-cache": coda_cache.main,
    "coda-export": coda_export.main,
    "coda-opt": coda_opt.main,
    "lit": lambda arguments: _run_lit(arguments),
    "filecheck": lambda arguments: _exit_code(filecheck, ["filecheck", *arguments]),
}


def environment_for_make(folder: Path) -> dict[str, str]:
    """Variables with which `make` uses the environment of this process, and installs nothing.

    What `make` takes for an environment that is up to date are links, within `folder`.
    """
    venv = folder / "venv"
    venv.mkdir()
    for part in Path(sys.prefix).iterdir():
        (venv / part.name).symlink_to(part)
    for stamp in (".installed", ".installed-dev"):
        (venv / stamp).unlink(missing_ok=True)
        (venv / stamp).touch()
    return {"VENV": str(venv), "PIP_DRY_RUN": "1"}


@contextmanager
def imports_from(folder: Path) -> Generator[None]:
    """Find modules in `folder` first, and forget them after the block: other pages have modules of
    the same names.
    """
    before = dict(sys.modules)
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))
        for name in sys.modules.keys() - before.keys():
            if str(folder) in (getattr(sys.modules[name], "__file__", None) or ""):
                del sys.modules[name]


def run_page(page: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Run a page of `DOCUMENTS` in a folder, in which imports find its files."""
    namespace: dict[str, object] = {}
    with chdir(folder), imports_from(folder):
        for marker, name, kind, text in BLOCK.findall((DOCUMENTS / page).read_text()):
            if marker == "file":
                (folder / name).parent.mkdir(exist_ok=True)
                (folder / name).write_text(text)
            elif marker == "output":
                assert (folder / name).read_text() == text
            elif kind == "python":
                exec(compile(text, f"docs/{page}", "exec"), namespace)
            else:
                assert kind == "console", f"{page}: nothing runs a block of {kind}"
                for command, output in COMMAND.findall(text):
                    check_command(command, output, capsys)


def check_command(command: str, output: str, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    tool, *arguments = shlex.split(command)
    code = TOOLS[tool](arguments)
    captured = capsys.readouterr()
    printed = captured.out + captured.err
    assert re.fullmatch(shown_pattern(output), printed), f"{command}\n{printed}"
    assert code == (1 if re.search(r': error\[E|"severity": "error"', output) else 0)


def shown_pattern(output: str) -> str:
    """`...` is any text in a line, and any lines where it is a line."""
    lines = [
        r"(?:.*\n)*?" if line == "..." else ".*".join(map(re.escape, line.split("..."))) + r"\n"
        for line in output.splitlines()
    ]
    return "".join(lines)


def _run_lit(arguments: list[str]) -> int:
    """Run goldens with the tools of this environment and the modules of the current folder."""
    result = subprocess.run(
        [f"{BIN}/lit", *arguments],
        env=os.environ | {"PATH": f"{BIN}:{os.environ['PATH']}", "PYTHONPATH": f".:{ROOT}"},
        capture_output=True,
        text=True,
        check=False,
    )
    print(result.stdout, end="")
    return result.returncode


def _exit_code(main: Callable[..., Any], arguments: list[str]) -> int:
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    assert isinstance(stop.value.code, int)
    return stop.value.code
