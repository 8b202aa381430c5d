"""All names that a command line can use, for `coda-opt`, the language server, xDSL's entry point,
and the lowering of programs.

Each name has a function that imports its object on first use, so a tool that lists the names
imports none of them.
"""

from collections.abc import Callable

from xdsl.passes import ModulePass

from coda_ir import passes
from coda_ir.backends import get_all_targets
from coda_ir.dialects import get_all_dialects

__all__ = ["get_all_dialects", "get_all_passes", "get_all_targets"]


def get_all_passes() -> dict[str, Callable[[], type[ModulePass]]]:
    """Map each pass name to a function that imports the pass: those of `passes`, and `tune`."""

    def get_tune() -> type[ModulePass]:
        from coda_ir.tuning.stage import TunePass

        return TunePass

    return passes.get_all_passes() | {"tune": get_tune}
