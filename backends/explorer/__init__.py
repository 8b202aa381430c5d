"""The target `--emit=html`: a page that shows what was fused, what was not, and what it costs."""

from coda_ir.backends.explorer.options import PageOptions
from coda_ir.backends.explorer.page import explore_module

__all__ = ["PageOptions", "explore_module"]
