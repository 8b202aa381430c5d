"""The registries of everything that can be named on a command line.

Each maps a name to a function that imports the thing when it is used, so that a tool that
lists them all starts without importing any of them.
"""

from coda_ir.backends import get_all_targets
from coda_ir.dialects import get_all_dialects
from coda_ir.passes import get_all_passes

__all__ = ["get_all_dialects", "get_all_passes", "get_all_targets"]
