"""The documentation site: it builds without warnings, and has the public interface."""

import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest
from support.pages import environment_for_make

import coda_ir

ROOT = Path(__file__).parents[1]


def test_public_names_are_documented():
    page = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
    documented = re.findall(r"^\.\. auto\w+:: coda_ir\.(\w+)$", page, re.MULTILINE)
    assert {*documented} == {*coda_ir.__all__} - {"__version__"}


@pytest.mark.slow
def test_site_builds_without_warnings(tmp_path: Path):
    for module in ("sphinx", "myst_parser", "furo"):
        pytest.importorskip(module, reason="needs the extra dev, which make nightly installs")
    site = tmp_path / "site"
    result = subprocess.run(
        shlex.split("make site"),
        cwd=ROOT,
        env=os.environ | environment_for_make(tmp_path) | {"SITE": str(site)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    pages = {page.relative_to(site).as_posix() for page in site.rglob("*.html")}
    assert {"docs/index.html", "docs/tutorial/5-your-own-pass.html", "docs/python.html"} <= pages
    assert (site / "llms.txt").is_file()
    reference = (site / "docs/reference.html").read_text()
    assert "--check-equivalence" in reference and 'id="group-max"' in reference
    assert 'id="defer-norms"' in reference and "generated:" not in reference
