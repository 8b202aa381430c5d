"""What CODA IR adds to the tools of xDSL, through the entry point group `xdsl.universe`."""

from xdsl.universe import Universe

from coda_ir.registry import get_all_dialects, get_all_passes, get_all_targets

CODA_UNIVERSE = Universe(
    all_dialects=get_all_dialects(),
    all_passes=get_all_passes(),
    all_targets=get_all_targets(),
)
