"""The target `--emit=html`: a page that shows fused and unfused operators, and their cost."""

from coda_ir.backends.explorer.options import PageOptions
from coda_ir.backends.explorer.page import explore_module

__all__ = ["PageOptions", "explore_module"]
