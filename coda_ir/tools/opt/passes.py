"""The pipeline of passes that the tool runs."""

import argparse
from typing import Any

from coda_ir.pipeline import PassManager
from coda_ir.tools.opt.feature import Session


class PassesAction(argparse.Action):
    """Stores its value. A second one is an error, unless the namespace has `overrides`."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        given = getattr(namespace, self.dest)
        if given and not hasattr(namespace, "overrides"):
            raise argparse.ArgumentError(
                self, f"there are passes already: '{given}'\n  help: write one list, with commas"
            )
        setattr(namespace, self.dest, values)


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
