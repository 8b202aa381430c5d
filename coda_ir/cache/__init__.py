"""The cache on disk: compiled programs, and the Python modules that Triton reads kernels from.

Nothing imports more than it needs from here: finding a program does not import the passes.
"""

from coda_ir.cache.modules import load_source

__all__ = ["load_source"]
