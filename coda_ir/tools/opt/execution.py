"""`--run`: execute the program instead of printing it."""

import argparse

from xdsl.dialects.builtin import ModuleOp

from coda_ir.diagnostics import CheckError, DefectError, Diagnostic
from coda_ir.tools.opt.arguments import DIM
from coda_ir.tools.opt.errors import DEFECT, UsageError
from coda_ir.tools.opt.feature import Session


def register_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("execution")
    group.add_argument(
        "--run", action="store_true", help="execute the program instead of printing it"
    )
    group.add_argument(
        "--run-target",
        choices=("reference", "triton"),
        help="backend that executes the program (default: reference)",
    )
    group.add_argument(
        "--entry",
        metavar="NAME",
        help="function to execute or to emit, with those that it calls; required if there are "
        "several",
    )
    group.add_argument(
        "--dim",
        **DIM,
        help="size of a symbolic dimension (default: 16; for --emit=html, about 16384 rows); "
        "may be repeated",
    )
    group.add_argument("--seed", type=int, help="seed of the random inputs (default: 0)")
    group.add_argument(
        "--inputs", metavar="FILE", help="tensors by argument name, from a .safetensors file"
    )
    group.add_argument(
        "--save-outputs",
        metavar="FILE",
        help="write the results by name to a .safetensors file",
    )
    group.add_argument("--device", help="device of the inputs (default: cpu)")


_APPLIES_TO = {
    "inputs": ("run",),
    "save_outputs": ("run",),
    "run_target": ("run",),
    "seed": ("run",),
    "device": ("run",),
    "entry": ("run", "emit"),
    "dim": ("run", "check_equivalence", "emit"),
    "counterexample": ("check_equivalence",),
    **dict.fromkeys(("arch", "kernel"), ("emit",)),
    "test": ("reduce",),
}
"""Options without which others have no effect."""


def prepare(session: Session) -> None:
    """Raise UsageError for an option without effect."""
    given = vars(session.options)
    for name, users in _APPLIES_TO.items():
        if given[name] not in (None, []) and not any(given[user] for user in users):
            *others, last = map(_flag, users)
            needed = f"{', '.join(others)} or {last}" if others else last
            raise UsageError(f"argument {_flag(name)}: needs {needed}", f"add {needed}")


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def write(session: Session, module: ModuleOp) -> str | None:
    """Return one line for each result of the executed program; fail if a result is wrong."""
    if not session.options.run:
        return None
    from coda_ir.tools.run_module import RunOptions, run_module

    outcome = run_module(module, RunOptions.from_args(session.options))
    for problem in outcome.overflows:
        cause = "an intermediate value is beyond the range of its type"
        remedy = f"{cause}: use wider types, or smaller inputs"
        session.fail(Diagnostic("error", None, problem, remedy, CheckError.code))
    for problem in outcome.defects:
        remedy = "a defect of the backend; coda-opt --check-equivalence looks for its place"
        diagnostic = Diagnostic("error", None, problem, remedy, DefectError.code)
        session.fail(diagnostic, code=DEFECT)
    return outcome.text
