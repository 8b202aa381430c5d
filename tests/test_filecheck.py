"""Runs the lit goldens of tests/filecheck, one pytest test per file and one lit run for all."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from filelock import FileLock
from support.refresh import refreshed, refreshed_golden

ROOT = Path(__file__).parent / "filecheck"

GOLDENS = sorted(
    path.relative_to(ROOT).as_posix()
    for suffix in ("*.mlir", "*.coda")
    for path in ROOT.rglob(suffix)
    if "Inputs" not in path.parts
)


@pytest.fixture(scope="session")
def lit_results(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, dict[str, str]]:
    """The results of lit by file, for those files that this run of pytest has selected.

    The processes of pytest-xdist share one run: the first one starts it, the others wait.
    """
    names = [item.name for item in request.session.items]
    selected = [ROOT / golden for golden in GOLDENS if f"test_golden[{golden}]" in names]
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    report = folder / "lit.json"
    with FileLock(folder / "lit.lock"):
        if not report.exists():
            _run_lit(selected, report)
    tests = json.loads(report.read_text())["tests"]
    return {test["name"].partition(" :: ")[2]: test for test in tests}


def _run_lit(selected: Sequence[Path], report: Path) -> None:
    command = [sys.executable, "-c", "from lit.main import main; main()", "-q", "-v", "-j2"]
    completed = subprocess.run(
        [*command, "--output", str(report), *map(str, selected)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert report.exists(), completed.stdout + completed.stderr


@pytest.mark.parametrize("golden", GOLDENS)
def test_golden(
    golden: str,
    lit_results: dict[str, dict[str, str]],
    pytestconfig: pytest.Config,
    tmp_path: Path,
):
    result = lit_results[golden]
    if result["code"] == "PASS":
        return
    is_updated = pytestconfig.getoption("update_goldens")
    text, left = refreshed_golden(ROOT / golden)
    if is_updated:
        (ROOT / golden).write_text(text)
        _run_lit([ROOT / golden], tmp_path / "lit.json")
        (result,) = json.loads((tmp_path / "lit.json").read_text())["tests"]
    hint = [] if is_updated else ["`make goldens` writes what the tools print now into the golden."]
    assert result["code"] == "PASS", "\n".join([result["output"], *hint, *left])


GOLDEN = """// RUN: coda-opt %s | filecheck %s
// CHECK:      func.func @f(
// CHECK-NEXT:   %y = coda.silu %x
// CHECK-NEXT:   func.return %{{.*}} : tensor<?x8xbf16>
// CHECK-NEXT: }
// CHECK:      func.func @gone(
// CHECK-NEXT: }
"""
PRINTED = """  func.func @f(%x: tensor<?x8xbf16>) -> tensor<?x8xbf16> {
    %y = coda.relu %x {sizes = [[2]]}

    func.return %y : tensor<?x8xbf16>
  }
"""
REFRESHED = """// RUN: coda-opt %s | filecheck %s
// CHECK:      func.func @f(
// CHECK-NEXT:   %y = coda.relu %x {sizes = {{\\[\\[}}2]]}
// CHECK-EMPTY:
// CHECK-NEXT:   func.return %{{.*}} : tensor<?x8xbf16>
// CHECK-NEXT: }
// CHECK:      func.func @gone(
// CHECK-NEXT: }
"""


def test_refreshed_goldens_keep_patterns_and_what_is_not_printed():
    left: list[str] = []
    lines = refreshed(GOLDEN.splitlines(), "CHECK", PRINTED.splitlines(), left)
    assert lines == REFRESHED.splitlines()
    (why,) = left
    assert why == "CHECK: func.func @gone(: left unchanged: this line is not printed, from here on"
    assert refreshed(lines, "CHECK", PRINTED.splitlines()) == lines


REGIONS = """// CHECK:      %0 = gemm.fused
// CHECK-NEXT:   columns(%a) {
// CHECK-NEXT:     gemm.yield %0
// CHECK-NEXT:   }
// CHECK-NEXT:   columns(%b) {
// CHECK-NEXT:     gemm.yield %1
// CHECK-NEXT:   }
// CHECK:      func.func @g
// CHECK-NEXT:   coda.relu
// CHECK-NEXT: }
"""
PRINTED_REGIONS = """    %0 = gemm.fused
      columns(%a) {
        gemm.yield %0
      }
      columns(%c) {
        gemm.yield %1
      }
    func.return %0
  }
  func.func @g
    coda.silu
  }
  func.func @h
    coda.relu
  }
"""


def test_refreshed_goldens_end_where_most_of_them_stays():
    """Neither with the first region of an operator, nor after a function."""
    lines = refreshed(REGIONS.splitlines(), "CHECK", PRINTED_REGIONS.splitlines())
    expected = REGIONS.replace("columns(%b)", "columns(%c)").replace("coda.relu", "coda.silu")
    assert lines == expected.splitlines()


def test_a_block_whose_last_line_is_not_whole_is_left_unchanged_and_why():
    golden, left = ["// CHECK:      func.func @f(", "// CHECK-NEXT:   func.return"], list[str]()
    assert refreshed(golden, "CHECK", PRINTED.splitlines(), left) == golden
    (why,) = left
    assert "no whole line after it" in why and why.endswith("func.return")


def test_a_new_block_of_two_lines_is_filled_in():
    golden = ["// CHECK:      func.func @f(", "// CHECK-NEXT: }"]
    lines = refreshed(golden, "CHECK", PRINTED.splitlines())
    assert lines[1] == "// CHECK-NEXT:   %y = coda.relu %x {sizes = {{\\[\\[}}2]]}"
    assert (len(lines), lines[-1]) == (5, golden[-1])
