"""`coda-export`: export a PyTorch model as a program of the IR, with its weights."""

from __future__ import annotations

import argparse
import io
import logging
import os
import sys
import time
import warnings
from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from coda_ir import __version__
from coda_ir.diagnostics import CodaError, FileError
from coda_ir.sources import check_folder, write_file
from coda_ir.tools.boundary import exit_code_of
from coda_ir.tools.opt.arguments import ARCH, DIM
from coda_ir.tools.opt.command_line import ManualPage
from coda_ir.tools.opt.errors import UsageError, one_line

if TYPE_CHECKING:
    from coda_ir.exported import ExportedModel

DESCRIPTION = """\
Export a PyTorch model as a program of the IR, with its weights.
FACTORY names a function (or an object) in a module that can be imported from here. It returns the
model with example arguments: (model, args), (model, args, kwargs), or
(model, args, kwargs, dynamic_shapes); or an object with attributes of these names, of which only
model is required."""

EPILOG = """\
examples:
  coda-export zoo:llama -o llama.mlir                   llama.mlir and llama.safetensors
  coda-export zoo:block -o block.coda --weights block.safetensors
                                                        a readable program
  coda-export zoo:bert -o bert.mlir --args-from inputs.safetensors --dynamic input_ids.0=batch
                                                        example inputs from a file
  coda-export zoo:llama -o llama.mlir --html llama.html also a page to explore in a browser
  coda-export zoo:llama -o llama.mlir --html llama.html --arch sm_100
                                                        with times and machine code of a B200
  coda-opt llama.mlir -p coda-to-gemm --remarks=missed  what was not fused

exit codes:
  0    success
  1    the factory or the model is invalid, or a file cannot be read or written
  2    the command line is invalid
  3    a defect of the tool
  130  interrupted

In Python: coda_ir.export(model, args, kwargs, dynamic_shapes=...).save("model.mlir").
See docs/pytorch.md."""


def main(args: Sequence[str] | None = None) -> int:
    """Run the tool; return the exit code. With --debug, errors are raised instead of printed."""
    arguments = sys.argv[1:] if args is None else list(args)

    def run() -> None:
        _run(_parser().parse_args(arguments))

    return exit_code_of("coda-export", run, debug="--debug" in arguments)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="coda-export",
        usage="%(prog)s [OPTION]... FACTORY -o FILE",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=ManualPage,
        allow_abbrev=False,
    )
    parser.add_argument("factory", metavar="FACTORY", help="package.module:function")
    _add_files(parser)
    parser.add_argument(
        "--dynamic",
        action="append",
        default=[],
        metavar="INPUT.AXIS=NAME",
        help="make a dimension dynamic, and name its symbol; may be repeated",
    )
    parser.add_argument("--name", metavar="NAME", help="name of the function")
    parser.add_argument("-q", "--quiet", action="store_true", help="print no report")
    parser.add_argument("--debug", action="store_true", help="show the traceback of an error")
    parser.add_argument("-v", "--version", action="version", version=f"coda-export {__version__}")
    return parser


def _add_files(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-o",
        "--output-file",
        required=True,
        metavar="FILE",
        help="write the program to FILE: .mlir, or .coda, which is easier to read and edit",
    )
    parser.add_argument(
        "--weights",
        metavar="FILE",
        help="write the weights to FILE (.safetensors; default: beside the program)",
    )
    parser.add_argument(
        "--html",
        metavar="FILE",
        help="also write a page that shows the kernels of the model and what was not fused",
    )
    parser.add_argument(
        "--arch",
        **ARCH,
        help="architecture for --html, such as sm_100 (default: sm_90); the page predicts times "
        "for it and, with this option, shows machine code; no GPU is needed",
    )
    parser.add_argument(
        "--dim",
        **DIM,
        help="size of a dimension of --dynamic on the page of --html (default: about 16384 rows); "
        "may be repeated",
    )
    parser.add_argument(
        "--args-from",
        metavar="FILE",
        help="pass tensors from FILE (.safetensors) by name, instead of the factory's arguments",
    )


def _run(options: argparse.Namespace) -> None:
    output, weights = _file_names(options.output_file, options.weights)
    _check_page(options)
    report = _Report(quiet=options.quiet)
    report.step(f"import {options.factory}")
    model, args, kwargs, shapes = _example(_made(options.factory))
    if options.args_from is not None:
        args, kwargs = (), _arguments_from(Path(options.args_from))
    from coda_ir.calls.tree import parameters_of
    from coda_ir.frontends.torch import export
    from coda_ir.frontends.torch.export import TrainingModeWarning

    if options.dynamic:
        by_position = parameters_of(model.forward)[: len(args)]
        shapes = _dynamic_shapes(options.dynamic, [*by_position, *kwargs])

    report.step(f"export {type(model).__name__}")
    with warnings.catch_warnings(record=True) as warned, _quiet_pytorch(options.debug):
        exported = export(model, args, kwargs, dynamic_shapes=shapes, name=options.name)
    for warning in warned:
        if issubclass(warning.category, TrainingModeWarning):
            print(f"coda-export: warning: {warning.message}", file=sys.stderr)
    report.step(f"write {output}")
    if output.suffix == ".coda":
        _write_coda(exported, output, weights)
    else:
        exported.save(output, weights)
    if options.html is not None:
        report.step(f"write {options.html}")
        exported.explore(options.html, arch=options.arch, sizes=dict(options.dim))
    report.step("")
    report.summary(exported, output, weights)


@contextmanager
def _quiet_pytorch(debug: bool) -> Generator[None]:
    """Keep PyTorch's logs, warnings and prints during tracing from stderr.

    It prints half a graph before it raises, which says less than the error; `debug` shows it.
    """
    if debug:
        yield
        return
    disabled = logging.root.manager.disable
    logging.disable(logging.ERROR)
    try:
        with redirect_stderr(io.StringIO()):
            yield
    finally:
        logging.disable(disabled)


def _check_page(options: argparse.Namespace) -> None:
    """Raise UsageError for an option of the page if there is no page."""
    for name in ("arch", "dim"):
        if getattr(options, name) and options.html is None:
            raise UsageError(f"argument --{name}: needs --html", "add --html FILE")


def _file_names(output: str, weights: str | None) -> tuple[Path, Path]:
    program = Path(output)
    if program.suffix not in (".mlir", ".coda"):
        raise UsageError(f"{program}: unknown file type", "name it *.mlir or *.coda")
    tensors = program.with_suffix(".safetensors") if weights is None else Path(weights)
    if tensors.suffix != ".safetensors":
        raise UsageError(f"{tensors}: unknown file type", "name it *.safetensors")
    for path in (program, tensors):
        check_folder(path)  # before the model is made, which may take long
    return program, tensors


# The model


class FactoryError(CodaError):
    """A factory that does not exist, fails, or does not return a model."""

    code = UsageError.code


def _made(name: str) -> Any:
    """Return the result of the factory `package.module:function`."""
    module_name, colon, path = name.partition(":")
    if not colon or not module_name or not path:
        raise UsageError(f"'{name}' does not name a factory", "write package.module:function")
    # As `python -m` does.
    if "" not in sys.path and os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        found: Any = import_module(module_name)
    except Exception as error:
        # The module is the user's: it may raise anything.
        remedy = "run coda-export where the module can be imported, or set PYTHONPATH"
        if module_name.endswith(".py"):
            remedy = f"write {module_name.removesuffix('.py').replace('/', '.')}:{path}, a module"
        raise FactoryError(
            f"{module_name} cannot be imported: {one_line(error)}", remedy
        ) from error
    for part in path.split("."):
        if not hasattr(found, part):
            raise FactoryError(f"{module_name} has no '{path}'", "name a function of the module")
        found = getattr(found, part)
    return _called(name, found)


def _called(name: str, factory: Any) -> Any:
    import torch

    if factory.__class__ is tuple or hasattr(factory, "model"):
        return factory
    if isinstance(factory, torch.nn.Module) or not callable(factory):
        raise FactoryError(
            f"{name} is of type {type(factory).__name__}, expected a function",
            "write a function that returns (model, args)",
        )
    try:
        return factory()
    except Exception as error:
        # The factory is the user's: it may raise anything.
        raise FactoryError(
            f"{name} fails: {one_line(error)}", "see the traceback with --debug"
        ) from error


def _example(made: Any) -> tuple[Any, Sequence[Any], dict[str, Any], Any]:
    """Return the model, its arguments by position and by name, and dynamic shapes."""
    import torch

    if isinstance(made, torch.nn.Module):
        made = (made,)
    if not isinstance(made, tuple) and hasattr(made, "model"):
        names = ("model", "args", "kwargs", "dynamic_shapes")
        made = tuple(getattr(made, name, None) for name in names)
    parts = list(cast(tuple[Any, ...], made)) if isinstance(made, tuple) else []
    if not 1 <= len(parts) <= 4 or not isinstance(parts[0], torch.nn.Module):
        raise FactoryError(
            f"the factory returns {_description(parts or made)}, expected (model, args)",
            "return (model, args), (model, args, kwargs) or (model, args, kwargs, dynamic_shapes)",
        )
    parts += [None] * (4 - len(parts))
    args: Any = () if parts[1] is None else parts[1]
    kwargs: Any = {} if parts[2] is None else parts[2]
    if not isinstance(args, list | tuple | torch.Tensor):
        raise FactoryError(
            f"args is of type {type(args).__name__}, expected a tuple",
            "return the arguments by name as the third item: (model, (), kwargs)",
        )
    if not isinstance(kwargs, Mapping):
        raise FactoryError(f"kwargs is of type {type(kwargs).__name__}, expected a dictionary")
    by_name = cast(Mapping[str, Any], kwargs)
    return parts[0], cast(Sequence[Any], args), dict(by_name), parts[3]


def _description(made: Any) -> str:
    if not isinstance(made, list):
        return f"a value of type {type(made).__name__}"
    kinds = ", ".join(type(item).__name__ for item in cast(list[Any], made))
    return f"a tuple of ({kinds})"


def _arguments_from(path: Path) -> dict[str, Any]:
    from coda_ir.tensor_files import read_tensors

    try:
        return dict(read_tensors(path))
    except OSError as error:
        raise FileError(
            f"{path}: cannot read the file: {error.strerror}", "check the path"
        ) from error


def _dynamic_shapes(given: Sequence[str], names: Sequence[str]) -> dict[str, dict[int, Any] | None]:
    """`dynamic_shapes` of torch.export from `input_ids.0=batch`; equal names are one size."""
    from torch.export import Dim

    dims: dict[str, Any] = {}
    shapes: dict[str, Any] = dict.fromkeys(names)
    for text in given:
        place, equals, symbol = text.partition("=")
        name, dot, axis = place.rpartition(".")
        if not equals or not dot or not axis.isdigit() or not symbol.isidentifier():
            raise UsageError(f"--dynamic '{text}' is not of the form INPUT.AXIS=NAME")
        if name not in shapes:
            raise UsageError(
                f"--dynamic: the model is not called with an input '{name}'",
                f"use {' or '.join(names)}" if names else "pass example inputs",
            )
        dims.setdefault(symbol, Dim(symbol))
        shapes[name] = {**(shapes[name] or {}), int(axis): dims[symbol]}
    return shapes


# The result


def _write_coda(exported: ExportedModel, output: Path, weights: Path) -> None:
    """Write readable text; the weights get the short names of the text."""
    from coda_ir.exported import save_weights
    from coda_ir.frontends.coda_text.writer import write_module
    from coda_ir.functions import find_entry
    from coda_ir.symbolic_shapes import stated_conditions

    written = write_module(exported.module)
    (names,) = written.parameters.values()
    if exported.weights:
        save_weights(weights, {names[name]: w for name, w in exported.weights.items()})
    write_file(output, written.text.encode())
    if conditions := ", ".join(stated_conditions(find_entry(exported.module))):
        message = f"the model was exported for sizes with {conditions}, which the text does not say"
        print(f"coda-export: warning: {message}", file=sys.stderr)


class _Report:
    """Progress on stderr: the current step, its time, and its result."""

    def __init__(self, *, quiet: bool):
        self._quiet = quiet
        self._step = ""
        self._start = time.perf_counter()

    def step(self, name: str) -> None:
        """End the current step, and begin another one unless `name` is empty."""
        now = time.perf_counter()
        if self._step:
            self._say(f"{self._step} ({now - self._start:.1f} s)")
        self._step, self._start = name, now

    def summary(self, exported: ExportedModel, output: Path, weights: Path) -> None:
        from coda_ir.dialects.torch import CallOp

        operators = [op for op in exported.module.walk() if op.name.startswith(("coda.", "torch."))]
        calls = Counter(op.callee.data for op in operators if isinstance(op, CallOp))
        raised = Counter(r.pass_name for r in exported.remarks if r.kind == "passed")
        missed = [remark for remark in exported.remarks if remark.kind == "missed"]
        size = sum(weight.numel() * weight.element_size() for weight in exported.weights.values())
        self._say(f"{output}: {len(operators) - calls.total()} operators of the dialect coda")
        if exported.weights:
            self._say(f"{weights}: {len(exported.weights)} weights, {size:,} bytes")
        if raised:
            self._say(f"raised: {_counts(raised)}")
        for remark in missed:
            self._say(str(remark))
        left = _counts(calls) if calls else "none"
        self._say(f"calls of PyTorch left: {left}")

    def _say(self, text: str) -> None:
        if not self._quiet:
            print(text, file=sys.stderr)


def _counts(counter: Counter[str]) -> str:
    return ", ".join(f"{name} ({count})" for name, count in counter.most_common())


if __name__ == "__main__":
    sys.exit(main())
