"""What CODA IR adds to the tools of xDSL, through the entry point group `xdsl.universe`."""

from xdsl.universe import Universe

from coda_ir.registry import get_all_dialects, get_all_passes, get_all_targets

OVERRIDDEN = frozenset({"canonicalize"})
"""Passes that xDSL has under the same name: its tools refuse two of one name."""

CODA_UNIVERSE = Universe(
    all_dialects=get_all_dialects(),
    all_passes={name: load for name, load in get_all_passes().items() if name not in OVERRIDDEN},
    all_targets=get_all_targets(),
)
