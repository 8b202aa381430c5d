"""Measures how long a page of 10,000 operators takes to open in Chromium:

    PYTHONPATH=tests python -m support.opening_time

The time is that from the start of the navigation until the page is laid out, the median of five
browsers. Making the page takes about a minute. With FILE.html, that page is opened instead.
"""

import argparse
import statistics
import tempfile
from pathlib import Path

from coda_ir.backends.explorer import explore_module
from coda_ir.frontends.coda_text import parse_text
from support.browser import in_browser

LAYERS = 1429
OPENINGS = 5

LAYER = """    n{n} = rms_norm(x{n}, norm, eps=1e-5)
    a{n} = silu(linear(n{n}, gate)) * linear(n{n}, up)
    x{next} = x{n} + linear(a{n}, down)
"""
MLPS = """fn mlps(x0: bf16[M, 64], weight norm: bf16[64], weight gate: bf16[96, 64],
         weight up: bf16[96, 64], weight down: bf16[64, 96]) -> bf16[M, 64] {{
{layers}    return x{count}
}}
"""
OPENED = """
found.push(state.program.operators.length, document.body.offsetHeight, performance.now());
"""


def page_of_layers(count: int) -> str:
    """The page of a program of so many equal layers, of seven operators each."""
    layers = "".join(LAYER.format(n=n, next=n + 1) for n in range(count))
    text = MLPS.format(layers=layers, count=count)
    return explore_module(parse_text(text, "mlps.coda"), sources={"mlps.coda": text})


def open_page(page: str) -> tuple[int, float]:
    """The operators of the page, and the milliseconds until it is laid out in a new browser."""
    with tempfile.TemporaryDirectory() as folder:
        operators, _, time = in_browser(page, OPENED, Path(folder))
    return operators, time


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("page", metavar="FILE.html", nargs="?", type=Path)
    path = parser.parse_args().page
    page = page_of_layers(LAYERS) if path is None else path.read_text()
    found = [open_page(page) for _ in range(OPENINGS)]
    times = sorted(time for _, time in found)
    print(f"{found[0][0]} operators, {len(page) / 1e6:.1f} MB: opened in", end=" ")
    print(f"{statistics.median(times):.0f} ms ({times[0]:.0f} to {times[-1]:.0f})")


if __name__ == "__main__":
    main()
