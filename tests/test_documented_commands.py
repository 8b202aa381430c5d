"""Runs every command of the documentation site that its page lists or names.

Blocks of console, which show the output, are run and compared by the tests of their pages. A
command of `make` runs all that it always does, on less of it: the variables below say on what.
"""

import json
import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import chdir
from functools import partial
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from unittest.mock import patch

import pytest
from support.daily import daily
from support.pages import BIN, TOOLS, environment_for_make, imports_from

from coda_ir.tools import coda_fmt, coda_opt
from coda_ir.tools.opt.command_line import make_parser

ROOT = Path(__file__).parents[1]
PAGES = (
    *ROOT.glob("*.md"),
    *ROOT.glob("docs/**/*.md"),
    ROOT / "docs/llms.txt",
    ROOT / "benchmarks/README.md",
    ROOT / "coda_ir/errors.md",
    ROOT / "examples/authoring/tasks.md",
)
"""Those of the site."""

PROGRAM = (
    r"(?:[A-Z_]+=\S+ )*"
    r"(?:coda-\w+|python|pip|make|npm|git|code|pytest|lit|ruff|pyright|pre-commit|tar|\.venv/bin/[\w-]+)"
)
BLOCK = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
LISTED = re.compile(rf"^    (?:cd \S+ && )?({PROGRAM}(?: .*)?)$", re.MULTILINE)
NAMED = re.compile(rf"`({PROGRAM}\s[^`]+)`")

EXAMPLE = re.compile(r"^  (?:source <\()?(coda-opt [^)\n]*?)(?:\)|  |$)", re.MULTILINE)

OWN_TESTS = {"make site": "test_site.py", 'pip install "coda-ir[lsp]"': "test_meta.py"}
"""Commands that other tests run, which look at what they have made."""

WITHIN: Mapping[str, str] = {"make test": "make check"}
"""Commands all of which another one runs."""

LONG = (
    "make faults",
    "make fuzz",
    "make random",
    "python -m fleet",
    "PYTHONPATH=benchmarks:tests python -m zoo",
)
"""Prefixes of commands that run with `--nightly` only: the tests of faults, of fuzz targets, of
random programs, of models and of the same benchmarks run most of what they call."""

NEEDED: Mapping[str, Sequence[str]] = {
    "make check": ("ruff", "pyright"),
    "make fuzz": ("atheris",),
    ".venv/bin/pre-commit install": ("pre_commit",),
}
"""Modules that commands need of the extra `dev`, which `make nightly` installs and `make test` does
not.
"""

NARROWED: Mapping[str, str] = {
    "PYTEST_ARGS": "-n 0 tests/core/test_progress.py",
    "FILES": "coda_ir/sources.py",
    "GOLDENS": "tests/frontends/coda_text/test_errors.py -k syntax",
    "LIT_FILTER": "share_key_heads.mlir",
    "FAULTS": "'operands of fused row code swapped'",
    "PROGRAMS": "1",
    "SEED": "3",
    "SECONDS": "1",
    "TARGETS": "pipeline",
}
"""Variables of `make` and of the programs that it runs."""

MLP = """const D = 64
fn mlp(x: bf16[M, D], weight w: bf16[D, D]) {
    return relu(linear(x, w))
}
"""
LAYER = """fn layer(x: bf16[B, T, 64], weight w: bf16[96, 64]) {
    return relu(linear(x, w))
}
"""
SOLUTION = """fn relu_squared(x: bf16[M, 64], weight w: bf16[96, 64]) -> bf16[M, 96] {
    return relu2(linear(x, w))
}
"""
"""The solution of a task in examples/authoring."""
MODEL = """import torch


def factory():
    return torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.ReLU()), (torch.randn(4, 16),)
"""
BAD = 'func.func @f(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {\n  %y = "coda.relu"(%x) : \
(tensor<4x8xf32>) -> tensor<4x8xf32>\n  func.return %y : tensor<4x8xf32>\n}\n'
CRASHING = "#!/bin/sh\ngrep -q coda.relu $1 && echo AssertionError\n"
"""Stands for a `coda-opt` with a defect, in the command of `--test`."""
FILES: Mapping[str, str] = {
    "layer.coda": LAYER,
    "mlp.coda": MLP,
    "FILE.coda": SOLUTION,
    "bad.mlir": BAD,
    "FILE.mlir": f"// coda-opt crash reproducer: FILE\n// configuration: --passes='cse'\n{BAD}",
    "FILE": "// property: round trip; a failure of `make random`\n// record: block 0\n",
    "package/module.py": MODEL,
    "bin/coda-opt": CRASHING,
}
"""Files that commands name."""


def commands() -> list[str]:
    """Every command once, without the text after it."""
    # The reference of the site has the options of coda-opt, with examples.
    found = {each.strip() for each in EXAMPLE.findall(make_parser().format_help())}
    for page in PAGES:
        text = BLOCK.sub("", page.read_text())
        listed = (re.split(r"\s{2,}|\s+#", each)[0].strip() for each in LISTED.findall(text))
        found |= {*listed, *(" ".join(each.split()) for each in NAMED.findall(text))}
    return sorted(found - OWN_TESTS.keys() - WITHIN.keys())


COMMANDS = commands()


def exit_code(run: Callable[[], object]) -> object:
    try:
        return run()
    except SystemExit as stop:
        return stop.code


def run_tool(tool: Callable[[list[str]], int], arguments: list[str]) -> None:
    assert not exit_code(lambda: tool(arguments))


def run_python(arguments: list[str]) -> None:
    """Run a script or a module within this process, which has imported what it needs."""
    if arguments[0] == "-m":
        arguments = arguments[1:]
        run = partial(runpy.run_module, arguments[0], alter_sys=True)
    else:
        run = partial(runpy.run_path, str(ROOT / arguments[0]))
    with pytest.MonkeyPatch.context() as context, patch.dict(os.environ):
        context.setattr(sys, "argv", arguments)
        assert not exit_code(lambda: run(run_name="__main__") and None)


def run_process(
    command: list[str], folder: Path = ROOT, variables: Mapping[str, str] = MappingProxyType({})
) -> None:
    """Run a program whose standard input is at its end."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST")}
    result = subprocess.run(
        command,
        cwd=folder,
        env={**inherited, **NARROWED, **variables},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr


def run_installed(name: str, arguments: list[str]) -> None:
    run_process([f"{BIN}/{name}", *arguments])


def lines_of(command: list[str], variables: Mapping[str, str] = MappingProxyType({})) -> list[str]:
    """Return what a command of `make` runs."""
    command = [command[0], "--dry-run", *command[1:]]
    printed = subprocess.run(
        command, cwd=ROOT, env=os.environ | variables, capture_output=True, text=True, check=True
    )
    return printed.stdout.splitlines()


def run_make(arguments: list[str]) -> None:
    variables = {**NARROWED, **environment_for_make(Path.cwd())}
    lines = lines_of(["make", *arguments], variables)
    python = re.compile(rf"(?:\w+=\S+ )*{re.escape(variables['VENV'])}/bin/python (?:-W ignore )?")
    found = [python.match(line) for line in lines]
    if len(lines) == 1 and found[0] and "-m pytest" not in lines[0] and "-m fuzz" not in lines[0]:
        with chdir(ROOT):
            run_python(shlex.split(lines[0][found[0].end() :]))
    else:
        run_process(["make", *arguments], variables=variables)


def run_server(arguments: list[str]) -> None:
    """The server runs until its input ends."""
    run_process([sys.executable, "-m", "coda_ir.lsp", *arguments])


def run_pre_commit(arguments: list[str]) -> None:
    """Within a clone of its own, which it changes."""
    run_process(["git", "init", "--quiet", "clone"], Path.cwd())
    shutil.copy(ROOT / ".pre-commit-config.yaml", "clone")
    run_process([f"{BIN}/pre-commit", *arguments], Path.cwd() / "clone")


def run_tar(arguments: list[str]) -> None:
    """The shell expands the names of folders at home."""
    for folder in (argument for argument in arguments if argument.startswith("~/")):
        Path(folder.replace("~", "home")).mkdir(parents=True)
    home = {"HOME": str(Path("home").absolute())}
    run_process(["sh", "-c", " ".join(["tar", *arguments])], Path.cwd(), home)


RUN: Mapping[str, Callable[[list[str]], None]] = {
    **{name: partial(run_tool, tool) for name, tool in TOOLS.items()},
    "coda-fmt": partial(run_tool, coda_fmt.main),
    "coda-lsp": run_server,
    "python": run_python,
    "make": run_make,
    "lit": partial(run_installed, "lit"),
    "pre-commit": run_pre_commit,
    "tar": run_tar,
}
"""Functions by program, which run it in a folder with the files that the documents name."""


def write_files(folder: Path) -> None:
    (folder / "examples").symlink_to(ROOT / "examples")
    for name in ("attention.py", "epilogues.py", "experts.py", "layer.py"):
        shutil.copy(ROOT / "benchmarks" / name, folder / name)  # commands write layer.py
    shutil.copy(ROOT / "benchmarks/epilogues.py", folder / "FILE.py")
    for name, text in FILES.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    (folder / "bin/coda-opt").chmod(0o755)
    assert coda_opt.main([str(folder / "mlp.coda"), "-o", str(folder / "model.mlir")]) == 0


@pytest.mark.slow
@daily(lambda command: not command.startswith(LONG))
@pytest.mark.parametrize("command", COMMANDS, ids=str)
def test_a_command_runs(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    if "--emit=svg" in command and shutil.which("dot") is None:
        pytest.skip("needs graphviz")
    missing = [name for name in NEEDED.get(command, ()) if find_spec(name) is None]
    if missing:
        pytest.skip(f"needs {', '.join(missing)}")
    write_files(tmp_path)
    monkeypatch.setenv("CODA_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv(
        "PYTHONPATH", ":".join(map(str, (ROOT, ROOT / "benchmarks", ROOT / "tests")))
    )
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{BIN}", prepend=":")
    variables, text = re.findall(r"^((?:[A-Z_]+=\S+ )*)(.*)$", command)[0]
    for variable in variables.split():
        name, value = variable.split("=")
        monkeypatch.setenv(name, value, prepend=":" if name == "PYTHONPATH" else None)
    program, *arguments = shlex.split(text)
    with chdir(tmp_path), imports_from(tmp_path):
        RUN[program.removeprefix(".venv/bin/")](arguments)
    for option, value in pairwise(arguments):
        if option == "--json":
            assert json.loads((tmp_path / value).read_text())


@pytest.mark.parametrize(("command", "file"), OWN_TESTS.items())
def test_another_test_runs_the_command(command: str, file: str):
    assert command in (Path(__file__).parent / file).read_text()


@pytest.mark.parametrize(("command", "other"), WITHIN.items())
def test_another_command_runs_the_command(command: str, other: str):
    assert {*lines_of(command.split())} <= {*lines_of(other.split())}


def test_there_are_commands():
    assert len(COMMANDS) >= 60
