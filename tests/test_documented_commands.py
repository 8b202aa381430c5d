"""Runs the commands that pages of the documents list without what they print.

Blocks of console, which show the output, are run and compared by the tests of their pages.
"""

import re
import shlex
import shutil
from contextlib import chdir
from pathlib import Path

import pytest
from support.pages import TOOLS, imports_from

from coda_ir.tools import coda_fmt

ROOT = Path(__file__).parents[1]
PAGES = (ROOT / "README.md", ROOT / "examples/authoring/tasks.md", *ROOT.glob("docs/**/*.md"))
LISTED = re.compile(r"^    ((?:coda-|python |pip |make |CODA_).*)$", re.MULTILINE)
KNOWN_TOOLS = {**TOOLS, "coda-fmt": coda_fmt.main}

COMMANDS = sorted(
    {
        re.split(r"\s{2,}|\s+#", command)[0]
        for page in PAGES
        for command in LISTED.findall(page.read_text())
    }
)

NOT_RUN = {
    r"make \w+": "installs the environment, and runs what other tests run",
    r"pip install .*": "installs a package",
    r"python benchmarks/.*": "needs a GPU; tests/examples runs them on tiny sizes",
    r"CODA_TEST_GPU=1 .*": "needs a GPU",
    r"python examples/authoring/check\.py .*": "tests/examples/test_authoring.py runs it",
    r"coda-lsp": "serves until it is ended; tests/lsp starts it",
    r"coda-opt bad\.mlir --reduce .*": "needs a pass that crashes; tests/reduction has one",
    r"coda-opt --run-reproducer .*": "needs what a crash has written; tests/tools has one",
    r"coda-opt .*llama_layer.* --emit=(resources|sass) .*": "compiles a layer for a GPU; "
    "tests/backends/triton/aot compiles smaller programs",
}
"""Patterns of commands that cannot run here, with the reason."""

PROGRAM = "fn f(x: f32[M, 16], weight w: f32[32, 16]) {\n    return relu(linear(x, w))\n}\n"
MODEL = """import torch


def factory():
    return torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.ReLU()), (torch.randn(4, 16),)
"""


def _is_run(command: str) -> bool:
    return not any(re.fullmatch(pattern, command) for pattern in NOT_RUN)


@pytest.mark.parametrize("command", list(filter(_is_run, COMMANDS)))
def test_command(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    if "--emit=svg" in command and shutil.which("dot") is None:
        pytest.skip("needs graphviz")
    monkeypatch.setenv("CODA_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    for name in ("FILE.coda", "layer.coda"):
        (tmp_path / name).write_text(PROGRAM)
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "module.py").write_text(MODEL)
    tool, *arguments = shlex.split(command)
    with chdir(tmp_path), imports_from(tmp_path):
        assert KNOWN_TOOLS[tool](arguments) == 0


@pytest.mark.parametrize("pattern", NOT_RUN)
def test_every_reason_is_needed(pattern: str):
    assert any(re.fullmatch(pattern, command) for command in COMMANDS)


def test_there_are_commands():
    assert len(list(filter(_is_run, COMMANDS))) >= 20
