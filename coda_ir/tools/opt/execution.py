"""`--run`: execute the program instead of printing it."""

from __future__ import annotations

import argparse

from xdsl.dialects.builtin import ModuleOp

from coda_ir.tools.opt.arguments import extent, named
from coda_ir.tools.opt.errors import UsageError
from coda_ir.tools.opt.feature import Session


def register_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("execution")
    group.add_argument(
        "--run", action="store_true", help="execute the program instead of printing it"
    )
    group.add_argument(
        "--run-target",
        choices=("reference", "triton"),
        default="reference",
        help="backend that executes the program (default: reference)",
    )
    group.add_argument("--entry", metavar="NAME", help="function to execute; needed for several")
    group.add_argument(
        "--dim",
        action="append",
        default=[],
        type=named(extent),
        metavar="SYMBOL=SIZE",
        help="size of a symbolic dimension (default: 16); may be repeated",
    )
    group.add_argument("--seed", type=int, default=0, help="seed of the random inputs")
    group.add_argument(
        "--inputs", metavar="FILE", help="tensors by argument name, from .npz or .safetensors"
    )
    group.add_argument(
        "--save-outputs",
        metavar="FILE",
        help="write the results by name to a .npz (bfloat16 as float32) or .safetensors file",
    )
    group.add_argument("--device", help="device of the inputs (default: cpu)", default="cpu")


def prepare(session: Session) -> None:
    """Raises UsageError for files that only an execution reads or writes."""
    for name in ("inputs", "save_outputs"):
        if getattr(session.options, name) is not None and not session.options.run:
            raise UsageError(f"argument --{name.replace('_', '-')}: needs --run", "add --run")


def write(session: Session, module: ModuleOp) -> str | None:
    """One line for each result of the executed program."""
    if not session.options.run:
        return None
    from coda_ir.tools.run_module import RunOptions, run_module

    return run_module(module, RunOptions.from_args(session.options))
