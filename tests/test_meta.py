"""Tests of the project itself: layout, packaging, goldens that can fail, links in the docs."""

import ast
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from pathlib import Path
from zipfile import ZipFile

import pytest
from test_filecheck import GOLDENS

import coda_ir

ROOT = Path(__file__).parents[1]
FILECHECK = ROOT / "tests" / "filecheck"
LINKED = ("dialects", "passes", "frontends", "backends")
SOURCE_FOLDERS = ("coda_ir", *LINKED, "tests", "examples", "benchmarks")


def python_files(*folders: str) -> list[Path]:
    """The Python files of the folders, each once: links are not followed."""
    return [
        path
        for folder in folders
        for path in sorted((ROOT / folder).rglob("*.py"))
        if not any(parent.is_symlink() for parent in path.parents)
    ]


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def failing(check: Callable[[Path], object], paths: Iterable[Path]) -> dict[str, object]:
    """Return what `check` finds, by the files in which it finds something."""
    return {relative(path): found for path in paths if (found := check(path))}


def git(*arguments: str) -> str:
    return subprocess.run(
        ["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout


class TestLayout:
    @pytest.mark.parametrize("folder", LINKED)
    def test_package_folders_are_relative_links(self, folder: str):
        link = ROOT / "coda_ir" / folder
        assert link.is_symlink()
        assert link.readlink() == Path("..") / folder

    @pytest.mark.parametrize("folder", LINKED)
    def test_git_stores_the_links_as_links(self, folder: str):
        if not (ROOT / ".git").exists():
            pytest.skip("not a git checkout")
        assert git("ls-files", "-s", f"coda_ir/{folder}").startswith("120000 ")

    def test_the_folder_map_has_every_package(self):
        """And nothing that does not exist; the folders below a link may share its row."""
        rows = re.findall(r"^\| (`.*?) \|", (ROOT / "CONTRIBUTING.md").read_text(), re.MULTILINE)
        named = {path.rstrip("/") for row in rows for path in re.findall(r"`(.*?)`", row)}
        assert all((ROOT / path).exists() for path in named)
        folders = {relative(path.parent) for path in python_files("coda_ir", *LINKED)}
        dialects = {f"dialects/{name}" for name in ("coda", "gemm", "torch")}
        assert folders - named == {"backends", "frontends", *dialects}

    @pytest.mark.parametrize("folder", LINKED)
    def test_a_linked_package_is_imported_once(self, folder: str):
        __import__(f"coda_ir.{folder}")
        assert folder not in sys.modules, f"import coda_ir.{folder}, not {folder}"


@cache
def imported_modules(path: Path) -> tuple[str, ...]:
    """The absolute names of the modules that a file imports."""
    return tuple(_imported_modules(path))


def _imported_modules(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(), str(path))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            yield node.module


def forbidden_imports(path: Path) -> list[str]:
    # xdsl's wheel installs a top-level package `tests`, which would be found instead of ours.
    forbidden = {*LINKED, "tests"}
    return [name for name in imported_modules(path) if name.partition(".")[0] in forbidden]


def imports_of(prefixes: tuple[str, ...], path: Path) -> list[str]:
    return [name for name in imported_modules(path) if name.startswith(prefixes)]


class TestImports:
    @pytest.mark.slow
    def test_nothing_is_imported_by_a_second_name(self):
        assert failing(forbidden_imports, python_files(*SOURCE_FOLDERS)) == {}

    def test_the_check_can_fail(self, tmp_path: Path):
        path = tmp_path / "wrong.py"
        path.write_text("import dialects.coda\nfrom tests.core import x\nimport coda_ir.passes\n")
        assert forbidden_imports(path) == ["dialects.coda", "tests.core"]

    def test_dialects_know_nothing_of_passes_frontends_and_backends(self):
        above = ("coda_ir.passes", "coda_ir.frontends", "coda_ir.backends", "torch", "triton")
        assert failing(partial(imports_of, above), python_files("dialects")) == {}

    def test_passes_and_frontends_know_no_backend(self):
        files = python_files("passes", "frontends")
        assert failing(partial(imports_of, ("coda_ir.backends",)), files) == {}


RUN = re.compile(r"RUN:(.*)")
CHECK = re.compile(r"\b(?P<prefix>[A-Z][A-Z0-9_-]*?)(?:-(?:NEXT|SAME|DAG|NOT|LABEL|EMPTY))?:")
PREFIX = re.compile(r"--?check-prefix(?:es)?[ =](\S+)")
EXPECTED = re.compile(r"(?://|#).*\bexpected-(?:error|warning|note|remark)")


def golden_faults(text: str) -> list[str]:
    """Return what makes a golden test nothing."""
    runs = re.sub(r"\\\n\s*(//|#)?\s*RUN:", " ", "\n".join(text.splitlines()))
    commands = RUN.findall(runs)
    faults: list[str] = []
    if not commands:
        faults.append("no RUN line")
    prefixes: set[str] = set()
    for command in commands:
        if "--verify-diagnostics" in command and "filecheck" not in command:
            if not EXPECTED.search(text):
                faults.append(f"no diagnostic is expected: {command.strip()}")
            continue
        if "filecheck" not in command and "diff" not in command:
            faults.append(f"RUN line without filecheck: {command.strip()}")
        named = PREFIX.findall(command)
        prefixes.update(name for names in named for name in names.split(","))
        if not named:
            prefixes.add("CHECK")
    compared = all("filecheck" not in command for command in commands)
    return faults + ([] if compared else check_faults(text, prefixes))


def check_faults(text: str, prefixes: set[str]) -> list[str]:
    """CHECK lines that no RUN line reads, that match everything, or that are missing."""
    faults: list[str] = []
    positive: set[str] = set()
    for line in text.splitlines():
        comment = line.lstrip()
        found = CHECK.search(comment) if comment.startswith(("//", "#")) else None
        if found is None or found["prefix"] == "RUN":
            continue
        directive, pattern = found[0], comment[found.end() :].strip()
        known = next((prefix for prefix in prefixes if directive.startswith(prefix)), None)
        if known is None and "CHECK" in directive:
            faults.append(f"no RUN line reads {directive}")
        if known is None:
            continue
        if not re.sub(r"\{\{\.[*+]\}\}|\s", "", pattern) and "EMPTY" not in directive:
            faults.append(f"cannot fail: {line.strip()}")
        elif "-NOT" not in directive:
            positive.add(known)
    return faults + [f"nothing is expected of {prefix}" for prefix in sorted(prefixes - positive)]


class TestGoldens:
    def test_there_are_some(self):
        assert GOLDENS

    def test_goldens_can_fail(self):
        paths = [FILECHECK / golden for golden in GOLDENS]
        assert failing(lambda path: golden_faults(path.read_text()), paths) == {}

    @pytest.mark.parametrize(
        "text, fault",
        [
            ("// CHECK: func\n", "no RUN line"),
            ("// RUN: coda-opt %s\n// CHECK: func\n", "RUN line without filecheck: coda-opt %s"),
            ("// RUN: coda-opt %s | filecheck %s\n", "nothing is expected of CHECK"),
            (
                "// RUN: coda-opt %s | filecheck %s\n// CHECK-NOT: func\n",
                "nothing is expected of CHECK",
            ),
            (
                "// RUN: coda-opt %s | filecheck %s\n// CHECK: {{.*}}\n",
                "cannot fail: // CHECK: {{.*}}",
            ),
            (
                "# RUN: coda-opt %s | filecheck %s --check-prefix GEMM\n# GEMM: a\n# CHECK: b\n",
                "no RUN line reads CHECK:",
            ),
            (
                "// RUN: coda-opt %s --verify-diagnostics\nfunc.func @f() { func.return }\n",
                "no diagnostic is expected: coda-opt %s --verify-diagnostics",
            ),
        ],
    )
    def test_the_check_can_fail(self, text: str, fault: str):
        assert fault in golden_faults(text)

    def test_the_check_can_pass(self):
        run = "// RUN: coda-opt %s \\\n// RUN:   | filecheck %s --check-prefixes=A,B\n"
        text = run + "// A: x\n// B-NEXT: y\n"
        assert golden_faults(text) == []

    def test_comments_say_what_is_expected(self):
        text = "// RUN: coda-opt %s --verify-diagnostics\n// expected-error@below {{x}}\n"
        assert golden_faults(text) == []


def defines_main(path: Path) -> bool:
    """Return whether a script has `main` and calls it when it is run, not when it is imported."""
    tree = ast.parse(path.read_text())
    functions = [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
    guarded = any(
        isinstance(node, ast.If) and ast.unparse(node.test) == "__name__ == '__main__'"
        for node in tree.body
    )
    return "main" in functions and guarded


class TestExamples:
    def test_scripts_have_a_main(self):
        assert failing(lambda path: not defines_main(path), python_files("examples")) == {}

    def test_the_check_can_fail(self, tmp_path: Path):
        path = tmp_path / "script.py"
        path.write_text("print(1)\n")
        assert not defines_main(path)


@pytest.fixture(scope="module")
def wheel_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("wheel")
    # A copy, so that nothing stale of an earlier build is packed and nothing is left behind.
    ignored = shutil.ignore_patterns(".*", "build", "dist", "*.egg-info", "__pycache__")
    source = shutil.copytree(ROOT, directory / "source", symlinks=True, ignore=ignored)
    options = ["--no-deps", "--no-build-isolation", "--no-index", "-w", str(directory)]
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", *options, str(source)],
        check=True,
        capture_output=True,
        text=True,
    )
    (path,) = directory.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def wheel(wheel_file: Path) -> list[str]:
    """The names of the files in the wheel."""
    with ZipFile(wheel_file) as archive:
        return archive.namelist()


class TestPackaging:
    @pytest.mark.slow
    def test_one_top_level_name(self, wheel: list[str]):
        top_level = {name.partition("/")[0] for name in wheel}
        packages = {name for name in top_level if not name.endswith(".dist-info")}
        assert packages == {"coda_ir"}

    def test_every_module_the_grammar_and_the_library_are_installed(self, wheel: list[str]):
        modules = {f"coda_ir/{relative(path)}" for path in python_files(*LINKED)}
        modules |= {relative(path) for path in python_files("coda_ir")}
        frontends = ROOT / "frontends"
        grammars = {f"coda_ir/{relative(path)}" for path in frontends.rglob("*.lark")}
        blocks = {f"coda_ir/{relative(path)}" for path in frontends.rglob("*.coda")}
        assert grammars and blocks, "the language has a grammar and a standard library"
        assert (modules | grammars | blocks | {"coda_ir/py.typed"}) - set(wheel) == set()

    @pytest.mark.slow
    def test_the_wheel_is_installed_as_the_documents_say(self, wheel_file: Path, tmp_path: Path):
        command = 'pip install "coda-ir[lsp]"'
        offline = {"NO_INDEX": "1", "NO_DEPS": "1", "FIND_LINKS": wheel_file.parent}
        result = subprocess.run(
            [sys.executable, "-m", *shlex.split(command)],
            env=os.environ
            | {f"PIP_{k}": str(v) for k, v in offline.items()}
            | {"PIP_TARGET": str(tmp_path)},
            check=True,
            capture_output=True,
            text=True,
        )
        assert "does not provide the extra" not in result.stderr
        assert (tmp_path / "coda_ir/lsp").is_dir() and (tmp_path / "bin/coda-lsp").is_file()

    def test_the_licence_is_included(self, wheel: list[str]):
        assert any(name.endswith("/LICENSE") for name in wheel)

    def test_every_script_has_a_main_function(self):
        project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
        for target in project["scripts"].values():
            module, _, function = target.partition(":")
            __import__(module)
            assert callable(getattr(sys.modules[module], function))

    def test_the_changelog_has_the_version(self):
        assert f"## {coda_ir.__version__}" in (ROOT / "CHANGELOG.md").read_text()


DOCUMENTS = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
LINK = re.compile(r"(?<!!)\[[^\]]*\]\((?P<target>[^)\s]+)\)")


def anchors(document: Path) -> set[str]:
    """The anchors of the headings, as GitHub makes them."""
    headings = re.findall(r"^#+ +(.*)$", document.read_text(), re.MULTILINE)
    slugs = (re.sub(r"[^\w\- ]", "", heading.strip().lower()) for heading in headings)
    return {slug.replace(" ", "-") for slug in slugs}


def dead_links(document: Path) -> list[str]:
    text = re.sub(r"^```.*?^```", "", document.read_text(), flags=re.MULTILINE | re.DOTALL)
    dead: list[str] = []
    for match in LINK.finditer(text):
        name, _, anchor = match["target"].partition("#")
        if "://" in name or name.startswith("mailto:"):
            continue
        target = (document.parent / name) if name else document
        missing_anchor = anchor and target.suffix == ".md" and anchor not in anchors(target)
        if not target.exists() or missing_anchor:
            dead.append(match["target"])
    return dead


class TestDocuments:
    def test_no_dead_links(self):
        assert failing(dead_links, DOCUMENTS) == {}

    def test_the_check_can_fail(self, tmp_path: Path):
        document = tmp_path / "a.md"
        document.write_text("# One two\n[x](b.md) [y](#one-two) [z](#three) [w](https://x.y)\n")
        assert dead_links(document) == ["b.md", "#three"]

    def test_every_make_target_in_the_readme_exists(self):
        targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
        mentioned = set(re.findall(r"\bmake ([a-z]+)", (ROOT / "README.md").read_text()))
        assert {"run", "test"} <= mentioned <= targets

    def test_ci_runs_the_test_command_of_the_readme(self):
        assert "make test" in (ROOT / ".ci" / "run").read_text()
        assert (ROOT / ".ci" / "run").stat().st_mode & 0o111


def unnamed(path: Path) -> list[str]:
    """The places of docstrings that begin with a question instead of a verb or a noun.

    Emitted modules contain the functions of `runtime`, whose text is what goldens show.
    """
    definitions = (
        node
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
    )
    return [
        f"{getattr(node, 'lineno', 1)}: {text.splitlines()[0]}"
        for node in definitions
        if (text := ast.get_docstring(node)) and text.split(maxsplit=1)[0] in _questions(node)
    ]


def _questions(node: ast.AST) -> tuple[str, ...]:
    is_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    returns = ast.unparse(node.returns) if is_function and node.returns else "None"
    is_plain = returns != "None" and "Iterator" not in returns and "Generator" not in returns
    return ("Whether", "What", "How", "Of") if is_plain else ("Whether",)


class TestDocstrings:
    @pytest.mark.slow
    def test_they_begin_with_a_verb_or_a_noun(self):
        files = python_files(*SOURCE_FOLDERS)
        runtime = ROOT / "backends" / "triton" / "runtime"
        assert failing(unnamed, (path for path in files if path.parent != runtime)) == {}

    @pytest.mark.parametrize("text", ["Whether it is even.", "What it is.", "How many there are."])
    def test_the_check_can_fail(self, text: str, tmp_path: Path):
        path = tmp_path / "module.py"
        path.write_text(f'def f(x) -> int:\n    """{text}"""\n')
        assert unnamed(path) == [f"1: {text}"]
