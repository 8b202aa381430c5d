"""The zoo: tiny models of many architectures, exported, run as emitted Triton, and compared with
PyTorch in float64. A run that was stopped goes on where it was, if it writes a file (--json).

PYTHONPATH=benchmarks:tests python -m zoo --only 'llama,qwen*'
PYTHONPATH=benchmarks:tests python -m zoo --gradients --only bert
PYTHONPATH=benchmarks:tests python -m zoo --ends
"""

import argparse
import gc
import sys
import warnings
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from functools import partial
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from coda_ir.api import Lowering
from coda_ir.frontends.torch import export
from coda_ir.progress import Progress
from zoo import ARCHITECTURES, emitted, gradients
from zoo.architecture import Architecture
from zoo.ends import Ends, measure_ends, print_ends, read_ends
from zoo.gradients import GradientMeasurement, measure_gradients, print_gradients
from zoo.measure import Measurement, measure
from zoo.report import is_explained, is_not_captured, print_measurements, read_measurement
from zoo.runner import Records, Result, Task, run_all


def main() -> int:
    options = _parser().parse_args()
    if options.update and not options.json:
        sys.exit("--update needs --json FILE")
    chosen = _chosen(options)
    if options.list:
        print(*(f"{entry.name} ({entry.family})" for entry in chosen), sep="\n")
        return 0
    chosen = _installed(chosen)
    _load(sorted({entry.library for entry in chosen}))
    console = Console(width=None if sys.stdout.isatty() else 220)
    results = _run(chosen, options, console)
    failed = [(result.name, result.note) for result in results if not result.ok]
    unexplained = [name for name, note in failed if not is_explained(name, note)]
    explained = [(name, note) for name, note in failed if name not in unexplained]
    _print_refused("by torch.export", [f for f in explained if is_not_captured(f[1])])
    _print_refused("by coda_ir", [f for f in explained if not is_not_captured(f[1])])
    print(f"{len(unexplained)} unexplained", *unexplained)
    return 1 if unexplained else 0


def _print_refused(whom: str, refused: Sequence[tuple[str, str]]) -> None:
    print(f"{len(refused)} refused {whom}")
    for name, note in refused:
        print(f"    {name}: {note}")


def _chosen(options: argparse.Namespace) -> list[Architecture]:
    default = gradients.DEFAULT if options.gradients else "*"
    patterns = (options.only or default).split(",")
    for pattern in patterns:
        if not any(fnmatchcase(entry.name, pattern) for entry in ARCHITECTURES):
            sys.exit(f"no architecture is named {pattern}; see --list")
    return [e for e in ARCHITECTURES if any(fnmatchcase(e.name, pattern) for pattern in patterns)]


def _installed(chosen: Sequence[Architecture]) -> list[Architecture]:
    found = {entry.library for entry in chosen if find_spec(entry.library)}
    missing = [entry for entry in chosen if entry.library not in found]
    for library in sorted({entry.library for entry in missing}):
        count = sum(entry.library == library for entry in missing)
        print(f"{library} is not installed: {count} architectures are left out", file=sys.stderr)
    return [entry for entry in chosen if entry.library in found]


def _run(
    chosen: Sequence[Architecture], options: argparse.Namespace, console: Console
) -> list[Result]:
    """Run and print what the options ask for; with --update the results of the file too."""
    dtypes, triton = tuple(options.dtypes.split(",")), not options.no_triton
    work: Callable[..., Result]
    settings: dict[str, Any] = {"dtypes": dtypes, "triton": triton}
    if options.ends:
        settings = {"layers": options.layers or 1}
        work, kind, read, show = measure_ends, Ends, read_ends, print_ends
    elif options.gradients:
        settings |= {"layers": options.layers or 1, "inputs": options.inputs}
        work, kind, read = measure_gradients, GradientMeasurement, gradients.read_measurement
        show = print_gradients
    else:
        settings |= {"layers": options.layers or 2, "dynamic": not options.static}
        work, kind, read, show = measure, Measurement, read_measurement, print_measurements
    libraries = sorted({entry.library for entry in chosen})
    facts = {name: version(name) for name in ("torch", *libraries)} | settings
    task = Task[Any](partial(work, **settings), lambda entry, note: kind(entry.name, note=note))
    records = Records[Any](options.json, facts, read)
    waiting = [entry for entry in chosen if entry.name not in records.results]
    with Progress({"models": len(chosen)}) as progress:
        done = len(chosen) - len(waiting)
        if done:
            progress.advance("models", steps=done)
            print(f"going on after {done} of {len(chosen)} models", file=sys.stderr)
        for result in run_all(waiting, task, jobs=options.jobs, timeout=options.timeout):
            records.add(result)
            progress.advance("models")
            line = f"{result.name}: {'ok' if result.ok else 'NO'} {result.seconds:.1f} s"
            print(line, file=sys.stderr)
    results = records.finish((entry.name for entry in ARCHITECTURES), update=options.update)
    show(console, results)
    return results


def _load(libraries: Sequence[str]) -> None:
    """Import once what every model needs: the processes that measure are forks of this one."""
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    emitted.prepare()
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
    formatter = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("zoo", description=__doc__, formatter_class=formatter)
    add = parser.add_argument
    add("--only", metavar="PATTERN,...", help="these architectures, such as llama,qwen*")
    add("--list", action="store_true", help="print the names and stop")
    add("--gradients", action="store_true", help="compare gradients of all weights")
    add("--ends", action="store_true", help="count where operators run, without running them")
    add("--dtypes", default="f32,bf16", help="element types (default: f32,bf16)")
    add(
        "--layers", type=int, help="layers of each model (default: 2; 1 with --gradients or --ends)"
    )
    add("--inputs", type=int, default=gradients.INPUTS, help="with --gradients (default: 16)")
    add("--static", action="store_true", help="no dynamic shapes, which is faster")
    add("--no-triton", action="store_true", help="the reference backend only")
    add("--jobs", type=int, default=1, help="models at a time (default: 1)")
    add("--timeout", type=float, default=300, help="seconds for one model")
    add("--json", type=Path, metavar="FILE", help="write all figures to FILE")
    add("--update", action="store_true", help="keep the other lines of --json FILE")
    return parser


if __name__ == "__main__":
    sys.exit(main())
