"""The cache on disk: compiled programs, and the Python modules from which Triton reads kernels.

Imports are minimal: finding a program does not import the passes.
"""

from coda_ir.cache.modules import load_source

__all__ = ["load_source"]
