"""Runs the commands that pages of the documents list without what they print.

Blocks of console, which show the output, are run and compared by the tests of their pages. What
needs a GPU, installs something or runs for hours is not run: the program that a command names
parses its arguments instead.
"""

import argparse
import json
import re
import runpy
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Generator, Mapping
from contextlib import chdir, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from support.pages import TOOLS, imports_from

from coda_ir.tools import coda_fmt

ROOT = Path(__file__).parents[1]
EXTENSION = ROOT / "frontends/coda_text/editors/vscode"
PAGES = (
    *ROOT.glob("*.md"),
    *ROOT.glob("docs/**/*.md"),
    ROOT / "benchmarks/README.md",
    ROOT / "coda_ir/errors.md",
    ROOT / "examples/authoring/tasks.md",
    EXTENSION / "README.md",
)
"""Those of the site."""

PROGRAMS = r"(?:(?:[A-Z_]+=\S+ )*(?:coda-\w+|python|pip|make|npm|code|pytest)|\.venv/bin/\S+) "
LISTED = re.compile(rf"^    (?:cd \S+ && )?((?:{PROGRAMS}|coda-lsp).*)$", re.MULTILINE)
MENTIONED = re.compile(rf"`({PROGRAMS}[^`\n]*)`")

SOLUTION = """fn relu_squared(x: bf16[M, 64], weight w: bf16[96, 64]) -> bf16[M, 96] {
    return relu2(linear(x, w))
}
"""
"""The solution of a task in examples/authoring."""
PROGRAM = "fn f(x: f32[M, 16], weight w: f32[32, 16]) {\n    return relu(linear(x, w))\n}\n"
MODEL = """import torch


def factory():
    return torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.ReLU()), (torch.randn(4, 16),)
"""
BAD = 'func.func @f(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {\n  %y = "coda.relu"(%x) : \
(tensor<4x8xf32>) -> tensor<4x8xf32>\n  func.return %y : tensor<4x8xf32>\n}\n'
CRASHING = "#!/bin/sh\ngrep -q coda.relu $1 && echo AssertionError\n"
"""Stands for a `coda-opt` with a defect, in the command of `--test`."""
REPRODUCER = f"// coda-opt crash reproducer: FILE\n// configuration: --passes='cse'\n{BAD}"


def commands(pattern: re.Pattern[str]) -> list[str]:
    found = [each for page in PAGES for each in pattern.findall(page.read_text())]
    return sorted({re.split(r"\s{2,}|\s+#", each)[0].strip() for each in found})


def run_tool(tool: Callable[[list[str]], int], arguments: list[str]) -> None:
    assert tool(arguments) == 0


def run_server(arguments: list[str]) -> None:
    """The server runs until its input ends."""
    command = [sys.executable, "-m", "coda_ir.lsp", *arguments]
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL)


def run_script(arguments: list[str]) -> None:
    with pytest.MonkeyPatch.context() as context, pytest.raises(SystemExit) as stop:
        context.setattr(sys, "argv", arguments)
        runpy.run_path(arguments[0], run_name="__main__")
    assert stop.value.code == 0


KNOWN_TOOLS = {**TOOLS, "coda-fmt": coda_fmt.main}
RUN: Mapping[str, Callable[[list[str]], None]] = {
    **{name: partial(run_tool, tool) for name, tool in KNOWN_TOOLS.items()},
    "coda-lsp": run_server,
    "python": run_script,
}
"""By program: what runs it in a folder with the files that the documents name."""


@contextmanager
def parsing_only() -> Generator[None]:
    """Programs within the block parse their arguments with argparse, and run no further."""
    parse = argparse.ArgumentParser.parse_args

    def parse_only(parser: argparse.ArgumentParser, args: Any = None, space: Any = None) -> None:
        parse(parser, args, space)
        raise SystemExit(0)

    with pytest.MonkeyPatch.context() as context, pytest.raises(SystemExit) as stop:
        context.setattr(argparse.ArgumentParser, "parse_args", parse_only)
        context.setattr(sys, "path", [str(ROOT / "benchmarks"), str(ROOT / "tests"), *sys.path])
        yield
    assert stop.value.code == 0


def parse_python(arguments: list[str]) -> None:
    is_module = arguments[0] == "-m"
    name, *rest = arguments[is_module:]
    with parsing_only(), pytest.MonkeyPatch.context() as context:
        context.setattr(sys, "argv", [name, *rest])
        if is_module:
            runpy.run_module(name, run_name="__main__")
        else:
            runpy.run_path(str(ROOT / name), run_name="__main__")


def parse_make(arguments: list[str]) -> None:
    """Make prints what it would run."""
    subprocess.run(["make", "-C", ROOT, "-n", *arguments], check=True, capture_output=True)


def parse_pytest(arguments: list[str]) -> None:
    """The tests exist: collecting them takes long."""
    for each in arguments:
        assert each in ("-m", "pytest") or (ROOT / each).exists(), each


def parse_lit(arguments: list[str]) -> None:
    command = [sys.executable, "-m", "lit.main", "--show-tests", *arguments]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)


def parse_pre_commit(arguments: list[str]) -> None:
    command = [sys.executable, "-m", "pre_commit", *arguments, "--help"]
    subprocess.run(command, check=True, capture_output=True)


def parse_pip(arguments: list[str]) -> None:
    """Pip finds the requirements among what is installed, and installs nothing."""
    command = [sys.executable, "-m", "pip", *arguments, "--dry-run", "--no-index"]
    result = subprocess.run(command, check=True, capture_output=True, text=True)
    assert "does not provide the extra" not in result.stderr


def parse_npm(arguments: list[str]) -> None:
    scripts = json.loads((EXTENSION / "package.json").read_text())["scripts"]
    assert arguments == ["install"] or (arguments[0] == "run" and arguments[1] in scripts)


def parse_code(arguments: list[str]) -> None:
    found = json.loads((EXTENSION / "package.json").read_text())
    assert arguments == ["--install-extension", f"{found['name']}-{found['version']}.vsix"]


NOT_RUN: Mapping[str, tuple[str, Callable[[list[str]], None]]] = {
    r"make": ("installs the environment, and runs what other tests run", parse_make),
    r"pip": ("installs a package", parse_pip),
    r"npm": ("installs packages of Node", parse_npm),
    r"code": ("needs Visual Studio Code", parse_code),
    r"python -m pytest": ("needs a GPU", parse_pytest),
    r"pytest": ("runs other tests", parse_pytest),
    r"lit": ("runs the goldens", parse_lit),
    r"pre-commit": ("changes the clone", parse_pre_commit),
    r"python (benchmarks/|-m fleet|-m zoo|-m generator|-m support)": (
        "needs a GPU, or hours",
        parse_python,
    ),
}
"""Beginnings of commands that cannot run here, the reason, and what parses their arguments."""

INCOMPLETE = {"coda-opt --emit", "coda-export --html", "CODA_REMARKS=missed python train.py"}
"""An option without its value, one without a model, and a program of the reader."""


def parser_of(command: str) -> Callable[[list[str]], None] | None:
    """Return what parses the arguments of a command that is not run."""
    for beginning, (_, parse) in NOT_RUN.items():
        if re.match(rf"{beginning}(?![\w-])|{beginning}(?<=/)", command):
            return parse
    return None


def parts(command: str) -> list[list[str]]:
    """The programs of a line with their arguments, without variables of the environment."""
    return [
        shlex.split(re.sub(r"^([A-Z_]+=\S+ )+|^\.venv/bin/", "", each))
        for each in command.split(" && ")
    ]


LINES = commands(LISTED)
RUN_LINES = [line for line in LINES if parser_of(" ".join(parts(line)[0])) is None]
PARSED_LINES = [line for line in LINES if line not in RUN_LINES]
IN_TEXT = [line for line in commands(MENTIONED) if line not in {*LINES, *INCOMPLETE}]


@pytest.mark.parametrize("command", RUN_LINES)
def test_a_command_runs(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    if "--emit=svg" in command and shutil.which("dot") is None:
        pytest.skip("needs graphviz")
    write_files(tmp_path)
    monkeypatch.setenv("CODA_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=":")
    (program, *arguments), *rest = parts(command)
    assert not rest
    with chdir(tmp_path), imports_from(tmp_path):
        RUN[program](arguments)


def write_files(folder: Path) -> None:
    """The files that commands name."""
    (folder / "examples").symlink_to(ROOT / "examples")
    files = {"layer.coda": PROGRAM, "FILE.coda": SOLUTION, "bad.mlir": BAD, "FILE.mlir": REPRODUCER}
    for name, text in {**files, "package/module.py": MODEL, "bin/coda-opt": CRASHING}.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    (folder / "bin/coda-opt").chmod(0o755)


@pytest.mark.parametrize("command", PARSED_LINES)
def test_a_command_that_is_not_run_is_parsed(command: str):
    for program, *arguments in parts(command):
        parse = parser_of(shlex.join([program, *arguments]))
        assert parse is not None
        parse(arguments)


@pytest.mark.parametrize("command", IN_TEXT)
def test_a_command_in_a_sentence_is_parsed(command: str):
    for program, *arguments in parts(command):
        parse = parser_of(shlex.join([program, *arguments]))
        if parse is not None:
            parse(arguments)
        else:
            with parsing_only():
                KNOWN_TOOLS[program](arguments)


@pytest.mark.parametrize("beginning", NOT_RUN)
def test_every_reason_is_needed(beginning: str):
    assert any(re.match(beginning, " ".join(parts(line)[0])) for line in (*LINES, *IN_TEXT))


def test_there_are_commands():
    assert len(RUN_LINES) >= 25 and len(PARSED_LINES) >= 10
