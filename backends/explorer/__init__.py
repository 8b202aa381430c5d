"""A page in which one sees what was fused, what was not, and what it costs: `--emit=html`."""

from coda_ir.backends.explorer.options import PageOptions
from coda_ir.backends.explorer.page import HtmlTarget, explore_module

__all__ = ["HtmlTarget", "PageOptions", "explore_module"]
