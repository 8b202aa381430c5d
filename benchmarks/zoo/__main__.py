"""The zoo: exports tiny models of many architectures and prints how each fares.

PYTHONPATH=benchmarks python -m zoo --only llama,vit
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Sequence
from functools import partial
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.progress import Progress

from zoo import ARCHITECTURES
from zoo.architecture import Architecture
from zoo.measure import Measurement, measure
from zoo.report import print_summary, print_table, write_json
from zoo.runner import run_all


def main() -> int:
    options = _parser().parse_args()
    known = {entry.name: entry for entry in ARCHITECTURES}
    names: list[str] = options.only.split(",") if options.only else list(known)
    if unknown := sorted(set(names) - set(known)):
        sys.exit(f"unknown architecture {', '.join(unknown)}; see --list")
    chosen = [known[name] for name in names]
    if options.list:
        print(*(f"{entry.name} ({entry.family})" for entry in chosen), sep="\n")
        return 0
    results = _run(chosen, options)
    console = Console(width=None if sys.stdout.isatty() else 200)
    print_table(console, results)
    print_summary(console, results)
    return 0 if all(result.ok for result in results) else 1


def _run(chosen: Sequence[Architecture], options: argparse.Namespace) -> list[Measurement]:
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    libraries = sorted({entry.library for entry in chosen})
    for library in libraries:
        # Loaded once: the processes that measure are forks of this one.
        package: Any = import_module(library)
        package.utils.logging.set_verbosity_error()
    facts = {name: version(name) for name in ("torch", *libraries)}
    task = partial(
        measure,
        dtypes=tuple(options.dtypes.split(",")),
        layers=options.layers,
        triton=options.triton,
    )
    results: list[Measurement] = []
    with Progress(console=Console(stderr=True)) as progress:
        bar = progress.add_task("zoo", total=len(chosen))
        for result in run_all(chosen, task, jobs=options.jobs, timeout=options.timeout):
            results.append(result)
            progress.update(bar, advance=1, description=result.name)
            if options.json:
                write_json(options.json, results, facts)
    order = {entry.name: index for index, entry in enumerate(chosen)}
    return sorted(results, key=lambda result: order[result.name])


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="zoo", description=__doc__)
    parser.add_argument("--only", metavar="NAME,...", help="these architectures")
    parser.add_argument("--list", action="store_true", help="print the names and stop")
    parser.add_argument("--dtypes", default="f32,bf16", help="element types (default: f32,bf16)")
    parser.add_argument("--layers", type=int, default=2, help="layers of each model (default: 2)")
    parser.add_argument("--triton", action="store_true", help="also run the Triton kernels")
    parser.add_argument("--jobs", type=int, default=1, help="models at a time (default: 1)")
    parser.add_argument("--timeout", type=float, default=300, help="seconds for one model")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures to FILE")
    return parser


if __name__ == "__main__":
    sys.exit(main())
