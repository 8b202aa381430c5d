"""Pages in headless Chromium: scripts that run in them, and pictures of them."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

BROWSER = shutil.which("chromium") or shutil.which("google-chrome")

needs_browser = pytest.mark.skipif(BROWSER is None, reason="needs Chromium")

HARNESS = """<script>
{
const found = [];
const all = selector => [...document.querySelectorAll(selector)];
const texts = selector => all(selector).map(each => each.textContent);
const press = key => document.dispatchEvent(new KeyboardEvent("keydown", {key}));
const chips = name => all(".chip").filter(chip => chip.querySelector(".name").textContent === name);
function type(text) {
  document.getElementById("search").value = text;
  document.getElementById("search").dispatchEvent(new Event("input"));
}
%s
}
</script>"""

RESULT = """
document.body.append(Object.assign(document.createElement("pre"),
  {id: "found", textContent: encodeURIComponent(JSON.stringify(found))}));
"""


def in_browser(page: str, script: str, folder: Path) -> Any:
    """Return the `found` of a script that runs in the page, which logs nothing."""
    shown = run_browser(with_script(page, script + RESULT), folder, "--dump-dom")
    found = re.search(r'<pre id="found">(.*?)</pre>', shown)
    assert found is not None
    return json.loads(unquote(found[1]))


def with_script(page: str, script: str) -> str:
    """The page with a script at its end, which has the helpers of `HARNESS`."""
    head, end, tail = page.rpartition("</body>")
    return f"{head}{HARNESS % script}{end}{tail}"


def run_browser(page: str, folder: Path, *options: str, size: tuple[int, int] = (1300, 800)) -> str:
    """Open a page, and return what the browser prints. Fails where the page logs something."""
    file = folder / "page.html"
    file.write_text(page)
    shown = subprocess.run(
        [
            *(str(BROWSER), "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"),
            *("--enable-logging=stderr", f"--user-data-dir={folder / 'browser'}"),
            *(f"--window-size={size[0]},{size[1]}", *options, file.as_uri()),
        ],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    logged = [line for line in shown.stderr.splitlines() if "CONSOLE" in line]
    assert not logged, logged
    return shown.stdout
