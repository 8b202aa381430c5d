"""Pictures of modules, drawn by Graphviz: the IR, and what was fused."""

from coda_ir.backends.graphviz.target import VIEWS, draw_module, render_svg

__all__ = ["VIEWS", "draw_module", "render_svg"]
