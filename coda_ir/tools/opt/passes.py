"""The pipeline of passes that the tool runs."""

import argparse

from coda_ir.pipeline import PassManager
from coda_ir.tools.opt.completion import PassesAction
from coda_ir.tools.opt.feature import Session


def register_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("passes")
    group.add_argument(
        "-p",
        "--passes",
        "--pass-pipeline",
        action=PassesAction,
        default="",
        metavar="PIPELINE",
        help="passes in order, such as coda-to-gemm,schedule{target=sm_90}; see --list-passes",
    )
    group.add_argument(
        "--verify-each",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="verify the module after each pass (default)",
    )


def pass_manager(session: Session) -> PassManager:
    """Return the manager of the pipeline, as the options request."""
    options = session.options
    verify = options.verify_each and not options.disable_verify
    return PassManager(session.pipeline, verify)
