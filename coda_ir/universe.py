"""The dialects, passes and targets that CODA IR adds to xDSL's tools (`xdsl.universe`)."""

import sys
from functools import cache

from xdsl.universe import Universe

from coda_ir.diagnostics import MachineError
from coda_ir.registry import get_all_dialects, get_all_passes, get_all_targets

CODA_UNIVERSE = Universe(
    all_dialects=get_all_dialects(),
    all_passes=get_all_passes(),
    all_targets=get_all_targets(),
)


def get_multiverse() -> Universe:
    """Everything that installed packages add to the tools of xDSL.

    Raises CodaError where two packages define the same name, or one cannot be loaded.
    """
    try:
        return _universe_in(tuple(sys.path))
    except ValueError as error:
        found = str(error).rstrip(".")
        raise MachineError(
            f"the packages with an entry point xdsl.universe cannot be used together: {found}",
            "rename one of the definitions, or remove a package from the Python path",
        ) from error
    except Exception as error:
        raise MachineError(
            "a package with an entry point xdsl.universe cannot be loaded: "
            f"{type(error).__name__}: {error}",
            "fix it, or remove it from the Python path; coda-opt --debug shows where it fails",
        ) from error


@cache
def _universe_in(path: tuple[str, ...]) -> Universe:
    """Look for packages once: it takes longer than to run a small pipeline."""
    return Universe.get_multiverse()
