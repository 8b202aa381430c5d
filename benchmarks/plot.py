"""Draws what the other commands write: a panel for each section, a bar for each variant.

    python benchmarks/plot.py layer.json --output layer.png

Bars are ratios to the first variant of a section, the bare GEMMs or eager PyTorch, with the time
beside them and the spread of the rounds as a line. Needs matplotlib, on any machine.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

COLORS = {"coda": "#c0392b", "cuBLAS": "#444444", "bare": "#e59866", "fused": "#c0392b"}
OTHER_COLOR = "#9aa7b1"
COLUMNS = 2
WIDTH, BAR_HEIGHT, PANEL_MARGIN = 7.0, 0.3, 1.0
"""Inches of a panel."""


@dataclass(frozen=True)
class Bar:
    """One variant of a section."""

    label: str
    ratio: float
    low: float
    high: float
    text: str


def color_of(label: str) -> str:
    """That of the last name in the label that has one."""
    found = [color for name, color in COLORS.items() if name in label]
    return found[-1] if found else OTHER_COLOR


def panels(data: Mapping[str, Any]) -> dict[str, list[Bar]]:
    """The bars of all sections by their titles. Raises ValueError for data without timings."""
    found = {title: _variants(timings) for title, timings in data.get("milliseconds", {}).items()}
    for title, kernels in data.get("microseconds", {}).items():
        found[title] = _kernels(kernels)
    found = {title: bars for title, bars in found.items() if bars}
    if not found:
        raise ValueError("no timings: 'milliseconds' and 'microseconds' are both empty")
    return found


def _variants(timings: Mapping[str, Mapping[str, float]]) -> list[Bar]:
    if not timings:
        return []
    unit = next(iter(timings.values()))["median"]
    return [
        Bar(
            name,
            timing["median"] / unit,
            timing["fastest_round"] / unit,
            timing["slowest_round"] / unit,
            f"{timing['median']:.3g} ms",
        )
        for name, timing in timings.items()
    ]


def _kernels(kernels: Mapping[str, Mapping[str, float]]) -> list[Bar]:
    """Draw the times of each kernel beside that of cuBLAS, which is the unit."""
    bars: list[Bar] = []
    for kernel, times in kernels.items():
        unit = times["cuBLAS"]
        for name, time in times.items():
            ratio = time / unit
            bars.append(Bar(f"{kernel}: {name}", ratio, ratio, ratio, f"{time:.4g} us"))
    return bars


def draw(data: Mapping[str, Any], path: Path) -> None:
    """Draw the panels of `data` into an image; says so where there is no matplotlib."""
    try:
        matplotlib: Any = import_module("matplotlib")
    except ImportError:
        print(f"without {path}: matplotlib is missing; benchmarks/plot.py draws the JSON later")
        return
    matplotlib.use("Agg")
    pyplot: Any = import_module("matplotlib.pyplot")
    sections = panels(data)
    columns = min(COLUMNS, len(sections))
    rows = math.ceil(len(sections) / columns)
    tallest = max(len(bars) for bars in sections.values())
    size = (WIDTH * columns, rows * (PANEL_MARGIN + BAR_HEIGHT * tallest))
    figure, axes = pyplot.subplots(rows, columns, figsize=size, squeeze=False)
    places = [axis for row in axes for axis in row]
    for axis in places[len(sections) :]:
        axis.remove()
    for axis, (title, bars) in zip(places, sections.items(), strict=False):
        _draw_panel(axis, title, bars)
    figure.suptitle(f"{data.get('device', '')}, PyTorch {data.get('torch', '')}", fontsize=9)
    figure.tight_layout()
    figure.savefig(path, dpi=140)
    pyplot.close(figure)


def _draw_panel(axis: Any, title: str, bars: Sequence[Bar]) -> None:
    places = range(len(bars))
    axis.barh(
        places, [bar.ratio for bar in bars], color=[color_of(bar.label) for bar in bars], height=0.7
    )
    for place, bar in zip(places, bars, strict=True):
        axis.plot([bar.low, bar.high], [place, place], color="black", linewidth=1)
        axis.text(
            max(bar.ratio, bar.high),
            place,
            f" {bar.ratio:.3f} ({bar.text})",
            va="center",
            fontsize=8,
        )
    axis.axvline(1.0, color="black", linewidth=0.8, linestyle="--")
    axis.set_yticks(places, [bar.label for bar in bars], fontsize=8)
    axis.invert_yaxis()
    axis.set_xlim(0, 1.35 * max(bar.high for bar in bars))
    axis.set_title(title, fontsize=9)
    axis.set_xlabel(f"time, ratio to {bars[0].label.rpartition(': ')[2]}", fontsize=8)
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("results", type=Path, nargs="+", help="JSON files of the other commands")
    parser.add_argument("--output", type=Path, help="default: beside the file, as .png")
    options = parser.parse_args(arguments)
    if options.output is not None and len(options.results) > 1:
        parser.error("--output takes one file of results")
    for path in options.results:
        output = options.output or path.with_suffix(".png")
        draw(json.loads(path.read_text()), output)
        print(output)


if __name__ == "__main__":
    main()
