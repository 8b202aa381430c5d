"""Pictures of the fused kernels of a module, drawn by Graphviz."""

from coda_ir.backends.graphviz.target import draw_module, render_svg

__all__ = ["draw_module", "render_svg"]
