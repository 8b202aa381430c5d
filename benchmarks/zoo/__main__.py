"""The zoo: exports tiny models of many architectures and prints how each fares.

PYTHONPATH=benchmarks python -m zoo --only llama,vit
"""

from __future__ import annotations

import argparse
import gc
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

from coda_ir.api import Lowering
from coda_ir.frontends.torch import export
from zoo import ARCHITECTURES
from zoo.architecture import Architecture
from zoo.measure import Measurement, measure
from zoo.report import print_summary, print_table, read_json, write_json
from zoo.runner import run_all


def main() -> int:
    options = _parser().parse_args()
    known = {entry.name: entry for entry in ARCHITECTURES}
    if options.update and not options.json:
        sys.exit("--update needs --json FILE")
    names: list[str] = options.only.split(",") if options.only else list(known)
    if unknown := sorted(set(names) - set(known)):
        sys.exit(f"unknown architecture {', '.join(unknown)}; see --list")
    chosen = [known[name] for name in names]
    if options.list:
        print(*(f"{entry.name} ({entry.family})" for entry in chosen), sep="\n")
        return 0
    results = _run(chosen, options, list(known))
    console = Console(width=None if sys.stdout.isatty() else 200)
    print_table(console, results)
    print_summary(console, results)
    return 0 if all(result.ok for result in results) else 1


def _run(
    chosen: Sequence[Architecture], options: argparse.Namespace, order: Sequence[str]
) -> list[Measurement]:
    """The results in `order`; with --update those of the file too."""
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    libraries = sorted({entry.library for entry in chosen})
    _load(libraries)
    facts = {name: version(name) for name in ("torch", *libraries)}
    task = partial(
        measure,
        dtypes=tuple(options.dtypes.split(",")),
        layers=options.layers,
        triton=options.triton,
        dynamic=not options.static,
    )
    results: dict[str, Measurement] = {}
    if options.update and options.json.exists():
        results = {result.name: result for result in read_json(options.json)}
    with Progress(console=Console(stderr=True)) as progress:
        bar = progress.add_task("zoo", total=len(chosen))
        for result in run_all(chosen, task, jobs=options.jobs, timeout=options.timeout):
            results[result.name] = result
            progress.update(bar, advance=1, description=result.name)
            ordered = [results[name] for name in order if name in results]
            if options.json:
                write_json(options.json, ordered, facts)
    return [results[name] for name in order if name in results]


def _load(libraries: Sequence[str]) -> None:
    """Import once what every model needs: the processes that measure are forks of this one."""
    for library in libraries:
        package: Any = import_module(library)
        package.utils.logging.set_verbosity_error()
        for name in ("AutoModel", "AutoModelForCausalLM"):
            getattr(package, name, None)
    shapes: Any = {"input": {0: torch.export.Dim.DYNAMIC}}
    exported = export(torch.nn.Linear(4, 4), (torch.randn(3, 4),), dynamic_shapes=shapes)
    Lowering(exported.module).module("gemm")
    gc.freeze()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="zoo", description=__doc__)
    parser.add_argument("--only", metavar="NAME,...", help="these architectures")
    parser.add_argument("--list", action="store_true", help="print the names and stop")
    parser.add_argument("--dtypes", default="f32,bf16", help="element types (default: f32,bf16)")
    parser.add_argument("--layers", type=int, default=2, help="layers of each model (default: 2)")
    parser.add_argument("--static", action="store_true", help="no dynamic shapes, which is faster")
    parser.add_argument("--triton", action="store_true", help="also run the Triton kernels")
    parser.add_argument("--jobs", type=int, default=1, help="models at a time (default: 1)")
    parser.add_argument("--timeout", type=float, default=300, help="seconds for one model")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures to FILE")
    parser.add_argument("--update", action="store_true", help="keep the other lines of --json FILE")
    return parser


if __name__ == "__main__":
    sys.exit(main())
